"""What a guest is doing on its node, for surfaces."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.audit.events import FindingEvent
from qoslet.core.audit.finding import Finding
from qoslet.core.guest.policy import GuestPolicy
from qoslet.core.guest.rewrites import Contest
from qoslet.core.node.running_kubelet.pods_reading import PodSourceName
from qoslet.core.pressure.guard_report import NO_GUARD_REPORT, GuardReport
from qoslet.core.reconcile.journal import Key


class SourceStatus(Struct, frozen=True):
    """Where the pods are from; as in ``PodsReading``. ``age_seconds``: since it said so last, ``requests``: so
    many to an API server since the start."""

    name: PodSourceName
    place: str
    complete: bool = True
    reason: str = ""
    age_seconds: float = 0.0
    requests: int = 0


class HeldFile(Struct, frozen=True):
    """A file that holds a value of ours: ``before`` it held that, which ``writer`` had written (None:
    nobody is known to). ``reset_by``: what overwrites it, and when."""

    path: str
    file: str
    value: str
    before: str | None
    writer: str | None
    reset_by: str


class ContestedFile(Struct, frozen=True):
    """A file that another manager resets; ``retry_seconds`` until it is written again, None while it
    holds our value."""

    path: str
    file: str
    wanted: str
    contest: Contest
    retry_seconds: float | None
    reset_by: str


class GuestStatus(Struct, frozen=True):
    """One sync of a guest. ``findings`` are those that stand, ``compared`` the values that the last
    audit compared. ``writes``, ``rewrites``, ``resets`` and ``failures`` count since the start;
    ``missing`` counts planned files that are absent here."""

    node: str
    root: str
    driver: str
    hierarchy: str
    memory_qos: str
    policy: GuestPolicy
    pods: int
    source: SourceStatus
    findings: tuple[Finding, ...] = ()
    compared: int = 0
    held: tuple[HeldFile, ...] = ()
    contested: tuple[ContestedFile, ...] = ()
    waiting: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    missing: int = 0
    writes: int = 0
    rewrites: int = 0
    resets: int = 0
    failures: int = 0
    syncs: int = 0
    guard: GuardReport = NO_GUARD_REPORT


class GuestSync(Struct, frozen=True):
    """What happened in one sync: ``events`` of the audit, values ``written`` (with their files) and
    ``restored``, what went wrong and what is to be said. ``resets`` are files that another manager
    was found to have reset, with what they held."""

    summary: str
    events: tuple[FindingEvent, ...] = ()
    written: Mapping[Key, str] = {}
    restored: Mapping[Key, str] = {}
    resets: Mapping[Key, str] = {}
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
