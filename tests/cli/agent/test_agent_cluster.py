"""``qoslet agent --status --cluster``: what the agents of all nodes say."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fixtures import run

FINDING = {"severity": "warning"}
DOCUMENTS: dict[str, dict[str, Any]] = {
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
import sys
words = sys.argv[1:]
answers = {answers!r}
if "get" in words:
    print({rows!r})
elif not {works!r}:
    sys.exit("error: You must be logged in to the server (Unauthorized)")
else:
    pod = words[words.index("exec") + 1]
    if pod not in answers:
        sys.exit("error: unable to upgrade connection: container not found")
    print(answers[pod])
"""


def path_with(folder: Path, *, works: bool = True, rows: int = 4) -> str:
    """A PATH on which kubectl is a program of ours."""
    empty = {"kind": "AgentStatus", "contested": [], "findings": [], "errors": []}
    answers = {name: json.dumps({**empty, **one}) for name, one in DOCUMENTS.items()}
    answers["agent-3"] = "{}"
    listed = "\n".join(f"n{number} agent-{number}" for number in range(1, rows + 1))
    program = folder / "bin" / "kubectl"
    program.parent.mkdir()
    values = {"python": sys.executable, "answers": answers, "rows": listed, "works": works}
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
    assert done.stdout.splitlines()[-1] == "2 nodes: 12 values held, 1 findings, 0 errors"
    assert done.stderr.splitlines() == [
        "qoslet: node/n3: its agent answers with another document",
        "qoslet: node/n4: kubectl: error: unable to upgrade connection: container not found",
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
