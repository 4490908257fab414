"""Files that the kernel of ``convert --kernel`` does not have: left out, with a row of their own."""

from __future__ import annotations

from typing import Any

import pytest

import qoslet
from qoslet.core.cgroup.kernel_files import ROWS
from qoslet.core.convert.convert import Conversion
from qoslet.core.node.resolve import Flags, Probed, node_from

EVERYTHING = {
    "cpu": {"shares": 512, "burst": 5, "quota": 5000, "period": 10000, "cpus": "0"},
    "memory": {"limit": 8192, "swap": 16384},
    "pids": {"limit": 10},
    "hugepageLimits": [{"pageSize": "2MB", "limit": 0}, {"pageSize": "1GB", "limit": 0}],
    "unified": {
        "memory.oom.group": "1",
        "memory.min": "4096",
        "memory.swap.high": "4096",
        "memory.zswap.max": "0",
    },
}


def converted(kernel: str | None, block: Any = None, **options: Any) -> Conversion:
    runtime = options.pop("runtime", "runc-1.2")
    to = options.pop("to", "v2")
    return qoslet.convert(block or EVERYTHING, to, runtime=runtime, kernel=kernel, **options)


def files(made: Conversion) -> set[str]:
    return {row.file for row in made.parts[0].rows}


@pytest.mark.parametrize("row", [row for row in ROWS if row.v2], ids=lambda row: row.name)
def test_each_file_is_written_from_its_kernel_on(row: Any) -> None:
    block = {**EVERYTHING, "cpu": {"idle": 1}} if row.name == "cpu.idle" else EVERYTHING
    runtime = "crun-1.23" if row.name == "cpu.idle" else "runc-1.2"
    first = f"{row.v2[0]}.{row.v2[1]}"
    older = f"{row.v2[0]}.{row.v2[1] - 1}" if row.v2[1] else f"{row.v2[0] - 1}.20"
    before, after = (converted(one, block, runtime=runtime) for one in (older, first))
    assert any(row.name in file for file in files(after))
    assert not any(
        file == row.name
        or file.startswith(f"{row.name}.")
        or (row.name[0] == "." and row.name in file)
        for file in files(before) - {"cpu.max.burst", "cpu.idle"}
    )
    assert files(before) < files(converted(None, block, runtime=runtime))
    if row.name != ".rsvd.":
        assert any(f"Linux {first} is the first" in one.why for one in before.parts[0].lost)


def test_a_file_that_ends_the_start_of_a_container_is_refused_and_the_rest_is_converted() -> None:
    made = converted(
        "5.4.0-150-generic",
        {"cpu": {"shares": 512}, "hugepageLimits": EVERYTHING["hugepageLimits"]},
    )
    (lost,) = made.parts[0].lost
    assert (lost.field, lost.fate) == ("hugepageLimits", "refused")
    assert lost.why == "kernel 5.4 has no hugetlb controller on cgroup v2 (Linux 5.6 is the first)"
    assert (files(made), made.is_valid) == ({"cpu.weight"}, False)


@pytest.mark.parametrize(("to", "file"), [("v2", "cpu.max.burst"), ("v1", "cpu.cfs_burst_us")])
def test_runc_starts_containers_without_the_burst_of_a_newer_kernel(to: str, file: str) -> None:
    block = {"cpu": {"burst": 5, "quota": 5000, "period": 10000}}
    for runtime, fate, valid in (("runc-1.2", "ignored", True), ("crun-1.23", "refused", False)):
        made = converted("5.13", block, runtime=runtime, to=to)
        assert [one.fate for one in made.parts[0].lost] == [fate]
        assert (file in files(made), made.is_valid) == (False, valid)
        assert file in files(converted("5.14", block, runtime=runtime, to=to))


def test_properties_of_units_are_left_out_with_their_files() -> None:
    made = converted("4.19", {"cpu": {"cpus": "0", "shares": 9}}, to="systemd")
    assert files(made) == {"CPUWeight"}


@pytest.mark.parametrize("kernel", ["4.18.0-553.el8_10.x86_64", "6.12.107", None])
def test_kernels_that_have_everything(kernel: str | None) -> None:
    assert converted(kernel).parts == converted("7.2").parts


def test_the_kernel_of_a_pod_is_told_as_in_a_plan() -> None:
    own = {
        "apiVersion": "qoslet/v1",
        "kind": "Node",
        "kubernetes": "1.36",
        "capacity": {"cpu": "4", "memory": "8Gi", "hugepages-2Mi": "64Mi"},
        "host": {"hierarchy": "v2", "kernel": "6.12"},
    }
    node, problems = node_from([("node.yaml", own)], Flags(), Probed)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "c"}]},
    }
    new, old = (converted(kernel, pod, node=node) for kernel in (None, "4.18.5"))
    written, left = ({row.file for part in one.parts for row in part.rows} for one in (new, old))
    assert written - left >= {"memory.oom.group", "hugetlb.2MB.max", "hugetlb.2MB.rsvd.max"}
    told = {row.message.partition(" (")[0] for row in old.problems if "--kernel" in row.where}
    assert "kernel 4.18 has no memory.oom.group" in told
    assert "kernel 4.18 has no hugetlb controller on cgroup v2" in told
    assert not problems
