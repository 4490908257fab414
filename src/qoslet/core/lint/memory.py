"""Traps of memory requests, limits and Memory QoS."""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.api.memory_annotations import LINT_IGNORE
from qoslet.core.api.pod import Container
from qoslet.core.cgroup.interface_files import PROTECTION
from qoslet.core.lint.rule import LintPlace, PodSubject, Text, pod_rule
from qoslet.core.problem import plural
from qoslet.core.quantity import ZERO, binary, canonical
from qoslet.core.resources.cgroup_tree import key_of

_MIB = 1 << 20
_LEAST = 6 * _MIB
_NEAR = 10
"""A throttle that lies less than a tenth of the limit above the request."""


def _amount(container: Container, kind: str) -> int:
    found: int = getattr(container.resources, kind).get("memory", ZERO).value
    return found


@pod_rule(
    "QL020",
    "error",
    Text(
        "memory below a kibibyte",
        "A number alone is bytes, and m behind it means thousandths: 128m is less than a byte.",
        "Write Mi or M.",
        "Kubernetes: resource units",
    ),
)
def thousandths(subject: PodSubject) -> Iterator[LintPlace]:
    """Amounts that somebody wrote."""
    for one in subject.pod.containers:
        for kind in ("requests", "limits"):
            if kind == "requests" and "memory" in one.defaulted:
                continue
            given = getattr(one.resources, kind).get("memory")
            if given is not None and 0 < given.value < 1024:
                text = f"{canonical(given)} is at most {plural(given.value, 'byte')}"
                yield LintPlace(f"{one.field}.resources.{kind}.memory", text, one.name)


@pod_rule(
    "QL021",
    "warning",
    Text(
        "a memory limit in which nothing starts",
        "The runtime's own start runs inside the limit: below about 6 MiB it is killed before the "
        "program begins; CRI-O refuses less than 12 MiB.",
        "Give at least 16Mi.",
        "CRI-O minMemoryLimit; runc init in the container's cgroup",
    ),
)
def too_small(subject: PodSubject) -> Iterator[LintPlace]:
    """Limits below what a start needs."""
    for one in subject.pod.containers:
        if 1024 <= (limit := _amount(one, "limits")) < _LEAST:
            text = f"{binary(limit)} is less than the runtime needs to start a container"
            yield LintPlace(f"{one.field}.resources.limits.memory", text, one.name)


@pod_rule(
    "QL022",
    "warning",
    Text(
        "no memory limit",
        "A leak takes the whole node's memory, and the kernel may end a neighbour for it.",
        "Set a limit.",
        "cgroup-v2 memory.max; kubelet node-pressure eviction",
        missing=True,
    ),
)
def no_limit(subject: PodSubject) -> Iterator[LintPlace]:
    """Containers that nothing limits."""
    whole = subject.pod.resources
    if whole is not None and "memory" in whole.limits:
        return
    for one in subject.regular:
        if not _amount(one, "limits"):
            yield LintPlace(f"{one.field}.resources.limits.memory", "has no memory limit", one.name)


@pod_rule(
    "QL023",
    "info",
    Text(
        "no memory request",
        "The scheduler counts nothing for it, and under pressure the kubelet evicts first who is "
        "above its request.",
        "Request what it uses.",
        "kubelet eviction rankMemoryPressure",
        missing=True,
    ),
)
def no_request(subject: PodSubject) -> Iterator[LintPlace]:
    """Containers of pods that request something, but no memory."""
    if subject.qos == "BestEffort" or subject.pod.resources is not None:
        return
    for one in subject.regular:
        if not _amount(one, "requests"):
            yield LintPlace(
                f"{one.field}.resources.requests.memory", "requests no memory", one.name
            )


@pod_rule(
    "QL024",
    "info",
    Text(
        "a request that was copied from the limit",
        "Without a request the API server takes the limit: all of it is reserved on the node.",
        "Write the request that you mean.",
        "API server defaulting (SetDefaults_Pod)",
    ),
)
def copied_request(subject: PodSubject) -> Iterator[LintPlace]:
    """Requests that nobody wrote, in pods that are not Guaranteed for it."""
    if subject.qos == "Guaranteed":
        return
    for one in subject.pod.containers:
        if "memory" in one.defaulted:
            text = f"the request is the limit, {binary(_amount(one, 'limits'))}"
            yield LintPlace(f"{one.field}.resources.requests.memory", text, one.name)


@pod_rule(
    "QL025",
    "info",
    Text(
        "a memory limit far above the request",
        "Neighbours that do the same fill the node; then who is most above its request is evicted.",
        "Request what it uses under load.",
        "kubelet eviction rankMemoryPressure",
    ),
)
def overcommitted(subject: PodSubject) -> Iterator[LintPlace]:
    """Limits of more than four times the request."""
    for one in subject.regular:
        request, limit = _amount(one, "requests"), _amount(one, "limits")
        if 0 < 4 * request < limit:
            text = f"the limit {binary(limit)} is over four times the request {binary(request)}"
            yield LintPlace(f"{one.field}.resources.limits.memory", text, one.name)


