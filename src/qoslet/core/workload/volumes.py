"""The volumes of a pod, and where its containers want them: memory-backed ``emptyDir`` here, those
of other kinds from ``folders.read_folders``.

Source: core/v1 EmptyDirVolumeSource, VolumeMount; kubelet volume/emptydir empty_dir.go
(calculateEmptyDirMemorySize, KEP-1967); pkg/apis/core/validation (validateEmptyDirVolumeSource,
ValidateVolumeMounts).
"""

from __future__ import annotations

from collections.abc import Container as Container_
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from qoslet.core.api.aggregate import declared, limits
from qoslet.core.api.container_resources import FieldFault, is_label
from qoslet.core.api.pod import Container, Pod
from qoslet.core.quantity import QuantityError, parse
from qoslet.core.workload.config.references import UnmetReference, mapping
from qoslet.core.workload.env import PodEnvironment, expand
from qoslet.core.workload.folders.read_folders import FolderReader, FolderReading
from qoslet.core.workload.folders.types import (
    DiskVolume,
    FilesVolume,
    FolderVolume,
    HostVolume,
)
from qoslet.core.workload.security.context import IsolationRefusal, ProcessRights, fs_group


class MemoryVolume(Struct, frozen=True, omit_defaults=True):
    """An ``emptyDir`` of medium ``Memory``: one tmpfs for the pod. ``size`` is in bytes, None for
    no bound but the kernel's own (half of the machine's memory). ``group`` owns it (fsGroup)."""

    name: str
    size: int | None = None
    group: int | None = None


class VolumeMount(Struct, frozen=True, omit_defaults=True):
    """A volume at a place of one container: an absolute path without ``.`` and ``..``.
    ``sub_path`` is a relative one inside the volume, ``source`` the volume's directory on this
    host, filled in before the start (``PodSpec.sourced``). ``kind`` says what lies there: a tmpfs
    for data, a directory on disk, files of ours behind ``..data``, or what the host has."""

    volume: str
    path: str
    read_only: bool = False
    source: str = ""
    sub_path: str = ""
    kind: Literal["", "disk", "files", "host"] = ""


class PodVolumes(Struct):
    """What a pod's ``volumes`` come to. ``memory`` are the tmpfs for data, ``folders`` all others,
    by name; ``missing`` fields that are not honoured. ``may_be_claims``: names that are not there
    may be those of a StatefulSet's volumeClaimTemplates."""

    memory: dict[str, MemoryVolume] = {}
    folders: dict[str, FolderReading] = {}
    may_be_claims: bool = False
    missing: list[str] = []
    faults: list[FieldFault] = []
    refusals: list[IsolationRefusal] = []

    def made(self, mounted: Container_[str]) -> tuple[FolderVolume, ...]:
        """The volumes of ``folders`` that are ``mounted`` and made: of others a kubelet makes none
        either."""
        found = ((name, reading.volume) for name, reading in self.folders.items())
        return tuple(one for name, one in found if one is not None and name in mounted)

    def asked(self, mounted: Container_[str]) -> tuple[str, ...]:
        """What the manifest says of them."""
        names = {volume.name for volume in self.made(mounted)}
        return tuple(sorted(self.folders[name].asked for name in names))

    def unmet(self, mounted: Container_[str]) -> list[UnmetReference]:
        """What the mounted ones wait for."""
        pairs = self.folders.items()
        return [one for name, reading in pairs if name in mounted for one in reading.unmet]

    def ignored(self, mounted: Container_[str]) -> list[str]:
        """The fields of volumes that are left out; one that is mounted was refused."""
        found = list(self.missing)
        for name, reading in self.folders.items():
            found += reading.missing
            found += reading.left_out if name not in mounted else ()
        return found


class ContainerMounts(Struct):
    """What a container's ``volumeMounts`` come to. ``volumes`` are the names of those that it
    mounts, or would."""

    mounts: list[VolumeMount] = []
    volumes: set[str] = set()
    missing: list[str] = []
    faults: list[FieldFault] = []
    refusals: list[IsolationRefusal] = []


