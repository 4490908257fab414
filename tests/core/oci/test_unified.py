"""The unified map: what the kernel reads in a text, which files there are, what a line keeps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.cgroup import file_catalog
from qoslet.core.cgroup.accepts import INVALID, RANGE, WRITES, written
from qoslet.core.cgroup.features import CONTROLLERS, KernelFeatures
from qoslet.core.cgroup.kernel_numbers import members, memparse, scanned, whole
from qoslet.core.convert.convert import conversion_request, convert_document
from qoslet.core.convert.inputs import Kind
from qoslet.core.oci.resources import block_of
from qoslet.core.oci.result import BlockResult
from qoslet.core.oci.write import Update, files
from qoslet.core.versions.runtime import converting_runtime
from qoslet.render.documents import encode
from qoslet.render.documents.conversion import conversion_document
from qoslet.render.terminal import Terminal
from qoslet.render.text.conversion import draw, pairs, shell

NEW, OLD = "runc-1.3.2", "runc-1.1.5"
NINES = "9" * 5000
SOURCES: tuple[Kind, ...] = ("oci", "cri")


def part(block: dict[str, Any], runtime: str = NEW, **ground: Any) -> BlockResult:
    return files(block_of(block), "v2", converting_runtime(runtime), KernelFeatures(**ground))


def stands(found: BlockResult) -> dict[str, str]:
    assert found.refusal is None, found.refusal
    return {row.file: row.applied for row in found.rows}


@pytest.mark.parametrize(
    ("file", "text", "kept"),
    [
        ("cpu.max", "max", "max 100000"),
        ("cpu.max", "50000", "50000 100000"),
        ("cpu.max", " 50000\t200000\n", "50000 200000"),
        ("cpu.max", "max 5000", "max 5000"),
        ("cpu.max", "18446744073709551616", "max 100000"),
        ("cpu.max", "050000 x", "50000 100000"),
        ("cpu.max.burst", "0x10\n", "16"),
        ("cpu.weight", "+0144\n", "100"),
        ("cpu.weight.nice", "-20", "-20"),
        ("cpu.uclamp.max", " 50.5", "50.50"),
        ("cpuset.cpus", "0 2,1,,7-9", "0-2,7-9"),
        ("cpuset.cpus", "0-9:2/4", "0-1,4-5,8-9"),
        ("cpuset.cpus", "\n", ""),
        ("cpuset.mems", "1020-N", "1020-N"),
        ("cpuset.cpus", "1 \n2\nx", "1-2"),
        ("memory.high", "10M", "10485760"),
        ("memory.high", "1048576\n", "1048576"),
        ("memory.high", "0x200000", "2097152"),
        ("memory.high", "010K", "8192"),
        ("memory.high", "1e", "1152921504606846976"),
        ("memory.high", "8E", "max"),
        ("memory.max", "9" * 30, "max"),
        ("memory.max", "18446744073709551616", "max"),
        ("memory.max", "99999999999E", "max"),
        ("memory.max", "\n", "0"),
        ("memory.oom.group", " 1 ", "1"),
        ("memory.limit_in_bytes", "-1", "9223372036854771712"),
        ("hugetlb.2MB.max", "5M", "4194304"),
        ("pids.max", " 010\n", "8"),
        ("cgroup.max.depth", "max\n", "max"),
        ("io.weight", "default 50", "default 50"),
        ("io.weight", "8:0 200", "default 100\n8:0 200"),
        ("io.bfq.weight", "0x10", "default 16"),
        ("io.bfq.weight", " default 5", "default 5"),
        ("io.weight", " 50", "default 50"),
        ("io.max", "8:0 rbps=1 wbps=2", "8:0 rbps=1 wbps=2 riops=max wiops=max"),
        ("io.max", "8:0 rbps=max", ""),
        ("io.latency", "8:0 target=75", "8:0 target=75"),
        ("rdma.max", "mlx4_0 hca_handle=2", "mlx4_0 hca_handle=2 hca_object=max"),
        ("misc.max", "sev 5", "sev 5"),
    ],
)
def test_what_the_kernel_keeps(file: str, text: str, kept: str) -> None:
    assert written(file, text, None, KernelFeatures()) == kept


@pytest.mark.parametrize(
    ("file", "text", "error"),
    [
        *(("cpu.max", text, INVALID) for text in ("abc", "", " ", "-1", "max 99", "999", "maxi")),
        ("cpu.weight", "idle", INVALID),
        ("cpu.weight", " 100", INVALID),
        ("cpu.weight", "08", INVALID),
        ("cpu.weight", "100\n\n", INVALID),
        ("cpu.weight", "0", RANGE),
        ("cpu.weight", "9" * 25, RANGE),
        ("cpu.max.burst", "abc", INVALID),
        ("cpu.uclamp.max", "101", RANGE),
        ("memory.high", "10 M", INVALID),
        ("memory.high", "K", INVALID),
        ("memory.high", "5.5G", INVALID),
        ("memory.high", "-1", INVALID),
        ("memory.limit_in_bytes", "max", INVALID),
        ("memory.zswap.writeback", "2", INVALID),
        ("hugetlb.2MB.max", "abc", INVALID),
        ("hugetlb.../../x.max", "1", "no such file or directory"),
        ("pids.max", "4194305", INVALID),
        ("pids.max", "9" * 30, RANGE),
        ("pids.max", NINES, "argument list too long"),
        ("memory.max", NINES, "argument list too long"),
        ("cpuset.cpus", "3-1", INVALID),
        ("cpuset.cpus", "3,8192,x", RANGE),
        ("cpuset.cpus", "0-3:1", INVALID),
        ("cpuset.cpus", "0-3:1/2/3", INVALID),
        ("cpuset.cpus", "9" * 300, "value too large for defined data type"),
        ("cpuset.cpus", "1," * 30000, "argument list too long"),
        ("cpuset.cpus.partition", "x", INVALID),
        ("io.weight", "0", INVALID),
        ("io.weight", " default 5", INVALID),
        ("io.bfq.weight", "0", RANGE),
        ("io.bfq.weight", "8:0 0", RANGE),
        ("io.max", "8:0 rbps=0", RANGE),
        ("io.max", "8:0 rbps", INVALID),
        ("io.max", "8:0 x=1", INVALID),
        ("io.max", "x", INVALID),
        ("io.latency", "8:0 target=x", INVALID),
        ("rdma.max", "abc", "no such device"),
        ("rdma.max", "mlx4_0 x=1", INVALID),
        ("misc.max", "x 5", INVALID),
        ("cgroup.freeze", "2", RANGE),
        ("cgroup.type", "domain", INVALID),
        ("cgroup.subtree_control", "+x", INVALID),
        ("memory.pressure", "x", INVALID),
    ],
)
def test_what_the_kernel_refuses(file: str, text: str, error: str) -> None:
    found = written(file, text, None, KernelFeatures())
    assert isinstance(found, tuple)
    assert found[0] == error


def test_a_page_of_64_kib_takes_numbers_beyond_what_python_reads() -> None:
    assert written("memory.max", NINES, None, KernelFeatures(page_size=65536)) == "max"
    assert memparse(NINES) == 2**64 - 1
    assert whole(NINES) == RANGE
    assert scanned(NINES) == 2**64 - 1


@pytest.mark.parametrize(
    ("key", "runtime", "words"),
    [
        (
            "foo.bar",
            NEW,
            'unified resource "foo.bar" can\'t be set: controller "foo" not available',
        ),
        ("foo.bar", "crun-1.21", "controller `foo` is not available"),
        (".x", NEW, 'controller "" not available'),
        ("memory.foo", NEW, "no such file or directory"),
        ("memory.foo", "crun-1.21", "no such file or directory"),
        ("cgroup.nope", NEW, "no such file or directory"),
        ("hugetlb.3.max", NEW, "no such file or directory"),
        ("memory.current", NEW, "invalid argument"),
        ("cgroup.events", "crun-1.21", "invalid argument"),
        ("..", NEW, "is a directory"),
        (".", "crun-1.21", "is a directory"),
        ("", NEW, "is a directory"),
        ("", "crun-1.21", "CONTROLLER.VALUE ``"),
        ("memory.\0", NEW, "invalid argument"),
        ("memory." + "x" * 300, NEW, "file name too long"),
    ],
)
def test_keys_that_are_no_setting(key: str, runtime: str, words: str) -> None:
    found = part({"unified": {key: "1"}}, runtime)
    assert found.rows == ()
    assert found.refusal is not None
    assert words in found.refusal.message


def test_files_that_the_kernel_lacks_or_has_without_a_controller() -> None:
    refusal = part({"unified": {"memory.swap.max": "1"}}, swap=False).refusal
    assert refusal is not None
    assert refusal.message == "no such file or directory"
    assert part({"unified": {"cpu.weight": "1"}}, controllers=frozenset()).refusal is not None
    assert stands(part({"unified": {"cgroup.max.depth": "5"}}, controllers=frozenset()))


def test_every_file_with_a_check_can_be_opened() -> None:
    v2 = {file for file in WRITES if file_catalog.unopened(file, KernelFeatures()) == ""}
    assert len(v2) > 35
    assert not {file for file in v2 if file_catalog.read_only(file)}
    first = {file.partition(".")[0] for file in set(WRITES) - v2}
    assert first <= {"cpu", "memory", "blkio"}, "of v1"
    assert {file.partition(".")[0] for file in v2} - {"cgroup", "irq"} <= CONTROLLERS


@pytest.mark.parametrize(
    ("runtime", "text", "kept"),
    [
        (NEW, "1\n2", "2"),
        (NEW, "1\n2\n", "2"),
        ("crun-1.28", "1\n\n2\n", "2"),
        (OLD, "1\n2", None),
        (OLD, "2\n", "2"),
        (NEW, "1\n\n2", None),
    ],
)
def test_lines_of_a_value(runtime: str, text: str, kept: str | None) -> None:
    found = part({"unified": {"cpu.weight": text}}, runtime)
    if kept is None:
        assert found.refusal is not None
        assert found.refusal.message == "invalid argument"
    else:
        assert stands(found) == {"cpu.weight": kept}


def test_a_line_keeps_what_it_does_not_name() -> None:
    rate = {"throttleReadBpsDevice": [{"major": 8, "minor": 0, "rate": 7}]}
    block = {"blockIO": rate | {"weight": 300}, "unified": {
        "io.max": "8:0 wbps=9\n8:16 riops=4294967295 wiops=3",
        "io.bfq.weight": "8:0 70\ndefault 50",
    }}  # fmt: skip
    found = part(block)
    assert stands(found) == {
        "io.bfq.weight": "default 50\n8:0 70",
        "io.max": "8:0 rbps=7 wbps=9 riops=max wiops=max\n8:16 rbps=max wbps=max riops=max wiops=3",
    }
    assert {row.file: row.value for row in found.rows}["io.max"].splitlines() == [
        "8:0 rbps=7",
        "8:0 wbps=9",
        "8:16 riops=4294967295 wiops=3",
    ]


def test_a_period_stays_where_none_is_written() -> None:
    block = {"cpu": {"quota": 5000, "period": 20000}, "unified": {"cpu.max": "9000"}}
    assert stands(part(block)) == {"cpu.max": "9000 20000"}
    update = Update(block_of({"cpu": {"period": 30000}}))
    made = files(block_of({"unified": {"cpu.max": "9000"}}), "v2", converting_runtime("crun-1.21"),
                 update=update)  # fmt: skip
    assert stands(made) == {"cpu.max": "9000 30000"}


def test_what_one_file_forbids_another() -> None:
    for unified in (
        {"cpu.max": "5000", "cpu.max.burst": "6000"},
        {"cpu.max.burst": "6000", "cpu.max": "5000"},
        {"cpu.idle": "1", "cpu.weight": "5"},
    ):
        refusal = part({"unified": unified}).refusal
        assert refusal is not None
        assert refusal.message == "invalid argument"
    assert stands(part({"unified": {"cpu.max": "max", "cpu.max.burst": "6000"}}))


def test_an_empty_value_writes_nothing_and_that_is_said() -> None:
    for runtime in (NEW, "crun-1.21"):
        found = part({"unified": {"memory.high": ""}}, runtime)
        assert (found.rows, found.refusal) == ((), None)
        assert [(row.field, row.fate) for row in found.lost] == [("unified.memory.high", "ignored")]


def test_the_systemd_driver_rounds_no_value_of_the_unified_map() -> None:
    wish = conversion_request("v2", "runc-1.4.0", driver="systemd")
    row = convert_document({"unified": {"cpu.max": "1500"}}, wish, "oci").parts[0].rows[0]
    assert row.applied == "1500 100000"


KEYS = st.one_of(
    st.sampled_from(sorted(WRITES)),
    st.sampled_from(["hugetlb.2MB.max", "hugetlb.x.max", "memory.limit_in_bytes", ".", "..", ""]),
    st.text(max_size=9),
)
LETTERS = st.sampled_from([*"0123456789abcxXkKmMgGtTpPeE+-=:., \t\n\v\0٣¹", "max", "default ",
                           "8:0 ", "rbps=", "target=", "some "])  # fmt: skip
TEXTS = st.one_of(
    st.lists(LETTERS, max_size=12).map("".join),
    st.integers(-(2**70), 2**70).map(str),
    st.text(max_size=9),
    st.integers(4090, 5000).map(lambda times: "9" * times),
)


@pytest.mark.parametrize("to", ["v1", "v2", "systemd"])
@settings(max_examples=400, deadline=None)
@given(
    unified=st.dictionaries(KEYS, TEXTS, max_size=4),
    runtime=st.sampled_from([OLD, "runc-1.4", "crun-1.8.1", "crun-1.28", "kep-2254"]),
    driver=st.sampled_from(["cgroupfs", "systemd"]),
    update=st.booleans(),
)
def test_any_map_is_converted(
    to: str, unified: dict[str, str], runtime: str, driver: str, update: bool
) -> None:
    wish = conversion_request(to, runtime, driver=driver, update=update)
    for source in SOURCES:
        made = convert_document({"unified": unified}, wish, source)
        assert encode(conversion_document(made))
        for lines in (draw(made, Terminal(80), True), pairs(made), shell(made)):
            assert all(line.isprintable() for line in lines)


@given(text=TEXTS)
def test_numbers_are_read_or_refused(text: str) -> None:
    amount = whole(text)
    assert amount in (INVALID, RANGE) or 0 <= int(amount) < 2**64
    for found in (memparse(text), scanned(text)):
        assert found is None or 0 <= found < 2**64
    found_members = members(text, 8)
    assert isinstance(found_members, str) or found_members <= set(range(8))
