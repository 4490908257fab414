"""Findings about who else is on a machine, and about the parts that only some pods need.

Sources: kubelet cm/cgroup_manager_linux.go; Documentation/block/bfq-iosched.rst;
Documentation/admin-guide/cgroup-v2.rst "Device controller", "IO", "Namespace"; runtime-spec
config-linux.md "unified", runc since 1.0.0-rc93 (pull 2584), crun since 0.15 (pull 459).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qoslet.core.cgroup.names import given_root
from qoslet.core.cgroup.tree_owner import KUBELET, tree_owner
from qoslet.core.node.doctor.finding import DoctorFinding
from qoslet.core.node.machine import KUBELET_CONFIG, Machine, NodeProgram

_UNIFIED_SINCE = {"runc": (1, 0), "crun": (0, 15)}


def program_findings(
    machine: Machine, kubelet: Sequence[DoctorFinding] = (), audit: str = ""
) -> Iterator[DoctorFinding]:
    """Kubelets and what is known of one, container runtimes, agents, OCI runtimes. ``audit`` is the command that
    compares a kubelet's cgroups with its plan, where it can."""
    yield from _kubelets(machine, audit)
    yield from kubelet
    runtimes = [one for one in machine.programs if one.kind == "runtime"]
    if not runtimes:
        yield DoctorFinding("container runtime", "ok", "none found")
    for one in runtimes:
        yield _runtime(one)
    yield from _oci(machine)
    yield from runc_finding(machine.runc_fix)
    if machine.agents is None:
        yield DoctorFinding(
            "qoslet agents", "unknown", "root's state cannot be listed", remedy="use sudo"
        )
    else:
        yield _agents(machine.agents, machine.silent_roots)
    if machine.left_roots:
        yield DoctorFinding(
            "qoslet pods",
            "missing",
            f"no agent has those of --cgroup-root {', '.join(map(given_root, machine.left_roots))}",
            "no agent follows their manifests or repairs their values",
            "qoslet run DIR --keep with that root, or end them with qoslet release",
        )


def _agents(roots: Sequence[str], silent: Sequence[str]) -> DoctorFinding:
    """Those that run pods themselves by the option that names them, those beside a kubelet by its
    cgroup."""
    beside = [root for root in roots if tree_owner(root) == KUBELET]
    alone = ", ".join(given_root(root) for root in roots if root not in beside)
    said = [f"--cgroup-root {alone}"] if alone else []
    if beside:
        said.append(f"beside a kubelet at {', '.join(beside)}")
    said += [f"starting or ending at {root}" for root in silent]
    remedy = "what it does: qoslet agent --status" if beside else ""
    return DoctorFinding("qoslet agents", "ok", "; ".join(said) or "none found", remedy=remedy)


def _kubelets(machine: Machine, audit: str) -> Iterator[DoctorFinding]:
    kubelets = [one for one in machine.programs if one.kind == "kubelet"]
    trees = ", ".join(machine.kubelet_trees)
    if not kubelets and not trees:
        yield DoctorFinding("kubelet", "ok", "none found")
        return
    remedy = {
        True: f"plan for it: qoslet plan --node {KUBELET_CONFIG}",
        False: f"read {KUBELET_CONFIG} as root to plan for it",
        None: "give its configuration to qoslet plan with --node",
    }
    who = ", ".join(f"{one.name} (process {one.pid})" for one in kubelets) or "not running"
    yield DoctorFinding(
        "kubelet",
        "ok",
        f"{who}; {_place(trees, bool(audit))}",
        "qoslet run and apply leave these cgroups alone",
        f"compare them with its plan: {audit}" if audit else remedy[machine.kubelet_config],
    )


def _place(trees: str, asked: bool) -> str:
    if trees:
        return f"its pods are in {trees}"
    if asked:
        return "no /kubepods cgroup: cgroupRoot of its configuration says where its pods are"
    return "no /kubepods cgroup, its cgroupRoot may be another"


def _runtime(one: NodeProgram) -> DoctorFinding:
    process = f"process {one.pid}" if one.pid is not None else "no process seen"
    if not one.socket:
        return DoctorFinding(
            "container runtime", "ok", f"{one.name}, {process}, its socket is at no usual place"
        )
    value = f"{one.name}, {process}, {one.socket}"
    if one.usable:
        return DoctorFinding("container runtime", "ok", value)
    return DoctorFinding(
        "container runtime",
        "unknown",
        value,
        "this user may not use the socket: its containers cannot be seen",
        "run as root",
    )