def volumes_of(
    pod: Pod, document: Mapping[str, Any], around: PodEnvironment, powers: ProcessRights
) -> PodVolumes:
    """The volumes of a pod."""
    found = PodVolumes(may_be_claims=document.get("kind") == "StatefulSet")
    spec = mapping(document.get("spec"))
    group = fs_group(mapping(spec.get("securityContext")))
    reader = FolderReader(pod, document, around, group)
    for index, entry in enumerate(_list(spec.get("volumes"))):
        field = f"spec.volumes[{index}]"
        name = entry.get("name")
        if not isinstance(name, str) or not is_label(name):
            found.faults.append(
                FieldFault(f"{field}.name", f"{name!r} is not a DNS label", "name it")
            )
        elif name in found.memory or name in found.folders:
            found.faults.append(FieldFault(f"{field}.name", f"{name} occurs twice", "rename one"))
        elif not _add_memory(found, field, name, mapping(entry.get("emptyDir"))):
            reading = found.folders[name] = reader.read(entry, name, field)
            found.faults += reading.faults
    most = _most(pod, around)
    for name, volume in found.memory.items():
        size = min((n for n in (volume.size, most) if n), default=None)
        found.memory[name] = MemoryVolume(name, size, group)
    if not powers.root:
        _refuse(found, powers)
    return found


_MEDIA = ("", "Memory", "HugePages")


def _add_memory(found: PodVolumes, field: str, name: str, empty: Mapping[str, Any]) -> bool:
    """Read one volume if it is a tmpfs for data; ``empty`` is its ``emptyDir``, empty where it is
    another kind."""
    medium = empty.get("medium") or ""
    if medium not in _MEDIA and not str(medium).startswith("HugePages-"):
        hint = "use Memory or HugePages, or remove it"
        found.faults.append(FieldFault(f"{field}.emptyDir.medium", f"{medium!r} is unknown", hint))
    size = None
    if empty.get("sizeLimit") is not None:
        try:
            size = _size(empty["sizeLimit"])
        except QuantityError as error:
            message = f"{empty['sizeLimit']!r} {error}"
            found.faults.append(FieldFault(f"{field}.emptyDir.sizeLimit", message, "such as 64Mi"))
    if medium == "Memory":
        found.memory[name] = MemoryVolume(name, size)
    return medium == "Memory"


