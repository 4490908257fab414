"""Something that the reader of a plan or a document should know."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

from msgspec import Struct

Severity = Literal["error", "warning", "info"]
GRAVEST_FIRST: Final[tuple[Severity, ...]] = ("error", "warning", "info")


class ProblemCode(Enum):
    """What code decides by; sentences are for people."""

    OTHER = "Other"
    NODE_AMONG_PODS = "NodeAmongPods"
    """A Node or kubelet configuration in the input of pods."""
    POD_NOT_ADMITTED = "PodNotAdmitted"
    """A manager of the node would not admit the pod; the node itself is sound."""
    KUSTOMIZATION = "Kustomization"
    """A kustomization in the input of pods: nothing renders it."""
    UNREAD_CONTAINERS = "UnreadContainers"
    """A custom resource whose containers are not read."""
    UNREAD = "Unread"
    """A manifest file or directory that cannot be read for now: its pods are unknown."""
    UNMET = "Unmet"
    """A ConfigMap or Secret of a pod that the input lacks."""
    UNGUARDED = "Unguarded"
    """Containers that may stall at memory.high where no guard acts."""


def plural(count: int, noun: str, ending: str = "s") -> str:
    """So many of something in a message: ``1 cgroup``, ``2 cgroups``."""
    return f"{count} {noun}{'' if count == 1 else ending}"


class Problem(Struct, frozen=True, gc=False):
    """Something to know about the plan: a quirk, an overcommit, a misfit, a trap."""

    severity: Severity
    where: str
    message: str
    hint: str
    code: ProblemCode = ProblemCode.OTHER
