"""What ``run`` refuses before it touches anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.fixtures import run


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
        (("examples/", "--for", "0"), "is not a positive number"),
        (("examples/", "--log-format", "xml"), "--log-format"),
    ],
)
def test_bad_usage_is_one_line(words: tuple[str, ...], said: str) -> None:
    done = run("run", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


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
