"""Rules between the fields of a pod: mounts and volumes, ports, kinds of containers, systems.

Source: validateContainers, validateInitContainers, validateEphemeralContainers,
checkHostPortConflicts, validatePodHostNetworkDeps, validateHostUsers, validateLinux,
validateWindows, validateWindowsHostProcessPod, validateFileKeyRefVolumes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Raw

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.schema import DECODE_ERRORS, NOTHING, ContainerShape, PodSpecShape, shown
from qoslet.core.api.validation.fields import Fields, Place, containers_of, objects

_SIDECAR_ONLY = (
    ("lifecycle", "lifecycle"),
    ("livenessProbe", "liveness_probe"),
    ("readinessProbe", "readiness_probe"),
    ("startupProbe", "startup_probe"),
)
_NOT_EPHEMERAL = (*_SIDECAR_ONLY, ("ports", "ports"), ("resizePolicy", "resize_policy"))
_ABSENT = (b"", b"null", b"[]")
_STOP_SIGNAL = b'"stopSignal"'
_FILE_KEY = b'"fileKeyRef"'


def between(spec: PodSpecShape, place: Place, faults: list[FieldFault]) -> None:
    """Every fault of fields against each other."""
    prefix = place.prefix
    volumes = _volume_names(spec.volumes, place)
    for field, container in containers_of(spec):
        path = prefix + field
        if volumes is not None:
            _mounted(container, path, volumes, faults)
            if _FILE_KEY in bytes(container.env):
                _from_files(container, path, spec.volumes, faults)
        _bidirectional(container, path, faults)
        _claimed(container, spec.resource_claims, path, faults)
        if spec.restart_policy == "Never" and not container.restart_policy:
            _resized(container, path, faults)
        if _STOP_SIGNAL in bytes(container.lifecycle):
            # imported where one is named
            from qoslet.core.api.validation.stop_signals import stop_signal

            system = spec.os.name if spec.os is not None else None
            stop_signal(_value(container.lifecycle), f"{path}.lifecycle", faults, system)
    _init_containers(spec, prefix, faults)
    _ephemeral_containers(spec, prefix, faults)
    _host_ports(spec, place, faults)
    _host_namespaces(spec, f"{prefix}spec", faults)
    if spec.os is not None and spec.os.name in ("linux", "windows"):
        _systems(spec, spec.os.name, prefix, faults)
    _host_process(spec, prefix, faults)


def _value(raw: Raw) -> Any:
    """A decoded piece; None where it is absent or broken, which its own rule says."""
    try:
        return msgspec.json.decode(raw) if raw is not NOTHING else None
    except DECODE_ERRORS:
        return None


def _objects(raw: Raw, path: str = "") -> list[Fields]:
    """The objects of an array; type faults are those of its own rule."""
    return objects(_value(raw), path, [])


def _volume_names(volumes: Raw, place: Place) -> set[str] | None:
    """The volumes that a container may mount; None where that is not known."""
    if place.added is None:
        return None
    return {*place.added, *(volume.text("name") for volume in _objects(volumes))}


def _mounted(
    container: ContainerShape, path: str, volumes: set[str], faults: list[FieldFault]
) -> None:
    for mount in _objects(container.volume_mounts, f"{path}.volumeMounts"):
        name = mount.text("name")
        if name and name not in volumes:
            message = f"the pod has no volume {shown(name, 63)!r}"
            hint = f"add it to volumes{_known(volumes)}"
            faults.append(FieldFault(f"{mount.path}.name", message, hint))


def _from_files(
    container: ContainerShape, path: str, volumes: Raw, faults: list[FieldFault]
) -> None:
    """Variables from files: of an ``emptyDir`` of the pod, which an init container writes."""
    empty = [one for one in _objects(volumes) if one.value.get("emptyDir") is not None]
    names = {one.text("name") for one in empty}
    for variable in _objects(container.env, f"{path}.env"):
        source = _inside(variable.value, "valueFrom", "fileKeyRef")
        name = source.get("volumeName")
        if isinstance(name, str) and name and name not in names:
            message = f"the pod has no emptyDir {shown(name, 63)!r}"
            hint = f"add it to volumes{_known(names)}"
            place = f"{variable.path}.valueFrom.fileKeyRef.volumeName"
            faults.append(FieldFault(place, message, hint))


def _inside(value: Any, *names: str) -> dict[str, Any]:
    """The object at ``names``; an empty one where it is absent or none, which its own rule says."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _known(names: Iterable[str]) -> str:
    listed = sorted(filter(None, names))[:5]
    return f"; known are {', '.join(listed)}" if listed else ""


