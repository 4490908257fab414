"""Resource blocks to files and messages: the arithmetic, the order, the refusals, what is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import qoslet
from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.convert.convert import conversion_request, convert_document
from qoslet.core.convert.inputs import kind_of
from qoslet.core.convert.pods import convert_pods
from qoslet.core.oci.resources import Block, block_of
from qoslet.core.oci.result import BlockResult, Hierarchy
from qoslet.core.oci.runc_update import updated
from qoslet.core.oci.write import Update, files
from qoslet.core.versions.runtime import converting_runtime
from qoslet.errors import BadInput
from tests.cli.fixtures import made

Json = dict[str, Any]
MIB = 1 << 20

NEW, OLD = "runc-1.3.2", "runc-1.1.5"


def part(block: Json, to: str = "v2", runtime: str = NEW, **ground: Any) -> BlockResult:
    hierarchy: Hierarchy = "v1" if to == "v1" else "v2"
    return files(block_of(block), hierarchy, converting_runtime(runtime), KernelFeatures(**ground))


def values(found: BlockResult) -> dict[str, str]:
    return {row.file: row.value for row in found.rows}


@pytest.mark.parametrize(
    ("runtime", "shares", "weight"),
    [
        ("runc-1.3.1", 1024, 39),
        ("runc-1.3.2", 1024, 100),
        ("runc-1.4.0", 1024, 100),
        ("runc-1.1", 102, 4),
        ("runc-1.5", 102, 17),
        ("crun-1.22", 1024, 39),
        ("crun-1.23", 1024, 100),
        ("crun-1.28", 2, 1),
        ("crun-1.28", 262144, 10000),
        ("kep-2254", 1024, 39),
        ("containerd-2.2", 1024, 100),
        ("containerd-1.7+crun-1.8", 1024, 39),
    ],
)
def test_both_curves(runtime: str, shares: int, weight: int) -> None:
    assert values(part({"cpu": {"shares": shares}}, runtime=runtime)) == {"cpu.weight": str(weight)}


@pytest.mark.parametrize(
    ("memory", "runtime", "expected"),
    [
        ({"limit": 300, "swap": 500}, NEW, {"memory.swap.max": "200", "memory.max": "300"}),
        ({"limit": 300, "swap": 300}, NEW, {"memory.swap.max": "0", "memory.max": "300"}),
        ({"limit": -1}, NEW, {"memory.swap.max": "max", "memory.max": "max"}),
        ({"limit": -1, "swap": 500}, NEW, {"memory.swap.max": "500", "memory.max": "max"}),
        ({"swap": -1}, NEW, {"memory.swap.max": "max"}),
        ({"limit": 0, "swap": 0}, NEW, {}),
        ({"limit": -1}, "crun-1.21", {"memory.max": "max"}),
        ({"limit": 0}, "crun-1.21", {"memory.max": "0"}),
        ({"limit": -7}, "crun-1.21", {"memory.max": "max"}),
        ({"swap": 0}, "crun-1.21", {"memory.swap.max": "0"}),
        ({"limit": 300, "swap": 500}, "kep-2254", {"memory.swap.max": "500", "memory.max": "300"}),
        ({"reservation": -1}, NEW, {"memory.low": "max"}),
    ],
)
def test_memory(memory: Json, runtime: str, expected: dict[str, str]) -> None:
    found = part({"memory": memory}, runtime=runtime)
    assert values(found) == expected
    assert found.refusal is None


@pytest.mark.parametrize(
    ("block", "to", "runtime", "words"),
    [
        ({"memory": {"swap": 5}}, "v2", NEW, "unable to set swap limit without memory limit"),
        ({"memory": {"limit": -1, "swap": 5}}, "v2", OLD, "without memory limit"),
        ({"memory": {"limit": 9, "swap": 5}}, "v2", NEW, "should be >= memory limit"),
        ({"memory": {"swap": 5}}, "v2", "crun-1.21", "without the memory limit"),
        ({"memory": {"limit": 9, "swap": 5}}, "v2", "crun-1.21", "less than the memory limit"),
        ({"memory": {"limit": 9, "swap": 0}}, "v2", "crun-1.8.1", "less than the memory limit"),
        ({"memory": {"limit": 9, "swap": 5}}, "v1", NEW, "invalid argument"),
        ({"memory": {"limit": -5}}, "v2", NEW, "invalid argument"),
        ({"memory": {"swappiness": 50}}, "v2", "crun-1.21", "cannot set memory swappiness"),
        ({"memory": {"swappiness": 101}}, "v1", NEW, "valid range is 0-100"),
        ({"cpu": {"shares": 1}}, "v1", NEW, "the minimum allowed cpu-shares is 2"),
        ({"cpu": {"shares": 1}}, "v2", OLD, "numerical result out of range"),
        ({"cpu": {"shares": 300000}}, "v2", OLD, "numerical result out of range"),
        ({"cpu": {"period": 999}}, "v2", NEW, "invalid argument"),
        ({"cpu": {"quota": 999}}, "v1", NEW, "invalid argument"),
        ({"cpu": {"idle": 1, "shares": 5}}, "v2", NEW, "invalid argument"),
        ({"cpu": {"quota": 5000, "burst": 5001}}, "v2", NEW, "invalid argument"),
        ({"pids": {"limit": 4194305}}, "v2", NEW, "invalid argument"),
        ({"network": {}}, "v2", "crun-1.21", "network limits not supported"),
        ({"unified": {"a/b": "1"}}, "v2", NEW, "must be a file name"),
        ({"unified": {"nodot": "1"}}, "v2", NEW, "CONTROLLER.PARAMETER"),
        ({"unified": {"nodot": "1"}}, "v2", "crun-1.21", "CONTROLLER.VALUE"),
        ({"unified": {"memory.high": "1"}}, "v1", NEW, "cannot use unified on cgroup v1"),
        ({"unified": {"memory.high": "1"}}, "v1", "crun-1.21", "cannot use unified on cgroup v1"),
        ({"blockIO": {"weight": 1001}}, "v2", NEW, "out of range"),
        ({"blockIO": {"leafWeight": 5}}, "v2", "crun-1.21", "leaf_weight"),
    ],
)
def test_refusals_in_the_runtimes_words(block: Json, to: str, runtime: str, words: str) -> None:
    refusal = part(block, to, runtime).refusal
    assert refusal is not None
    assert words in refusal.message
    assert refusal.because
    assert refusal.source


def test_crun_passes_over_unified_beside_cpu_without_lists() -> None:
    found = part({"cpu": {"shares": 5}, "unified": {"memory.high": "1"}}, "v1", "crun-1.21")
    assert (values(found), found.refusal) == ({"cpu.shares": "5"}, None)
    assert [row.fate for row in found.lost] == ["ignored"]


def test_rows_before_a_refusal_are_written() -> None:
    found = part({"pids": {"limit": 9}, "cpu": {"period": 1, "shares": 5}}, "v2")
    assert values(found) == {"pids.max": "9", "cpu.weight": "2"}
    assert found.refusal is not None
    assert (found.refusal.by, found.refusal.file) == ("kernel", "cpu.max")


def test_weights_without_bfq() -> None:
    assert values(part({"blockIO": {"weight": 500}})) == {"io.bfq.weight": "500"}
    assert values(part({"blockIO": {"weight": 500}}, bfq=False)) == {"io.weight": "4950"}


@pytest.mark.parametrize(
    ("limit", "runtime", "value"),
    [(0, NEW, None), (0, "runc-1.4", "1"), (0, "crun-1.28", None), (-1, NEW, "max"), (7, NEW, "7")],
)
def test_pids(limit: int, runtime: str, value: str | None) -> None:
    assert values(part({"pids": {"limit": limit}}, runtime=runtime)).get("pids.max") == value


def test_reservations_of_hugepages() -> None:
    block = {"hugepageLimits": [{"pageSize": "2MB", "limit": 4 * MIB}]}
    both = {"hugetlb.2MB.max": "4194304", "hugetlb.2MB.rsvd.max": "4194304"}
    assert values(part(block)) == both
    assert list(values(part(block, runtime="runc-1.1.9"))) == ["hugetlb.2MB.max"]
    assert list(values(part(block, runtime="crun-1.28"))) == ["hugetlb.2MB.max"]
    refusal = part(block, sizes=("1GB",)).refusal
    assert refusal is not None
    assert refusal.message == "no such file or directory"


def test_what_v2_cannot_express_is_named_with_what_does_it_instead() -> None:
    block = {
        "network": {"classID": 1, "priorities": [{"name": "eth0", "priority": 5}]},
        "memory": {"kernel": 5, "kernelTCP": 5, "swappiness": 5, "disableOOMKiller": True},
        "devices": [{"allow": False, "access": "rwm"}],
        "cpu": {"realtimeRuntime": 5},
    }
    found = part(block)
    assert {row.field: row.fate for row in found.lost} == {
        "devices": "elsewhere",
        "network.classID": "ignored",
        "network.priorities": "ignored",
        "memory.kernel": "ignored",
        "memory.kernelTCP": "ignored",
        "memory.swappiness": "ignored",
        "memory.disableOOMKiller": "ignored",
        "cpu.realtimeRuntime": "ignored",
    }
    assert all(row.why and row.instead for row in found.lost)
    made = convert_document(block, conversion_request("v2", NEW))
    assert [row.what.split(" (")[0] for row in made.accounting] == [
        "per-cpu accounting",
        "network statistics of a cgroup",
    ]


def test_fields_that_a_version_does_not_know() -> None:
    found = part({"cpu": {"idle": 1, "burst": 5}}, runtime=OLD)
    assert (found.rows, found.refusal) == ((), None)
    assert [row.field for row in found.lost] == ["cpu.idle", "cpu.burst"]


def test_an_update_keeps_quota_or_period() -> None:
    before = block_of({"cpu": {"quota": 20000, "period": 50000, "shares": 512}})
    for runtime, shares in ((OLD, None), (NEW, 512)):
        found = updated(before, block_of({"cpu": {"period": 100000}}), converting_runtime(runtime))
        assert found.cpu is not None
        assert (found.cpu.quota, found.cpu.period, found.cpu.shares) == (20000, 100000, shares)


def test_check_before_update() -> None:
    block = block_of({"memory": {"limit": 4096, "checkBeforeUpdate": True}})
    for runtime, words in (
        (NEW, "rejecting memory limit 4096 <= usage 8192"),
        ("crun-1.21", "cannot set the memory limit lower than its current usage"),
    ):
        found = files(block, "v2", converting_runtime(runtime), update=Update(usage=8192))
        assert found.refusal is not None
        assert found.refusal.message == words
    assert files(block, "v2", converting_runtime(OLD), update=Update(usage=8192)).refusal is None
    assert files(block, "v2", converting_runtime(NEW), update=Update(Block(), 4095)).refusal is None


def test_systemd_properties() -> None:
    block = {"cpu": {"shares": 1024, "quota": 1500, "idle": 0}, "memory": {"limit": MIB}}
    made = convert_document(block, conversion_request("systemd", NEW))
    assert values(made.parts[0]) == {
        "MemoryMax": "1048576",
        "cpu.idle": "0",
        "CPUWeight": "100",
        "CPUQuotaPeriodSec": "100000us",
        "CPUQuota": "2%",
    }
    crun = convert_document(
        {"memory": {"limit": 300, "swap": 500}, "blockIO": {"weight": 500}},
        conversion_request("systemd", "crun-1.21"),
    )
    assert values(crun.parts[0])["IOWeight"] == "4500"
    assert [row.value for row in crun.parts[0].rows if row.file == "MemorySwapMax"] == ["500"]


@pytest.mark.parametrize(
    ("runtime", "kept"),
    [("runc-1.4.0", "2000 100000"), ("runc-1.3.3", "1500 100000"), ("crun-1.21", "1500 100000")],
)
def test_the_systemd_driver_rounds_the_file_where_the_runtime_does(runtime: str, kept: str) -> None:
    wish = conversion_request("v2", runtime, driver="systemd")
    row = convert_document({"cpu": {"quota": 1500}}, wish).parts[0].rows[0]
    assert (row.value, row.applied) == ("1500 100000", kept)


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"ociVersion": "1.0.2"}, "oci"),
        ({"cpu": {}}, "oci"),
        ({"blockIO": {}}, "oci"),
        ({"linux": {"resources": {"memory": {}}}}, "oci"),
        ({"cpu_shares": 2}, "cri"),
        ({"cpuShares": "2"}, "cri"),
        ({"cgroup_parent": "/a", "resources": {}}, "cri"),
        ({"linux": {"resources": {"cpu_quota": 5}}, "metadata": {"name": "a"}}, "cri"),
        ({"apiVersion": "v1", "kind": "Pod"}, "pod"),
        ({"apiVersion": "qoslet/v1", "kind": "Cri"}, "cri"),
        ({"cpu_count": 2}, "cri"),
    ],
)
def test_documents_say_what_they_are(document: Json, kind: str) -> None:
    assert kind_of(document, "x") == kind


@pytest.mark.parametrize("document", [{}, {"unified": {}}, {"cpu": {}, "cpu_shares": 1}, {"a": 1}])
def test_documents_that_do_not_say(document: Json) -> None:
    with pytest.raises(BadInput, match="--from"):
        kind_of(document, "x")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"cpu": {"shares": -1}}, "cpu.shares"),
        ({"cpu": {"shares": "1"}}, "cpu.shares"),
        ({"memory": {"limit": 2**63}}, "memory.limit"),
        ({"blockIO": {"weight": 70000}}, "blockIO.weight"),
        ({"cpu": {}, "unified": {"a": 1}}, "unified"),
        ({"cpu_shares": "x"}, "cpu_shares"),
        ({"cpu_shares": 2**63}, "cpu_shares"),
        ({"cpu_shares": True}, "cpu_shares"),
        ({"cpu_shares": 1, "nothing": 1}, "nothing"),
        ({"cpu_shares": 1, "hugepage_limits": [{"limit": -1}]}, r"hugepage_limits\[0\].limit"),
        ({"cpu_shares": 1, "hugepage_limits": {}}, "hugepage_limits"),
        ({"cpu_shares": 1, "unified": {"a": 1}}, "unified.a"),
        ({"cpu_shares": 1, "cpuset_cpus": 1}, "cpuset_cpus"),
    ],
)
def test_messages_that_are_none_name_the_field(document: Json, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        convert_document(document, conversion_request("v2", NEW))


def test_a_message_gets_the_swap_limit_that_its_runtime_adds() -> None:
    message = {"memoryLimitInBytes": "1048576", "cpuShares": "512"}
    made = convert_document(message, conversion_request("v2", "containerd-2.2"))
    assert values(made.parts[0]) == {
        "memory.swap.max": "0",
        "memory.max": "1048576",
        "cpu.weight": "59",
    }
    rest = {"oom_score_adj": 5, "hugepage_limits": [{"page_size": "2MB", "limit": 5}]}
    beside = convert_document(message | rest, conversion_request("oci", "containerd-2.2")).parts[0]
    assert [row.field for row in beside.lost] == ["oom_score_adj", "hugepage_limits"]
    assert beside.message == {"memory": {"limit": MIB, "swap": MIB}, "cpu": {"shares": 512}}
    small = convert_document({"memory_limit_in_bytes": MIB}, conversion_request("v2", "cri-o-1.34"))
    assert not small.stands
    assert small.parts[0].refusal is not None
    assert "too low" in small.parts[0].refusal.message


def test_a_block_as_a_message_says_what_has_no_field() -> None:
    block = {"cpu": {"shares": 2, "burst": 5}, "memory": {"limit": 5}, "pids": {"limit": 5}}
    found = convert_document(block, conversion_request("cri", NEW)).parts[0]
    assert found.message == {"cpu_shares": 2, "memory_limit_in_bytes": 5}
    assert [row.field for row in found.lost] == ["cpu.burst", "pids"]


def test_pods_are_converted_as_planned(tmp_path: Path) -> None:
    plan = made(tmp_path)
    for to in ("v1", "v2"):
        found = convert_pods([one.pod for one in plan.pods], plan.node, conversion_request(to, NEW))
        assert {part.name for part in found.parts} >= {"shop/db", "shop/db/postgres"}
        if to == plan.node.hierarchy:
            groups = [group for group in plan.cgroups if group.pod is not None]
            wanted = [{row.file: row.value for row in group.settings} for group in groups]
            assert [values(part) for part in found.parts] == wanted


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"to": "v3"}, "--to"),
        ({"runtime": "podman-1"}, "known runtime"),
        ({"runtime": "youki-0.5"}, "does not know"),
        ({"without": ("cpu",)}, "--without"),
        ({"hierarchy": "v1"}, "--hierarchy"),
    ],
)
def test_options_that_are_none(options: Json, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        conversion_request(options.pop("to", "v2"), options.pop("runtime", NEW), **options)


@pytest.mark.parametrize("runtime", ["runc-1.1.5", "runc-1.4", "crun-1.8.1", "crun-1.23"])
@pytest.mark.parametrize("swap", [0, 5, 1 << 27])
def test_v1_takes_no_memory_and_swap_without_a_memory_limit(runtime: str, swap: int) -> None:
    """Linux 6.18 with runc 1.1.5 and by hand: EINVAL; mm/memcontrol-v1.c mem_cgroup_resize_max."""
    if swap == 0 and runtime.startswith("runc"):
        return  # 0 is unset
    document = {"memory": {"swap": swap}}
    refusal = qoslet.convert(document, "v1", runtime=runtime).parts[0].refusal
    assert refusal is not None
    assert (refusal.file, refusal.field) == ("memory.memsw.limit_in_bytes", "memory.swap")
    assert "there is none" in refusal.because
    for limit, valid in ((swap + 1, False), (max(swap, 1), swap > 0), (-1, False)):
        both = {"memory": {"swap": swap, "limit": limit}}
        assert qoslet.convert(both, "v1", runtime=runtime).is_valid is valid
    assert qoslet.convert({"memory": {"swap": -1}}, "v1", runtime=runtime).is_valid


@pytest.mark.parametrize("runtime", ["runc-1.1.5", "runc-1.4", "crun-1.23"])
def test_an_update_of_swap_on_v1_is_compared_with_the_limit_of_before(runtime: str) -> None:
    given = {"memory": {"swap": 500}}
    for limit, valid in ((400, True), (600, False)):
        before = {"memory": {"limit": limit, "swap": 600}}
        made = qoslet.convert(given, "v1", runtime=runtime, update=True, before=before)
        assert made.is_valid is valid
    assert not qoslet.convert(given, "v1", runtime=runtime, update=True).is_valid


@pytest.mark.parametrize(
    ("kernel", "weight"),
    [("6.1", "0"), ("6.11.3", "0"), ("6.12.107", "1"), ("7.2", "1"), (None, "1")],
)
def test_the_weight_of_an_idle_cgroup_is_that_of_the_kernel(
    kernel: str | None, weight: str
) -> None:
    """As read back in guests with Linux 6.1, 6.12 and 7.2."""
    block = {"cpu": {"shares": 512, "idle": 1}}
    made = qoslet.convert(block, "v2", runtime="crun-1.21", kernel=kernel)
    [row] = [row for row in made.parts[0].rows if row.file == "cpu.weight"]
    assert row.applied == weight


def test_a_kernel_that_is_none() -> None:
    with pytest.raises(BadInput, match="kernel"):
        qoslet.convert({"cpu": {"shares": 5}}, "v2", kernel="new")
