"""``qoslet agent --status --cluster``: what the agents of all nodes say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fixtures import run

FINDING = {"severity": "warning"}
Documents = dict[str, dict[str, Any]]
DOCUMENTS: Documents = {
    "agent-1": {"mode": "protect", "pods": 3, "held": [{}] * 12, "contested": [{}]},
    "agent-2": {
        "mode": "watch",
        "pods": 1,
        "held": [],
        "findings": [FINDING, {"severity": "info"}],
    },
}
KUBECTL = """\
#!{python}
import json, sys
words = sys.argv[1:]
answers = {answers!r}
if "get" in words:
    print({rows!r})
elif not {works!r}:
    sys.exit("error: You must be logged in to the server (Unauthorized)")
else:
    pod = words[words.index("exec") + 1]
    if "--dry-run" in words:
        with open({log!r}, "a") as file:
            file.write(json.dumps([words[words.index("--") + 1:], sys.stdin.read()]) + "\\n")
    if pod == "agent-5":
        print("qoslet: policy: mode: not known", file=sys.stderr)
        sys.exit("command terminated with exit code 2")
    if pod not in answers:
        sys.exit("error: unable to upgrade connection: container not found")
    print(answers[pod])
"""


def path_with(
    folder: Path, documents: Documents = DOCUMENTS, *, works: bool = True, rows: int = 4
) -> str:
    """A PATH on which kubectl is a program of ours."""
    empty = {"kind": "AgentStatus", "contested": [], "findings": [], "errors": []}
    answers = {name: json.dumps({**empty, **one}) for name, one in documents.items()}
    answers["agent-3"] = "{}"
    listed = "\n".join(f"n{number} agent-{number}" for number in range(1, rows + 1))
    program = folder / "bin" / "kubectl"
    program.parent.mkdir()
    log = str(folder / "log")
    values = {
        "log": log,
        "python": sys.executable,
        "answers": answers,
        "rows": listed,
        "works": works,
    }
    program.write_text(KUBECTL.format(**values))
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


def test_each_node_is_a_line_and_who_does_not_answer_is_said(tmp_path: Path) -> None:
    done = run("agent", "--status", "--context", "one", PATH=path_with(tmp_path))
    assert done.returncode == 1
    assert [line.split() for line in done.stdout.splitlines()[:-1]] == [
        ["NODE", "MODE", "PODS", "HELD", "RESET", "FINDINGS", "ERRORS"],
        ["n1", "protect", "3", "12", "1", "0", "0"],
        ["n2", "watch", "1", "0", "0", "1", "0"],
    ]
    assert done.stdout.splitlines()[-1] == "2 nodes: 12 values held, 1 finding, 0 errors"
    assert done.stderr.splitlines() == [
        "qoslet: node/n3: its agent answers with another document",
        (
            "qoslet: node/n4: kubectl: error: unable to upgrade connection: container not found"
            " (kubectl --namespace=qoslet logs agent-4)"
        ),
    ]


@pytest.mark.parametrize(
    ("words", "works", "rows", "code", "said"),
    [
        ((), True, 2, 0, ""),
        ((), False, 2, 3, "You must be logged in"),
        ((), True, 0, 3, "no agent runs in the namespace qoslet"),
        (("-o", "json"), True, 2, 2, "prints lines only"),
    ],
)
def test_exit_codes(
    tmp_path: Path, words: tuple[str, ...], works: bool, rows: int, code: int, said: str
) -> None:
    path = path_with(tmp_path, works=works, rows=rows)
    done = run("agent", "--status", "--cluster", *words, PATH=path)
    assert done.returncode == code, done.stderr
    assert said in done.stderr


ENDS = [
    {"pod": "shop/web", "way": "evict", "why": None},
    {"pod": "shop/log", "way": "end", "why": "its DaemonSet starts it on this node again"},
    {"pod": "kube-system/etcd", "way": "none", "why": "a static pod"},
]
DRY_RUNS: Documents = {
    "agent-1": {"commands": ["echo 1 > a", "echo 2 > b"], "note": None, "ends": ENDS},
    "agent-2": {"commands": [], "note": "cgroup v1 has no Memory QoS", "ends": []},
}


def test_a_policy_is_rehearsed_on_all_nodes(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: qoslet/v1\nkind: AgentPolicy\nmode: guard\nnamespaces: [shop]\n")
    path = path_with(tmp_path, DRY_RUNS, rows=3)
    words = ("agent", "--dry-run", "--cluster", "--policy", str(policy), "--evict", "pod")
    done = run(*words, PATH=path)
    assert done.returncode == 1
    assert [line.split() for line in done.stdout.splitlines()[:-1]] == [
        ["NODE", "WRITES", "EVICTS", "ENDS"],
        ["n1", "2", "1", "1"],
        ["n2", "0", "0", "0"],
    ]
    assert done.stdout.splitlines()[-1].startswith("2 nodes: 2 values to write, 1 pod ")
    assert done.stderr.splitlines() == [
        "qoslet: node/n3: its agent answers with another document",
        "qoslet: node/n2: cgroup v1 has no Memory QoS",
    ]
    rows = [json.loads(row) for row in (tmp_path / "log").read_text().splitlines()]
    assert len(rows) == 3
    for asked, given in rows:
        assert asked[:3] == ["qoslet", "agent", "--dry-run"]
        assert {"--policy=-", "--evict=pod"} <= set(asked)
        assert not [word for word in asked if word.startswith("--mode")]
        assert json.loads(given)["namespaces"] == ["shop"]
    done = run(*words, "-v", PATH=path)
    assert "  echo 2 > b" in done.stdout.splitlines()
    assert "  # may evict shop/web" in done.stdout.splitlines()
    done = run("agent", "--dry-run", "--cluster", "-o", "json", PATH=path)
    first, second, third = json.loads(done.stdout)["nodes"]
    assert (first["node"], len(first["commands"]), second["note"]) == (
        "n1",
        2,
        DRY_RUNS["agent-2"]["note"],
    )
    assert third == {"node": "n3"}
    *_, (asked, given) = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert ("--policy=/etc/qoslet/policy.yaml" in asked, given) == (True, "")


def test_a_policy_with_a_fault_is_sent_nowhere(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: qoslet/v1\nkind: AgentPolicy\nmode: gard\n")
    words = ("agent", "--dry-run", "--cluster", "--policy", str(policy))
    done = run(*words, PATH=path_with(tmp_path, DRY_RUNS))
    assert (done.returncode, done.stdout) == (2, "")
    assert "policy.yaml" in done.stderr
    assert "gard" in done.stderr
    assert not (tmp_path / "log").exists()


def test_the_words_of_a_container_are_told(tmp_path: Path) -> None:
    done = run("agent", "--status", "--cluster", PATH=path_with(tmp_path, rows=5))
    assert (
        done.stderr.splitlines()[-1] == "qoslet: node/n5: kubectl: qoslet: policy: mode: not known"
    )


def test_the_plugin_of_kubectl_begins_no_agent(tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-qoslet"
    plugin.write_text(f"#!{sys.executable}\nfrom qoslet.cli.main import main\n\nmain()\n")
    plugin.chmod(0o755)
    done = subprocess.run([str(plugin), "agent"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    said = "kubectl qoslet agent: needs --status or --dry-run (on a node: qoslet agent)"
    assert done.stderr == f"qoslet: {said}\n"
