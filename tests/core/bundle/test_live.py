"""The cgroups of a bundle as an audit reads them."""

from __future__ import annotations

import pytest

from qoslet.core.audit.live import LiveCgroup, ReadRequest
from qoslet.core.bundle.allowed import PROPERTIES, files_v1, files_v2
from qoslet.core.bundle.live import BundledTree
from qoslet.core.bundle.rows import (
    CgroupRow,
    UnitRow,
    cgroup_rows,
    lines,
    running_containers,
    unit_rows,
)
from qoslet.core.cgroup.interface_files import KNOBS
from qoslet.errors import BadInput, CannotDo

REQUEST = ReadRequest(
    walk=("/kubepods",), cgroups=("/", "/gone"), files={"/kubepods": ("cpu.weight", "memory.max")},
    default=("pids.max",), oom=frozenset({"/kubepods/pod1/c"}),
)  # fmt: skip
ROWS = [
    CgroupRow("/", "v2", 1, 9, {"cpu.stat": "x"}),
    CgroupRow("/kubepods", "v2", 2, 0, {"cpu.weight": "79", "memory.high": "max"}),
    CgroupRow("/kubepods/pod1", "v2", 3, None, {"pids.max": "max", "cpu.weight": "4"}),
    CgroupRow("/kubepods/pod1/c", "v2", 4, 2, {}, (999, 0)),
    CgroupRow("/kubepodsx", "v2", 5),
    CgroupRow("/kubepods", "cpu", 6, 1, {"cpu.shares": "2"}),
]


def test_what_is_asked_for_is_found() -> None:
    unread = {("/kubepods", "memory.max"): "Permission denied", ("/x", ""): "gone"}
    found = BundledTree("v2", ROWS, None, unread).read(REQUEST)
    assert list(found.cgroups) == ["/", "/kubepods", "/kubepods/pod1", "/kubepods/pod1/c"]
    assert found.cgroups["/kubepods"] == LiveCgroup(
        "/kubepods", 2, {"cpu.weight": "79"}, {"memory.max": "Permission denied"}, processes=0
    )
    assert found.cgroups["/kubepods/pod1"] == LiveCgroup("/kubepods/pod1", 3, {"pids.max": "max"})
    assert found.cgroups["/kubepods/pod1/c"].oom_score_adj == (999, 0)
    assert [(one.path, one.error) for one in found.unread] == [("/x", "gone")]


def test_a_score_below_what_the_machine_allows_is_known() -> None:
    assert BundledTree("v2", ROWS, None, {}, -5).read(REQUEST).least_oom_score_adj == -5
    assert BundledTree("v2", ROWS, None, {}).read(REQUEST).least_oom_score_adj is None


def test_v1_rows_become_one_cgroup() -> None:
    rows = [
        CgroupRow("/kubepods", "cpu", 1, 0, {"cpu.shares": "2", "memory.limit_in_bytes": "odd"}),
        CgroupRow("/kubepods", "memory", 2, 3, {"memory.limit_in_bytes": "9"}),
        CgroupRow("/kubepods/pod1", "memory", 3, 0, {}),
        CgroupRow("/kubepods/pod1", "freezer", 4, 0, {}),
        CgroupRow("/kubepods", "v2", 5, 0, {"cpu.shares": "7"}),
    ]
    files = {"/kubepods": ("cpu.shares", "memory.limit_in_bytes")}
    found = BundledTree("v1", rows, None, {}).read(ReadRequest(("/",), (), files, (), frozenset()))
    assert found.cgroups["/kubepods"].values == {"cpu.shares": "2", "memory.limit_in_bytes": "9"}
    assert found.cgroups["/kubepods"].processes == 3
    assert found.cgroups["/kubepods/pod1"].missing == ("cpu",)


def test_units_are_those_that_are_asked_for() -> None:
    units = [UnitRow("a.slice", {"CPUWeight": "4", "TasksMax": "7"}), UnitRow("b.slice", {})]
    tree = BundledTree("v2", [], units, {})
    assert tree.units(["a.slice", "c.slice"], ["CPUWeight"]) == {"a.slice": {"CPUWeight": "4"}}
    assert BundledTree("v2", [], None, {}).units([], ["CPUWeight"]) == {}
    with pytest.raises(CannotDo, match=r"no units\.jsonl"):
        BundledTree("v2", [], None, {}).units(["a.slice"], [])


def test_lines_come_back() -> None:
    units = [UnitRow("a.slice", {"CPUWeight": "4"})]
    assert cgroup_rows(lines(ROWS), "b") == ROWS
    assert unit_rows(lines(units), "b") == units
    assert b'"oomScoreAdj":[999,0]' in lines(ROWS)
    assert cgroup_rows(b'\n{"path": "/", "hierarchy": "v2", "more": 1}\r\n\n', "b") == [
        CgroupRow("/", "v2")
    ]


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b'{"path": 1, "hierarchy": "v2"}',
        b'{"path": "/"}',
        b"[]",
        b"\xff",
        b'{"path":"/","hierarchy":"v2","files":{"a":1}}',
        b'{"a":' * 100_000,
    ],
)
def test_a_broken_line_is_bad_input(text: bytes) -> None:
    with pytest.raises(BadInput, match=r"b: cgroups\.jsonl: line 2: "):
        cgroup_rows(b'{"path": "/", "hierarchy": "v2"}\n' + text, "b: cgroups.jsonl")


def test_what_an_audit_compares_is_on_the_list() -> None:
    from qoslet.core.audit.verdicts.left_behind import may_be_left

    of_v1 = {file for name in ("cpu", "cpuset", "memory", "pids") for file in files_v1(name, ())}
    for level in ("kubepods", "qos", "pod", "sandbox", "container"):
        assert set(may_be_left(level, "v2")) <= set(files_v2(("2MB", "1GB")))
        assert set(may_be_left(level, "v1")) <= of_v1
    named = {knob.property for knob in KNOBS} | {knob.property_v1 for knob in KNOBS}
    assert named - {None} <= set(PROPERTIES)


@pytest.mark.parametrize("text", [b"", b"[]", b'{"items": [{"metadata": 1}]}', b"\xff", b"{}"])
def test_pods_that_cannot_be_read_run_nothing(text: bytes) -> None:
    assert running_containers(text) == set()


def test_running_containers_are_those_of_the_status() -> None:
    text = b"""{"items": [{"metadata": {"name": "a"}, "status": {"containerStatuses": [
        {"name": "c", "state": {"running": {}}}, {"name": "d", "state": {"waiting": {}}}, {"name": "e"}]}}]}"""
    assert running_containers(text) == {("default/a", "c")}
