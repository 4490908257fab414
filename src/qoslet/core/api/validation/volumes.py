"""Rules for the volumes of a pod.

Source: ValidateVolumes, validateVolumeSource and the functions of each source below it.
"""

from __future__ import annotations

from typing import Any

from qoslet.core.api.container_resources import FieldFault, is_label
from qoslet.core.api.schema import shown
from qoslet.core.api.validation import names
from qoslet.core.api.validation.containers import file_field_ref, resource_ref
from qoslet.core.api.validation.fields import LABEL_HINT, Fields, objects
from qoslet.core.quantity import QuantityError, canonical, parse

_NEEDED = {
    "awsElasticBlockStore": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "azureFile": ("secretName", "shareName"),
    "cephfs": (),
    "cinder": ("volumeID",),
    "configMap": ("name",),
    "csi": ("driver",),
    "downwardAPI": (),
    "emptyDir": (),
    "ephemeral": (),
    "fc": (),
    "flexVolume": ("driver",),
    "flocker": (),
    "gcePersistentDisk": ("pdName",),
    "gitRepo": ("repository",),
    "glusterfs": ("endpoints", "path"),
    "hostPath": ("path",),
    "image": (),
    "iscsi": ("targetPortal", "iqn"),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "projected": (),
    "quobyte": ("registry", "volume"),
    "rbd": ("image",),
    "scaleIO": ("gateway", "system", "volumeName"),
    "secret": ("secretName",),
    "storageos": ("volumeName",),
    "vsphereVolume": ("volumePath",),
}
"""Kind of a volume to the strings that it must have."""

_HOST_TYPES = (
    "DirectoryOrCreate",
    "Directory",
    "FileOrCreate",
    "File",
    "Socket",
    "CharDevice",
    "BlockDevice",
)
_LOCAL_HINT = "use a relative path that does not begin with .."


def volumes(value: Any, path: str, faults: list[FieldFault]) -> None:
    """The volumes of a pod."""
    seen: dict[str, str] = {}
    for volume in objects(value, path, faults):
        name = volume.need("name")
        if name and not is_label(name):
            volume.refuse("name", f"{shown(name)!r} is not a DNS label", LABEL_HINT)
        elif name and name in seen:
            volume.refuse("name", f"{name!r} is also the name of {seen[name]}", "rename one")
        seen.setdefault(name, volume.path)
        kinds = [kind for kind in _NEEDED if volume.value.get(kind) is not None]
        if len(kinds) > 1:
            message = f"is of several kinds: {', '.join(kinds)}"
            volume.refuse("", message, "give each volume one kind")
        for kind in kinds[:1]:
            source = volume.inside(kind)
            if source is not None:
                _source(kind, source)


def _source(kind: str, source: Fields) -> None:
    for name in _NEEDED[kind]:
        source.need(name)
    if kind == "emptyDir":
        _size_limit(source)
    elif kind == "hostPath":
        source.choose("type", _HOST_TYPES)
        if ".." in source.text("path").split("/"):
            source.refuse("path", "contains ..", "write the path without ..")
    elif kind in ("configMap", "secret"):
        _mode(source, "defaultMode")
        _keys(source, set())
    elif kind == "downwardAPI":
        _mode(source, "defaultMode")
        _files(source, set())
    elif kind == "projected":
        _mode(source, "defaultMode")
        taken: set[str] = set()
        for projection in source.items("sources"):
            _projection(projection, taken)


def _size_limit(source: Fields) -> None:
    source.text("medium")
    size = source.value.get("sizeLimit")
    if size is None:
        return
    if isinstance(size, bool) or not isinstance(size, str | int | float):
        source.refuse("sizeLimit", "must be a quantity", "such as 64Mi")
        return
    try:
        amount = parse(str(size).strip())
    except QuantityError as error:
        source.refuse("sizeLimit", f"{shown(str(size), 40)!r} {error}", "such as 64Mi")
        return
    if amount.nano < 0:
        source.refuse("sizeLimit", f"{canonical(amount)} is negative", "use 0 or more")


def _mode(source: Fields, name: str) -> None:
    mode = source.number(name)
    if mode is not None and not 0 <= mode <= 0o777:
        hint = "use 0 to 0777 (octal), 0 to 511 (decimal)"
        source.refuse(name, f"{mode} is out of range", hint)


def _local(source: Fields, taken: set[str], *, once: bool) -> None:
    path = source.need("path")
    if path.startswith("..") or not names.is_local_path(path):
        source.refuse("path", f"{shown(path)!r} leaves the volume", _LOCAL_HINT)
    if path and path in taken and once:
        source.refuse("path", f"{shown(path)} occurs twice in the volume", "use another path")
    taken.add(path)


def _keys(source: Fields, taken: set[str], *, once: bool = False) -> None:
    source.flag("optional")
    for item in source.items("items"):
        item.need("key")
        _local(item, taken, once=once)
        _mode(item, "mode")


def _files(source: Fields, taken: set[str], *, once: bool = False) -> None:
    for item in source.items("items"):
        _local(item, taken, once=once)
        _mode(item, "mode")
        field, resource = item.inside("fieldRef"), item.inside("resourceFieldRef")
        if (field is None) == (resource is None):
            message = "has both fieldRef and resourceFieldRef" if field else "has no source"
            item.refuse("", message, "give one of fieldRef, resourceFieldRef")
        if field is not None:
            file_field_ref(field)
        elif resource is not None:
            resource.need("containerName")
            resource_ref(resource)


_PROJECTIONS = (
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
)


def _projection(projection: Fields, taken: set[str]) -> None:
    kinds = [kind for kind in _PROJECTIONS if projection.value.get(kind) is not None]
    if len(kinds) > 1:
        message = f"is of several kinds: {', '.join(kinds)}"
        projection.refuse("", message, "give each source one kind")
    for kind in kinds:
        source = projection.inside(kind)
        if source is None:
            continue
        if kind in ("secret", "configMap"):
            source.need("name")
            _keys(source, taken, once=True)
        elif kind == "downwardAPI":
            _files(source, taken, once=True)
        elif kind == "serviceAccountToken":
            source.need("path")
            seconds = source.number("expirationSeconds", 64)
            if seconds is not None and not 600 <= seconds <= 1 << 32:
                hint = "use 600 to 4294967296 seconds"
                source.refuse("expirationSeconds", f"{seconds} is out of range", hint)
