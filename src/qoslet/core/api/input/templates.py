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
from qoslet.core.api.schema import JobShape, PodShape, WorkloadSpecShape, shown
from qoslet.errors import BadInput

EXPANDED_MAX = 10_000
"""Pods that ``expand`` makes at most, from all documents together."""

_ONE = ("DaemonSet", "PodTemplate")
"""Kinds that say nothing of a number of pods."""

_JOBS = {"Job": "spec.", "CronJob": "spec.jobTemplate.spec."}
"""Kinds that run pods to completion, and where they say how many."""


def surroundings(
    kind: str, spec: WorkloadSpecShape, template: PodShape, path: str
) -> tuple[tuple[str, ...] | None, tuple[FieldFault, ...]]:
    """The volumes that a workload adds to its template, None where that is not known, and its own
    faults. Of a custom resource (``kind`` empty) only its controller knows."""
    if not kind:
        return None, ()
    from qoslet.core.api.validation.workloads import around_template

    return around_template(kind, spec, template, path)


def numbered(claim: Claim, spec: WorkloadSpecShape) -> Claim:
    """The claim of a workload with the ordinal of its first pod, which a StatefulSet can choose."""
    if claim.kind != "StatefulSet" or claim.group or spec.ordinals is None:
        return claim
    return replace(claim, first=max(spec.ordinals.start or 0, 0))


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
        document = run_document(inner, copy, self.raw)
        index = self._index(copy)
        if index is None:
            return document
        # imported for pods that have an index
        from qoslet.core.api.input.pod_index import with_index

        return with_index(document, index, is_job=self._kind in _JOBS)

    def claim_of(self, copy: Pod) -> Claim:
        """What one of its pods is called after."""
        behind = copy.name.removeprefix(self.pod.name)
        return replace(self.claim, copy=behind) if behind else self.claim

    def copies(self, expand: bool, done: int) -> list[Pod]:
        """Its pods: one, or with ``expand`` as many as it asks for; ``done`` are those of other
        templates. Raises BadInput for a number that cannot be."""
        kind = self._kind
        job = self._job
        count = job.parallelism if kind in _JOBS else self.spec.replicas
        if kind in _ONE or count is None:
            count = 1
        field = f"{_JOBS[kind]}parallelism" if kind in _JOBS else "spec.replicas"
        where = f"{self.pod.where}: {field}"
        if count < 0:
            raise BadInput(f"{shown(str(count), 20)} is negative", where=where)
        pod = replace(self.pod, controller=(self.workload.kind, self.workload.name))
        if not expand:
            return [pod]
        if job.completions is not None:
            count = min(count, job.completions)
        if done + count > EXPANDED_MAX:
            message = f"{shown(str(count), 20)} is too many pods"
            hint = f"--expand creates at most {EXPANDED_MAX} pods; leave it out"
            raise BadInput(message, where=where, hint=hint)
        first = self.claim.first
        names = [f"{self.pod.name}-{index}" for index in range(first, first + count)]
        return [replace(pod, name=name, uid=generated_uid(pod.namespace, name)) for name in names]

    @property
    def _kind(self) -> str:
        """Its kind if that is one of Kubernetes' own."""
        return "" if self.claim.group else self.workload.kind

    @property
    def _job(self) -> JobShape:
        """What it says as a Job."""
        spec = self.spec
        if self._kind == "Job":
            return JobShape(spec.template, spec.parallelism, spec.completions, spec.completion_mode)
        inner = spec.job_template.spec if spec.job_template is not None else None
        return inner if self._kind == "CronJob" and inner is not None else JobShape()

    def _index(self, copy: Pod) -> int | None:
        """The ordinal of a StatefulSet's pod, the completion index of an indexed Job's."""
        is_job = self._job.completion_mode == "Indexed"
        if not is_job and self._kind != "StatefulSet":
            return None
        behind = copy.name.removeprefix(f"{self.pod.name}-")
        if behind == copy.name or not behind.isdecimal():
            return 0 if is_job else None
        return int(behind)