@pod_rule(
    "QL026",
    "warning",
    Text(
        "all memory protected up to the limit",
        "memory.min is memory.max: nothing of the container is reclaimed for others, its page cache "
        "neither, so at the limit only its own cache goes.",
        "Request less than the limit, or annotate qoslet.dev/memory-protection: off.",
        "KEP-2570; cgroup-v2 memory.min",
    ),
)
def min_is_max(subject: PodSubject) -> Iterator[LintPlace]:
    """Hard protection of the whole limit."""
    for one in subject.regular:
        protected = subject.value(one.name, "memory.min")
        if protected not in (None, "0") and protected == subject.value(one.name, "memory.max"):
            text = f"memory.min and memory.max are both {binary(int(protected or 0))}"
            yield LintPlace(f"{one.field}.resources.requests.memory", text, one.name)


@pod_rule(
    "QL027",
    "warning",
    Text(
        "protection that an ancestor does not have",
        "memory.min and memory.low count up to what every cgroup above protects.",
        "Enforce pods (enforceNodeAllocatable) with a release that writes it above, or do without.",
        "cgroup-v2 memory.min: overcommitment",
    ),
)
def without_ancestors(subject: PodSubject) -> Iterator[LintPlace]:
    """Claims that are worth less on a full node."""
    for one in subject.regular:
        cgroup = subject.cgroups.get(one.name)
        standing = None if cgroup is None else subject.standings.get(key_of(cgroup))
        for file in PROTECTION if standing is not None else ():
            if standing is not None and standing.lost(file):
                kept, claimed = standing.kept(file), standing.claimed(file)
                text = f"{file} {binary(claimed)} is worth {binary(kept)} on a full node"
                yield LintPlace(f"{one.field}.resources.requests.memory", text, one.name)


@pod_rule(
    "QL028",
    "warning",
    Text(
        "throttled by design",
        "memory.high lies just above the request: the container is slowed as soon as it uses a "
        "little more than it asked for.",
        "Request less, raise the limit, or annotate qoslet.dev/memory-high.",
        "KEP-2570: memory.high",
    ),
)
def throttled(subject: PodSubject) -> Iterator[LintPlace]:
    """A throttle next to the request."""
    for one in subject.regular:
        high, request, limit = _high(subject, one), _amount(one, "requests"), _amount(one, "limits")
        if high is not None and limit and request < limit and high - request < limit // _NEAR:
            text = (
                f"memory.high {binary(high)} is {binary(max(0, high - request))} above the request"
            )
            yield LintPlace(f"{one.field}.resources.requests.memory", text, one.name)


@pod_rule(
    "QL029",
    "warning",
    Text(
        "a stall at memory.high is possible",
        "A program whose memory cannot be reclaimed stalls at memory.high for good instead of "
        "being ended at the limit.",
        "Run with qoslet run --guard act, allow swap, or annotate qoslet.dev/memory-high: max.",
        "KEP-2570 (livelock); cgroup-v2 memory.high",
    ),
)
def can_stall(subject: PodSubject) -> Iterator[LintPlace]:
    """A throttle below the limit, without swap."""
    for one in subject.regular:
        high, limit = _high(subject, one), _effective_limit(subject, one)
        swap = subject.value(one.name, "memory.swap.max")
        if high is not None and (limit is None or high < limit) and swap in (None, "0"):
            text = f"memory that cannot be reclaimed stalls the container at memory.high {binary(high)}"
            yield LintPlace(f"{one.field}.resources.limits.memory", text, one.name)


@pod_rule(
    "QL030",
    "error",
    Text(
        "an annotation that is refused",
        "A value that cannot be meant, or a container that the pod does not have: what the "
        "annotation asks for is not done, and the plan has an error.",
        "Write a value that the annotation takes.",
        "qoslet",
    ),
)
def refused_annotation(subject: PodSubject) -> Iterator[LintPlace]:
    """Annotations of qoslet with an error."""
    return _annotations(subject, "error")


@pod_rule(
    "QL031",
    "warning",
    Text(
        "an annotation that does nothing",
        "A name that qoslet does not know, or a place beside the pod template.",
        "Correct the name, or move it to the metadata of the template.",
        "qoslet",
    ),
)
def unknown_annotation(subject: PodSubject) -> Iterator[LintPlace]:
    """Annotations of qoslet without effect."""
    return _annotations(subject, "warning")


def _annotations(subject: PodSubject, severity: str) -> Iterator[LintPlace]:
    for one in subject.pod.memory.findings:
        if one.severity == severity and one.key != LINT_IGNORE:
            text = f"{one.message} ({one.hint})"
            yield LintPlace(f"metadata.annotations[{one.key}]", text)


def _effective_limit(subject: PodSubject, container: Container) -> int | None:
    """The memory.max that the container is written, which may be the pod's."""
    text = subject.value(container.name, "memory.max")
    return int(text) if text is not None and text.isdigit() else None


def _high(subject: PodSubject, container: Container) -> int | None:
    text = subject.value(container.name, "memory.high")
    return int(text) if text is not None and text.isdigit() else None
