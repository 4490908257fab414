"""Templates that the input contains twice: as themselves and as the pods made from them.

``kubectl get all`` gives a Deployment, its ReplicaSets and their Pods. Pods are what runs, so
a template with living pods in the input is left out; one without them stands for what it
owns, so that a ReplicaSet next to its Deployment is left out too.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.annotations import is_static
from qoslet.core.api.schema import Metadata


class Workload(Struct, frozen=True, gc=False):
    """A template's owner by name."""

    kind: str
    namespace: str
    name: str


class Claim(Struct, frozen=True, gc=False):
    """The object for whose pod a name is wanted. ``copy`` is what ``expand`` puts behind the name.
    ``group`` is that of a custom resource. Only an object with a ``generateName`` has ``file`` and
    ``number``, its place among those of the file with the same one. ``first`` is the ordinal of a
    StatefulSet's first pod; it is no part of what the object is."""

    namespace: str
    name: str
    kind: str
    group: str = ""
    copy: str = ""
    file: str = ""
    number: int = -1
    first: int = 0

    @property
    def identity(self) -> Claim:
        """The same for every document of one object."""
        return replace(self, first=0) if self.first else self

    @property
    def wanted(self) -> str:
        """``namespace/name`` without namesakes."""
        return f"{self.namespace}/{self.name}{self.copy}"


def controller_of(meta: Metadata | None) -> Workload | None:
    """The controller that made an object. Source: metav1.GetControllerOf."""
    for owner in (meta and meta.owner_references) or ():
        if meta and owner.kind and owner.name and bytes(owner.controller) == b"true":
            return Workload(owner.kind, meta.namespace or "default", owner.name)
    return None


def maker_of(meta: Metadata) -> tuple[str, str] | None:
    """Kind and name of the controller that made an object."""
    maker = controller_of(meta) if meta.owner_references else None
    return (maker.kind, maker.name) if maker is not None else None


class Owners:
    """Collects who made what while documents are read, and tells afterwards."""

    def __init__(self) -> None:
        self._templates: dict[Workload, Workload | None] = {}
        self._makers: set[Workload] = set()
        self._alive: set[Workload] | None = None

    def saw_pod(self, meta: Metadata | None) -> None:
        """A pod that counts."""
        maker = controller_of(meta)
        if maker is not None:
            self._makers.add(maker)

    def saw_template(self, workload: Workload, meta: Metadata | None) -> None:
        """A template, with whoever controls it."""
        self._templates[workload] = controller_of(meta)

    @property
    def related(self) -> bool:
        """Whether anything seen was made by something else."""
        return bool(self._makers) or any(self._templates.values())

    @property
    def templates(self) -> Collection[Workload]:
        """The templates seen."""
        return self._templates

    def join(self, other: Owners) -> None:
        """See what ``other`` has seen, too."""
        self._templates |= other._templates
        self._makers |= other._makers
        self._alive = None

    def left_out(self, workload: Workload) -> str:
        """Why the template does not count; empty where it does."""
        parent = self._templates.get(workload)
        if parent is not None and parent in self._templates:
            return f"left out: {parent.kind} {parent.name} owns it and is in the input"
        if self._alive is None:
            self._alive = self._above()
        if workload in self._alive:
            return "left out: its pods are in the input"
        return ""

    def _above(self) -> set[Workload]:
        """Every template above a pod that counts."""
        waiting, alive = list(self._makers), set[Workload]()
        while waiting:
            each = waiting.pop()
            parent = self._templates.get(each)
            if parent is not None and parent not in alive:
                waiting.append(parent)
            alive.add(each)
        return alive


def was_changed(meta: Metadata, annotations: dict[str, str]) -> bool | None:
    """Whether the pod's spec was changed since it was created; None where that is not told."""
    if is_static(annotations):
        return False
    count = meta.generation
    # a deletion counts as one. Source: apiserver registry/rest/delete.go BeforeDelete
    created = 2 if meta.deletion_timestamp else 1
    return count > created if isinstance(count, int) and count else None
