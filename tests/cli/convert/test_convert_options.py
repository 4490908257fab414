"""``qoslet convert``: numbers beyond every width, usage of an update, and arguments that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import qoslet
from tests.cli.convert.test_convert import convert, document

CHECKED = {"memory": {"limit": 4096, "checkBeforeUpdate": True}}
HUGE = {
    "float": '{"cpu": {}, "memory": {"limit": 1e400}}',
    "integer": '{"cpu": {}, "memory": {"limit": %s}}' % ("9" * 5000),
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE)
def test_a_number_out_of_range_is_bad_input_at_its_place(text: str, tmp_path: Path) -> None:
    words = "memory.limit: is a number out of range"
    code, out, err = convert("-", "--to", "v2", given=text)
    assert (code, out) == (2, "")
    assert f"stdin: {words}" in err
    (tmp_path / "before.json").write_text(text)
    update = ("--update", "before.json")
    code, _, err = convert("-", "--to", "v2", *update, given=CHECKED, folder=tmp_path)
    assert code == 2
    assert f"before.json: {words}" in err
    with pytest.raises(qoslet.BadInput, match=f"text: {words}"):
        qoslet.convert(text, "v2")
    with pytest.raises(qoslet.BadInput, match=r"x\[1\]\[b/c\]: is a number out of range"):
        qoslet.convert('{"x": ["1e400", {"b/c": -1e400}]}', "v2")


@pytest.mark.parametrize("text", [r'{"unified": {"a": "\ud800"}}', r'{"\ud83d\u0041": 1, "b": 22}'])
def test_half_of_a_surrogate_pair_is_named(text: str) -> None:
    code, _, err = convert("-", "--to", "v2", given=text)
    assert code == 2
    assert "surrogate pair" in err
    with pytest.raises(qoslet.BadInput, match="surrogate pair"):
        qoslet.convert(text, "v2")
    with pytest.raises(qoslet.BadInput, match="ends in the middle"):
        qoslet.convert(r'{"a": "\\ud800"', "v2")


def test_what_is_deeply_nested_is_bad_input() -> None:
    with pytest.raises(qoslet.BadInput, match="nested too deeply"):
        qoslet.convert('{"a":' * 9000 + "1" + "}" * 9000, "v2")


def test_usage_decides_a_checked_update() -> None:
    update = ("-", "--to", "v2", "--update", "-o", "json")
    code, out, _ = convert(*update, "--usage", "8192", given=CHECKED)
    assert code == 1
    refused = document(out)["blocks"][0]["refused"]
    assert refused["message"] == "rejecting memory limit 4096 <= usage 8192"
    crun = ("--runtime", "crun-1.21", "--usage", "4000,200")
    code, out, _ = convert(*update, *crun, given=CHECKED)
    assert code == 1
    assert "current usage" in document(out)["blocks"][0]["refused"]["message"]
    code, out, _ = convert(*update, "--usage", "4095,0", given=CHECKED)
    assert code == 0
    assert document(out)["blocks"][0]["lost"] == []


def test_without_usage_it_is_said_what_decides() -> None:
    code, out, _ = convert("-", "--to", "v2", "--update", given=CHECKED)
    assert code == 0
    assert "memory.checkBeforeUpdate: the runtime compares" in out
    assert "--usage" in out
    for options in (("--to", "v1", "--update"), ("--to", "v2")):
        _, out, _ = convert("-", *options, given=CHECKED)
        assert "--usage" not in out
    made = qoslet.convert(CHECKED, "systemd", update=True)
    assert [row.field for row in made.parts[0].lost] == ["memory.checkBeforeUpdate"]
    assert not qoslet.convert(CHECKED, "v2", update=True, usage=8192).stands
    assert not qoslet.convert(
        CHECKED, "v2", update=True, usage=(4000, 200), runtime="crun-1.21"
    ).stands
    assert qoslet.convert(CHECKED, "v2", update=True, usage=(4000, 200)).stands


def test_unknown_names_are_told_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "before.json").write_text('{"cpu": {"quotas": 5}}')
    options = ("-", "--to", "v2", "-o", "files", "--update", "before.json")
    code, out, err = convert(*options, given={"cpu": {"share": 5, "shares": 2}}, folder=tmp_path)
    assert (code, out) == (0, "cpu.weight=1\n")
    assert "before.json: cpu.quotas: is not a field of cpu (did you mean quota?)" in err
    assert "stdin: cpu.share: is not a field of cpu (did you mean shares?)" in err
    made = qoslet.convert({"cpu": {"share": 5}}, "v2", before={"cpu": {"quotas": 5}})
    assert [row.where for row in made.problems] == ["before: cpu.quotas", "text: cpu.share"]
    assert [row["where"] for row in qoslet.to_dict(made)["problems"]] == [
        "before: cpu.quotas", "text: cpu.share"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--kubernetes", "soon"), "--kubernetes: 'soon' is not a Kubernetes release"),
        (("--cgroup-driver", "x"), "--cgroup-driver: is 'x', must be cgroupfs or systemd"),
        (("--usage", "5"), "--usage: applies only to an update (add --update)"),
        (("--update", "--usage", "8Mi"), "--usage: is '8Mi', must be BYTES[,SWAP]"),
        (("--update", "--usage", "5,"), "--usage"),
        (("--update", "--usage", str(2**63)), "--usage"),
    ],
)
def test_options_that_are_none_are_named(options: tuple[str, ...], words: str) -> None:
    code, out, err = convert("-", "--to", "v2", *options, given=CHECKED)
    assert (code, out) == (2, "")
    assert words in err


def test_the_designs_precedence_is_the_librarys_too() -> None:
    message = {"cpu_count": 2, "cpu_maximum": 2500}
    assert not qoslet.convert(message, "windows").stands
    made = qoslet.convert(message, "windows", precedence=True)
    options = ("-", "--to", "windows", "--kubernetes", "design", "-o", "json")
    _, out, _ = convert(*options, given=message)
    assert qoslet.to_dict(made) == json.loads(out)
    assert [row.file for row in made.parts[0].rows] == ["Processor.Count"]


def test_the_designs_runtime_is_that_of_its_tables() -> None:
    block = {"cpu": {"shares": 1024}, "memory": {"limit": 4096, "swap": 8192}}
    answers = []
    for option in (("--kubernetes", "design"), ("--runtime", "kep-2254")):
        code, out, _ = convert("-", "--to", "v2", *option, "-o", "json", given=block)
        assert code == 0
        answers.append(document(out))
    assert answers[0] == answers[1]
    rows = {row["file"]: row["value"] for row in answers[0]["blocks"][0]["rows"]}
    assert rows == {"cpu.weight": "39", "memory.max": "4096", "memory.swap.max": "8192"}
    named = ("--kubernetes", "design", "--runtime", "crun-1.23")
    _, out, _ = convert("-", "--to", "v2", *named, "-o", "json", given=block)
    assert document(out)["blocks"][0]["rows"] == answers[0]["blocks"][0]["rows"]
    _, out, _ = convert("-", "--to", "v2", "--kubernetes", "1.36", "-o", "json", given=block)
    weights = [row for row in document(out)["blocks"][0]["rows"] if row["file"] == "cpu.weight"]
    assert weights[0]["value"] == "100"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"to": "v3"}, "^to: "),
        ({"source": "bogus"}, "^source: is 'bogus', must be oci, cri or pod"),
        ({"runtime": None}, "^runtime: is None"),
        ({"runtime": "podman-1"}, "^runtime: "),
        ({"driver": "bogus"}, "^driver: is 'bogus', must be cgroupfs or systemd"),
        ({"hierarchy": "v3"}, "^hierarchy: is 'v3', must be v1 or v2"),
        ({"hierarchy": "v1"}, "^hierarchy: --to v2 contradicts hierarchy v1"),
        ({"isolation": "bogus"}, "^isolation: is 'bogus', must be process or hyperv"),
        ({"processors": -5}, "^processors: is -5, must be 1 to 2048"),
        ({"processors": 0}, "^processors: "),
        ({"processors": True}, "^processors: "),
        ({"without": ["ram"]}, "^without: "),
        ({"usage": 5}, "^usage: applies only to an update"),
        ({"usage": -5, "update": True}, "^usage: is -5"),
        ({"usage": (5, "x"), "update": True}, "^usage: is 'x'"),
        ({"before": 5}, "^before: expected `object`, got 5"),
        ({"document": 5}, "^text: is int, must be text or a mapping"),
        ({"document": {1: 2}}, "^text: "),
        ({"document": {"cpu": {}, "unified": {1: "2"}}}, "^text: unified: has a key that is no"),
    ],
)
def test_arguments_that_are_none_are_named(arguments: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"document": {"cpu": {"shares": 5}}, "to": "v2", **arguments}
    with pytest.raises(qoslet.BadInput, match=words):
        qoslet.convert(**given)
