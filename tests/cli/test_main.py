"""The program as a process: exit codes, streams, faults in one line, never a traceback."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from qoslet.cli import main
from qoslet.cli.commands import COMMANDS
from qoslet.version import VERSION
from tests.cli.fixtures import NODE, PODS, command, environment, run, write
from tests.paths import REPO as ROOT

BAD_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec: {containers: [{name: a, image: x, resources: {limits: {cpu: "1 0", memory: 1Zi}}}]}
"""
EVIL_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: "ev\\e[2Jil"}
spec: {containers: [{name: a, image: x}]}
"""


def test_version_and_help() -> None:
    assert run("--version").stdout == run("version").stdout == f"qoslet {VERSION}\n"
    done = run("--help")
    assert done.returncode == 0
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)
    for name in COMMANDS:
        helped = run(name, "-h", COLUMNS="80")
        assert helped.returncode == 0
        assert helped.stderr == ""
        assert max(map(len, helped.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "usage: qoslet COMMAND"),
        (("plann",), "qoslet: unknown command plann (did you mean plan?)"),
        (("get",), "qoslet: unknown command get (did you mean ps?)"),
        (("status",), "qoslet: unknown command status (did you mean ps?)"),
        (("stop",), "qoslet: unknown command stop (did you mean release?)"),
        (("xyzzy",), "qoslet: unknown command xyzzy (qoslet --help lists the commands)"),
        (("--verbose",), "qoslet: unknown option --verbose"),
        (("plan",), "qoslet: -f: no pods given"),
        (("plan", "--nod", "x"), "did you mean --node?"),
        (("plan", "pods.yaml", "-n", "x", "more.yaml", "--nod", "x"), "arguments: --nod x (did"),
        (("lint", "--bundle", "x"), "unrecognized arguments: --bundle (qoslet lint -h lists"),
        (("explain", "web", "-n", "x", "memory.high", "y"), "unrecognized arguments: y (qoslet"),
        (("top", "--at", "99:99"), "qoslet: --at: '99:99' is not a time"),
        (("run", "x", "--root", "/q"), "did you mean --cgroup-root?"),
        (("plan", "x", "-o", "xml"), "invalid choice: 'xml'"),
        (("plan", "x", "-o", "tre"), "-o/--output: invalid choice: 'tre' (did you mean tree?)"),
        (("run", "x", "--with", "podman"), "--with: invalid choice: 'podman' (choose from process"),
        (("help", "plna"), "invalid choice: 'plna' (did you mean plan?)"),
        (("plan", "x", "--memory-qos"), "expected one argument"),
        (("plan", "/nowhere.yaml"), "qoslet: /nowhere.yaml: does not exist"),
        (("plan", "-f", "-", "--node", "-"), "standard input can be read once"),
        (("plan", "pods.yaml", "--kubernetes", "1.99"), "--kubernetes"),
        (("explain",), "name a pod, a container or a cgroup"),
        (("explain", "web"), "no pods given"),
        (("explain", "wob", "-f", "pods.yaml"), "did you mean web?"),
        (("explain", "web", "memory.hi", "-f", "pods.yaml"), "did you mean memory.high"),
        (("explain", "web", "app", "-f", "pods.yaml"), "did you mean the container web/app?"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    node = write(tmp_path)[2:]
    done = run(*arguments, *(node if len(arguments) > 2 else ()), folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "db/postgres", "-n", "shop", "memory.max", "-f", "pods.yaml"),
        ("explain", "-n", "shop", "db/postgres", "--ascii", "memory.max", "-f", "pods.yaml"),
        ("plan", "pods.yaml", "-o", "files", "-"),
        ("plan", "-o", "files", "-f", "pods.yaml", "--", "-"),
        ("plan", "-o", "files", "pods.yaml", "--ascii", "--", "-"),
    ],
)
def test_arguments_stand_on_both_sides_of_an_option(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    node = write(tmp_path)[2:]
    more = PODS[: PODS.index("---")].replace("db", "more").replace("00001}", "00009}")
    done = run(arguments[0], *node, *arguments[1:], folder=tmp_path, stdin=more)
    assert done.returncode == 0, done.stderr
    assert "1073741824" in done.stdout
    assert arguments[0] == "explain" or done.stdout.count("memory.max=1073741824") == 4


def test_all_faults_at_once(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "pods.yaml").write_text(BAD_POD)
    arguments = ("plan", "pods.yaml", "--node", "node.yaml", "--pod-max-pids", "many")
    done = run(*arguments, "-o", "json", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("qoslet: ") for line in lines)
    assert lines[0].startswith("qoslet: --pod-max-pids")
    assert "spec.containers[0].resources.limits.memory" in done.stderr


def test_a_plan_that_cannot_stand_is_exit_1_with_the_whole_document(tmp_path: Path) -> None:
    options = write(tmp_path)
    (tmp_path / "node.yaml").write_text(NODE.replace("swap: 0", "swap: 2Gi"))
    done = run("plan", *options, "-o", "json", folder=tmp_path)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert any(row["severity"] == "error" for row in document["problems"])
    assert document["cgroups"]
    assert run("plan", *options[:4], "-o", "json", folder=tmp_path).returncode == 0


def test_probed_fields_are_said_once(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "node.yaml").write_text(NODE.replace("pageSize: 4Ki\n  ", ""))
    done = run("plan", "pods.yaml", "--node", "node.yaml", "-o", "json", folder=tmp_path)
    assert done.stderr == "qoslet: taken from this machine: host (pageSize)\n"
    assert json.loads(done.stdout)["node"]["probed"] == ["host.pageSize"]


def test_standard_input(tmp_path: Path) -> None:
    write(tmp_path)
    done = run("plan", "-", "--node", "node.yaml", "-o", "files", folder=tmp_path, stdin=PODS)
    assert done.returncode == 0
    assert "/cpu.weight=39" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("top", "--bundle", "tests/data/bundles/processes-v1.tar.gz"),
        ("release", "--cgroup-root", "/qoslet-that-is-not-there"),
        ("release", "--cgroup-root", "/qoslet-that-is-not-there", "--dry-run"),
        ("explain", "nosuch", "--bundle", "tests/data/bundles/kubelet-numa-v2.tar.gz"),
    ],
)
def test_a_terminal_without_unicode_gets_no_escapes(arguments: tuple[str, ...]) -> None:
    done = run(*arguments, PYTHONIOENCODING="ascii")
    said = done.stdout + done.stderr
    assert "\\" not in said
    assert ", " in said


def test_an_empty_list_is_an_empty_plan(tmp_path: Path) -> None:
    write(tmp_path)
    empty = '{"apiVersion": "v1", "kind": "List", "items": []}'
    for output in ("json", "tree", "table", "yaml", "shell", "files", "cri", "oci"):
        arguments = ("plan", "-", "--node", "node.yaml", "-o", output)
        done = run(*arguments, folder=tmp_path, stdin=empty)
        assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(run("plan", "-", "--node", "node.yaml", "-o", "json", folder=tmp_path, stdin=empty).stdout)["pods"] == []  # fmt: skip


def test_control_characters_of_input_stay_in_files(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "ev\x1b[2Jil.yaml").write_text(EVIL_POD)
    done = run("plan", "ev\x1b[2Jil.yaml", "--node", "node.yaml", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.replace("\n", "").isprintable()
    done = run("plan", "pods.yaml", "--ev\x1b[2Jil", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.replace("\n", "").isprintable()


def test_json_is_safe_on_a_terminal() -> None:
    from qoslet.render.documents import encode, encode_yaml

    document: dict[str, object] = {"a": "\x1b[2J\x9b\x7f\u202e\u2028 é 日", "b": ["\udc80"]}
    data = encode(document)
    assert json.loads(data) == {"a": document["a"], "b": ["\\udc80"]}
    assert all(char.isprintable() or char == "\n" for char in data.decode())
    import yaml

    text = encode_yaml(document).decode()
    assert yaml.safe_load(text) == {"a": document["a"], "b": ["\\udc80"]}
    assert all(char.isprintable() or char == "\n" for char in text)


def closed(tmp_path: Path, redirection: str) -> tuple[int, str]:
    """Exit code and stderr of the plan verb with a redirection of the shell."""
    options = " ".join(write(tmp_path))
    line = f"{' '.join(command('plan'))} {options} -o json {redirection}"
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr


def test_closed_and_full_outputs(tmp_path: Path) -> None:
    code, said = closed(tmp_path, ">&-")
    assert (code, said) == (
        3,
        "qoslet: standard output is closed (redirect it to a file or /dev/null)\n",
    )
    if os.path.exists("/dev/full"):
        code, said = closed(tmp_path, "> /dev/full")
        assert (code, said) == (
            3,
            "qoslet: standard output: cannot be written: No space left on device\n",
        )
    code, said = closed(tmp_path, "| true; exit ${PIPESTATUS[0]}")
    assert code in (0, 141)
    assert said == ""
    assert closed(tmp_path, "2>&-")[0] == 0


@pytest.mark.parametrize("arguments", [["run", "/nowhere"], ["plan", "/nowhere"], ["nocommand"]])
def test_an_error_output_that_is_full_changes_no_exit_code(arguments: list[str]) -> None:
    """The interpreter ends with 120 where it cannot write at its end."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(command(*arguments), env=environment(), stderr=full, timeout=60)
    assert done.returncode == 2


