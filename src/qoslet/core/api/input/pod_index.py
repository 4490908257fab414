"""What a controller writes into the pods that it numbers, for who runs them.

Source: kubernetes pkg/controller/statefulset (updateIdentity), pkg/controller/job
(addCompletionIndexAnnotation, addCompletionIndexEnvVariables), k8s.io/api apps/v1 and batch/v1
well-known labels. A pod's name is its hostname anyway.
"""

from __future__ import annotations

from typing import Any

_JOB_INDEX = "batch.kubernetes.io/job-completion-index"
_JOB_VARIABLE = "JOB_COMPLETION_INDEX"
_SET_INDEX = "apps.kubernetes.io/pod-index"
_SET_NAME = "statefulset.kubernetes.io/pod-name"


def with_index(document: dict[str, Any], index: int, *, is_job: bool) -> dict[str, Any]:
    """The document of the pod ``index`` of an indexed Job, else of a StatefulSet."""
    metadata = document["metadata"]
    labels = dict(metadata.get("labels") or {})
    if not is_job:
        labels |= {_SET_NAME: metadata["name"], _SET_INDEX: str(index)}
        return {**document, "metadata": {**metadata, "labels": labels}}
    annotations = {**(metadata.get("annotations") or {}), _JOB_INDEX: str(index)}
    metadata = {**metadata, "labels": labels | {_JOB_INDEX: str(index)}, "annotations": annotations}
    spec = dict(document["spec"])
    for name in ("containers", "initContainers"):
        if isinstance(spec.get(name), list):
            spec[name] = [_with_variable(container, index) for container in spec[name]]
    return {**document, "metadata": metadata, "spec": spec}


def _with_variable(container: Any, index: int) -> Any:
    """The container with its variable, unless it has one of this name or is none."""
    given = container.get("env") or [] if isinstance(container, dict) else None
    if not isinstance(given, list):
        return container
    if any(isinstance(row, dict) and row.get("name") == _JOB_VARIABLE for row in given):
        return container
    return {**container, "env": [*given, {"name": _JOB_VARIABLE, "value": str(index)}]}
