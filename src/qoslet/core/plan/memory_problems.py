"""What to know about Memory QoS in a plan: values that are worth nothing, and traps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from qoslet.core.cgroup.interface_files import PROTECTION
from qoslet.core.plan.effective_memory import recursive
from qoslet.core.plan.memory_annotation_effects import without_effect
from qoslet.core.plan.totals import NodeTotals, TemplateSummary, bytes_of, filled, limit_of
from qoslet.core.problem import Problem, ProblemCode, plural
from qoslet.core.quantity import ZERO, binary
from qoslet.core.resources.cgroup_tree import Cgroup, Setting
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.pod_template import is_windows, without_copied_requests

_UNIFIED_SINCE = {"containerd": (1, 6), "cri-o": (1, 22)}
_NEAR = 50
"""A memory.high with less than one part in so many left below memory.max throttles too late."""


def memory_problems(
    policy: NodePolicy, node: str, totals: NodeTotals, upper: Sequence[Cgroup]
) -> Iterator[Problem]:
    """The rows about a node, ``node`` naming it, with its groups above the pods."""
    if policy.memory_qos == "off":
        return
    yield from _of_variant(policy, node, totals)
    yield from _levels(policy, totals, upper)
    for group in upper:
        yield from _walled(policy, group.name, group.settings)
    yield from _traps(policy, node, totals)
    yield from _runtime(policy, node)


_UNSTALLED = {
    "1.36": "use qoslet run --guard act; with a kubelet, set memoryThrottlingFactor: 1",
    "1.37": "use qoslet run --guard act; with a kubelet, leave memoryThrottlingFactor unset",
    "qoslet": "qoslet run resolves such a stall unless --guard or the pod disables it; a kubelet and qoslet apply do not",
}
"""Form to what helps against a stall, those with a default factor as 1.36."""


def _of_variant(policy: NodePolicy, node: str, totals: NodeTotals) -> Iterator[Problem]:
    """Traps of the variant of Memory QoS in force."""
    variant = policy.memory_qos
    if totals.throttled:
        yield Problem(
            "warning",
            node,
            f"{plural(totals.throttled, 'container')} with memory.high: one that outpaces reclaim stalls instead of being OOM-killed",
            _UNSTALLED.get(variant, _UNSTALLED["1.36"]),
            ProblemCode.UNGUARDED,
        )
    if variant == "1.36" and policy.reservation == "TieredReservation" and totals.soft:
        yield Problem(
            "warning",
            node,
            "memory.low of Burstable pods has no effect: kubepods has none, and every ancestor limits protection",
            "Kubernetes 1.37 also writes memory.low of kubepods (see --memory-qos 1.37)",
        )
    if variant in ("1.27", "1.36") and totals.best_effort:
        yield Problem(
            "info",
            node,
            "BestEffort containers get no memory.high: request and limit are equal (both unset)",
            "the kubelet deviates from KEP-2570; fixed in 1.37",
        )


def _levels(policy: NodePolicy, totals: NodeTotals, upper: Sequence[Cgroup]) -> Iterator[Problem]:
    """Groups above the pods that hold less than is claimed below them."""
    if not policy.node.kubelet.cgroups_per_qos:
        return
    known = {group.name: group for group in upper}
    pods = next((name for name in known if name.endswith("/kubepods")), "")
    for file in PROTECTION:
        claimed = totals.claims["Guaranteed", file]
        tiers = [bytes_of(known[f"{pods}/{tier}"].settings, file) or 0 for tier in _TIERS]
        tier = totals.claims["Burstable", file]
        yield from _held(policy, f"{pods}/burstable", file, tiers[0], tier)
        own = bytes_of(known[pods].settings, file) or 0
        yield from _held(policy, pods, file, own, claimed + sum(tiers))
        above = pods.rpartition("/")[0]
        while above and own:
            group = known.get(above)
            value = 0 if group is None else bytes_of(group.settings, file) or 0
            yield from _held(policy, above, file, value, own)
            if value < own:
                break
            above = above.rpartition("/")[0]


_TIERS = ("burstable", "besteffort")


def _held(policy: NodePolicy, name: str, file: str, held: int, claimed: int) -> Iterator[Problem]:
    """A group that holds ``held`` bytes while ``claimed`` are claimed below it."""
    if held >= claimed or (policy.memory_qos == "1.36" and file == "memory.low"):
        return
    if held:
        message = f"holds {binary(held)} of {binary(claimed)} that its children claim"
        hint = "each child gets a share, in proportion to the claim that it uses"
    else:
        message = f"is not set: {binary(claimed)} claimed below {name} has no effect"
        hint = "every ancestor limits protection; variant qoslet also writes the cgroup root"
        if policy.memory_qos == "qoslet":
            hint = (
                f"write it, or choose a cgroup root of one component: qoslet does not write {name}"
            )
    yield Problem("warning", f"{name}: {file}", message, hint)


def _walled(policy: NodePolicy, name: str, rows: Sequence[Setting]) -> Iterator[Problem]:
    """A group above the containers that may not use more than is never taken from it."""
    hard, most = bytes_of(rows, "memory.min"), bytes_of(rows, "memory.max")
    if hard and most is not None and filled(rows):
        whose = "what its children claim of it is"
        if recursive(policy.node.host):
            whose = "memory_recursiveprot gives it to all memory used below, which is"
        yield Problem(
            "warning",
            f"{name}: memory.min",
            f"{binary(hard)} is not below memory.max {binary(most)}: {whose} never reclaimed, not even page cache",
            "at the limit the kernel OOM-kills instead; lower the request or raise the limit",
        )


def _traps(policy: NodePolicy, node: str, totals: NodeTotals) -> Iterator[Problem]:
    if totals.filled:
        yield Problem(
            "warning",
            node,
            f"{plural(totals.filled, 'container')} with memory.min equal to memory.max; the kernel never reclaims their page cache, not even for their own pod",
            "a container that writes files is OOM-killed because of its cache (kubernetes PR 126485); variant qoslet leaves an eighth",
        )
    surplus = totals.claims["Burstable", "memory.low"]
    hard = policy.memory_qos in ("1.36", "1.37") and policy.reservation == "TieredReservation"
    if hard and surplus and recursive(policy.node.host):
        yield Problem(
            "info",
            node,
            f"memory.min of kubepods holds {binary(surplus)} more than its children claim: memory_recursiveprot gives that to all pods by usage, also to BestEffort pods",
            "Burstable pods cannot rely on it; variant qoslet claims no more than it promises",
        )
    unasked = policy.memory_qos == "qoslet" and not policy.node.profile.memory_qos_forced
    if unasked and policy.node.kubelet_given:
        yield Problem(
            "info",
            node,
            "Memory QoS is variant qoslet, because no Kubernetes release is given: a kubelet writes other values",
            f"for a kubelet's values, give its release: --kubernetes {policy.node.profile.kubernetes}",
        )
    if policy.memory_qos == "qoslet" and policy.reservation != "TieredReservation":
        yield Problem(
            "info",
            node,
            f"memoryReservationPolicy {policy.reservation}: variant qoslet protects no request",
            "remove the field, or set TieredReservation",
        )


def _runtime(policy: NodePolicy, node: str) -> Iterator[Problem]:
    runtime = policy.runtime
    since = _UNIFIED_SINCE.get(runtime.cri or "")
    if not runtime.unified:
        first = {"runc": "runc 1.0.0-rc93", "crun": "crun 0.15"}.get(runtime.oci, "a later version")
        hint = f"{first} is the first version that supports it"
        if runtime.cri == "docker":
            hint = "dockershim has no field for it: use containerd 1.6 or CRI-O 1.22"
        message = f"{runtime.name} ignores the unified map: Memory QoS does not reach containers"
        yield Problem("warning", node, message, hint)
    elif since is not None and runtime.cri_version < since:
        yield Problem(
            "warning",
            node,
            f"{runtime.name} ignores the unified map: Memory QoS does not reach containers",
            f"{runtime.cri} {'.'.join(map(str, since))} is the first version that supports it",
        )


def pod_memory_problems(policy: NodePolicy, template: TemplateSummary) -> Iterator[Problem]:
    """The rows about the memory of pods of one shape."""
    pod = without_copied_requests(policy, template.pod)
    written = tuple(chain(template.settings, *template.containers))
    for row in without_effect(policy, pod, template.qos, template.requests, written):
        yield replace(row, where=f"{template.where}: {row.where}")
    if policy.memory_qos == "off" or is_windows(policy, pod):
        return
    if not any(filled(rows) for rows in template.containers):
        yield from _walled(policy, template.where, template.settings)
    for container, rows in zip(pod.containers, template.containers, strict=True):
        high, limit = bytes_of(rows, "memory.high"), limit_of(rows, template.settings)
        if high is not None:
            request = container.resources.requests.get("memory", ZERO).value
            where = f"{template.where}: {container.field}: memory.high"
            yield from _high(where, request, high, limit)


def _high(where: str, request: int, high: int, limit: int | None) -> Iterator[Problem]:
    """A memory.high beside request and limit, bytes."""
    if high < request:
        yield Problem(
            "warning",
            where,
            f"{binary(high)} is below the request {binary(request)}: requested memory is throttled",
            "choose one above the request",
        )
    elif limit is not None and high >= limit:
        yield Problem(
            "info",
            where,
            f"{binary(high)} is never reached, because memory.max is {binary(limit)}",
            "give the container a memory limit, or annotate a memory-high below it",
        )
    elif limit is not None and (limit - high) * _NEAR < limit:
        yield Problem(
            "info",
            where,
            f"{binary(high)} leaves {binary(limit - high)} below memory.max {binary(limit)}: too little to reclaim before the limit, enough to stall",
            "use a lower factor, or no memory.high",
        )
