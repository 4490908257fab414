"""The documents of ``audit``, of a bundle with findings and hostile names."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from qoslet import schema
from qoslet.core.audit.finding import AuditReport, Finding
from qoslet.render.documents import audit as documents
from qoslet.render.documents import encode
from tests.cli.bundle.test_bundle_audit import PROCESSES, changed, rows_of, text_of
from tests.cli.fixtures import run, write

HOSTILE = 'x<b>&"\x1b[31m\u202e]]>'


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A node with a changed value, and a cgroup of nobody below the pods whose name is hostile."""
    rows = rows_of(PROCESSES)
    (pods,) = {row["path"] for row in rows if row["path"].endswith("/kubepods")}
    hierarchies = {row["hierarchy"]: row for row in rows if row["path"] == pods}
    for name, like in hierarchies.items():
        rows.append(
            {**like, "hierarchy": name, "path": f"{pods}/{HOSTILE}", "inode": 999, "processes": 1}
        )
    changes = [
        row for row in rows if "cpu.shares" in row.get("files", {}) and row["path"].count("/") > 3
    ]
    changes[0]["files"]["cpu.shares"] = "9999"
    return changed(tmp_path, PROCESSES, cgroups_jsonl=text_of(rows))


def test_the_document_conforms(bundle: Path) -> None:
    done = run("audit", "--bundle", str(bundle), "-o", "json")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    jsonschema.Draft202012Validator(json.loads(schema.text("audit"))).validate(document)
    assert {"drift", "foreign"} <= {one["verdict"] for one in document["findings"]}


def test_sarif_has_a_result_for_each_finding(bundle: Path) -> None:
    document = json.loads(run("audit", "--bundle", str(bundle), "-o", "json").stdout)
    log = json.loads(run("audit", "--bundle", str(bundle), "-o", "sarif").stdout)
    (found,) = log["runs"]
    rules = {one["id"] for one in found["tool"]["driver"]["rules"]}
    assert len(found["results"]) == len(document["findings"])
    assert {one["ruleId"] for one in found["results"]} <= rules
    assert {one["level"] for one in found["results"]} <= {"error", "warning", "note"}


def test_junit_fails_for_what_counts(bundle: Path) -> None:
    document = json.loads(run("audit", "--bundle", str(bundle), "-o", "json").stdout)
    suites = ElementTree.fromstring(run("audit", "--bundle", str(bundle), "-o", "junit").stdout)
    counts = sum(one["severity"] in ("error", "warning") for one in document["findings"])
    assert suites[0].get("failures") == str(counts)
    assert len(suites[0].findall(".//failure")) == counts


@pytest.mark.parametrize("form", ["table", "json", "yaml", "sarif", "junit"])
def test_no_name_reaches_a_terminal_as_it_is(bundle: Path, form: str) -> None:
    done = run("audit", "--bundle", str(bundle), "-v", "-o", form)
    assert "x<b>" in done.stdout or "x&lt;b" in done.stdout, "the name is told"
    for text in (done.stdout, done.stderr):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_a_name_that_is_not_text_breaks_no_document() -> None:
    """cgroupfs takes every byte but the slash: a name may be neither UTF-8 nor a character of XML."""
    name = "/kubepods/x\udcff\ufffe\x01"
    finding = Finding(verdict="foreign", name=name, path=name, message=f"m {name}")
    report = AuditReport(1, 1, (finding,), ())
    encode(documents.sarif_document(report))
    suites = ElementTree.fromstring(documents.junit_document(report))
    assert len(suites[0].findall(".//failure")) == 1


def test_documents_of_another_hierarchy_say_what_to_give(tmp_path: Path) -> None:
    here = "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1"
    there = "v1" if here == "v2" else "v2"
    done = run("audit", *write(tmp_path), "--hierarchy", there, folder=tmp_path)
    assert done.returncode == 3
    assert f"documents of this machine, or --hierarchy {here})" in done.stderr


def test_a_narrow_terminal_breaks_the_first_line(bundle: Path) -> None:
    for columns in ("40", "60"):
        lines = run("audit", "--bundle", str(bundle), COLUMNS=columns).stdout.splitlines()
        head = lines[: lines.index("")]
        assert len(head) > 1
        assert max(map(len, head)) <= int(columns)
        assert head[0].endswith("not as planned")
