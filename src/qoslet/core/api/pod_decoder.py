"""One decoded pod document to a ``Pod``: identity, roles, resources, and what is wrong with them.

Source: k8s.io/kubernetes pkg/apis/core/validation (ValidatePodSpec and below),
pkg/kubelet/types/pod_update.go (static, mirror and critical pods), pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.annotations import (
    CONFIG_HASH,
    CONFIG_MIRROR,
    critical_of,
    memory_of,
    platform_of,
)
from qoslet.core.api.container_resources import (
    ContainerResources,
    FieldFault,
    ResourceDecoder,
    is_label,
    is_subdomain,
    one_of,
)
from qoslet.core.api.ids import (
    container_states,
    generated_uid,
    may_be_resized,
    status_lists,
    uid_fault,
)
from qoslet.core.api.owners import maker_of, was_changed
from qoslet.core.api.pod import (
    NO_POD_LEVEL,
    NO_QUANTITIES,
    NO_RESOURCES,
    Container,
    Pod,
    PodLevel,
    QosClass,
    Quantities,
    Resources,
    Role,
    UidFrom,
)
from qoslet.core.api.schema import (
    ContainerShape,
    ContainerStatusShape,
    Metadata,
    PodShape,
    PodSpecShape,
    PodStatusShape,
    child,
    shown,
)
from qoslet.core.api.validation.fields import Place
from qoslet.core.api.validation.pods import PodRules

_PHASES = (None, "", "Pending", "Running", "Succeeded", "Failed", "Unknown")
_QOS = (None, *get_args(QosClass))
_ENOUGH = 1000
"""Faults of one pod after which its other containers are not looked at."""

_TAKEN = "an API server has taken it, which may be newer than this rule"

_POD_ITSELF = Place()


class DecodedPod(Struct):
    """A pod as it is decoded: None while there is none, or where a fault leaves none. ``faults`` and
    ``notes`` have full paths; ``prefix`` is the path of the template, empty for a pod itself."""

    prefix: str
    pod: Pod | None = None
    faults: list[FieldFault] = []
    notes: list[FieldFault] = []

    def place(self, asked: ContainerResources, path: str) -> None:
        """Take what was found below ``path``."""
        for source, target in ((asked.faults, self.faults), (asked.notes, self.notes)):
            for note in source:
                place = path + note.path if note.path[:1] == "[" else f"{path}.{note.path}"
                target.append(FieldFault(place if note.path else path, note.message, note.hint))


class DocumentPath(Struct, frozen=True, gc=False):
    """Where a pod comes from.

    ``where`` names the document; ``metadata`` is the owner's for a template; ``prefix`` is the
    path of the template (``spec.template.``), empty for a pod itself; ``added`` names the volumes
    that the owner adds to the template's, None where that is not known; ``faults`` are the owner's.
    """

    where: str
    metadata: Metadata | None
    prefix: str = ""
    added: tuple[str, ...] | None = ()
    faults: tuple[FieldFault, ...] = ()


class PodReader:
    """Decodes pods; caches valid names and resources, which repeat. ``trusts``: fields besides names and
    resources refuse no pod that an API server has taken, which may be newer than the rules here."""

    def __init__(self, allocated: bool = False, *, trusts: bool = False) -> None:
        self._allocated = allocated
        self._trusts = trusts
        self._asked = ResourceDecoder()
        self._rules = PodRules()
        self._labels: set[str] = set()
        self._node_names: set[str] = set()

    def build(self, shape: PodShape, place: DocumentPath) -> DecodedPod:
        """The pod of ``shape``; every fault in it, not only the first."""
        prefix, found = place.prefix, DecodedPod(place.prefix)
        faults, notes = found.faults, found.notes
        spec, status = shape.spec or _NO_SPEC, shape.status or _NO_STATUS
        meta = place.metadata or _NO_METADATA
        namespace, name = self._names(meta, faults)
        annotations = (shape.metadata.annotations if shape.metadata else None) or {}
        uid, uid_from = _uid(meta, annotations, namespace, name, found)
        resized = self._allocated and may_be_resized(meta, annotations, spec, status, self._asked)
        actual = status if resized else None
        containers = self._containers(spec, status, actual, found)
        level = self._pod_level(spec, actual, containers, found)
        overhead = self._overhead(spec, found)
        self._check_rest(spec, status, prefix, faults)
        self._check_rules(shape, place, found)
        system, isolation, platform = platform_of(spec, annotations, prefix, faults)
        owner = (meta.annotations or {}) if prefix else {}
        policy = memory_of(annotations, owner, containers, prefix, notes)
        if faults:
            return found
        found.pod = Pod(
            namespace,
            name,
            uid,
            place.where,
            tuple(containers),
            uid_from,
            level.resources,
            overhead,
            system,
            *critical_of(spec, annotations, prefix),
            status.qos_class,
            spec.node_name or None,
            status.phase or None,
            isolation,
            spec.priority,
            level.defaulted,
            policy,
            platform,
            level.written,
            maker_of(meta),
            was_changed(meta, annotations),
            status.reason or "",
            status.message or "",
            spec.host_ipc or False,
            bool(meta.deletion_timestamp) and not prefix,
        )
        return found

    def _check_rules(self, shape: PodShape, place: DocumentPath, found: DecodedPod) -> None:
        """Hold a pod against what an API server refuses."""
        beside = Place(place.prefix, place.added) if place.prefix else _POD_ITSELF
        broken = self._rules.check(shape, beside)
        meta, status = place.metadata or _NO_METADATA, shape.status or _NO_STATUS
        if broken and self._trusts and meta.uid and status.phase:
            found.notes += [replace(one, hint=_TAKEN) for one in broken]
        else:
            found.faults += broken
        found.faults += place.faults

    def _overhead(self, spec: PodSpecShape, found: DecodedPod) -> Quantities:
        if not spec.overhead:
            return NO_QUANTITIES
        asked = self._asked.overhead(spec.overhead)
        found.place(asked, f"{found.prefix}spec.overhead")
        return asked.resources.limits if asked.resources else NO_QUANTITIES

    def _names(self, meta: Metadata, faults: list[FieldFault]) -> tuple[str, str]:
        # the API server would add five random characters
        name = meta.name or (meta.generate_name or "").rstrip("-.")
        namespace = meta.namespace or "default"
        if not name:
            faults.append(FieldFault("metadata.name", "is missing", "set a name", missing=True))
        elif not is_subdomain(name):
            message = f"{shown(name)!r} is not a DNS name"
            hint = "use lowercase letters, digits, - and ., at most 253 characters"
            faults.append(FieldFault("metadata.name", message, hint))
        if namespace not in self._labels:
            if is_label(namespace):
                self._labels.add(namespace)
            else:
                faults.append(_label_fault("metadata.namespace", namespace))
        return namespace, name

    def _containers(
        self,
        spec: PodSpecShape,
        status: PodStatusShape,
        actual: PodStatusShape | None,
        found: DecodedPod,
    ) -> list[Container]:
        prefix, faults = found.prefix, found.faults
        states = container_states(status, faults)
        ids, running = states.ids, states.running if states.ids else {}
        if not spec.containers:
            path = f"{prefix}spec" if spec is _NO_SPEC else f"{prefix}spec.containers"
            message = "is missing" if spec is _NO_SPEC else "is missing or empty"
            hint = "a pod needs at least one container"
            faults.append(FieldFault(path, message, hint, missing=True))
        containers: list[Container] = []
        seen: dict[str, str] = {}
        for field, role, shapes in _lists(spec):
            if not shapes:
                continue
            for index, shape in enumerate(shapes):
                if len(faults) >= _ENOUGH:
                    break
                path = f"{field}[{index}]"
                name = shape.name or ""
                if name in self._labels and name not in seen:
                    seen[name] = prefix + path
                else:
                    self._container_name(name, prefix + path, seen, faults)
                decoded = self._asked.container(shape.resources)
                if decoded.faults or decoded.notes:
                    found.place(decoded, f"{prefix}{path}.resources")
                if actual is not None:
                    decoded = self._actuated(decoded, name, actual, found)
                resources = decoded.resources or NO_RESOURCES
                if role == "ephemeral" and (resources.requests or resources.limits):
                    hint = "remove them: ephemeral containers cannot have resources"
                    faults.append(FieldFault(f"{prefix}{path}.resources", "are not allowed", hint))
                known = ids.get(name), decoded.defaulted, running.get(name), shape.image
                past = (
                    name in states.restarted,
                    states.waiting.get(name, ""),
                    states.exits.get(name),
                )
                containers.append(
                    Container(name, _role(role, shape), path, resources, *known, *past)
                )
        return containers

    def _container_name(
        self, name: str, path: str, seen: dict[str, str], faults: list[FieldFault]
    ) -> None:
        path += ".name"
        if name not in self._labels:
            if is_label(name):
                self._labels.add(name)
            elif not name:
                faults.append(
                    FieldFault(path, "is missing", "give the container a name", missing=True)
                )
            else:
                faults.append(_label_fault(path, name))
        if name and name in seen:
            message = f"{shown(name)!r} is also the name of {seen[name]}"
            faults.append(FieldFault(path, message, "container names are unique in a pod"))
        else:
            seen[name] = path.removesuffix(".name")

    def _actuated(
        self,
        asked: ContainerResources,
        name: str,
        status: PodStatusShape,
        found: DecodedPod,
    ) -> ContainerResources:
        """The actual resources of the container in the status, if it has them."""
        for field, statuses in status_lists(status):
            for index, container_status in enumerate(statuses or ()):
                if container_status.name == name:
                    path = f"status.{field}[{index}]"
                    return self._overlay(asked, container_status, path, found)
        return asked

    def _overlay(
        self,
        asked: ContainerResources,
        status: ContainerStatusShape | PodStatusShape,
        path: str,
        found: DecodedPod,
    ) -> ContainerResources:
        actual = self._asked.container(status.resources)
        found.place(actual, f"{path}.resources")
        if actual.resources and (actual.resources.requests or actual.resources.limits):
            return actual
        grant = self._asked.amounts(status.allocated_resources)
        found.place(grant, f"{path}.allocatedResources")
        if not grant.resources or not grant.resources.requests:
            return asked
        before = asked.resources or NO_RESOURCES
        requests = {**before.requests, **grant.resources.requests}
        defaulted = tuple(name for name in asked.defaulted if name not in grant.resources.requests)
        return ContainerResources(Resources(requests, before.limits), defaulted)

    def _pod_level(
        self,
        spec: PodSpecShape,
        actual: PodStatusShape | None,
        containers: list[Container],
        found: DecodedPod,
    ) -> PodLevel:
        if not spec.resources:
            return NO_POD_LEVEL
        # imported for a pod that has them
        from qoslet.core.api.pod_level_resources import (
            aggregate_requests,
            check_pod_level,
            default_pod_level,
        )

        decoded = self._asked.pod(spec.resources)
        path = f"{found.prefix}spec.resources"
        found.place(decoded, path)
        if decoded.resources is None:
            return NO_POD_LEVEL
        if actual is not None:
            decoded = self._overlay(decoded, actual, "status", found)
        given = decoded.resources or NO_RESOURCES
        aggregate = aggregate_requests(containers)
        resources, defaulted = default_pod_level(given, containers)
        broken = {fault.path for fault in found.faults}
        conflicts = check_pod_level(given, resources, aggregate, containers, path, found.prefix)
        found.faults.extend(fault for fault in conflicts if fault.path not in broken)
        return PodLevel(given, resources, defaulted)

    def _check_rest(
        self, spec: PodSpecShape, status: PodStatusShape, prefix: str, faults: list[FieldFault]
    ) -> None:
        node = spec.node_name
        if node and node not in self._node_names:
            if is_subdomain(node):
                self._node_names.add(node)
            else:
                message = f"{shown(node)!r} is not a DNS name"
                faults.append(FieldFault(f"{prefix}spec.nodeName", message))
        if spec.priority is not None and not -(2**31) <= spec.priority < 2**31:
            faults.append(FieldFault(f"{prefix}spec.priority", "does not fit 32 bits"))
        if status.phase not in _PHASES:
            faults.append(one_of("status.phase", status.phase, _PHASES[2:]))
        if status.qos_class not in _QOS:
            faults.append(one_of("status.qosClass", status.qos_class, _QOS[1:]))


_NO_SPEC = PodSpecShape()
_NO_STATUS = PodStatusShape()
_NO_METADATA = Metadata()


def _lists(spec: PodSpecShape) -> tuple[tuple[str, Role, list[ContainerShape] | None], ...]:
    """The lists of containers in the order in which a kubelet starts them, each with its field and
    the role of its containers."""
    return (
        ("spec.initContainers", "init", spec.init_containers),
        ("spec.containers", "regular", spec.containers),
        ("spec.ephemeralContainers", "ephemeral", spec.ephemeral_containers),
    )


def _role(role: Role, shape: ContainerShape) -> Role:
    """What a container of a list is that makes the others ``role``."""
    return "sidecar" if role == "init" and shape.restart_policy == "Always" else role


def _label_fault(path: str, name: str) -> FieldFault:
    hint = "use lowercase letters, digits and -, at most 63 characters"
    return FieldFault(path, f"{shown(name)!r} is not a DNS label", hint)


def _uid(
    meta: Metadata, annotations: dict[str, str], namespace: str, name: str, found: DecodedPod
) -> tuple[str, UidFrom]:
    """The UID that the cgroup is named after, and where it comes from."""
    path, uid = "metadata.uid", "" if found.prefix else meta.uid or ""
    uid_from: UidFrom = "manifest"
    if not found.prefix and CONFIG_MIRROR in annotations:
        static = CONFIG_HASH if annotations.get(CONFIG_HASH) else CONFIG_MIRROR
        path = child("metadata.annotations", static)
        uid, uid_from = annotations[static], "config.hash"
    if not uid:
        return generated_uid(namespace, name), "generated"
    fault = uid_fault(uid)
    if fault:
        found.faults.append(FieldFault(path, *fault))
    elif "pod" in uid:
        message = "contains 'pod': a kubelet does not recognize its cgroup as a pod's"
        found.notes.append(FieldFault(path, message, "give it a UUID"))
    return uid, uid_from


__all__ = ["DecodedPod", "DocumentPath", "PodReader"]
