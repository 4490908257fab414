"""Rules for a pod: each field of its spec, and what holds between fields.

A text that passed a rule is remembered, since pods of one workload repeat most of it. The rules of
fields that few pods have are imported where one has them.

Source: ValidatePodSpec, validatePodMetadataAndSpec, validateContainers, validateInitContainers,
validateEphemeralContainers, validatePodHostNetworkDeps, validateHostUsers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from qoslet.core.api.container_resources import FieldFault, is_label, is_subdomain
from qoslet.core.api.schema import (
    DECODE_ERRORS,
    NOTHING,
    ContainerShape,
    PodShape,
    PodSpecShape,
    shown,
)
from qoslet.core.api.validation import containers as rules
from qoslet.core.api.validation.fields import (
    LABEL_HINT,
    SUBDOMAIN_HINT,
    Place,
    containers_of,
    remember,
)
from qoslet.core.api.validation.metadata import APPARMOR, LabelRules, apparmor

Rule = Callable[[Any, str, list[FieldFault]], None]

_RESTART = ("Always", "OnFailure", "Never")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_CHOICES = (
    ("restartPolicy", "restart_policy", _RESTART),
    ("dnsPolicy", "dns_policy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")),
    ("preemptionPolicy", "preemption_policy", ("PreemptLowerPriority", "Never")),
)
_CONTAINER_CHOICES = (
    ("restartPolicy", "restart_policy", _RESTART),
    ("imagePullPolicy", "image_pull_policy", ("Always", "IfNotPresent", "Never")),
    (
        "terminationMessagePolicy",
        "termination_message_policy",
        ("File", "FallbackToLogsOnError"),
    ),
)
_SUBDOMAINS = (
    ("priorityClassName", "priority_class_name"),
    ("runtimeClassName", "runtime_class_name"),
    ("serviceAccountName", "service_account_name"),
)
_EMPTY = {"podContext": b"{}", "securityContext": b"{}", **dict.fromkeys(_PROBES, b"null")}
"""What passes without a rule; for the others it is an empty array."""

_INT32_MAX = 2**31 - 1
_SPECS_MAX = 1024
"""Specs that are remembered; each keeps some KiB of text."""


_PIECES = (
    ("env", "env"),
    ("envFrom", "env_from"),
    ("livenessProbe", "liveness_probe"),
    ("ports", "ports"),
    ("readinessProbe", "readiness_probe"),
    ("resizePolicy", "resize_policy"),
    ("securityContext", "security_context"),
    ("startupProbe", "startup_probe"),
    ("volumeMounts", "volume_mounts"),
)
"""The fields of a container that have a rule, and where its shape keeps them."""

_SPEC_PLAIN = slice(PodSpecShape.__struct_fields__.index("containers"))
_SPEC_TEXTS = slice(PodSpecShape.__struct_fields__.index("volumes"), None)
_CONTAINER_PLAIN = slice(ContainerShape.__struct_fields__.index("image"))
_CONTAINER_TEXTS = slice(ContainerShape.__struct_fields__.index("lifecycle"), None)
_TOKEN_VOLUME = b"kube-api-access-"
_TOKEN_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789")
_TOKEN_LENGTH = len(_TOKEN_VOLUME) + 5


class PodRules:
    """Checks pods."""

    def __init__(self) -> None:
        self._passed: dict[str, set[bytes]] = {}
        self._specs: set[tuple[object, ...]] = set()
        self._labels = LabelRules()

    def check(self, shape: PodShape, place: Place) -> list[FieldFault]:
        """Every fault of the pod or template in what is not resources or a name."""
        faults: list[FieldFault] = []
        spec = shape.spec
        if spec is None:
            return faults
        self._metadata(shape, place.prefix, faults)
        _images(spec, place.prefix, faults)
        live = shape.status is not None
        signature = (live, place, *_signature(spec))
        if signature in self._specs:
            return faults
        found = self._check(spec, place, live=live)
        if found:
            faults += found
        else:
            remember(self._specs, signature, _SPECS_MAX)
        return faults

    def _check(self, spec: PodSpecShape, place: Place, *, live: bool) -> list[FieldFault]:
        """Everything that ``_signature`` tells apart."""
        faults: list[FieldFault] = []
        path = f"{place.prefix}spec"
        _plain(spec, path, faults, live=live)
        self._piece("volumes", spec.volumes, f"{path}.volumes", faults)
        self._piece("podContext", spec.security_context, f"{path}.securityContext", faults)
        self._piece("resourceClaims", spec.resource_claims, f"{path}.resourceClaims", faults)
        for field, container in containers_of(spec):
            self._container(container, f"{place.prefix}{field}", spec, faults)
        if _relates(spec):
            from qoslet.core.api.validation.relations import between

            between(spec, place, faults)
        return faults

    def _metadata(self, shape: PodShape, prefix: str, faults: list[FieldFault]) -> None:
        """Labels, annotations and the node selector."""
        meta, spec = shape.metadata, shape.spec
        if spec is not None and spec.node_selector:
            self._labels.labels(spec.node_selector, f"{prefix}spec.nodeSelector", faults)
        if meta is not None and meta.labels:
            self._labels.labels(meta.labels, f"{prefix}metadata.labels", faults)
        if meta is not None and meta.annotations:
            path = f"{prefix}metadata.annotations"
            self._labels.annotations(meta.annotations, path, faults)
            if spec is not None and any(key.startswith(APPARMOR) for key in meta.annotations):
                names = [container.name or "" for _, container in containers_of(spec)]
                faults += apparmor(meta.annotations, names, path)

    def _container(
        self,
        container: ContainerShape,
        path: str,
        spec: PodSpecShape,
        faults: list[FieldFault],
    ) -> None:
        """The fields of one container."""
        _choices(container, _CONTAINER_CHOICES, path, faults)
        for rule, attribute in _PIECES:
            raw = getattr(container, attribute)
            if raw is not NOTHING:
                self._piece(rule, raw, f"{path}.{rule}", faults)
        if container.lifecycle is not NOTHING:
            from qoslet.core.api.validation.handlers import lifecycle

            grace = spec.termination_grace_period_seconds
            value = msgspec.json.decode(container.lifecycle)
            lifecycle(value, f"{path}.lifecycle", faults, grace)

    def _piece(self, rule: str, raw: Raw, path: str, faults: list[FieldFault]) -> None:
        """Check a text by a rule unless it passed before."""
        if raw is NOTHING:
            return
        text = bytes(raw)
        passed = self._passed.get(rule)
        if passed is None:
            passed = self._passed[rule] = {b"null", _EMPTY.get(rule, b"[]")}
        if text in passed:
            return
        found: list[FieldFault] = []
        try:
            value = msgspec.json.decode(text)
        except DECODE_ERRORS as error:
            message = f"cannot be read: {shown(str(error))}"
            faults.append(FieldFault(path, message, "check the document's text"))
            return
        _rule(rule)(value, path, found)
        if found:
            faults += found
        else:
            remember(passed, text)


_COMMON: dict[str, Rule] = {
    "resourceClaims": rules.claim_names,
    "env": rules.env,
    "envFrom": rules.env_from,
    "ports": rules.ports,
    "resizePolicy": rules.resize_policy,
    "volumeMounts": rules.mounts,
}


def _rule(name: str) -> Rule:
    """The function of a rule; it checks a decoded value."""
    if name in _PROBES:
        from functools import partial

        from qoslet.core.api.validation.handlers import probe

        return partial(probe, name)
    if name == "volumes":
        from qoslet.core.api.validation.volumes import volumes

        return volumes
    if name in ("podContext", "securityContext"):
        from qoslet.core.api.validation import security

        return security.pod_context if name == "podContext" else security.container_context
    return _COMMON[name]


def _choices(
    shape: PodSpecShape | ContainerShape,
    fields: tuple[tuple[str, str, tuple[str, ...]], ...],
    path: str,
    faults: list[FieldFault],
) -> None:
    for name, attribute, known in fields:
        text = getattr(shape, attribute)
        if text and text not in known:
            message = f"{shown(text, 60)!r} is unknown"
            hint = f"known are {', '.join(known)}"
            faults.append(FieldFault(f"{path}.{name}", message, hint))


def _token_volume(text: bytes) -> bytes:
    """The first name of a token volume in a text; empty where there is none."""
    at = text.find(_TOKEN_VOLUME)
    while at >= 0:
        name = text[at : at + _TOKEN_LENGTH]
        if len(name) == _TOKEN_LENGTH and _TOKEN_LETTERS.issuperset(name[len(_TOKEN_VOLUME) :]):
            return name
        at = text.find(_TOKEN_VOLUME, at + 1)
    return b""


def _signature(spec: PodSpecShape) -> list[object]:
    """What tells a spec from others that all rules but those of images and labels treat alike. The
    name of the token volume differs from pod to pod; it is left out where it is that of a mount."""
    values = astuple(spec)
    name = b"" if spec.volumes is NOTHING else _token_volume(bytes(spec.volumes))
    found: list[object] = [values[_SPEC_PLAIN], spec.os.name if spec.os else None]
    # no JSON has these two bytes outside of its strings
    texts = b"\0".join(values[_SPEC_TEXTS])
    found.append(texts.replace(name, b"\1") if name else texts)
    for shapes in (spec.init_containers, spec.containers, spec.ephemeral_containers):
        found.append(None)
        for shape in shapes or ():
            values = astuple(shape)
            texts = b"\0".join(values[_CONTAINER_TEXTS])
            resources = bytes(shape.resources)
            found += (
                values[_CONTAINER_PLAIN],
                texts.replace(name, b"\1") if name else texts,
                resources if b"claims" in resources else b"",
            )
    return found


def _plain(spec: PodSpecShape, path: str, faults: list[FieldFault], *, live: bool) -> None:
    """The plain fields of a spec. An update may set ``activeDeadlineSeconds`` to 0, so a ``live``
    pod may have it."""
    _choices(spec, _CHOICES, path, faults)
    for name, attribute in _SUBDOMAINS:
        text = getattr(spec, attribute)
        if text and not is_subdomain(text):
            message = f"{shown(text)!r} is not a DNS name"
            faults.append(FieldFault(f"{path}.{name}", message, SUBDOMAIN_HINT))
    for name, text in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if text and not is_label(text):
            message = f"{shown(text)!r} is not a DNS label"
            faults.append(FieldFault(f"{path}.{name}", message, LABEL_HINT))
    deadline = spec.active_deadline_seconds
    if deadline is not None and not (0 if live else 1) <= deadline <= _INT32_MAX:
        hint = f"use 1 to {_INT32_MAX}"
        message = f"{shown(str(deadline), 20)} is out of range"
        faults.append(FieldFault(f"{path}.activeDeadlineSeconds", message, hint))
    grace = spec.termination_grace_period_seconds
    if grace is not None and not -(2**63) <= grace < 2**63:
        place = f"{path}.terminationGracePeriodSeconds"
        faults.append(FieldFault(place, "does not fit 64 bits", "use a smaller number"))


def _images(spec: PodSpecShape, prefix: str, faults: list[FieldFault]) -> None:
    """The images. One without any may be a plain process, so a missing image is no fault."""
    for shapes in (spec.init_containers, spec.containers, spec.ephemeral_containers):
        for shape in shapes or ():
            image = shape.image
            if image is None or (image and (prefix or image == image.strip())):
                continue
            path = next(field for field, each in containers_of(spec) if each is shape)
            message = "begins or ends with white space" if image else "is empty"
            hint = "remove it" if image else "name an image"
            faults.append(FieldFault(f"{prefix}{path}.image", message, hint))


def _relates(spec: PodSpecShape) -> bool:
    """Whether any field is there whose value depends on another one."""
    if spec.init_containers or spec.ephemeral_containers or spec.os or spec.host_network:
        return True
    if spec.host_users is False or spec.host_pid:
        return True
    if b"hostProcess" in bytes(spec.security_context):
        return True
    return any(
        container.volume_mounts is not NOTHING
        or container.restart_policy
        or container.resize_policy is not NOTHING
        or b"hostPort" in bytes(container.ports)
        or b"claims" in bytes(container.resources)
        or b"hostProcess" in bytes(container.security_context)
        or b'"stopSignal"' in bytes(container.lifecycle)
        or b'"fileKeyRef"' in bytes(container.env)
        for container in spec.containers or ()
    )