def _bidirectional(container: ContainerShape, path: str, faults: list[FieldFault]) -> None:
    if b"Bidirectional" not in bytes(container.volume_mounts):
        return
    context = _value(container.security_context)
    if isinstance(context, dict) and context.get("privileged") is True:
        return
    for mount in _objects(container.volume_mounts, f"{path}.volumeMounts"):
        if mount.text("mountPropagation") == "Bidirectional":
            message = "Bidirectional needs a privileged container"
            hint = "set securityContext.privileged: true, or use HostToContainer"
            faults.append(FieldFault(f"{mount.path}.mountPropagation", message, hint))


def _claimed(container: ContainerShape, claims: Raw, path: str, faults: list[FieldFault]) -> None:
    if b"claims" not in bytes(container.resources):
        return
    resources = _value(container.resources)
    wanted = resources.get("claims") if isinstance(resources, dict) else None
    known = {claim.text("name") for claim in _objects(claims)}
    seen: set[tuple[str, str]] = set()
    for claim in objects(wanted, f"{path}.resources.claims", faults):
        name, request = claim.need("name"), claim.text("request")
        if name and name not in known:
            message = f"the pod has no resource claim {shown(name, 63)!r}"
            claim.refuse("name", message, f"add it to spec.resourceClaims{_known(known)}")
        elif (name, request) in seen:
            claim.refuse("name", f"{shown(name)} occurs twice", "remove one")
        seen.add((name, request))


def _resized(container: ContainerShape, path: str, faults: list[FieldFault]) -> None:
    for policy in _objects(container.resize_policy, f"{path}.resizePolicy"):
        if policy.text("restartPolicy") == "RestartContainer":
            message = "RestartContainer cannot stand beside the pod's restartPolicy Never"
            place = f"{policy.path}.restartPolicy"
            faults.append(FieldFault(place, message, "use NotRequired"))


def _init_containers(spec: PodSpecShape, prefix: str, faults: list[FieldFault]) -> None:
    for index, container in enumerate(spec.init_containers or ()):
        if container.restart_policy == "Always":
            continue
        for name, attribute in _SIDECAR_ONLY:
            if bytes(getattr(container, attribute)) not in _ABSENT:
                place = f"{prefix}spec.initContainers[{index}].{name}"
                message = "is not allowed for an init container"
                hint = "remove it, or make the container a sidecar: restartPolicy: Always"
                faults.append(FieldFault(place, message, hint))


def _ephemeral_containers(spec: PodSpecShape, prefix: str, faults: list[FieldFault]) -> None:
    if not spec.ephemeral_containers:
        return
    if prefix:
        place = f"{prefix}spec.ephemeralContainers"
        hint = "remove them; kubectl debug adds them to a running pod"
        faults.append(FieldFault(place, "are not allowed in a pod template", hint))
    others = {shape.name for shape in (*(spec.init_containers or ()), *(spec.containers or ()))}
    for index, container in enumerate(spec.ephemeral_containers):
        path = f"{prefix}spec.ephemeralContainers[{index}]"
        given = [
            name for name, at in _NOT_EPHEMERAL if bytes(getattr(container, at)) not in _ABSENT
        ]
        if container.restart_policy:
            given.append("restartPolicy")
        for name in given:
            message = "is not allowed for an ephemeral container"
            faults.append(FieldFault(f"{path}.{name}", message, "remove it"))
        target = container.target_container_name
        if target and target not in others:
            message = f"the pod has no container {shown(target, 63)!r}"
            hint = "name an init or regular container of the pod"
            faults.append(FieldFault(f"{path}.targetContainerName", message, hint))
        for mount in _objects(container.volume_mounts, f"{path}.volumeMounts"):
            for name in ("subPath", "subPathExpr"):
                if mount.text(name):
                    message = "is not allowed for an ephemeral container"
                    faults.append(FieldFault(f"{mount.path}.{name}", message, "remove it"))


def _taken(
    container: ContainerShape, path: str, *, host_network: bool
) -> Iterator[tuple[str, str]]:
    """Protocol, address and port that a container takes on the host, and the field."""
    for port in _objects(container.ports, f"{path}.ports"):
        number = port.number("hostPort") or (port.number("containerPort") if host_network else 0)
        if number:
            protocol = port.text("protocol") or "TCP"
            yield f"{protocol}/{port.text('hostIP')}/{number}", f"{port.path}.hostPort"