def _size(value: object) -> int:
    """A ``sizeLimit`` in bytes; raises QuantityError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError("is not a quantity")
    size = parse(str(value).strip())
    if size.nano < 0:
        raise QuantityError("is negative")
    return size.value


def _most(pod: Pod, around: PodEnvironment) -> int | None:
    """What all pods together, or this one by its memory limit, may use."""
    most = around.allocatable.get("memory")
    limit = limits(pod).get("memory") if declared(pod, "memory") else None
    return min((q.value for q in (most, limit) if q is not None and q.value > 0), default=None)


def _refuse(found: PodVolumes, powers: ProcessRights) -> None:
    """Without root none can be mounted."""
    for name in found.memory:
        message = f"UID {powers.uid} cannot mount the tmpfs of volume {name}"
        found.refusals.append(IsolationRefusal("spec.volumes", message))
        found.missing.append(f"spec.volumes ({name})")
    refused = {name: FolderReading() for name in found.memory}
    found.memory.clear()
    for name, reading in found.folders.items():
        if reading.volume is not None:
            refused[name] = FolderReading(unsupported=f"UID {powers.uid} cannot mount it")
    found.folders |= refused


_READ = {"name", "mountPath", "readOnly", "subPath", "subPathExpr", "recursiveReadOnly"}


def mounts_of(
    raw: Mapping[str, Any], shape: Container, volumes: PodVolumes, variables: Mapping[str, str]
) -> ContainerMounts:
    """The mounts of a container whose document is ``raw``."""
    found = ContainerMounts()
    taken: set[str] = set()
    for index, entry in enumerate(_list(raw.get("volumeMounts"))):
        field = f"{shape.field}.volumeMounts[{index}]"
        given = entry.get("name")
        name = given if isinstance(given, str) else ""
        reading = volumes.folders.get(name)
        if reading is not None and reading.volume is None:
            found.missing.append(f"{field} ({name})")
            if reading.unsupported:
                found.volumes.add(name)
                found.refusals.append(_unsupported(field, name, reading.unsupported))
            continue
        if name not in volumes.memory and reading is None:
            found.faults.append(_unknown(f"{field}.name", given, volumes.may_be_claims))
            continue
        try:
            mount = _mount(entry, name, None if reading is None else reading.volume, variables)
            if mount.path in taken:
                raise _Wrong("mountPath", f"{mount.path} is mounted twice")
        except _Wrong as wrong:
            hint = "use another path"
            found.faults.append(FieldFault(f"{field}.{wrong.field}", str(wrong), hint))
            continue
        if mount.kind == "host" and entry.get("recursiveReadOnly") == "Enabled":
            message = f"what is mounted below {mount.path} would stay writable"
            found.refusals.append(IsolationRefusal(f"{field}.recursiveReadOnly", message))
        taken.add(mount.path)
        found.volumes.add(name)
        found.mounts.append(mount)
        found.missing += [f"{field}.{key}" for key, value in entry.items() if _lost(key, value)]
    return found


def _unknown(field: str, given: object, may_be_claim: bool) -> FieldFault:
    message = f"no volume is named {given!r}"
    if may_be_claim:
        hint = "qoslet makes no volumeClaimTemplates: add an emptyDir or hostPath of this name"
        return FieldFault(field, message, hint)
    return FieldFault(field, message, "use one of spec.volumes")


def _unsupported(field: str, name: str, kind: str) -> IsolationRefusal:
    why = "it mounts a volume that qoslet cannot make"
    return IsolationRefusal(field, f"{name} ({kind})", "use emptyDir or hostPath", why)


def _lost(key: str, value: object) -> bool:
    """Whether a field of a mount asks for what is not done."""
    return key not in _READ and bool(value) and (key, value) != ("mountPropagation", "None")


class _Wrong(Exception):
    """A fault of one field of a mount."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def _mount(
    entry: Mapping[str, Any], name: str, folder: FolderVolume | None, variables: Mapping[str, str]
) -> VolumeMount:
    """One mount of a volume that is made; raises ``_Wrong``."""
    path = "/" + "/".join(_parts("mountPath", entry.get("mountPath")))
    if ":" in path:
        raise _Wrong("mountPath", f"{path} has a ':'")
    system = path == "/dev" or path.split("/")[1] in ("proc", "sys")
    if path == "/" or (system and not isinstance(folder, HostVolume)):
        raise _Wrong("mountPath", f"{path} belongs to the system")
    given, template = entry.get("subPath"), entry.get("subPathExpr")
    if given and template:
        raise _Wrong("subPath", "and subPathExpr exclude each other")
    field = "subPathExpr" if template else "subPath"
    sub = expand(str(template), variables) if template else given
    if template and "$(" in str(sub):
        raise _Wrong(field, f"{template!r} uses a variable that is not set")
    if isinstance(sub, str) and sub.startswith("/"):
        raise _Wrong(field, f"{template or sub!r} is not relative")
    # what it became may be a Secret's
    parts = _parts(field, sub, template) if sub else []
    read_only = entry.get("readOnly") is True or isinstance(folder, FilesVolume)
    kind = _KINDS[type(folder)]
    return VolumeMount(name, path, read_only, sub_path="/".join(parts), kind=kind)


_KINDS: Mapping[type, Literal["", "disk", "files", "host"]] = {
    type(None): "",
    DiskVolume: "disk",
    FilesVolume: "files",
    HostVolume: "host",
}


def _parts(field: str, path: object, shown: object = None) -> list[str]:
    """The components of a path, which is ``shown`` in messages; raises ``_Wrong``."""
    shown = str(shown or path)
    if not isinstance(path, str) or not path:
        raise _Wrong(field, f"{path!r} is not a path")
    if not path.isprintable() or len(path) >= _LONGEST:
        raise _Wrong(field, f"{shown[:80]!r} is too long or has control characters")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _Wrong(field, f"{shown!r} has a '..'")
    return parts


_LONGEST = 4096


def _list(value: object) -> list[Mapping[str, Any]]:
    """The entries of a list; what is no mapping counts as an empty one."""
    return [mapping(item) for item in value] if isinstance(value, list) else []
