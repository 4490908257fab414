"""The answer of doctor on terminals of every width."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from qoslet import schema
from qoslet.core.node.doctor.finding import DoctorFinding
from qoslet.render.terminal import Terminal
from qoslet.render.text.doctor import draw
from tests.cli.fixtures import run
from tests.paths import REPO

ROWS = [
    DoctorFinding("kernel", "ok", "6.12, new enough for cgroup v2 and for all that is read there"),
    DoctorFinding(
        "CAP_SYS_RESOURCE",
        "missing",
        "not held",
        "the kernel rejects a negative oom_score_adj; pressure triggers need windows of 2 s",
        "run as full root, or give the unit this capability",
    ),
]


@pytest.mark.parametrize("width", [40, 61, 70, 80])
def test_lines_fit_and_say_all(width: int) -> None:
    lines = draw(ROWS, Terminal(width))
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for row in ROWS:
        assert all(word in words for word in f"{row.topic} {row.cost} {row.remedy}".split())


def test_a_pipe_gets_a_line_for_each_text() -> None:
    assert len(draw(ROWS, Terminal())) == 4


BUNDLES = sorted(path.name for path in (REPO / "tests/data/bundles").iterdir())


@pytest.mark.parametrize("bundle", [None, *BUNDLES])
def test_its_document_conforms_to_the_schema_that_it_prints(bundle: str | None) -> None:
    printed = json.loads(run("doctor", "--schema").stdout)
    assert printed == json.loads(schema.text("doctor"))
    where = () if bundle is None else ("--bundle", str(REPO / "tests/data/bundles" / bundle))
    document = json.loads(run("doctor", *where, "-o", "json").stdout)
    Draft202012Validator.check_schema(printed)
    Draft202012Validator(printed).validate(document)
    assert document.keys() == printed["properties"].keys()