def _oci(machine: Machine) -> Iterator[DoctorFinding]:
    if not machine.oci_programs:
        yield DoctorFinding("OCI runtime", "ok", "neither runc nor crun found")
    for one in machine.oci_programs:
        numbers = tuple(int(part) for part in one.version.split(".") if part.isdecimal())
        since = _UNIFIED_SINCE[one.name]
        if not numbers:
            yield DoctorFinding("OCI runtime", "unknown", f"{one.name}, its version cannot be read")
        elif numbers < since:
            needed = ".".join(map(str, since))
            yield DoctorFinding(
                "OCI runtime",
                "missing",
                f"{one.name} {one.version}, no unified map",
                "Memory QoS cannot set memory.min, memory.low or memory.high of containers",
                f"use {one.name} {needed} or later",
            )
        else:
            where = "" if machine.layout == "v2" else " on cgroup v2"
            yield DoctorFinding(
                "OCI runtime", "ok", f"{one.name} {one.version}, applies the unified map{where}"
            )


def runc_finding(fix: str) -> Iterator[DoctorFinding]:
    """The line about CVE-2024-21626, where there is something to say."""
    cost = "a container may reach the host's files through /proc/self/fd"
    remedy = "use runc 1.1.12 or later, or a package that has the fix"
    if fix == "missing":
        yield DoctorFinding(
            "runc CVE-2024-21626", "missing", "not fixed in this runc", cost, remedy
        )
    elif fix == "unknown":
        value = "cannot tell whether the package of this runc has the fix"
        yield DoctorFinding("runc CVE-2024-21626", "unknown", value, cost, remedy)


def feature_findings(machine: Machine) -> Iterator[DoctorFinding]:
    """The io controller with BFQ, device rules, cgroup namespaces."""
    yield from _io(machine)
    yield _devices(machine)
    if machine.cgroup_namespaces is None:
        yield DoctorFinding("cgroup namespaces", "unknown", "/proc/self/ns cannot be read")
    elif machine.cgroup_namespaces:
        yield DoctorFinding(
            "cgroup namespaces", "ok", "containers see their own cgroup as the root"
        )
    else:
        yield DoctorFinding(
            "cgroup namespaces",
            "missing",
            "not in this kernel",
            "containers see the cgroup paths of the host",
            "use Linux 4.6 or later with CONFIG_CGROUPS",
        )


def _io(machine: Machine) -> Iterator[DoctorFinding]:
    name = "io" if machine.layout == "v2" else "blkio"
    bound = machine.bound(name)
    if bound is None:
        yield DoctorFinding(
            f"controller {name}",
            "missing",
            "bound nowhere",
            "no I/O weights or limits; Kubernetes sets none",
            f"check the kernel command line for cgroup_disable={name}",
        )
        return
    yield DoctorFinding(f"controller {name}", "ok", f"{bound.hierarchy} at {bound.where}")
    if machine.bfq is None:
        yield DoctorFinding("BFQ", "unknown", "no block device shows its I/O scheduler")
    elif machine.bfq:
        yield DoctorFinding("BFQ", "ok", f"schedules {', '.join(machine.bfq)}")
    else:
        yield DoctorFinding(
            "BFQ",
            "missing",
            "schedules no block device",
            "I/O weights have no effect (on v2 unless io.cost is set up)",
            "echo bfq > /sys/block/DEVICE/queue/scheduler",
        )


def _devices(machine: Machine) -> DoctorFinding:
    if machine.layout != "v2":
        if machine.bound("devices") is not None:
            return DoctorFinding("device rules", "ok", "controller devices")
        return DoctorFinding(
            "device rules",
            "missing",
            "controller devices bound nowhere",
            "runc and crun cannot restrict the devices of containers",
            "check /proc/cgroups",
        )
    if machine.device_bpf is None:
        return DoctorFinding("device rules", "unknown", "the kernel's configuration cannot be read")
    if machine.device_bpf:
        return DoctorFinding("device rules", "ok", "eBPF (CONFIG_CGROUP_BPF)")
    return DoctorFinding(
        "device rules",
        "missing",
        "the kernel has no CONFIG_CGROUP_BPF",
        "runc and crun cannot restrict the devices of containers, and refuse to start them",
        "use a kernel with CONFIG_CGROUP_BPF=y",
    )
