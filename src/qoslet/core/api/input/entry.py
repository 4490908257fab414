"""A pod of a file among those of many files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.documents import FileOrder, run_document
from qoslet.core.api.owners import Claim, Workload
from qoslet.core.api.pod import Pod

Place = tuple[FileOrder, int]
"""Where a pod stands: its file, and its number in it."""


class Entry(Struct, frozen=True):
    """A pod of a file. ``document`` is what ``pod_reader.read`` takes; ``workload`` is whose
    template the pod stands for; ``claim`` is that of all but Pods with a name."""

    pod: Pod
    document: Mapping[str, Any]
    file: str
    place: Place
    workload: Workload | None = None
    claim: Claim | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The names that it wants, the first one most."""
        claim = self.claim
        if claim is None:
            return (self.pod.key,)
        from qoslet.core.api.input.namesakes import alternative

        return claim.wanted, f"{claim.namespace}/{alternative(claim)}"

    @property
    def identity(self) -> Claim | str:
        """Which object of the cluster it is or stands for."""
        return self.claim.identity if self.claim is not None else self.pod.key

    @property
    def precedence(self) -> tuple[object, ...]:
        """Sorts those that want one name: the first gets it."""
        if self.claim is None:
            return _PODS_FIRST, self.place
        from qoslet.core.api.input.namesakes import precedence

        return precedence(self.claim), self.place

    def named(self, name: str) -> Entry:
        """The same under a name."""
        if name == self.pod.name:
            return self
        from qoslet.core.api.input.namesakes import named

        pod = named(self.pod, name)
        return replace(self, pod=pod, document=run_document(self.document, pod, self.document))


_PODS_FIRST = (False, 0)