def test_a_reader_that_leaves_is_no_fault(tmp_path: Path) -> None:
    write(tmp_path)
    line = f"{' '.join(command('plan'))} - --node node.yaml -o json | head -c 1 > /dev/null"
    many = json.loads(json.dumps({"apiVersion": "v1", "kind": "List", "items": []}))
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "image": "x"}]}}
    many["items"] = [{**pod, "metadata": {"name": f"p{index}"}} for index in range(2000)]
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=tmp_path,
        env=environment(),
        input=json.dumps(many),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (141, "")


def test_a_python_without_our_packages_is_said() -> None:
    script = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); from qoslet.cli.main import main; main()"
    words = [sys.executable, "-S", "-c", script, "plan", "x.yaml"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3
    assert done.stderr == "qoslet: msgspec is not installed for this Python (pip install qoslet)\n"


def test_an_error_of_ours_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def broken(arguments: object) -> int:
        raise ZeroDivisionError("a\x1bb")

    monkeypatch.setattr(main, "_dispatch", broken)
    assert main.run(["plan"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("qoslet: internal error: ZeroDivisionError: a\\x1bb (please report")
    assert said.count("\n") == 1
    monkeypatch.setenv("QOSLET_DEBUG", "1")
    assert main.run(["plan"]) == 3
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ModuleNotFoundError("No module named 'qoslet.x'", name="qoslet.x"),
        ImportError("/l/array.so: failed to map segment from shared object", name="array"),
        *(
            OSError(number, os.strerror(number), "/x")
            for number in (
                errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EROFS,
                errno.EIO, errno.EFBIG, errno.EAGAIN,
            )
        ),
    ],
)  # fmt: skip
def test_a_failure_of_the_machine_is_none_to_report(
    monkeypatch: pytest.MonkeyPatch, capsys, error: Exception
) -> None:
    def broken(arguments: object) -> int:
        try:
            raise error
        except Exception as cause:
            raise RuntimeError("while it worked") from cause

    for failing in (broken, lambda _: (_ for _ in ()).throw(error)):
        monkeypatch.setattr(main, "_dispatch", failing)
        assert main.run(["plan"]) == 3
        said = capsys.readouterr().err
        assert said.startswith("qoslet: this machine cannot do it: ")
        assert said.count("\n") == 1
        assert "report" not in said
        assert "internal" not in said


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (SystemExit(0), 0), (MemoryError(), 3)],
)
def test_ends(monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int) -> None:
    def broken(arguments: object) -> int:
        raise error

    monkeypatch.setattr(main, "_dispatch", broken)
    assert main.run(["plan"]) == code


HEAVY = ("dataclasses", "inspect", "pathlib", "logging", "json", "yaml", "typing_extensions",
         "subprocess", "shutil", "locale", "rich", "asyncio", "platform",
         "decimal", "uuid", "gettext", "textwrap", "msgspec.inspect")  # fmt: skip


def test_json_in_json_out_imports_nothing_heavy(tmp_path: Path) -> None:
    import yaml

    write(tmp_path)
    for name in ("node", "kubelet"):
        text = (tmp_path / f"{name}.yaml").read_text()
        (tmp_path / f"{name}.json").write_text(json.dumps(yaml.safe_load(text)))
    (tmp_path / "pod.json").write_text(json.dumps(next(yaml.safe_load_all(PODS))))
    code = (
        "import sys; before = set(sys.modules); from qoslet.cli.main import run;"
        "code = run(['plan', 'pod.json', '--node', 'node.json', '--node', 'kubelet.json',"
        " '-o', 'json']); print(*(set(sys.modules) - before), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); {code}",
        ],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert not set(done.stderr.split()) & set(HEAVY)


def test_import_qoslet_imports_nothing_else() -> None:
    code = "import sys, qoslet; sys.exit('msgspec' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=environment()).returncode == 0
