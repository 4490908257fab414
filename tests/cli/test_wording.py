"""The wording of each command: its help, its typical faults, and a short answer, as one file each.

``QOSLET_GOLDEN=1`` writes the files of ``tests/cli/golden``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qoslet.cli import parser
from qoslet.cli.commands import COMMANDS
from tests.cli.fixtures import write
from tests.cli.fleet.clusters import write_cluster
from tests.frozen.program import ask
from tests.paths import REPO

GOLDEN = REPO / "tests" / "cli" / "golden"

PODS = ("-f", "pods.yaml", "--node", "node.yaml", "--node", "kubelet.yaml")

BLOCK = '{"cpu": {"shares": 512, "quota": 50000}, "memory": {"limit": 67108864}}'

CASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "plan": (
        PODS,
        ("-f", "bad.yaml", "--node", "node.yaml"),
        (*PODS, "--kubernetes", "1.99", "--max-pods", "many"),
        (),
        ("nosuch.yaml",),
    ),
    "explain": (
        ("web/app", "memory.high", *PODS),
        ("db/postgres", "memory.high", *PODS),
        ("nosuch", *PODS),
        ("web/app", "memory.hihg", *PODS),
        (),
    ),
    "diff": (
        (*PODS, "--to", "kubernetes=1.37"),
        (*PODS, "--to", "kubernetes"),
        (*PODS, "--to", "kubernets=1.37"),
        (*PODS, "--rehearse", "v1-to-v9"),
        PODS,
    ),
    "lint": (
        PODS,
        ("pods.yaml", "--fail-on", "warning"),
        ("bad.yaml",),
        ("--explain", "QL029"),
        ("--explain", "QL9"),
        (),
    ),
    "fleet": (
        ("cluster.json", "--node", "kubelet.yaml", "--jobs", "1"),
        ("cluster.json", "--rehearse", "v1-to-v2", "--fit", "pod.yaml", "--jobs", "1"),
        ("cluster.json", "--to", "filename=x"),
        ("cluster.json", "--jobs", "0"),
        ("pods.yaml",),
        (),
    ),
    "convert": (
        ("block.json", "--to", "v2", "--runtime", "runc-1.4"),
        ("block.json", "--to", "v3"),
        ("block.json", "--to", "v2", "--without", "sound"),
        ("block.json", "--to", "v2", "--usage", "1"),
        ("block.json",),
    ),
    "metrics": (("x",), ("-o", "xml")),
    "config": (("node.yaml", "kubelet.yaml", "--changed"), ("--changed", "-o", "yaml"), ("pods.yaml",)),
    "doctor": (("x",),),
    "agent": (("x",), ("--mode", "act"), ("--interval", "0"), ("--policy", "nosuch.yaml", "--pods-from", "pods.yaml")),
    "nri": (("x",), ("--mode", "act"), ("--index", "5"), ("--check", "--nri-socket", "nosuch.sock")),
    "audit": (
        ("-f", "pods.yaml", "--runtime", "runc-1.4.0", "--hierarchy", "v3"),
        ("-o", "text"),
        ("--dry-run",),
        ("--fix", "-f", "-"),
        ("--watch", "-o", "sarif"),
    ),
    "bundle": (("nosuch.yaml",), ("-f", "pods.yaml", "--probe", "never"), ("-f", "pods.yaml", "-o", "no/b")),
    "top": (("--interval", "0"), ("--sort", "size"), ("x",), ("--at", "-3s"), ("--replay", "nosuch.rec", "--at", "-3s"), ("--replay", "pods.yaml")),
    "replay": (
        (),
        ("nosuch.rec",),
        ("pods.yaml",),
        ("r", "--set", "patience=5"),
        ("r", "--set", "patience_seconds=x"),
        ("r", "--policy", "kill"),
    ),
    "record": ((), ("--interval", "2h", "r"), ("--max-size", "10", "r"), ("-f", "nosuch.yaml", "r")),
    "web": (("--interval", "0"), ("--listen", "web"), ("x",)),
    "apply": ((), ("pods.yaml", "--cgroup-root", "/")),
    "release": (("x",), ("--cgroup-root", "/")),
    "run": (
        (),
        ("pods.yaml", "--cgroup-root", "/a/.."),
        ("pods.yaml", "--runtime", "runc-1.4.0"),
        ("pods.yaml", "--with", "runc", "--simulate"),
        ("pods.yaml", "--images", "x"),
        ("pods.yaml", "--for", "soon"),
    ),
    "ps": (("-o", "xml"),),
    "logs": ((), ("web", "--since", "soon"), ("web", "--tail", "few")),
    "help": (("plna",),),
    "completion": ((), ("tcsh",)),
    "version": (("x",),),
}  # fmt: skip

BAD = """\
apiVersion: v1
kind: Pod
metadata: {name: Bad}
spec: {containers: [{name: a, image: x, resources: {limits: {cpu: "1 0", memory: 1Zi}}}]}
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_messages_of_a_command_are_worded_as_recorded(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "block.json").write_text(BLOCK)
    write_cluster(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(parser._Formatter, "width", 0)
    parts = []
    for arguments in (("-h",), *CASES[command]):
        code, out, err = ask([command, *arguments])
        parts.append(f"$ qoslet {' '.join((command, *arguments))}\n{out.decode()}{err}[{code}]\n")
    text = "\n".join(parts)
    path = GOLDEN / f"{command}.txt"
    if os.environ.get("QOSLET_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()
