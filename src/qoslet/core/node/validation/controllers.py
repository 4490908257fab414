"""Rows about controllers and files that a node's host lacks, and what a kubelet does without them.

Source: kubelet cm container_manager_linux.go validateSystemRequirements (cpu, cpuset, memory),
cgroup_manager_linux.go getSupportedSubsystems (pids with its gates) and maybeSetHugetlb (optional);
on cgroup v2 it creates kubepods with every value, which fails on a file that is not there.
"""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.node.missing_files import MissingFiles, missing_files
from qoslet.core.node.node import PLANNED_CONTROLLERS, Node
from qoslet.core.problem import Problem

_BOOT = {
    "memory": "boot without cgroup_disable=memory",
    "pids": "use a kernel with CONFIG_CGROUP_PIDS",
    "hugetlb": "use a kernel with CONFIG_CGROUP_HUGETLB",
    "cpu": "use a kernel with CONFIG_CGROUP_SCHED",
    "cpuset": "use a kernel with CONFIG_CPUSETS",
}


def controller_problems(node: Node, *, memory_qos: bool) -> Iterator[Problem]:
    """What a host of Linux lacks. ``memory_qos``: its files are to be written."""
    missing = missing_files(node.host)
    if missing is None:
        return
    for name in _BOOT:
        old = missing.too_old(name)
        if old is None and name not in missing.controllers:
            continue
        if name == "hugetlb" and not node.host.hugepage_sizes:
            continue
        field = "host.controllers" if old is None else "host.kernel"
        message = f"{missing.why(f'{name}.max')}: {name} files are not written"
        yield _row(node, field, name, message, old is not None)
    for file in _files(node, missing, memory_qos):
        message = f"{missing.why(file)}: it is not written"
        yield Problem("info", _place(node, "host.kernel"), message, "use a newer kernel")


def _place(node: Node, field: str) -> str:
    origin = node.origins.get(field, field)
    return f"this machine: {field}" if origin == "probed" else origin


def _row(node: Node, field: str, name: str, message: str, old: bool) -> Problem:
    hint = "use a newer kernel" if old else f"{_BOOT[name]}; on v2 enable it in the root cgroup"
    if not _needed(node, name):
        return Problem("warning", _place(node, field), message, hint)
    refused = f"{message}, and a kubelet refuses to start"
    return Problem(node.refusal, _place(node, field), refused, hint)


def _needed(node: Node, name: str) -> bool:
    """Whether a kubelet of this release does not start without a controller."""
    if name == "pids":
        gates = node.gate("SupportPodPidsLimit"), node.gate("SupportNodePidsLimit")
        return node.profile.minor >= 20 or any(gates)
    if name == "cpuset" and node.hierarchy == "v2":
        # of cgroup v2 a kubelet needs what it writes on kubepods, or for the managers
        policies = node.kubelet.cpu_manager_policy, node.kubelet.memory_manager_policy
        return node.profile.choices.kubepods_cpuset or any(p.lower() == "static" for p in policies)
    return name != "hugetlb"


def _files(node: Node, missing: MissingFiles, memory_qos: bool) -> Iterator[str]:
    """The files alone that the kernel is too old for and that this node would write."""
    gone = {*missing.controllers, *(name for name in PLANNED_CONTROLLERS if missing.too_old(name))}
    choices = node.profile.choices
    single = node.kubelet.single_process_oom_kill if choices.single_process_option else None
    wanted = {
        "memory.min": memory_qos,
        "memory.oom.group": choices.oom_group and not single,
        "hugetlb.SIZE.rsvd.max": choices.rsvd
        and bool(node.host.hugepage_sizes)
        and not node.host.hugetlb_rsvd,
    }
    for file, written in wanted.items():
        if written and file.partition(".")[0] not in gone and missing.row(file) is not None:
            yield file
