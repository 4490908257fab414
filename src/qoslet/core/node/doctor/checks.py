"""Facts about a machine to findings: what is there, what is missing, what that costs.

Sources: Documentation/admin-guide/cgroup-v2.rst; kubelet start-up checks (KEP-5573, KEP-2570);
systemd.resource-control(5), systemd.unit(5) Delegate=. Versions of Linux: the commits that added
``cgroup.freeze`` (5.2), hugetlb for v2 (5.6), ``memory_recursiveprot`` (5.7), ``cpu.stat`` of the
root (5.8, KEP-2254), reclaim at ``memory.high`` (5.9, KEP-2570), ``cgroup.kill`` (5.14),
``memory.reclaim`` (5.19).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qoslet.core.node.doctor.finding import DoctorFinding
from qoslet.core.node.doctor.finding import State as State
from qoslet.core.node.doctor.programs import feature_findings, program_findings
from qoslet.core.node.host_facts import kernel_version
from qoslet.core.node.machine import Controller, Machine
from qoslet.core.quantity import binary

_NEEDED = ("cpu", "memory", "pids", "cpuset")
_COST = {
    "cpu": "no CPU weights or quotas",
    "memory": "no memory limits, no Memory QoS",
    "pids": "no process limits",
    "cpuset": "no CPU pinning; on v1 nothing else is lost",
    "hugetlb": "no huge page limits",
}


def findings(
    machine: Machine, kubelet: Sequence[DoctorFinding] = (), audit: str = ""
) -> list[DoctorFinding]:
    """Every finding, in the order in which people look; ``kubelet`` are those about what a kubelet
    lets be seen, ``audit`` the command that compares its cgroups with its plan."""
    audit = audit or ("qoslet audit" if kubelet else "")
    return [
        *_layout(machine),
        *_controllers(machine),
        *_rights(machine),
        *_kernel(machine),
        *_memory(machine),
        *_protection(machine),
        *feature_findings(machine),
        *_systemd(machine),
        *_sizes(machine),
        *program_findings(machine, kubelet, audit),
    ]


def can_write(machine: Machine) -> bool:
    """Whether groups with CPU and memory settings can be made here at all."""
    bound = [machine.bound(name) for name in ("cpu", "memory")]
    return all(one is not None and one.writable for one in bound)


def _layout(machine: Machine) -> Iterator[DoctorFinding]:
    if machine.layout is None:
        yield DoctorFinding(
            "hierarchy",
            "missing",
            "no cgroup file system mounted",
            "qoslet cannot create cgroups; plan and explain work",
            "mount cgroup2 on /sys/fs/cgroup, or use run --simulate",
        )
        return
    text = {
        "v1": "cgroup v1",
        "hybrid": "cgroup v1, with cgroup v2 mounted too (hybrid)",
        "v2": "cgroup v2",
    }[machine.layout]
    yield DoctorFinding("hierarchy", "ok", text)
    if machine.layout != "v2":
        yield DoctorFinding(
            "Memory QoS",
            "missing",
            "needs cgroup v2",
            "no memory.min, memory.low, memory.high; kubelets since 1.35 reject cgroup v1",
            "boot with systemd.unified_cgroup_hierarchy=1",
        )
        return
    for option, cost in (
        ("nsdelegate", "a cgroup namespace can move processes across its boundary"),
        (
            "memory_recursiveprot",
            "memory.min and memory.low protect only the cgroup they are set on",
        ),
    ):
        if option in machine.options:
            yield DoctorFinding(option, "ok", "mount option set")
        else:
            yield DoctorFinding(
                option, "missing", "not a mount option", cost, f"remount with {option}"
            )


def _controllers(machine: Machine) -> Iterator[DoctorFinding]:
    for name in (*_NEEDED, "hugetlb"):
        bound = machine.bound(name)
        topic = f"controller {name}"
        if bound is None:
            yield DoctorFinding(
                topic,
                "missing",
                "bound nowhere",
                _COST[name],
                f"check /proc/cgroups, and the kernel command line for cgroup_disable={name}",
            )
        else:
            yield _controller(topic, bound)


def _controller(topic: str, bound: Controller) -> DoctorFinding:
    place = f"{bound.hierarchy} at {bound.where}"
    if bound.delegated is False:
        return DoctorFinding(
            topic,
            "missing",
            f"{place}, not delegated to this cgroup",
            _COST[bound.name],
            "start with systemd-run --user -p Delegate=yes, or enable it in cgroup.subtree_control of every ancestor",
        )
    if bound.writable is False:
        return DoctorFinding(
            topic,
            "missing",
            f"{place}, not writable",
            _COST[bound.name],
            "run as root, or give a delegated cgroup with --cgroup-root",
        )
    return DoctorFinding(topic, "ok" if bound.writable else "unknown", place)


def _rights(machine: Machine) -> Iterator[DoctorFinding]:
    who = "root" if machine.user == 0 else f"user {machine.user}"
    own = next(iter(machine.own_cgroup.values()), None)
    yield DoctorFinding("user", "ok", f"{who}, in cgroup {own or 'unknown'}")
    if machine.capabilities is None:
        yield DoctorFinding("CAP_SYS_RESOURCE", "unknown", "capabilities cannot be read")
    elif "CAP_SYS_RESOURCE" not in machine.capabilities:
        yield DoctorFinding(
            "CAP_SYS_RESOURCE",
            "missing",
            "not held",
            "the kernel rejects a negative oom_score_adj; pressure triggers need windows of 2 s",
            "run as full root",
        )
    else:
        yield DoctorFinding("CAP_SYS_RESOURCE", "ok", "held")
    if machine.read_only:
        yield DoctorFinding(
            "cgroup mount",
            "missing",
            "mounted read-only",
            "qoslet cannot create cgroups",
            "in a container, run it privileged or mount the host's cgroup file system read-write",
        )


_MILESTONES = (
    ((5, 2), "cgroup.freeze", "a pod cannot be frozen before it is killed"),
    ((5, 6), "hugetlb on v2", "no huge page limits"),
    ((5, 7), "memory_recursiveprot", "memory.min and memory.low protect one level only"),
    (
        (5, 8),
        "cpu.stat in every cgroup",
        "CPU usage of v2 cgroups without the cpu controller is unknown",
    ),
    ((5, 9), "reclaim at memory.high", "a process above memory.high can hang forever"),
    ((5, 14), "cgroup.kill", "qoslet kills cgroups process by process"),
    ((5, 19), "memory.reclaim", "the guard cannot reclaim memory before it raises a limit"),
)


def _kernel(machine: Machine) -> Iterator[DoctorFinding]:
    text = machine.probed.kernel
    if text is None:
        yield DoctorFinding("kernel", "unknown", "its version cannot be read")
        return
    version = kernel_version(text)
    yield _judged(machine, text, version)
    for since, what, cost in _MILESTONES:
        if version is not None and version < since and machine.layout == "v2":
            release = ".".join(map(str, since))
            yield DoctorFinding(what, "missing", f"since {release}", cost, f"use Linux {release}")


def _judged(machine: Machine, text: str, version: tuple[int, ...] | None) -> DoctorFinding:
    """The version against the newest one that anything here needs."""
    if machine.layout != "v2":
        return DoctorFinding("kernel", "ok", f"{text}, new enough for cgroup v1")
    newest = max(since for since, _, _ in _MILESTONES)
    if version is None:
        return DoctorFinding("kernel", "unknown", f"{text}, not a version that can be compared")
    if version >= newest:
        return DoctorFinding("kernel", "ok", f"{text}, has all that qoslet uses of cgroup v2")
    release = ".".join(map(str, newest))
    if version < (5, 8):
        return DoctorFinding(
            "kernel",
            "missing",
            f"{text}, older than 5.8",
            "kubelets warn of it; the lines below say what is missing",
            f"use Linux {release} or later",
        )
    return DoctorFinding(
        "kernel", "ok", f"{text}, has what a kubelet needs; the lines below are missing"
    )


def _protection(machine: Machine) -> Iterator[DoctorFinding]:
    """What reclaim makes of memory.low. Source: mm/vmscan.c, ``shrink_one`` and
    ``shrink_node_memcgs``; ``bench.memory.protection`` on Linux 6.12 with either."""
    if machine.layout != "v2" or machine.bound("memory") is None:
        return
    if not machine.lru_gen:
        yield DoctorFinding("memory.low", "ok", "reclaimed only if nothing else can be")
        return
    yield DoctorFinding(
        "memory.low",
        "missing",
        "weak, because the multi-gen LRU is on",
        "the second reclaim attempt ignores memory.low; memory.min holds",
        "echo n > /sys/kernel/mm/lru_gen/enabled",
    )


def _memory(machine: Machine) -> Iterator[DoctorFinding]:
    probed = machine.probed
    if probed.swap_controller is None:
        yield DoctorFinding("swap accounting", "unknown", "unknown, no cgroup shows it")
    elif probed.swap_controller:
        yield DoctorFinding("swap accounting", "ok", "swap can be limited")
    else:
        yield DoctorFinding(
            "swap accounting",
            "missing",
            "swap cannot be limited",
            "containers may swap without bound; LimitedSwap is not applied",
            "boot with swapaccount=1",
        )
    if probed.psi is None:
        yield DoctorFinding("PSI", "unknown", "/proc/pressure cannot be read")
    elif probed.psi:
        yield DoctorFinding("PSI", "ok", "pressure is measured")
    else:
        yield DoctorFinding(
            "PSI",
            "missing",
            "pressure is not measured",
            "qoslet detects stalls by events and reclaim only",
            "boot with psi=1",
        )
    if machine.dying is not None and machine.dying > 1000:
        yield DoctorFinding(
            "dying groups",
            "missing",
            f"{machine.dying} removed cgroups still hold memory",
            "each uses kernel memory until its pages are freed",
            "memory pressure frees them; look for pinned page cache or tmpfs",
        )


def _systemd(machine: Machine) -> Iterator[DoctorFinding]:
    probed = machine.probed
    if probed.systemd_runs is None:
        yield DoctorFinding("systemd", "unknown", "PID 1 cannot be read")
    elif not probed.systemd_runs:
        yield DoctorFinding(
            "systemd",
            "missing",
            "is not PID 1",
            "only the cgroupfs driver works",
            "nothing to do: qoslet chooses cgroupfs",
        )
    else:
        version = f"version {probed.systemd}" if probed.systemd else "version unknown"
        yield DoctorFinding("systemd", "ok", version)
        if machine.bus is False:
            yield DoctorFinding(
                "D-Bus",
                "missing",
                "cannot connect to systemd's bus",
                "the systemd driver does not work",
                "start dbus, or run as root",
            )


def _sizes(machine: Machine) -> Iterator[DoctorFinding]:
    probed = machine.probed
    page = probed.page_size
    yield DoctorFinding(
        "page size", "ok" if page else "unknown", f"{page} bytes" if page else "unknown"
    )
    if probed.hugepages is None:
        yield DoctorFinding("hugepages", "unknown", "sizes cannot be read")
    else:
        sizes = [binary(size) for size in probed.hugepages]
        yield DoctorFinding("hugepages", "ok", ", ".join(sizes) or "none")
    limit = probed.pid
    yield DoctorFinding("process limit", "ok" if limit else "unknown", str(limit or "unknown"))
