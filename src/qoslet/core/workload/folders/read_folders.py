"""The ``volumes`` of a pod document that are directories, files or host paths, by their kind.

Source: core/v1 VolumeSource, HostPathType; pkg/apis/core/validation (validateVolumeSource,
validateHostPathVolumeSource).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec import Struct

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.pod import Pod
from qoslet.core.workload.config.references import UnmetReference, mapping, mappings
from qoslet.core.workload.env import PodEnvironment
from qoslet.core.workload.folders.projected import INJECTED, VolumeFiles
from qoslet.core.workload.folders.types import (
    DiskVolume,
    FilesVolume,
    FolderVolume,
    HostType,
    HostVolume,
)

_TYPES: Mapping[str, HostType] = {one: one for one in get_args(HostType)}


class FolderReading(Struct):
    """What reading one volume gave."""

    volume: FolderVolume | None = None
    """None if the pod goes without the volume: an ``unsupported`` one, or one that the API server added."""
    asked: str = ""
    """The volume in the manifest as text: pods with another text have another volume."""
    unsupported: str = ""
    """The kind of a volume that qoslet does not provide; empty for any other."""
    left_out: list[str] = []
    """The field of an ``unsupported`` volume."""
    missing: list[str] = []
    faults: list[FieldFault] = []
    unmet: list[UnmetReference] = []


class FolderReader(Struct, frozen=True):
    """Reads the volumes of one pod. ``group`` is its fsGroup."""

    pod: Pod
    document: Mapping[str, Any]
    around: PodEnvironment
    group: int | None

    def read(self, entry: Mapping[str, Any], name: str, field: str) -> FolderReading:
        """Read one volume."""
        reading = self._read(entry, name, field)
        if reading.unsupported:
            reading.left_out = [f"{field} ({name}) {reading.unsupported}"]
        reading.asked = msgspec.json.encode(entry, order="deterministic").decode()
        return reading

    def _read(self, entry: Mapping[str, Any], name: str, field: str) -> FolderReading:
        kinds = [key for key in entry if key != "name" and entry[key] is not None]
        if len(kinds) > 1:
            message = f"has several kinds: {', '.join(sorted(kinds))}"
            return FolderReading(faults=[FieldFault(field, message, "keep one")])
        kind = kinds[0] if kinds else "emptyDir"
        source = mapping(entry.get(kind))
        if kind == "emptyDir":
            return self._empty(source, name, field)
        if kind == "hostPath":
            return self._host(source, name, f"{field}.hostPath")
        if kind in ("configMap", "secret", "downwardAPI", "projected"):
            return self._files(kind, source, name, f"{field}.{kind}")
        return FolderReading(unsupported=kind)

    def _empty(self, source: Mapping[str, Any], name: str, field: str) -> FolderReading:
        """Read an ``emptyDir`` whose medium is not memory."""
        medium = str(source.get("medium") or "")
        if medium:
            return FolderReading(unsupported=f"emptyDir with medium {medium}")
        limit = source.get("sizeLimit") is not None
        missing = [f"{field}.emptyDir.sizeLimit ({name} is on disk)"] if limit else []
        return FolderReading(DiskVolume(name, self.group), missing=missing)

    def _host(self, source: Mapping[str, Any], name: str, field: str) -> FolderReading:
        """Read a ``hostPath``."""
        path, kind = source.get("path"), source.get("type") or ""
        faults = []
        if not isinstance(path, str) or not path:
            faults.append(FieldFault(f"{field}.path", "is missing", "give a path of the host"))
        elif ".." in path.split("/"):
            faults.append(FieldFault(f"{field}.path", f"{path!r} has a '..'", "use a plain path"))
        elif not path.startswith("/"):
            hint = "begin it with /"
            faults.append(FieldFault(f"{field}.path", f"{path!r} is not absolute", hint))
        elif "\0" in path or ":" in path:
            faults.append(FieldFault(f"{field}.path", f"{path!r} has a NUL or ':'", "rename it"))
        if not isinstance(kind, str) or kind not in _TYPES:
            hint = f"one of {', '.join(one for one in _TYPES if one)}"
            faults.append(FieldFault(f"{field}.type", f"{kind!r} is unknown", hint))
        if faults:
            return FolderReading(faults=faults)
        plain = "/" + "/".join(part for part in str(path).split("/") if part not in ("", "."))
        return FolderReading(HostVolume(name, plain, _TYPES[str(kind)]))

    def _files(self, kind: str, source: Mapping[str, Any], name: str, field: str) -> FolderReading:
        """Read a volume of files from ConfigMaps, Secrets and fields of the pod."""
        parts = VolumeFiles(name, field, self.pod, self.document, self.around)
        mode = parts.default_mode(source, field)
        if not parts.of_source(kind, source, field, mode):
            entries = mappings(source.get("sources"))
            if name.startswith(INJECTED) and any("serviceAccountToken" in one for one in entries):
                return FolderReading(missing=[f"{field} ({name})"])
            for index, one in enumerate(entries):
                _projected(parts, one, f"{field}.sources[{index}]", mode)
        parts.check()
        if kind == "projected":
            # as a kubelet, whatever is in it
            parts.secret = True
        files = tuple(parts.files[path] for path in sorted(parts.files))
        made = FilesVolume(name, self.group, files, parts.secret)
        return FolderReading(made, missing=parts.missing, faults=parts.faults, unmet=parts.unmet)


def _projected(parts: VolumeFiles, source: Mapping[str, Any], field: str, mode: int) -> None:
    """One source of a projected volume."""
    for kind, value in source.items():
        if value is None:
            continue
        at = f"{field}.{kind}"
        if not parts.of_source(kind, mapping(value), at, mode):
            # no API server issues a token or a certificate
            parts.missing.append(f"{at} ({parts.name})")
