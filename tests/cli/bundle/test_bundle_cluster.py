"""``qoslet bundle --cluster``: bundles of all nodes, by the agents that run on them."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path

import pytest

from tests.cli.fixtures import run
from tests.paths import REPO

BUNDLE = REPO / "tests" / "data" / "bundles" / "kubelet-containerd-v1.tar.gz"
NODES = 7

KUBECTL = """\
#!{python}
import json, os, sys, time
words = sys.argv[1:]
def told(what):
    with open({log!r}, "a") as file:
        file.write(json.dumps([what, time.monotonic(), words]) + "\\n")
told("begin")
if "get" in words:
    print({rows!r})
elif "agent-3" in words:
    told("end")
    sys.exit("error: unable to upgrade connection: container not found")
elif "agent-4" in words:
    print("no gzip")
else:
    time.sleep(0.3)
    sys.stdout.buffer.write(open({bundle!r}, "rb").read())
told("end")
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which kubectl is a program of ours, with agents on seven nodes."""
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    rows = "\n".join(f"n{number} agent-{number}" for number in range(NODES))
    values = {"python": sys.executable, "log": str(tmp_path / "log"), "rows": rows}
    program.write_text(KUBECTL.format(**values, bundle=str(BUNDLE)))
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


def asked(folder: Path) -> list[tuple[str, float, list[str]]]:
    return [tuple(json.loads(row)) for row in (folder / "log").read_text().splitlines()]


def test_all_nodes_make_bundles_so_many_at_a_time(tmp_path: Path, path: str) -> None:
    out = tmp_path / "out"
    words = ("--context", "one", "--jobs", "2", "--redact", "-o", str(out))
    done = run("bundle", *words, PATH=path)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{out}: bundles of 5 of 7 nodes, ")
    assert done.stderr.splitlines() == [
        (
            "qoslet: node/n3: kubectl: error: unable to upgrade connection: container not found"
            " (kubectl --namespace=qoslet logs agent-3)"
        ),
        "qoslet: node/n4: its agent agent-4 answers with no bundle",
    ]
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    files = sorted(one.name for one in out.iterdir())
    assert files == [f"n{number}.tar.gz" for number in range(NODES) if number not in (3, 4)]
    assert {stat.S_IMODE((out / one).stat().st_mode) for one in files} == {0o600}
    assert {(out / one).read_bytes() for one in files} == {BUNDLE.read_bytes()}
    rows = asked(tmp_path)
    made = [one for one in rows if "exec" in one[2]]
    assert all(one[2][-1] == "--redact" and "--context=one" in one[2] for one in made)
    at_once = most = 0
    for what, _, _ in sorted(made, key=lambda one: one[1]):
        at_once += 1 if what == "begin" else -1
        most = max(most, at_once)
    assert most == 2
    done = run("fleet", str(out), "-o", "json")
    assert json.loads(done.stdout)["totals"]["nodes"] == 1, done.stderr


def test_some_nodes_are_named(tmp_path: Path, path: str) -> None:
    out = tmp_path / "out"
    began = time.monotonic()
    done = run("bundle", "node/n1", "node/n9", "--cluster", "-o", str(out), PATH=path)
    assert time.monotonic() - began < 30
    assert (done.returncode, [one.name for one in out.iterdir()]) == (1, ["n1.tar.gz"])
    assert "node/n9: no agent runs on a node of this name in the namespace qoslet" in done.stderr
    done = run("bundle", "node/n9", "--cluster", "-o", str(out), PATH=path)
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cluster",), "must name a directory for the bundles of a cluster"),
        (("--cluster", "-o", "-"), "must name a directory for the bundles of a cluster"),
        (("web", "--cluster", "-o", "out"), "names no node of the cluster"),
        (("node/--all", "--cluster", "-o", "out"), "must be the name of a node"),
        (("-f", "pods.yaml", "--cluster", "-o", "out"), "takes no -f and no --node"),
        (("--jobs", "0"), "must be a number from 1 to 1024"),
    ],
)
def test_what_goes_wrong_is_said(
    tmp_path: Path, path: str, words: tuple[str, ...], said: str
) -> None:
    done = run("bundle", *words, folder=tmp_path, PATH=path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not (tmp_path / "log").exists()
