"""Help, completion and the man page say what the commands accept."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qoslet.cli.commands import COMMANDS, TOPICS, overview, parser_of
from qoslet.cli.help.completion import SHELLS, script
from qoslet.cli.help.man_page import page
from qoslet.cli.help.options import command
from tests.cli.fixtures import environment, run
from tests.paths import REPO


def usage_of(name: str) -> list[str]:
    return str(parser_of(name).usage).split()[2:]


def words_of(name: str) -> tuple[list[str], list[str]]:
    """Arguments and options that a usage line shows, without the values of the options."""
    arguments, options, skip = [], [], False
    for word in usage_of(name):
        if skip or word == "[OPTION]...":
            skip = False
        elif word.startswith("-"):
            options.append(word)
            skip = True
        else:
            arguments.append(word)
    return arguments, options


@pytest.mark.parametrize("name", COMMANDS)
def test_a_usage_line_shows_the_arguments_that_are_accepted(name: str) -> None:
    shown, options = words_of(name)
    known = command(name)
    assert [word.strip("[].") for word in shown] == [
        one.metavar.strip("[].") for one in known.arguments
    ]
    for word, argument in zip(shown, known.arguments, strict=True):
        assert word.endswith("...") is argument.repeats
    every = {name for one in known.options for name in one.names}
    assert set(options) <= every
    assert ("[OPTION]..." in usage_of(name)) is (len(every) > 2)


@pytest.mark.parametrize("name", [name for name in COMMANDS if not command(name).arguments])
def test_a_command_without_arguments_refuses_one(name: str) -> None:
    done = run(name, "x.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unrecognized arguments: x.yaml" in done.stderr


def test_node_options_are_folded() -> None:
    short, full = run("plan", "-h").stdout, run("plan", "-h", "--all").stdout
    assert "--node FILE" in short
    assert "more node options: qoslet help node, or -h --all" in short
    assert "--kube-reserved" not in short
    assert "--kube-reserved" in full
    assert "--kube-reserved" in run("help", "node").stdout
    assert run("help", "plan").stdout == short
    assert run("help", "plan", "--all").stdout == full
    assert run("plan", "--all").returncode == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_every_option_that_it_names(name: str) -> None:
    shown = run(name, "-h").stdout
    listed = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", shown, re.MULTILINE))
    assert set(re.findall(r"(?<!\w)--[a-z-]+", shown)) <= {*listed, "--all", "--user"}


@pytest.mark.parametrize("name", ["run", "apply", "release", "ps", "logs"])
def test_help_says_which_root_is_meant(name: str) -> None:
    (option,) = (one for one in command(name).options if "--cgroup-root" in one.names)
    assert "default: /qoslet" in option.help


def test_every_option_has_a_sentence_and_a_plain_value() -> None:
    for name in COMMANDS:
        for option in (*command(name).options, *command(name).arguments):
            assert re.match(r"[A-Z-]|\bbash\b|memory\.|cgroup ", option.help), option
            assert not option.help.endswith("."), option
            assert option.metavar not in ("FORM", "N", "V"), option


def test_help_is_the_overview() -> None:
    shown = overview()
    assert run("help").stdout == run("--help").stdout == run("-h").stdout == shown
    assert run().stderr == shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_overview_imports_next_to_nothing() -> None:
    code = "import sys; from qoslet.cli.main import run; run(['--help']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {"argparse", "difflib", "qoslet.cli.parser", "qoslet.core.node.flags"}


def complete(*words: str, folder: Path) -> list[str]:
    """What real bash offers for the last word."""
    (folder / "qoslet").write_text(script("bash"))
    quoted = " ".join(f"'{word}'" for word in words)
    code = (
        f"source ./qoslet; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1};"
        ' _qoslet; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-uc", code], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return sorted(filter(None, done.stdout.splitlines()))


def test_bash_completes(tmp_path: Path) -> None:
    (tmp_path / "a b.yaml").touch()

    def offered(*words: str) -> list[str]:
        return complete("qoslet", *words, folder=tmp_path)

    assert set(offered("")) == {*COMMANDS, "--help", "--version"}
    assert offered("pl") == ["plan"]
    assert offered("plan", "-o", "t") == ["table", "tree"]
    assert offered("plan", "--output", "=", "y") == ["yaml"]
    assert offered("plan", "--output", "=") == sorted(
        ["tree", "table", "json", "yaml", "files", "shell", "oci", "cri"]
    )
    assert offered("plan", "--cgroup-d") == ["--cgroup-driver"]
    assert offered("plan", "--cgroup-driver", "") == ["cgroupfs", "systemd"]
    assert offered("plan", "a") == offered("plan", "--node", "a") == ["a b.yaml"]
    assert offered("release", "a") == offered("plan", "--pod-max-pids", "a") == []
    assert set(offered("help", "")) == {*COMMANDS, *TOPICS}
    assert offered("completion", "z") == ["zsh"]
    assert offered("nosuch", "a") == ["a b.yaml"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_valid(shell: str, tmp_path: Path) -> None:
    text = script(shell)
    assert run("completion", shell).stdout == text
    for name in COMMANDS:
        assert name in text
        for option in command(name).options:
            for spelling in option.names:
                bare = spelling.lstrip("-") if shell == "fish" else spelling
                assert re.search(rf"(?<![\w-]){re.escape(bare)}(?![\w-])", text), spelling
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(text)
    done = subprocess.run([shell, "-n", "script"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(script("fish"))
    env = {**environment(), "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}

    def offered(line: str) -> list[str]:
        code = f"source script; complete -C '{line}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", code],
            cwd=tmp_path, env=env, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return [row.partition("\t")[0] for row in done.stdout.splitlines()]

    assert offered("qoslet pl") == ["plan"]
    assert offered("qoslet plan -o t") == ["table", "tree"]
    assert offered("qoslet plan --cgroup-dr") == ["--cgroup-driver"]
    assert "script" in offered("qoslet plan --node s")
    assert offered("qoslet completion z") == ["zsh"]


ZSH = """\
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; autoload -Uz compinit; compinit -u -D; source ./script; print READY'
zpty -r -m shell line '*READY*READY*'
zpty -n -w shell $'qoslet {words}\\t'
sleep 1
zpty -n -w shell $'\\C-a: \\C-e; print DONE\\n'
zpty -r -m shell line '*DONE*DONE*'
print -r -- $line
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize(
    ("words", "completed"),
    [("expl", "explain "), ("plan -o ya", "plan -o yaml"), ("plan --cgroup-dr", "--cgroup-driver")],
)
def test_zsh_completes(tmp_path: Path, words: str, completed: str) -> None:
    (tmp_path / "script").write_text(script("zsh"))
    env = {**environment(), "HOME": str(tmp_path), "TERM": "dumb"}
    done = subprocess.run(
        ["zsh", "-fc", ZSH.replace("{words}", words)],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert completed in done.stdout


def test_the_man_page(tmp_path: Path) -> None:
    text = page()
    assert run("help", "--man").stdout == text
    assert text.isascii()
    assert (REPO / "docs/qoslet.1").read_text() == text, "make docs writes it"
    for name in COMMANDS:
        assert f"\n.SS {name}" in text
    plain = text.replace("\\-", "-")
    for option in command("plan").options:
        assert option.names[0] in plain
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", "-z"], input=text, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
