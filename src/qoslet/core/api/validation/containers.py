"""Rules for the fields of one container: ports, environment, mounts, resize policy.

Source: validateContainerCommon, validateContainerPorts, ValidateEnv, ValidateEnvFrom,
ValidateVolumeMounts, validateResizePolicy; k8s.io/kubernetes pkg/apis/core/pods/helpers.go
(ConvertDownwardAPIFieldLabel).
"""

from __future__ import annotations

from typing import Any

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.schema import shown
from qoslet.core.api.validation import names
from qoslet.core.api.validation.fields import Fields, objects
from qoslet.core.quantity import QuantityError, canonical, parse

_MODES = ("None", "HostToContainer", "Bidirectional")
_RECURSIVE = ("Disabled", "IfPossible", "Enabled")
_ENV_HINT = "use printable ASCII characters without ="


def ports(value: Any, path: str, faults: list[FieldFault]) -> None:
    """The ports of a container."""
    seen: dict[str, str] = {}
    for port in objects(value, path, faults):
        name = port.text("name")
        if name and not names.is_port_name(name):
            port.refuse("name", f"{shown(name)!r} is not a port name", names.PORT_NAME_HINT)
        elif name and name in seen:
            port.refuse("name", f"{name!r} is also the name of {seen[name]}", "rename one")
        seen.setdefault(name, port.path)
        if port.value.get("containerPort") in (None, 0):
            port.refuse("containerPort", "is missing", "use 1 to 65535")
        else:
            port.between("containerPort", 1, 65535)
        port.between("hostPort", 0, 65535)
        port.choose("protocol", ("TCP", "UDP", "SCTP"))


def env(value: Any, path: str, faults: list[FieldFault]) -> None:
    """The variables of a container."""
    for variable in objects(value, path, faults):
        name = variable.need("name")
        if name and not names.is_env_name(name):
            variable.refuse("name", f"{shown(name)!r} is not a variable name", _ENV_HINT)
        text = variable.text("value")
        source = variable.inside("valueFrom")
        if source is None:
            continue
        if text:
            variable.refuse("valueFrom", "cannot stand beside value", "remove one of them")
        given = [key for key in _SOURCES if source.value.get(key) is not None]
        if len(given) != 1:
            message = "has several sources" if given else "has no source"
            source.refuse("", message, f"give one of {', '.join(_SOURCES)}")
        for key in given:
            inner = source.inside(key)
            if inner is not None:
                _SOURCES[key](inner)


def env_from(value: Any, path: str, faults: list[FieldFault]) -> None:
    """The sources of many variables."""
    for source in objects(value, path, faults):
        prefix = source.text("prefix")
        if prefix and not names.is_env_name(prefix):
            source.refuse("prefix", f"{shown(prefix)!r} cannot begin a variable name", _ENV_HINT)
        given = [key for key in ("configMapRef", "secretRef") if source.value.get(key) is not None]
        if len(given) != 1:
            message = "has several sources" if given else "has no source"
            source.refuse("", message, "give one of configMapRef, secretRef")
        for key in given:
            inner = source.inside(key)
            if inner is not None:
                inner.need("name")
                inner.subdomain("name")
                inner.flag("optional")


def _key_of(source: Fields) -> None:
    source.need("name")
    source.subdomain("name")
    source.flag("optional")
    key = source.need("key")
    if key and not names.is_config_key(key):
        hint = "use letters, digits, -, _ and ., at most 253 characters"
        source.refuse("key", f"{shown(key)!r} is not a key", hint)


def _file_key(source: Fields) -> None:
    for name in ("volumeName", "path", "key"):
        source.need(name)
    source.label("volumeName")
    if ".." in source.text("path").split("/"):
        source.refuse("path", "contains ..", "write the path without ..")


_ENV_PATHS = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
]
_FILE_PATHS = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels",
    "metadata.annotations",
]


