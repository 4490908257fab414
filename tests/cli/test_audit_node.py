"""``qoslet audit node/NAME``: the audit of a bundle that the agent on that node makes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.cli.fixtures import run
from tests.paths import REPO

BUNDLE = REPO / "tests" / "data" / "bundles" / "kubelet-containerd-v1.tar.gz"

KUBECTL = """\
#!{python}
import json, os, sys
with open({log!r}, "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
words = sys.argv[1:]
if {fails!r}:
    sys.exit("error: You must be logged in to the server (Unauthorized)")
if "get" in words:
    print({pods!r})
else:
    sys.stdout.buffer.write(open({bundle!r}, "rb").read())
"""


def path_with(folder: Path, pods: str = "n1 qoslet-x", fails: bool = False) -> str:
    """A PATH on which kubectl is a program of ours; what it is given is in ``folder/log``."""
    program = folder / "bin" / "kubectl"
    program.parent.mkdir()
    log = str(folder / "log")
    values = {"python": sys.executable, "log": log, "fails": fails, "pods": pods}
    program.write_text(KUBECTL.format(**values, bundle=str(BUNDLE)))
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


def test_a_node_is_audited_by_its_agent(tmp_path: Path) -> None:
    path = path_with(tmp_path)
    options = ("--context", "one", "--kubeconfig", "k", "--agent-namespace", "own")
    done = run("audit", "node/n1", *options, "-o", "json", PATH=path, TMPDIR=str(tmp_path))
    same = run("audit", "--bundle", str(BUNDLE), "-o", "json")
    assert same.returncode in (0, 1), same.stderr
    assert (done.returncode, json.loads(done.stdout)) == (same.returncode, json.loads(same.stdout))
    assert json.loads(done.stdout)["compared"] > 0
    listed, made = [json.loads(row) for row in (tmp_path / "log").read_text().splitlines()]
    assert listed[:3] == ["--kubeconfig=k", "--context=one", "--namespace=own"]
    assert "--field-selector=spec.nodeName=n1,status.phase=Running" in listed
    assert made[3:7] == ["exec", "qoslet-x", "--container=agent", "--"]
    assert made[7:9] == ["qoslet", "bundle"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bin", "log"], "nothing is left"


def test_of_several_pods_on_a_node_the_one_that_stays_is_asked(tmp_path: Path) -> None:
    rows = ["n1 z Running 2026-11-26T12:00:00Z", "n1 m Running ", "n1 q Failed ", " w Pending "]
    path = path_with(tmp_path, "\n".join(rows))
    done = run("audit", "node/n1", "--cluster", "-o", "json", PATH=path, TMPDIR=str(tmp_path))
    assert done.returncode in (0, 1), done.stderr
    _, made = [json.loads(row) for row in (tmp_path / "log").read_text().splitlines()]
    assert made[1:3] == ["exec", "m"]


@pytest.mark.parametrize(
    ("target", "pods", "fails", "code", "said"),
    [
        ("node/n1", "n2 x", False, 3, "no agent runs on a node of this name"),
        ("node/n1", "", False, 3, "no agent runs on a node of this name in the namespace qoslet"),
        ("node/n1", "n1 x", True, 3, "You must be logged in"),
        ("node/--all", "n1 x", False, 2, "must be the name of a node"),
        ("web", "n1 x", False, 2, "names no node of the cluster"),
    ],
)
def test_what_goes_wrong_is_said(
    tmp_path: Path, target: str, pods: str, fails: bool, code: int, said: str
) -> None:
    done = run("audit", target, "--cluster", PATH=path_with(tmp_path, pods, fails))
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_node_without_a_cluster_says_what_to_type(tmp_path: Path) -> None:
    done = run("audit", "node/n1", PATH=path_with(tmp_path))
    assert done.returncode in (2, 3)
    assert "(for a node of a cluster: qoslet audit node/n1 --cluster)" in done.stderr
    assert not (tmp_path / "log").exists()


def test_it_repairs_nothing_there(tmp_path: Path) -> None:
    done = run("audit", "node/n1", "--cluster", "--fix", PATH=path_with(tmp_path))
    assert done.returncode == 2
    assert not (tmp_path / "log").exists()
    empty = tmp_path / "empty"
    empty.mkdir()
    done = run("audit", "node/n1", "--cluster", PATH=str(empty))
    assert (done.returncode, "kubectl is not installed" in done.stderr) == (3, True)
