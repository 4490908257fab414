"""What a rule is, what it looks at, and the table of all of them.

Ids are never reused: a rule that goes leaves a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from qoslet.core.api.pod import Container, Pod, QosClass
from qoslet.core.plan.effective_memory import FullNodeCgroup
from qoslet.core.problem import Severity
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.core.resources.node_policy import NodePolicy


class LintPlace(Struct, frozen=True):
    """Where a rule fires: the field, what is wrong there, and the container that it is about."""

    field: str
    message: str
    container: str | None = None


class PodSubject(Struct, frozen=True):
    """A pod as it is planned. ``spec`` is the document's; ``cgroups`` are its own by container name,
    the pod's own by ``""``; ``described``: somebody described the node that it is for."""

    pod: Pod
    qos: QosClass
    policy: NodePolicy
    spec: Mapping[str, Any]
    cgroups: Mapping[str, Cgroup]
    standings: Mapping[str, FullNodeCgroup]
    described: bool

    @property
    def regular(self) -> tuple[Container, ...]:
        """The containers that run side by side: regular ones and sidecars."""
        return tuple(one for one in self.pod.containers if one.role in ("regular", "sidecar"))

    def raw(self, container: Container) -> Mapping[str, Any]:
        """The container as it is written."""
        kind, _, index = container.field.removeprefix("spec.").partition("[")
        listed = self.spec.get(kind) or []
        at = int(index.rstrip("]") or 0)
        found = listed[at] if at < len(listed) else {}
        return found if isinstance(found, Mapping) else {}

    def value(self, container: str, file: str) -> str | None:
        """What is planned for a file of a container; None where it is not written."""
        cgroup = self.cgroups.get(container)
        rows = () if cgroup is None else cgroup.settings
        return next((one.value for one in rows if one.file == file), None)


class NodeSubject(Struct, frozen=True):
    """A node whose KubeletConfiguration somebody gave, with the plan's upper cgroups by name."""

    policy: NodePolicy
    where: str
    cgroups: Mapping[str, Cgroup]


PodCheck = Callable[[PodSubject], Iterator[LintPlace]]
NodeCheck = Callable[[NodeSubject], Iterator[LintPlace]]


class LintRule(Struct, frozen=True):
    """``title`` names the trap, ``why`` says what happens, ``fix`` what to write instead, ``source``
    where it is from. One of the checks is set, but for the rule about suppressions."""

    id: str
    severity: Severity
    title: str
    why: str
    fix: str
    source: str
    pod: PodCheck | None = None
    node: NodeCheck | None = None
    windows: bool = False
    """Looks at Windows pods, and at no others."""
    missing: bool = False
    """Fires for what a document lacks, which a patch leaves to its base."""


SUPPRESSION = "QL000"
"""The id of findings about suppressions themselves."""
MODULES = ("cpu", "kubelet", "memory", "oom", "pods", "volumes", "windows")
"""The modules of this package that have rules."""

_RULES: dict[str, LintRule] = {}
_Check = TypeVar("_Check", bound=Callable[..., Iterator[LintPlace]])


class Text(Struct, frozen=True):
    """The words of a rule."""

    title: str
    why: str
    fix: str
    source: str
    windows: bool = field(default=False)
    missing: bool = field(default=False)


_SUPPRESSION = LintRule(
    SUPPRESSION,
    "warning",
    "a suppression that does not count",
    "The annotation names a rule that does not exist, or gives no reason: the finding stays.",
    "Write the rule and why it is meant: QL022: it is small.",
    "qoslet",
)


def pod_rule(id: str, severity: Severity, text: Text) -> Callable[[PodCheck], PodCheck]:
    """Register a check of pods."""

    def register(check: PodCheck) -> PodCheck:
        rule = LintRule(id, severity, *_words(text), pod=check)
        _add(replace(rule, windows=text.windows, missing=text.missing))
        return check

    return register


def node_rule(id: str, severity: Severity, text: Text) -> Callable[[NodeCheck], NodeCheck]:
    """Register a check of kubelet configurations."""

    def register(check: NodeCheck) -> NodeCheck:
        _add(LintRule(id, severity, *_words(text), node=check))
        return check

    return register


def rules() -> Mapping[str, LintRule]:
    """Every rule by its id, in the order of ids."""
    for name in MODULES:
        import_module(f"{__package__}.{name}")
    return dict(sorted({SUPPRESSION: _SUPPRESSION, **_RULES}.items()))


def _words(text: Text) -> tuple[str, str, str, str]:
    return text.title, text.why, text.fix, text.source


def _add(rule: LintRule) -> None:
    if rule.id in _RULES:
        raise ValueError(f"{rule.id} is there already")
    _RULES[rule.id] = rule
