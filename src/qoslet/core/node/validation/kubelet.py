"""What must hold between the fields of a node, and what its owner should know about them.

A fault is a contradiction in the input itself. What only a kubelet would refuse at its start is
a problem: an error where a KubeletConfiguration was given, else a warning.
Source: kubelet apis/config/validation, cm validateNodeAllocatable, app run; facts of 1.36.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.api.pod import Quantities
from qoslet.core.node import fields as read
from qoslet.core.node.documents.kubelet_config import KubeletRead
from qoslet.core.node.faults import Faults, close_to, shown
from qoslet.core.node.host_facts import kernel_version
from qoslet.core.node.node import Node, allocatable, eviction_reservation, reserved
from qoslet.core.node.validation.managers import machine_cpus, misplaced_cpus, refused_managers
from qoslet.core.problem import Problem
from qoslet.core.quantity import canonical, total
from qoslet.core.versions import feature_gates


def memory_qos_on(node: Node) -> bool:
    """Whether Memory QoS is in force: asked for by variant, else by its gate."""
    if node.profile.memory_qos_forced:
        return node.profile.memory_qos != "off"
    return node.gate("MemoryQoS")


def faults_of(faults: Faults, node: Node, found: KubeletRead) -> None:
    """Contradictions between the fields of the input."""
    _enforcement(faults, node, found)
    _memory_qos(faults, node, found)
    _gate_names(faults, node, found)
    _above_capacity(faults, node, found)
    behavior = node.kubelet.swap_behavior
    if behavior == "UnlimitedSwap" and node.profile.choices.swap not in ("legacy", "1.28"):
        message = f"UnlimitedSwap exists in 1.22 to 1.29, not in {node.profile.kubernetes}"
        faults.add(found.where("memorySwap"), message, "use NoSwap or LimitedSwap")
    period = node.kubelet.cpu_cfs_quota_period_us
    if period != 100_000 and node.given_gate("CustomCPUCFSQuotaPeriod") is False:
        message = "needs the feature gate CustomCPUCFSQuotaPeriod, which is disabled"
        faults.add(found.where("cpuCFSQuotaPeriod"), message, "leave the period at 100ms")
    if found.unused.get("systemCgroups") and "cgroupRoot" not in found.origins:
        faults.add(found.where("systemCgroups"), "needs cgroupRoot", "set cgroupRoot")


def _enforcement(faults: Faults, node: Node, found: KubeletRead) -> None:
    """enforceNodeAllocatable with the fields that its options need."""
    kubelet, field = node.kubelet, "enforceNodeAllocatable"
    chosen = [option for option in kubelet.enforce_node_allocatable if option != "none"]
    if chosen and not kubelet.cgroups_per_qos and field in found.origins:
        message = f"{', '.join(chosen)} needs cgroupsPerQOS, which is disabled"
        faults.add(
            found.where(field),
            message,
            "set cgroupsPerQOS: true, or enforceNodeAllocatable: [none]",
        )
    for name, group, setting in (
        ("system-reserved", kubelet.system_reserved_cgroup, "systemReservedCgroup"),
        ("kube-reserved", kubelet.kube_reserved_cgroup, "kubeReservedCgroup"),
    ):
        using = [option for option in chosen if option.removesuffix("-compressible") == name]
        if using and not group:
            message = f"{using[0]} needs {setting}"
            faults.add(found.where(field), message, f"set {setting}, or remove the option")
        if group and kubelet.reserved_system_cpus:
            message = f"excludes {setting}"
            faults.add(found.where("reservedSystemCPUs"), message, "remove one of them")


def _memory_qos(faults: Faults, node: Node, found: KubeletRead) -> None:
    """The fields of Memory QoS with its gate; a variant that was asked for stands above both."""
    on, forced = memory_qos_on(node), node.profile.memory_qos_forced
    if node.kubelet.memory_reservation_policy == "TieredReservation" and not (on or forced):
        message = "TieredReservation needs the feature gate MemoryQoS"
        hint = "set featureGates: {MemoryQoS: true}"
        faults.add(found.where("memoryReservationPolicy"), message, hint)
    needs_none = node.profile.memory_qos in ("1.37", "qoslet", "off")
    factor_needed = node.profile.choices.throttling_factor is not None and not needs_none
    if found.null_factor and on and factor_needed:
        message = f"is null, but Memory QoS of {node.profile.kubernetes} needs a factor"
        faults.add(
            found.where("memoryThrottlingFactor"), message, "set a number above 0, at most 1"
        )


def _gate_names(faults: Faults, node: Node, found: KubeletRead) -> None:
    for name in node.kubelet.feature_gates:
        if faults.full:
            break
        if not feature_gates.is_known(name):
            hint = (
                close_to(name, feature_gates.gates()) or "Kubernetes 1.6 to 1.37 does not have it"
            )
            faults.add(
                found.where(f"featureGates.{name}"), f"{shown(name)} is not a feature gate", hint
            )


def _above_capacity(faults: Faults, node: Node, found: KubeletRead) -> None:
    """Reservations and given thresholds against the capacity; reserved CPUs against the machine."""
    for resource, message, by_default in _over(node, found):
        if not by_default:
            named = [f for f, q in _reservations(node) if resource in q and f in found.origins]
            if resource == "cpu" and node.kubelet.reserved_system_cpus:
                named.insert(0, "reservedSystemCPUs")
            where = found.where(named[0] if named else "evictionHard")
            probed = f"capacity.{resource}" in node.probed
            hint = (
                "the capacity comes from this machine; describe the node with --node"
                if probed
                else ""
            )
            faults.add(where, message, hint or "reserve less")
    numbers = read.cpus(node.kubelet.reserved_system_cpus) or set()
    for misplaced in misplaced_cpus(node):
        where = node.origin(misplaced.field.partition(".")[0])
        faults.add(where, misplaced.message, misplaced.hint)
    machine = machine_cpus(node)
    if machine and (wrong := sorted(cpu for cpu in numbers if cpu not in machine)):
        message = f"CPU {wrong[0]} does not exist"
        hint = "name CPUs of the machine"
        if "capacity.cpu" in node.probed:
            hint = "the CPUs are those of this machine; describe the node with --node"
        faults.add(found.where("reservedSystemCPUs"), message, hint)


def _reservations(node: Node) -> tuple[tuple[str, Quantities], ...]:
    kubelet = node.kubelet
    return ("kubeReserved", kubelet.kube_reserved), ("systemReserved", kubelet.system_reserved)


def _over(node: Node, found: KubeletRead) -> Iterator[tuple[str, str, bool]]:
    """Resource and message where more is held back than there is; the last item tells that
    only the default eviction threshold is too much."""
    held, evicted = reserved(node), eviction_reservation(node)
    for resource in {**held, **evicted}:
        if resource not in node.capacity:
            continue
        parts = [q[resource] for q in (held, evicted) if resource in q]
        capacity = node.capacity[resource]
        if total(parts) > capacity:
            said = " + ".join(canonical(part) for part in parts)
            kinds = " and ".join(
                kind
                for kind, q in (("reservations", held), ("hard eviction threshold", evicted))
                if resource in q
            )
            message = f"{resource}: {kinds} of {said} exceed the capacity {canonical(capacity)}"
            alone = resource in held and held[resource] > capacity
            yield resource, message, not alone and "evictionHard" not in found.origins


def problems_of(
    node: Node, found: KubeletRead, systemd_runs: bool | None, *, foreign: bool = False
) -> list[Problem]:
    """Everything to know about a valid node. ``systemd_runs`` None: not known. ``foreign``: the
    documents describe a node of another operating system, of which only the size counts."""
    problems = [*_gate_problems(node, found), *_refused(node, found)]
    if node.os == "linux":
        problems += [*_refused_linux(node, found, systemd_runs), *_kernel(node, found)]
        problems += _names(node, found)
        problems += lacking(node)
        if node.isolation is not None:
            message = "has no effect on a Linux node"
            problems.append(Problem("warning", "--isolation", message, "remove it"))
    elif not foreign:
        # imported for nodes with Windows
        from qoslet.core.node.validation.windows import windows_problems

        problems += windows_problems(node, found)
    return [*problems, *_status(node)]


def _refusal(node: Node, where: str, message: str, hint: str) -> Problem:
    refused = f"{message}: a kubelet refuses to start"
    return Problem(node.refusal, where, refused, hint)


def _place(node: Node, field: str) -> str:
    """Where a field of the machine came from, for messages."""
    origin = node.origins.get(field, field)
    if origin == "assumed":
        return f"assumed: {field}"
    return f"this machine: {field}" if origin == "probed" else origin


def _gate_problems(node: Node, found: KubeletRead) -> Iterator[Problem]:
    release = node.profile.kubernetes
    for name in node.kubelet.feature_gates:
        where = found.where(f"featureGates.{name}")
        if not feature_gates.known_in(name, node.profile.minor):
            message = f"{name} is a gate of {feature_gates.versions(name)}, unknown in {release}"
            yield Problem("warning", where, message, "remove it, or choose such a release")
    scaling = "InPlacePodLevelResourcesVerticalScaling"
    if node.gate(scaling) and not node.gate("PodLevelResources"):
        where = found.where("featureGates.PodLevelResources")
        hint = f"disable {scaling} too"
        yield _refusal(node, where, f"{scaling} needs PodLevelResources, which is disabled", hint)


def _refused(node: Node, found: KubeletRead) -> Iterator[Problem]:
    """What a kubelet of this release refuses, whatever its host."""
    kubelet, choices, release = node.kubelet, node.profile.choices, node.profile.kubernetes
    ungated = choices.qos_reserved_gate and not node.gate("QOSReserved")
    if kubelet.qos_reserved is not None and ungated:
        message = "needs the feature gate QOSReserved, which is disabled"
        hint = "set featureGates: {QOSReserved: true}"
        yield _refusal(node, found.where("qosReserved"), message, hint)
    unsure = not kubelet.cgroups_per_qos and "enforceNodeAllocatable" not in found.origins
    if unsure and kubelet.enforce_node_allocatable:
        message = "enforceNodeAllocatable is [pods] by default, which needs cgroupsPerQOS"
        hint = "set enforceNodeAllocatable: [none]"
        yield _refusal(node, found.where("cgroupsPerQOS"), message, hint)
    newer = [o for o in kubelet.enforce_node_allocatable if o.endswith("-compressible")]
    if newer and not choices.compressible:
        message = f"{newer[0]} does not exist in {release}"
        hint = newer[0].removesuffix("-compressible")
        yield _refusal(node, found.where("enforceNodeAllocatable"), message, f"use {hint}")
    if kubelet.cpu_cfs_quota_period_us != 100_000 and not node.gate("CustomCPUCFSQuotaPeriod"):
        message = "a period other than 100ms needs the feature gate CustomCPUCFSQuotaPeriod"
        hint = "set featureGates: {CustomCPUCFSQuotaPeriod: true}"
        yield _refusal(node, found.where("cpuCFSQuotaPeriod"), message, hint)
    for _, message, by_default in _over(node, found):
        if by_default:
            yield _refusal(node, found.where("evictionHard"), message, "set evictionHard")
    yield from _refused_policies(node, found)
    if node.profile.runtime.cri == "docker" or node.profile.minor <= 23:
        # imported for releases and runtimes of then
        from qoslet.core.node.dockershim import dockershim_problems

        yield from dockershim_problems(node)


def _refused_policies(node: Node, found: KubeletRead) -> Iterator[Problem]:
    """Swap behaviour and CPU manager policy against what they need."""
    kubelet, choices = node.kubelet, node.profile.choices
    if kubelet.swap_behavior and choices.swap == "none":
        message = f"{node.profile.kubernetes} has no memorySwap"
        yield Problem("warning", found.where("memorySwap"), message, "remove it")
    elif kubelet.swap_behavior and not node.gate("NodeSwap"):
        message = "needs the feature gate NodeSwap, which is disabled"
        hint = "set featureGates: {NodeSwap: true}"
        yield _refusal(node, found.where("memorySwap"), message, hint)
    for wrong in refused_managers(node):
        top, _, option = wrong.field.partition(".")
        where = found.where(top) + (f".{option}" if option else "")
        yield _refusal(node, where, wrong.message, wrong.hint)


def host_refusals(node: Node) -> Iterator[Problem]:
    """What a kubelet of this release refuses of the host itself, whatever it is to run."""
    kubelet, choices, release = node.kubelet, node.profile.choices, node.profile.kubernetes
    where = _place(node, "host.hierarchy")
    if node.hierarchy == "v1" and choices.fail_cgroup_v1 and kubelet.fail_cgroup_v1:
        message = f"the host has cgroup v1, which {release} rejects by default"
        yield _refusal(node, where, message, "set failCgroupV1: false, or move the host to v2")
    if node.hierarchy == "v2" and not choices.cgroup_v2:
        yield _refusal(
            node, where, f"the host has cgroup v2, {release} supports only v1", "1.19 does"
        )
    if node.swap and kubelet.fail_swap_on and node.profile.minor >= 8:
        message = "the host has swap, and failSwapOn is true"
        yield _refusal(
            node, _place(node, "swap"), message, "set failSwapOn: false, or disable swap"
        )


def _refused_linux(node: Node, found: KubeletRead, systemd_runs: bool | None) -> Iterator[Problem]:
    """What a kubelet of this release refuses on this host."""
    kubelet = node.kubelet
    yield from host_refusals(node)
    if kubelet.single_process_oom_kill is False and node.hierarchy == "v1":
        message = "singleProcessOOMKill: false needs cgroup v2"
        yield _refusal(node, found.where("singleProcessOOMKill"), message, "remove it")
    if node.driver == "systemd" and systemd_runs is False:
        place = _place(node, "driver")
        message = "the systemd driver needs systemd as PID 1"
        if "host.hierarchy" in node.probed:
            hint = "this machine has none; describe the node with --node"
            yield Problem("warning", place, message, hint)
        else:
            yield _refusal(node, place, message, "set host.systemd, or use the cgroupfs driver")


def _kernel(node: Node, found: KubeletRead) -> Iterator[Problem]:
    """What the hierarchy and the kernel make of Memory QoS, and what an override does."""
    kernel = kernel_version(node.host.kernel)
    place = _place(node, "host.kernel")
    if node.hierarchy == "v2" and kernel is not None and kernel < (5, 8):
        message = f"kernel {shown(node.host.kernel)} has no cpu.stat in the root cgroup"
        yield Problem("warning", place, message, "cgroup v2 needs kernel 5.8 or later")
    if not memory_qos_on(node) or node.profile.memory_qos == "off":
        if node.profile.memory_qos_forced and "memoryReservationPolicy" in found.origins:
            message = f"has no effect: {node.origin('memoryQos')} disables Memory QoS"
            yield Problem("info", found.where("memoryReservationPolicy"), message, "")
        yield from _idle_factor(node, found)
        return
    if node.hierarchy == "v1":
        where = node.origin("memoryQos")
        if not node.profile.memory_qos_forced:
            where = found.where("featureGates.MemoryQoS")
        message = "Memory QoS has no effect on cgroup v1"
        yield Problem("warning", where, message, "move the host to cgroup v2")
    elif kernel is not None and kernel < (5, 9):
        message = f"processes can hang at memory.high on kernel {shown(node.host.kernel)}"
        yield Problem("warning", place, message, "Memory QoS needs kernel 5.9 or later")
    if node.hierarchy == "v2":
        yield from _lost(node)


def _idle_factor(node: Node, found: KubeletRead) -> Iterator[Problem]:
    """A throttling factor, other than the default that every configz shows, without Memory QoS."""
    field, given = "memoryThrottlingFactor", node.kubelet.memory_throttling_factor
    usual = (node.profile.choices.throttling_factor, 0.9)
    if field in found.origins and given is not None and given not in usual:
        message = "has no effect: the feature gate MemoryQoS is disabled"
        if node.profile.memory_qos_forced:
            message = f"has no effect: {node.origin('memoryQos')} disables Memory QoS"
        yield Problem("info", found.where(field), message, "")


def _lost(node: Node) -> Iterator[Problem]:
    """What Memory QoS loses on a host that lacks something."""
    if node.host.psi is False:
        message = "the kernel has no PSI: qoslet detects a stall at memory.high only from reclaim, not from waiting times"
        yield Problem("info", _place(node, "host.psi"), message, "boot with psi=1")


def lacking(node: Node) -> Iterator[Problem]:
    """What the host lacks of the files that are to be written."""
    controllers = node.host.controllers
    pages = any(name.startswith("hugepages-") and q.nano for name, q in node.capacity.items())
    described = "host.controllers" not in node.probed and node.host.hugepage_sizes
    unlimited = controllers is not None and "hugetlb" not in controllers
    if node.host.may_lack_files or (unlimited and (pages or described)):
        # imported for few hosts
        from qoslet.core.node.validation.controllers import controller_problems

        on = memory_qos_on(node) and node.profile.memory_qos != "off"
        yield from controller_problems(node, memory_qos=on)


def _names(node: Node, found: KubeletRead) -> Iterator[Problem]:
    """Names that the systemd driver turns into others.

    Source: kubelet cm ToSystemd, ParseSystemdToCgroupName.
    """
    if node.driver != "systemd":
        return
    root, where = node.kubelet.cgroup_root, found.where("cgroupRoot")
    parts = root.strip("/").split("/") if root != "/" else []
    for part in parts:
        if part.endswith((".slice", ".service", ".scope")):
            hint = f"write {part.rpartition('.')[0]}"
            yield Problem("warning", where, f"{part} becomes the unit {part}.slice", hint)
        if "_" in part:
            message = f"systemd reads back the _ of {part} as -"
            yield Problem("warning", where, message, "use - instead")
        if not part:
            message = "an empty part of the name is not a unit"
            yield _refusal(node, where, message, "write each / once")
    for field, name in (
        ("kubeReservedCgroup", node.kubelet.kube_reserved_cgroup),
        ("systemReservedCgroup", node.kubelet.system_reserved_cgroup),
    ):
        above, _, last = name.rstrip("/").rpartition("/")
        if above:
            message = f"the systemd driver uses only {last} of {name}"
            hint = "give only the slice; its name contains its parents"
            yield Problem("warning", found.where(field), message, hint)
        if last.endswith((".service", ".scope")):
            message = f"{last} becomes the unit {last}.slice"
            yield Problem("warning", found.where(field), message, "name a slice")


def _status(node: Node) -> Iterator[Problem]:
    """Where the API's Node says something else than these numbers give."""
    computed = allocatable(node)
    for name, said in node.status_allocatable.items():
        if name in computed and computed[name].nano != said.nano:
            origin = node.origins.get(f"capacity.{name}", "")
            where = origin.replace("status.capacity.", "status.allocatable.")
            message = f"the node reports {canonical(said)} allocatable {name}, these settings give {canonical(computed[name])}"
            hint = "give the node's KubeletConfiguration (kubectl get --raw …/configz)"
            if node.kubelet_given:
                yield Problem(
                    "warning", where or name, message, "is it the kubelet's configuration?"
                )
            else:
                yield Problem("info", where or name, message, hint)
