"""Rules for the kinds that carry a pod template.

Source: k8s.io/kubernetes pkg/apis/apps/validation/validation.go (ValidatePodTemplateSpecForReplicaSet,
ValidateDeploymentSpec, ValidateDaemonSetSpec, ValidateStatefulSetSpec), pkg/apis/batch/validation
(validateJobSpec), pkg/apis/core/validation (ValidateReplicationControllerSpec).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.schema import DECODE_ERRORS, NOTHING, PodShape, WorkloadSpecShape, shown
from qoslet.core.api.validation import names
from qoslet.core.api.validation.fields import Fields

_ALWAYS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController")
_JOBS = ("Job", "CronJob")


def around_template(
    kind: str, spec: WorkloadSpecShape, template: PodShape, path: str
) -> tuple[tuple[str, ...], tuple[FieldFault, ...]]:
    """The volumes that a workload adds to its template, which is at ``path``, and its own faults."""
    return _volumes_added(spec), tuple(_faults(kind, spec, template, path))


def _faults(kind: str, spec: WorkloadSpecShape, template: PodShape, path: str) -> list[FieldFault]:
    faults: list[FieldFault] = []
    inner = template.spec
    if inner is not None:
        policy = inner.restart_policy or "Always"
        place = f"{path}.spec.restartPolicy"
        if kind in _JOBS and policy == "Always":
            message = "is Always" if inner.restart_policy else "is missing, which means Always"
            faults.append(FieldFault(place, message, f"a {kind} needs OnFailure or Never"))
        elif kind in _ALWAYS and policy in ("OnFailure", "Never"):
            message = f"{policy} is not allowed for a {kind}"
            faults.append(FieldFault(place, message, "use Always, or a Job"))
        if kind in _ALWAYS and inner.active_deadline_seconds is not None:
            message = f"is not allowed for a {kind}"
            place = f"{path}.spec.activeDeadlineSeconds"
            faults.append(FieldFault(place, message, "remove it, or use a Job"))
    if kind in _ALWAYS and spec.selector is not NOTHING:
        labels = (template.metadata.labels if template.metadata else None) or {}
        _selector(spec.selector, labels, kind, faults)
    if kind == "StatefulSet" and spec.ordinals is not None:
        _count(spec.ordinals.start, "spec.ordinals.start", faults)
    if kind in _JOBS:
        _completions(kind, spec, faults)
    return faults


def _count(number: int | None, path: str, faults: list[FieldFault]) -> None:
    """A number of pods, which Kubernetes has 32 bits for."""
    if number is not None and not 0 <= number < 2**31:
        message = f"{shown(str(number), 20)} is {'negative' if number < 0 else 'too large'}"
        faults.append(FieldFault(path, message, f"give 0 to {2**31 - 1}"))


def _completions(kind: str, spec: WorkloadSpecShape, faults: list[FieldFault]) -> None:
    """How many pods of a Job are to complete, and whether they are numbered."""
    job = spec.job_template.spec if kind == "CronJob" and spec.job_template is not None else spec
    if job is None:
        return
    prefix = "spec.jobTemplate.spec" if kind == "CronJob" else "spec"
    _count(job.completions, f"{prefix}.completions", faults)
    mode = job.completion_mode
    if mode not in (None, "Indexed", "NonIndexed"):
        message = f"{shown(mode)!r} is unknown (known are Indexed, NonIndexed)"
        faults.append(FieldFault(f"{prefix}.completionMode", message, ""))
    elif mode == "Indexed" and job.completions is None:
        hint = "an indexed Job says how many pods complete it"
        faults.append(FieldFault(f"{prefix}.completions", "is missing", hint))


def _volumes_added(spec: WorkloadSpecShape) -> tuple[str, ...]:
    """The volumes that the claim templates of a StatefulSet add to its pods."""
    claims = spec.volume_claim_templates or ()
    names = (claim.metadata.name for claim in claims if claim.metadata is not None)
    return tuple(name for name in names if name)


def _selector(raw: Any, labels: Mapping[str, str], kind: str, faults: list[FieldFault]) -> None:
    """A selector must be well-formed and select the template's own labels."""
    try:
        value = msgspec.json.decode(raw)
    except DECODE_ERRORS as error:
        message = f"cannot be read: {shown(str(error))}"
        faults.append(FieldFault("spec.selector", message, "check the document's text"))
        return
    before = len(faults)
    given = Fields({"selector": value}, "spec", faults).inside("selector")
    if given is None:
        return
    plain = given if kind == "ReplicationController" else given.inside("matchLabels")
    wanted = {key: plain.text(key) for key in plain.value} if plain is not None else {}
    matches = all(labels.get(key) == text for key, text in wanted.items())
    for key, text in wanted.items():
        if plain is not None and not (names.is_qualified(key) and names.is_label_value(text)):
            plain.refuse(key, f"{shown(text)!r} is not a label", names.LABEL_VALUE_HINT)
    if kind != "ReplicationController":
        for expression in given.items("matchExpressions"):
            matches = _holds(expression, labels) and matches
    if len(faults) == before and not matches:
        hint = "give spec.template.metadata.labels what the selector asks for"
        message = "does not match the labels of the template"
        faults.append(FieldFault("spec.selector", message, hint))


def _holds(expression: Fields, labels: Mapping[str, str]) -> bool:
    """Whether the labels satisfy one requirement of a selector."""
    key = expression.need("key")
    expression.need("operator")
    operator = expression.choose("operator", ("In", "NotIn", "Exists", "DoesNotExist"))
    values = expression.texts("values")
    if operator in ("In", "NotIn") and not values:
        expression.refuse("values", "is missing or empty", f"{operator} needs values")
    if operator in ("Exists", "DoesNotExist") and values:
        expression.refuse("values", "is not allowed", f"remove it: {operator} has none")
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    return (key in labels) == (operator == "Exists")
