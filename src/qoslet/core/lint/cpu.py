"""Traps of CPU requests and limits."""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.api.pod import Container
from qoslet.core.lint.rule import LintPlace, NodeSubject, PodSubject, Text, node_rule, pod_rule
from qoslet.core.quantity import ZERO, canonical

_LEAST_QUOTA = 1_000_000
"""The least quota that a kubelet writes, 1000 us, in thousandths: divided by a period it is millicores."""
_MANY = 64_000
_TINY = 100


def _request(container: Container) -> int:
    return container.resources.requests.get("cpu", ZERO).milli


def _limit(container: Container) -> int:
    return container.resources.limits.get("cpu", ZERO).milli


def _written(container: Container) -> str:
    """Where the request is written: a limit alone is the request, too."""
    return "limits" if "cpu" in container.defaulted else "requests"


def _floor(subject: PodSubject) -> float:
    """Millicores of the least quota on that node."""
    return _LEAST_QUOTA / subject.policy.period_us


def _limited(subject: PodSubject) -> Iterator[tuple[Container, int]]:
    """The containers with a CPU limit that becomes a quota, and its millicores."""
    if subject.policy.node.kubelet.cpu_cfs_quota:
        yield from ((one, _limit(one)) for one in subject.pod.containers if _limit(one))


@pod_rule(
    "QL001",
    "warning",
    Text(
        "a CPU limit below the least quota",
        "The kubelet writes no quota below 1000 us, so with its usual period of 100 ms a limit below "
        "10m becomes 10m.",
        "Write at least 10m, or leave the limit out.",
        "kubelet MilliCPUToQuota (minQuotaPeriod)",
    ),
)
def quota_floor(subject: PodSubject) -> Iterator[LintPlace]:
    """Limits that the kubelet raises."""
    floor = _floor(subject)
    for one, limit in _limited(subject):
        if limit < floor:
            text = f"the limit {_shown(one, 'limits')} becomes {floor:.4g}m"
            yield LintPlace(f"{one.field}.resources.limits.cpu", text, one.name)


@pod_rule(
    "QL002",
    "warning",
    Text(
        "a CPU request whose weight vanishes",
        "Small requests all end at the least weight: among busy neighbours the container gets what "
        "one without a request gets.",
        "Request enough for a larger weight, or nothing.",
        "KEP-2254; kubelet MilliCPUToShares (MinShares); runtimes' shares to weight",
    ),
)
def weight_floor(subject: PodSubject) -> Iterator[LintPlace]:
    """Requests that get the least weight. An init container has no neighbour in its pod."""
    for one in subject.regular:
        weight = subject.value(one.name, "cpu.weight") or subject.value(one.name, "cpu.shares")
        least = "1" if subject.policy.v2 else "2"
        if weight == least and _request(one) > 0:
            text = f"the request {_shown(one, 'requests')} gives weight {least}, the least there is"
            yield LintPlace(f"{one.field}.resources.{_written(one)}.cpu", text, one.name)


@pod_rule(
    "QL003",
    "info",
    Text(
        "a CPU limit of a few milliseconds per period",
        "The limit counts in each period of 100 ms: after a few milliseconds of work the container "
        "stalls until the next one, probes and start included.",
        "Leave the limit out and request CPU instead, or raise it.",
        "sched-bwc.rst",
    ),
)
def tiny_limit(subject: PodSubject) -> Iterator[LintPlace]:
    """Limits below 100m."""
    floor, period = _floor(subject), subject.policy.period_us / 1000
    for one, limit in _limited(subject):
        if floor <= limit < _TINY:
            quota = limit * period / 1000
            text = f"{_shown(one, 'limits')} is {quota:.4g} ms of CPU in each {period:g} ms"
            yield LintPlace(f"{one.field}.resources.limits.cpu", text, one.name)