def field_ref(reference: Fields, known: list[str]) -> None:
    """A ``fieldRef``: one of ``known``, or a label or annotation by its key."""
    path = reference.need("fieldPath")
    reference.choose("apiVersion", ("v1",))
    if not path or path in known or path == "spec.host":
        return
    base, bracket, key = path.partition("['")
    if bracket and base in ("metadata.labels", "metadata.annotations") and key.endswith("']"):
        key = key[:-2]
        if not names.is_qualified(key.lower() if base == "metadata.annotations" else key):
            reference.refuse("fieldPath", f"{shown(key)!r} is not a key", names.QUALIFIED_HINT)
        return
    hint = f"known are {', '.join(known)}, metadata.labels['KEY'] and metadata.annotations['KEY']"
    reference.refuse("fieldPath", f"{shown(path)!r} is unknown", hint)


def file_field_ref(reference: Fields) -> None:
    """A ``fieldRef`` of a file of a downwardAPI volume."""
    field_ref(reference, _FILE_PATHS)


_RESOURCES = tuple(
    f"{kind}.{name}"
    for kind in ("limits", "requests")
    for name in ("cpu", "memory", "ephemeral-storage")
)
_UNITS = frozenset(
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"]
)


def resource_ref(reference: Fields) -> None:
    """A ``resourceFieldRef``."""
    name = reference.need("resource")
    pages = name.startswith(("limits.hugepages-", "requests.hugepages-"))
    if name and not pages:
        reference.choose("resource", _RESOURCES)
    divisor = reference.value.get("divisor")
    if divisor in (None, 0, "", "0") or (name not in _RESOURCES and not pages):
        return
    units = {"1m", "1"} if name.endswith(".cpu") else _UNITS
    try:
        unit = canonical(parse(str(divisor).strip()))
    except QuantityError as error:
        reference.refuse("divisor", f"{shown(str(divisor), 40)!r} {error}", "use a quantity")
        return
    if unit not in units and unit != "0":
        hint = "use 1m or 1" if name.endswith(".cpu") else "use 1 or one unit, such as 1Mi"
        reference.refuse("divisor", f"{unit} is not supported for {name}", hint)


def _env_field(reference: Fields) -> None:
    field_ref(reference, _ENV_PATHS)


_SOURCES = {
    "fieldRef": _env_field,
    "resourceFieldRef": resource_ref,
    "configMapKeyRef": _key_of,
    "secretKeyRef": _key_of,
    "fileKeyRef": _file_key,
}
"""The sources of a variable; ``fileKeyRef`` since 1.34."""


def mounts(value: Any, path: str, faults: list[FieldFault]) -> None:
    """The mounts of a container, apart from the names of its volumes."""
    seen: set[str] = set()
    for mount in objects(value, path, faults):
        mount.need("name")
        place = mount.need("mountPath")
        if place and place in seen:
            mount.refuse("mountPath", f"{shown(place)} is mounted twice", "mount at another path")
        seen.add(place)
        for name in ("subPath", "subPathExpr"):
            if not names.is_local_path(mount.text(name)):
                hint = "use a relative path without .."
                mount.refuse(name, f"{shown(mount.text(name))!r} leaves the volume", hint)
        if mount.text("subPath") and mount.text("subPathExpr"):
            mount.refuse("subPathExpr", "cannot stand beside subPath", "remove one of them")
        mode = mount.choose("mountPropagation", _MODES)
        read_only = mount.flag("readOnly")
        recursive = mount.choose("recursiveReadOnly", _RECURSIVE)
        if recursive in ("IfPossible", "Enabled") and not (read_only and mode in ("", "None")):
            message = "needs readOnly: true and no mount propagation"
            mount.refuse("recursiveReadOnly", message, "set readOnly: true, or remove it")


def resize_policy(value: Any, path: str, faults: list[FieldFault]) -> None:
    """What a resize does, by resource (KEP-1287)."""
    seen: set[str] = set()
    for policy in objects(value, path, faults):
        resource = policy.need("resourceName")
        policy.choose("resourceName", ("cpu", "memory"))
        if resource and resource in seen:
            policy.refuse("resourceName", f"{shown(resource)} occurs twice", "remove one")
        seen.add(resource)
        policy.need("restartPolicy")
        policy.choose("restartPolicy", ("NotRequired", "RestartContainer"))


def claim_names(value: Any, path: str, faults: list[FieldFault]) -> None:
    """``spec.resourceClaims``."""
    seen: set[str] = set()
    for claim in objects(value, path, faults):
        name = claim.need("name")
        claim.label("name")
        if name and name in seen:
            claim.refuse("name", f"{shown(name)} occurs twice", "remove one")
        seen.add(name)
