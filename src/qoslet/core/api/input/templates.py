"""The pods that a template stands for."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.documents import Spot, run_document
from qoslet.core.api.ids import generated_uid
from qoslet.core.api.owners import Claim, Workload
from qoslet.core.api.pod import Pod
from qoslet.core.api.schema import PodShape, WorkloadSpecShape, shown
from qoslet.errors import BadInput

EXPANDED_MAX = 10_000
"""Pods that ``expand`` makes at most, from all documents together."""

_ONE = ("DaemonSet", "CronJob", "PodTemplate")
"""Kinds that say nothing of a number of pods."""


def surroundings(
    kind: str, spec: WorkloadSpecShape, template: PodShape, path: str
) -> tuple[tuple[str, ...] | None, tuple[FieldFault, ...]]:
    """The volumes that a workload adds to its template, None where that is not known, and its own
    faults. Of a custom resource (``kind`` empty) only its controller knows."""
    if not kind:
        return None, ()
    from qoslet.core.api.validation.workloads import around_template

    return around_template(kind, spec, template, path)


class Template(Struct, frozen=True):
    """A template that is read; its pods go behind the first ``after`` of the plain ones. ``path``
    is where it stands in the document; ``claim`` is the owner's."""

    after: int
    workload: Workload
    pod: Pod
    spec: WorkloadSpecShape
    raw: Any
    spot: Spot
    path: str
    claim: Claim

    def document(self, copy: Pod) -> dict[str, Any]:
        """The document of one of its pods."""
        inner = self.raw
        for step in self.path.split("."):
            inner = inner[step]
        return run_document(inner, copy, self.raw)

    def claim_of(self, copy: Pod) -> Claim:
        """What one of its pods is called after."""
        behind = copy.name.removeprefix(self.pod.name)
        return replace(self.claim, copy=behind) if behind else self.claim

    def copies(self, expand: bool, done: int) -> list[Pod]:
        """Its pods: one, or with ``expand`` as many as it asks for; ``done`` are those of other
        templates. Raises BadInput for a number that cannot be."""
        kind = "" if self.claim.group else self.workload.kind
        count = self.spec.parallelism if kind == "Job" else self.spec.replicas
        if kind in _ONE or count is None:
            count = 1
        where = f"{self.pod.where}: spec.{'parallelism' if kind == 'Job' else 'replicas'}"
        if count < 0:
            raise BadInput(f"{shown(str(count), 20)} is negative", where=where)
        pod = replace(self.pod, controller=(self.workload.kind, self.workload.name))
        if not expand:
            return [pod]
        if done + count > EXPANDED_MAX:
            message = f"{shown(str(count), 20)} is too many pods"
            hint = f"--expand creates at most {EXPANDED_MAX} pods; leave it out"
            raise BadInput(message, where=where, hint=hint)
        names = [f"{self.pod.name}-{index}" for index in range(count)]
        return [replace(pod, name=name, uid=generated_uid(pod.namespace, name)) for name in names]
