"""What the pods of a node come to, for the rows about them: by shape, summed, and ranked.

Sums are integers: what is taken away leaves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field

from qoslet.core.api.pod import Pod, QosClass, Quantities
from qoslet.core.cgroup.interface_files import PROTECTION
from qoslet.core.quantity import counted
from qoslet.core.resources.cgroup_tree import Setting
from qoslet.core.resources.pod_template import PodTemplatePlan


class TemplateSummary(Struct, frozen=True, gc=False):
    """One shape: its first pod, how many pods have it, and what was planned for it."""

    pod: Pod
    count: int
    qos: QosClass
    requests: Quantities
    limits: Quantities
    settings: tuple[Setting, ...]
    containers: tuple[tuple[Setting, ...], ...]

    @classmethod
    def of(cls, pod: Pod, template: PodTemplatePlan, count: int) -> TemplateSummary:
        """``count`` pods of a shape, ``pod`` the first of them."""
        sums = template.sums
        rows = tuple([planned.settings for planned in template.containers])
        return cls(pod, count, template.qos, sums.requests, sums.limits, template.settings, rows)

    @property
    def where(self) -> str:
        """The first pod, and how many more."""
        more = f" (and {self.count - 1} more like it)" if self.count > 1 else ""
        return f"{self.pod.where}{more}"


class NodeTotals(Struct, gc=False):
    """All pods. Millicores and units.

    ``throttled`` counts containers with a memory.high that is met before a memory.max, ``filled``
    those with a memory.min that reaches their memory.max, ``soft`` Burstable pods with a memory
    request, ``best_effort`` BestEffort pods. ``claims`` are the bytes that pods claim, by class and file.
    """

    pods: int = 0
    requests: dict[str, int] = {}
    memory_limits: int = 0
    throttled: int = 0
    filled: int = 0
    soft: int = 0
    best_effort: int = 0
    claims: Counter[tuple[QosClass, str]] = field(default_factory=Counter)

    def add(self, template: TemplateSummary, sign: int = 1) -> None:
        """All pods of a shape; ``sign`` -1 takes them away."""
        count = sign * template.count
        self.pods += count
        for name, asked in template.requests.items():
            self.requests[name] = self.requests.get(name, 0) + count * counted(name, asked)
        if "memory" in template.limits:
            self.memory_limits += count * template.limits["memory"].value
        for rows in template.containers:
            high, limit = bytes_of(rows, "memory.high"), limit_of(rows, template.settings)
            self.throttled += count * (high is not None and (limit is None or high < limit))
            self.filled += count * filled(rows)
        for file in PROTECTION:
            claimed = bytes_of(template.settings, file)
            if claimed:
                self.claims[template.qos, file] += count * claimed
        self.soft += count * (template.qos == "Burstable" and "memory" in template.requests)
        self.best_effort += count * (template.qos == "BestEffort")

    def join(self, other: NodeTotals, times: int) -> None:
        """What ``times`` as many pods as the other has come to."""
        self.pods += times * other.pods
        for name, amount in other.requests.items():
            self.requests[name] = self.requests.get(name, 0) + times * amount
        self.memory_limits += times * other.memory_limits
        self.throttled += times * other.throttled
        self.filled += times * other.filled
        self.soft += times * other.soft
        self.best_effort += times * other.best_effort
        for key, amount in other.claims.items():
            self.claims[key] += times * amount

    @property
    def marks(self) -> tuple[object, ...]:
        """What decides whether there are rows about the node but for its room: what is claimed,
        and of all else whether there is any."""
        return (
            self.pods > 0,
            self.throttled > 0,
            self.filled > 0,
            self.soft > 0,
            self.best_effort > 0,
            tuple(self.claims.items()),
        )


def filled(rows: Sequence[Setting]) -> bool:
    """Whether a group's memory.min reaches its memory.max."""
    hard, most = bytes_of(rows, "memory.min"), bytes_of(rows, "memory.max")
    return hard is not None and most is not None and 0 < hard >= most


def limit_of(rows: Iterable[Setting], pod: Iterable[Setting]) -> int | None:
    """The lowest memory.max that a container meets, its own or its pod's, in bytes."""
    found = bytes_of(rows, "memory.max"), bytes_of(pod, "memory.max")
    return min((limit for limit in found if limit is not None), default=None)


def bytes_of(rows: Iterable[Setting], file: str) -> int | None:
    """The bytes that the kernel keeps of a file; None where it is not written or is no number."""
    for row in rows:
        if row.file == file:
            return int(row.applied) if row.applied.isdigit() else None
    return None


MOST_NAMED = 3
"""Shapes that a row about a sum names."""

_FEW = 8
"""Up to so many changes are put in their place; more are sorted in."""


class Part(Struct, frozen=True, order=True, gc=False):
    """What the pods of one shape ask for: ``count`` pods, of which ``pod`` is the first, as
    ``namespace/name``, with the UID ``uid``. Parts are in order of their amounts, the largest first."""

    negated_amount: int
    pod: str
    count: int
    uid: str

    @property
    def amount(self) -> int:
        """Millicores, or units of what is asked for."""
        return -self.negated_amount


class Largest:
    """The shapes that ask for most of a resource. ``summary`` gives what is known of a shape by its
    number, None for one that no pod has. Changes are ranked when somebody asks, so a node on which
    everything fits ranks nothing."""

    def __init__(self, summary: Callable[[int], TemplateSummary | None]) -> None:
        self._summary = summary
        self._changed: set[int] = set()
        self._parts: dict[int, dict[tuple[str, bool], Part]] = {}
        self._ranked: dict[tuple[str, bool], list[Part]] = {}

    def changed(self, shape: int) -> None:
        """Pods of a shape came, went or were renamed."""
        self._changed.add(shape)

    def gone(self, shape: int) -> None:
        """No pod has a shape any more."""
        (self._changed.add if shape in self._parts else self._changed.discard)(shape)

    def of(self, name: str, *, limits: bool = False) -> Sequence[Part]:
        """The largest requests for a resource, or limits of it; no empty ones."""
        self._rank()
        ranked = self._ranked.get((name, limits), [])
        return [part for part in ranked[:MOST_NAMED] if part.amount > 0]

    def _rank(self) -> None:
        place: Callable[[list[Part], Part], None] = list.append
        if self._parts:
            # imported for a second ranking: a plan has one
            from bisect import bisect_left, insort

            place = insort if len(self._changed) <= _FEW else list.append
            for shape in self._changed:
                for key, part in self._parts.pop(shape, {}).items():
                    ranked = self._ranked[key]
                    del ranked[bisect_left(ranked, part)]
        for shape in self._changed:
            summary = self._summary(shape)
            if summary is None:
                continue
            parts = self._parts[shape] = _parts(summary)
            for key, part in parts.items():
                place(self._ranked.setdefault(key, []), part)
        if place is list.append:
            for ranked in self._ranked.values():
                ranked.sort()
        self._changed.clear()


def _parts(summary: TemplateSummary) -> dict[tuple[str, bool], Part]:
    pod, count = summary.pod, summary.count
    return {
        (name, limits): Part(-count * counted(name, quantity), pod.key, count, pod.uid)
        for limits, quantities in ((False, summary.requests), (True, summary.limits))
        for name, quantity in quantities.items()
    }
