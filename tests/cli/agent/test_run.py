"""What ``run`` refuses before it touches anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qoslet.cli.agent.run import options_of
from qoslet.cli.commands import parser_of
from tests.cli.fixtures import environment, run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no manifests"),
        (
            ("examples/", "--with", "runc", "--simulate"),
            "--with: cannot be combined with --simulate",
        ),
        (
            ("examples/", "--with", "cri-o", "--simulate"),
            "--with: cannot be combined with --simulate",
        ),
        (("examples/", "--container-runtime-endpoint", "x"), "-endpoint: needs a CRI runtime"),
        (("examples/", "--images", "x"), "need an OCI runtime (add --with runc or --with crun)"),
        (("examples/", "--with", "rkt"), "--with: invalid choice"),
        (
            ("examples/", "--runtime", "runc-1.4.0"),
            "--runtime: cannot be combined with --with process",
        ),
        (("examples/", "--cgroup-root", "/"), "must be a cgroup below /"),
        (("examples/", "--cgroup-root", "/a/../b"), "must be a cgroup below /"),
        (("examples/", "--simulate", "--cgroup-driver", "systemd"), "--simulate has no systemd"),
        (("examples/", "--for", "0"), "--for: '0' is not a duration such as 10s, 5m or 1h30m"),
        (("examples/", "--log-format", "xml"), "--log-format"),
    ],
)
def test_bad_usage_is_one_line(words: tuple[str, ...], said: str) -> None:
    done = run("run", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [("run", "examples/"), ("apply", "examples/"), ("release",), ("ps",), ("logs", "web")],
)
def test_an_empty_root_is_not_the_default_one(words: tuple[str, ...]) -> None:
    """As a script has it whose variable is unset: release would end other pods than were meant."""
    done = run(*words, "--cgroup-root", "")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("qoslet: --cgroup-root: '' must be a cgroup below / (such as ")


@pytest.mark.parametrize("given", ["/h/", "//h", "/h//"])
def test_needless_slashes_of_the_root_do_no_harm(given: str) -> None:
    arguments = parser_of("run").parse_args(["examples/", "--cgroup-root", given])
    assert options_of(arguments).root == "/h"


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: i, command: [a]}]}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="the check is for root")
@pytest.mark.parametrize("part", ["pods/web.yaml", "pods", "node.yaml"])
@pytest.mark.parametrize("words", [("run", "--dry-run"), ("apply", "--dry-run")])
def test_root_does_not_run_what_another_user_can_write(
    tmp_path: Path, part: str, words: tuple[str, ...]
) -> None:
    pods, node = tmp_path / "pods", tmp_path / "node.yaml"
    pods.mkdir()
    (pods / "web.yaml").write_text(POD)
    node.write_text("apiVersion: qoslet/v1\nkind: Node\n")
    os.chown(tmp_path / part, 65534, 65534)
    done = run(*words, str(pods / "web.yaml"), "--node", str(node))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"(chown root {tmp_path / part})" in done.stderr
    for reader in (("plan",), ("run", "--simulate", "--for", "0.1")):
        assert run(*reader, str(pods / "web.yaml"), "--node", str(node)).returncode == 0, reader


def test_a_node_file_of_an_agent_is_bounded_as_its_manifests_are(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(POD)
    node = tmp_path / "node.yaml"
    node.write_text("apiVersion: qoslet/v1\nkind: Node\nx: [" + "1," * 200_000 + "1]\n")
    words = (str(tmp_path / "web.yaml"), "--node", str(node))
    done = run("run", "--simulate", "--for", "0.1", *words)
    assert done.returncode == 2
    assert "has more than 200000 values" in done.stderr


@pytest.mark.parametrize("guard", ["off", "act"])
def test_who_has_the_guard_is_not_told_to_use_it(guard: str) -> None:
    node = ("--node", "docs/n1.yaml", "--memory-qos", "1.36", "--guard", guard)
    done = run("run", "examples/", *node, "--simulate", "--for", "0.1", "--plain", "-o", "json")
    assert done.returncode == 0, done.stderr
    stalls = "one that outpaces reclaim stalls"
    told = [stalls in text for text in (done.stderr, done.stdout)]
    assert told == [guard == "off"] * 2


_READ_ALL = ("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search")
_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *_READ_ALL)
WITHOUT_RIGHTS = _NOBODY if os.geteuid() == 0 else ()
"""What makes root a user that may read everything and change nothing."""


@pytest.mark.skipif(bool(WITHOUT_RIGHTS) and not shutil.which("setpriv"), reason="no setpriv")
@pytest.mark.parametrize("verb", ["run", "apply"])
def test_a_dry_run_needs_no_rights(tmp_path: Path, verb: str) -> None:
    (tmp_path / "web.yaml").write_text(POD)
    words = [verb, str(tmp_path / "web.yaml"), "--dry-run", "--cgroup-driver", "cgroupfs"]
    words += ["--cgroup-root", "/qoslet-test-dry"]
    done = subprocess.run(
        [*WITHOUT_RIGHTS, sys.executable, "-m", "qoslet", *words],
        env=environment() | {"XDG_RUNTIME_DIR": "/nowhere"}, capture_output=True, text=True,
    )  # fmt: skip
    if "no cgroup file system mounted" in done.stderr:
        pytest.skip("no cgroups here")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("mkdir ") and "/qoslet-test-dry" in line for line in lines)
    assert any(line.startswith("printf ") and "/qoslet-test-dry/kubepods" in line for line in lines)


def test_a_dry_run_of_release_says_that_there_is_nothing(tmp_path: Path) -> None:
    words = ("release", "--dry-run", "--cgroup-root", "/qoslet-test-absent")
    done = run(*words, XDG_RUNTIME_DIR=str(tmp_path))
    if done.returncode == 3:
        pytest.skip(done.stderr)
    assert (done.returncode, done.stdout) == (0, "")
    assert "/qoslet-test-absent · v" in done.stderr
    assert done.stderr.endswith(": nothing to undo\n")


def test_an_address_that_is_none_names_the_option(tmp_path: Path) -> None:
    from qoslet.errors import BadInput
    from qoslet.host.questions.http_server import listen

    with pytest.raises(BadInput, match="'x' is not an address") as caught:
        listen("x")
    assert caught.value.where == "--metrics-bind-address"
    assert "9753 for that port of 127.0.0.1" in caught.value.hint
