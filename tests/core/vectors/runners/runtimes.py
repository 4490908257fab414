"""How the vectors of OCI runtimes, systemd, Windows and the kernel's texts are run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qoslet.core.cgroup import controllers as cgroup_controllers
from qoslet.core.cgroup import unit_properties
from qoslet.core.oci.runc import swap_value
from qoslet.core.resources.windows import windows_settings
from qoslet.core.rules.cpu import systemd_quota
from qoslet.core.rules.oci import bfq_to_io_weight
from qoslet.core.rules.windows import milli_of_maximum
from tests.core.vectors.fixtures import block_rows, files, pairs, pod_of, policy_for
from tests.core.vectors.vectors import Vector, runs

Pair = tuple[object, object]


def _or_error(make: Callable[[], object]) -> object:
    try:
        return make()
    except ValueError:
        return "error"


@runs("oci_memswap_to_v2")
def memswap(vector: Vector, _: int) -> Pair:
    given = vector.given
    found = _or_error(lambda: swap_value(given["memorySwap"], given["memory"], alone=True))
    return found, vector.expected


@runs("oci_blkio_to_io_weight")
def blkio(vector: Vector, _: int) -> Pair:
    return bfq_to_io_weight(vector.given["blkioWeight"]), vector.expected


def _block(given: dict[str, Any]) -> dict[str, Any]:
    """libcontainer's fields as ``linux.resources``."""
    huge = [{"pageSize": text, "limit": n} for text, n in given.get("hugetlb", {}).items()]
    return {
        "pids": {"limit": given.get("pidsLimit")},
        "cpu": {"quota": given.get("cpuQuota"), "period": given.get("cpuPeriod")},
        "memory": {
            "limit": given.get("memory"),
            "swap": given.get("memorySwap"),
            "reservation": given.get("memoryReservation"),
        },
        "hugepageLimits": huge,
    }


@runs("oci_v2_file_writes")
def writes(vector: Vector, minor: int) -> Pair:
    rows = block_rows(policy_for(minor), _block(vector.given["resources"]))
    return pairs(rows), list(vector.expected.items())


@runs("systemd_cpu_quota")
def cpu_quota(vector: Vector, _: int) -> Pair:
    quota, period = vector.given["quota"], vector.given["period"]
    found = dict(unit_properties.bandwidth(quota, period, 257))["CPUQuotaPerSecUSec"]
    return {
        "CPUQuotaPerSecUSec": "infinity" if found == unit_properties.UNLIMITED else found,
        "quotaWritten": systemd_quota(quota, period),
    }, vector.expected


@runs("systemd_version")
def version(vector: Vector, _: int) -> Pair:
    return _or_error(lambda: unit_properties.version_of(vector.given["string"])), vector.expected


@runs("systemd_unit_type")
def unit_type(vector: Vector, _: int) -> Pair:
    return unit_properties.unit_type(vector.given["unit"]), vector.expected


@runs("unified_to_systemd_props")
def properties(vector: Vector, _: int) -> Pair:
    assert vector.given["systemdVersion"] == ">=252"
    found = unit_properties.properties(vector.given["unified"], 252)
    return [list(pair) for pair in found], vector.expected


@runs("oom_group_to_oom_policy")
def policy(vector: Vector, _: int) -> Pair:
    return _or_error(
        lambda: unit_properties.oom_policy(vector.given["memory.oom.group"])
    ), vector.expected


@runs("cpuset_range_to_bits")
def bits(vector: Vector, _: int) -> Pair:
    return _or_error(lambda: list(unit_properties.cpu_mask(vector.given["cpus"]))), vector.expected


@runs("hugepage_sizes_from_filenames")
def sizes(vector: Vector, _: int) -> Pair:
    found = cgroup_controllers.hugepage_sizes(vector.given["names"])
    return "error" if found.unknown else list(found.sizes), vector.expected


@runs("parse_proc_self_cgroup_v2")
def own_path(vector: Vector, _: int) -> Pair:
    return _or_error(lambda: cgroup_controllers.own_path(vector.given["lines"])), vector.expected


def _windows(
    release: int | str, processors: int, limits: dict[str, str], **node: Any
) -> dict[str, int]:
    pod = pod_of({"containers": [{"name": "c", "limits": limits}]})
    policy = policy_for(release, os="windows", capacity={"cpu": processors}, **node)
    found = files(windows_settings(policy, pod, pod.containers[0]))
    return {name: int(value) for name, value in found.items()}


@runs("windows_cpu_maximum")
def cpu_maximum(vector: Vector, minor: int) -> Pair:
    given = vector.given
    found = _windows(minor, given["processors"], {"cpu": given["cpuLimit"]})
    return found["cpu_maximum"], vector.expected


@runs("windows_resources")
def windows(vector: Vector, minor: int) -> Pair:
    given = vector.given
    limits = {"cpu": given["cpuLimit"], "memory": given["memoryLimit"]}
    found = _windows(minor, given["processors"], limits)
    return {name: found.get(name, 0) for name in vector.expected}, vector.expected


@runs("windows_cpu_limit_from_status")
def windows_status(vector: Vector, _: int) -> Pair:
    given = vector.given
    return {"milliCPU": milli_of_maximum(given["cpu_maximum"], given["processors"])}, (
        vector.expected
    )


@runs("windows_cpu_count_seed")
def count_of_design(vector: Vector, _: int) -> Pair:
    found = _windows("design", 4, {"cpu": f"{vector.given['cpuLimitMilli']}m"})
    return found["cpu_count"], vector.expected


@runs("windows_cpu_count_hyperv_old")
def count_of_hyperv(vector: Vector, minor: int) -> Pair:
    limits = {"cpu": f"{vector.given['cpuLimitMilli']}m"}
    return _windows(minor, 4, limits, isolation="hyperv")["cpu_count"], vector.expected
