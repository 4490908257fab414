"""What an audit finds: one row for each value, cgroup or process that is not as planned."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.problem import Severity

Verdict = Literal[
    "drift",
    "latent",
    "stale",
    "missing",
    "orphan",
    "foreign",
    "controller",
    "driver",
    "weights",
    "ineffective",
    "rounding",
    "pending",
]

MEANINGS: dict[Verdict, str] = {
    "drift": "a value differs from the plan",
    "latent": "systemd's property differs from the file, which a reload would change",
    "stale": "left by a feature, limit or driver that is no longer in use",
    "missing": "a planned cgroup, file or process is absent",
    "orphan": "the cgroup of a pod that the node does not have",
    "foreign": "a cgroup or process that no pod accounts for",
    "controller": "a controller is not enabled along the path",
    "driver": "the cgroups of the other cgroup driver",
    "weights": "cpu.weight from the other conversion of CPU shares",
    "ineffective": "memory protection that an ancestor does not have",
    "rounding": "the same value, rounded otherwise",
    "pending": "a change on its way",
}
"""Each verdict in a few words."""

SEVERITIES: dict[Verdict, Severity] = {
    "missing": "error",
    "controller": "error",
    "driver": "error",
    "rounding": "info",
    "pending": "info",
}
"""The severity of verdicts, where it is not a warning."""


class Doubt(Struct, frozen=True):
    """An earlier configuration of the kubelet, in ``told``, that explains a value of too few cgroups to be
    sure without the age of the kubelet. ``having`` are UIDs of the pods that have its values,
    ``lacking`` of those that have what is planned, ``differing`` of those with other values; ``is_default``: it is what kubelets have where nobody
    sets the field. ``follows``: at least three have other values, and all of them were created before, under a configuration that is sure."""

    told: str
    having: frozenset[str]
    lacking: frozenset[str]
    differing: frozenset[str]
    is_default: bool
    follows: bool = False


class Finding(Struct, frozen=True, kw_only=True):
    """One finding. ``file`` None: about the whole cgroup or a process. ``expected`` None: it must not
    be there; ``found`` None: it is absent. ``path`` is relative to the mount. ``reset_by``: what
    overwrites a value set by hand, and when. ``fix`` is the shell line that repairs it, None where
    none does."""

    verdict: Verdict
    name: str
    path: str
    message: str
    severity: Severity = "warning"
    unit: str | None = None
    pod: tuple[str, str] | None = None
    """Namespace and name."""
    container: str | None = None
    file: str | None = None
    expected: str | None = None
    found: str | None = None
    property_text: str | None = None
    """What systemd's property of the file says, as ``systemctl show`` prints it."""
    property_name: str | None = None
    writer: str | None = None
    is_earlier: bool = False
    """Whether an earlier configuration of the kubelet explains it."""
    doubt: Doubt | None = None
    may_have: tuple[str, ...] = ()
    """Who may have caused it."""
    reset_by: str | None = None
    rule: str | None = None
    because: str | None = None
    source: str | None = None
    fix: str | None = None
    hint: str = ""

    @property
    def key(self) -> tuple[str, str | None, str | None, str]:
        """What it is about, whatever was read there."""
        return self.path, self.file, self.expected, self.verdict

    @property
    def planned(self) -> str | None:
        """What the plan has of its file, None: nothing, and ``expected`` is the value of a new cgroup."""
        return self.expected if self.rule else None

    @property
    def counts(self) -> bool:
        """Whether the answer is no because of it."""
        return self.severity != "info"


class Unread(Struct, frozen=True):
    """A file that could not be read, and the reason; ``file`` empty: the cgroup itself."""

    path: str
    file: str
    error: str


class AuditReport(Struct, frozen=True):
    """``compared`` counts values that were read and compared, ``cgroups`` those that were seen."""

    compared: int
    cgroups: int
    findings: tuple[Finding, ...]
    unread: tuple[Unread, ...]
    notes: tuple[str, ...] = ()


def unlike(file: str | None, found: str | None, planned: str | None) -> str:
    """That a file has another value than the plan, None: the plan has none."""
    return f"{file} is {found}, {'not planned' if planned is None else f'planned {planned}'}"


def unexplained(file: str | None, found: str | None, planned: str | None) -> str:
    """The same where nothing explains it."""
    if planned is None:
        return f"{file} is {found}, but nothing on this node sets it here"
    return unlike(file, found, planned)


def pending(finding: Finding, message: str) -> Finding:
    """The finding as a change on its way, for which nothing is to be done."""
    return replace(finding, verdict="pending", severity="info", message=message, hint="", fix=None)