@pod_rule(
    "QL004",
    "info",
    Text(
        "no CPU request",
        "Without one the container has the least weight: when the node is busy it hardly runs.",
        "Request what it needs in the steady state.",
        "KEP-2254; kubelet MilliCPUToShares",
        missing=True,
    ),
)
def no_request(subject: PodSubject) -> Iterator[LintPlace]:
    """Containers of pods that request something, but no CPU."""
    if subject.qos == "BestEffort" or subject.pod.resources is not None:
        return
    for one in subject.regular:
        if not _request(one):
            yield LintPlace(f"{one.field}.resources.requests.cpu", "requests no CPU", one.name)


@pod_rule(
    "QL005",
    "error",
    Text(
        "whole CPUs where thousandths are meant",
        "500 is 500 CPUs; 500m is half of one.",
        "Write m behind thousandths.",
        "Kubernetes: resource units",
    ),
)
def without_m(subject: PodSubject) -> Iterator[LintPlace]:
    """Requests of more CPUs than machines usually have."""
    for one in subject.pod.containers:
        if _request(one) >= _MANY and not _request(one) % 1000:
            amount = _shown(one, "requests")
            text = f"requests {amount} CPUs: {amount}m is {amount} thousandths of one"
            yield LintPlace(f"{one.field}.resources.{_written(one)}.cpu", text, one.name)


@pod_rule(
    "QL006",
    "info",
    Text(
        "shared CPUs under the static policy",
        "The static CPU manager gives whole CPUs to Guaranteed pods only, and only for whole "
        "requests.",
        "Request whole CPUs, with equal limits.",
        "kubelet cm/cpumanager policy_static guaranteedCPUs",
    ),
)
def shared_cpus(subject: PodSubject) -> Iterator[LintPlace]:
    """Guaranteed containers with parts of a CPU on a node whose policy is static."""
    static = subject.policy.node.kubelet.cpu_manager_policy == "static"
    if not static or subject.qos != "Guaranteed":
        return
    for one in subject.regular:
        if _request(one) % 1000:
            text = f"{_shown(one, 'requests')} is a part of a CPU: it runs on shared CPUs"
            yield LintPlace(f"{one.field}.resources.requests.cpu", text, one.name)


@pod_rule(
    "QL007",
    "info",
    Text(
        "a CPU limit far above the request",
        "What lies between is not reserved: when neighbours are busy the container falls back to "
        "its request.",
        "Request what it needs under load.",
        "KEP-2254: weights follow requests",
    ),
)
def far_limit(subject: PodSubject) -> Iterator[LintPlace]:
    """Limits of more than ten times the request."""
    for one in subject.regular:
        if 0 < 10 * _request(one) < _limit(one):
            text = f"the limit {_shown(one, 'limits')} is over ten times the request {_shown(one, 'requests')}"
            yield LintPlace(f"{one.field}.resources.limits.cpu", text, one.name)


@node_rule(
    "QL008",
    "info",
    Text(
        "two curves from requests to weights",
        "The kubelet's weights of pods and the runtime's weights of containers follow different "
        "curves, so CPU between containers is not shared as between pods.",
        "Accept the difference, or use a runtime with the kubelet's curve (runc before 1.3.2, crun before 1.23).",
        "KEP-2254; opencontainers/cgroups ConvertCPUSharesToCgroupV2Value since 0.0.3",
    ),
)
def mixed_curves(subject: NodeSubject) -> Iterator[LintPlace]:
    """A runtime with the other curve."""
    if not subject.policy.v2:
        return
    rules = {
        (one.rule, one.writer)
        for cgroup in subject.cgroups.values()
        for one in cgroup.settings
        if one.file == "cpu.weight" and one.rule.startswith("cpu.weight.")
    }
    kubelet = {rule for rule, writer in rules if writer == "kubelet"}
    runtime = {rule for rule, writer in rules if writer == "runtime"}
    if kubelet and runtime and kubelet != runtime:
        name = subject.policy.runtime.name
        yield LintPlace("runtime", f"{name} makes weights by another curve than the kubelet")


def _shown(container: Container, kind: str) -> str:
    amounts = getattr(container.resources, kind)
    return canonical(amounts["cpu"])