def _host_ports(spec: PodSpecShape, place: Place, faults: list[FieldFault]) -> None:
    """Regular containers run together, so each host port is free for one of them. In a pod with
    ``hostNetwork`` the API server sets the host port to the container's; in a template it may."""
    host_network = bool(spec.host_network)
    groups = [[(f"spec.containers[{i}]", c) for i, c in enumerate(spec.containers or ())]]
    groups += [[(f"spec.initContainers[{i}]", c)] for i, c in enumerate(spec.init_containers or ())]
    for group in groups:
        seen: dict[str, str] = {}
        for field, container in group:
            path = place.prefix + field
            defaulted = host_network and not place.prefix
            for taken, where in _taken(container, path, host_network=defaulted):
                if taken in seen:
                    message = f"{taken} is also the host port of {seen[taken]}"
                    faults.append(FieldFault(where, message, "use another port"))
                seen.setdefault(taken, where.removesuffix(".hostPort"))
    if not host_network:
        return
    for index, container in enumerate(spec.containers or ()):
        path = f"{place.prefix}spec.containers[{index}].ports"
        for port in _objects(container.ports, path):
            given = port.number("hostPort")
            if given and given != port.number("containerPort"):
                message = f"{given} differs from containerPort: with hostNetwork both must be equal"
                hint = "remove hostPort, or make both equal"
                faults.append(FieldFault(f"{port.path}.hostPort", message, hint))


def _host_namespaces(spec: PodSpecShape, path: str, faults: list[FieldFault]) -> None:
    if spec.host_users is False:
        for name, given in (("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)):
            if given:
                message = "cannot stand beside hostUsers: false"
                faults.append(FieldFault(f"{path}.{name}", message, "remove one of them"))
    if spec.share_process_namespace and spec.host_pid:
        message = "cannot stand beside hostPID"
        faults.append(FieldFault(f"{path}.shareProcessNamespace", message, "remove one of them"))


def _systems(spec: PodSpecShape, system: str, prefix: str, faults: list[FieldFault]) -> None:
    """What the other operating system alone has."""
    from qoslet.core.api.validation.security import by_system

    path = f"{prefix}spec"
    context = _value(spec.security_context)
    by_system(context, f"{path}.securityContext", faults, system, pod=True)
    for field, container in containers_of(spec):
        place = f"{prefix}{field}.securityContext"
        by_system(_value(container.security_context), place, faults, system, pod=False)
    if system == "linux":
        return
    given = (
        ("hostUsers", spec.host_users is not None),
        ("hostPID", spec.host_pid),
        ("hostIPC", spec.host_ipc),
        ("shareProcessNamespace", spec.share_process_namespace is not None),
    )
    for name, there in given:
        if there:
            message = "cannot be set: it is for Linux, the pod is for Windows"
            hint = "remove it, or correct spec.os.name"
            faults.append(FieldFault(f"{path}.{name}", message, hint))


def _host_process(spec: PodSpecShape, prefix: str, faults: list[FieldFault]) -> None:
    """Containers of a Windows pod are HostProcess all or none, and then on the host's network."""
    pieces = [spec.security_context, *(c.security_context for _, c in containers_of(spec))]
    if not any(b"hostProcess" in bytes(piece) for piece in pieces):
        return
    from qoslet.core.api.validation.security import host_process

    of_pod = host_process(_value(spec.security_context), "a.securityContext")
    each: dict[str, bool] = {}
    for field, container in containers_of(spec):
        own = host_process(_value(container.security_context), "a.securityContext")
        place = f"{prefix}{field}.securityContext.windowsOptions.hostProcess"
        if own is not None and of_pod is not None and own is not of_pod:
            message = "differs from spec.securityContext.windowsOptions.hostProcess"
            faults.append(FieldFault(place, message, "set it on the pod alone"))
        each[place] = bool(of_pod if own is None else own)
    if any(each.values()) and not all(each.values()):
        place = next(place for place, value in each.items() if not value)
        message = "is false, but other containers of the pod are HostProcess containers"
        faults.append(FieldFault(place, message, "set it for all containers, or for none"))
    if any(each.values()) and not spec.host_network:
        hint = "set hostNetwork: true"
        place = f"{prefix}spec.hostNetwork"
        faults.append(FieldFault(place, "is not true, but containers are HostProcess", hint))
