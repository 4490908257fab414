"""The files of ``configMap``, ``secret``, ``downwardAPI`` and ``projected`` volumes.

Source: kubelet pkg/volume/configmap, secret, downwardapi, projected (MakePayload, CollectData);
pkg/fieldpath FormatMap; pkg/apis/core/validation (validateKeyToPath, validateDownwardAPIVolumeFile,
validateLocalNonReservedPath).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from qoslet.core.api.config.objects import ConfigKey, ConfigKind
from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.pod import Pod
from qoslet.core.cgroup.names import parents
from qoslet.core.workload.config.references import (
    MOUNT_ERROR,
    UnmetReference,
    mapping,
    mappings,
    not_found,
)
from qoslet.core.workload.env import PodEnvironment, pod_field, resource_field
from qoslet.core.workload.folders.types import VolumeFile

DEFAULT_MODE = 0o644
"""Permission bits of a file where nobody says others."""
_MODE_MAX = 0o777
_PATH_MAX = 4096
INJECTED = "kube-api-access-"
"""How the names of the volumes begin that an API server puts into every pod, for its token."""


class VolumeFiles(Struct):
    """Collects the files of one volume at ``field``. ``missing`` are the parts that nobody can
    write here, ``secret`` tells that a part must not touch a disk."""

    name: str
    field: str
    pod: Pod
    document: Mapping[str, Any]
    around: PodEnvironment
    files: dict[str, VolumeFile] = {}
    missing: list[str] = []
    faults: list[FieldFault] = []
    unmet: list[UnmetReference] = []
    secret: bool = False

    def of_source(self, kind: str, source: Mapping[str, Any], field: str, default: int) -> bool:
        """The files of one source; False for a kind that nobody can write here."""
        if kind == "configMap":
            self._of_object("ConfigMap", source, field, default)
        elif kind == "secret":
            self._of_object("Secret", source, field, default)
        elif kind == "downwardAPI":
            self._of_fields(source.get("items"), field, default)
        else:
            return False
        return True

    def _of_object(
        self, kind: ConfigKind, source: Mapping[str, Any], field: str, default: int
    ) -> None:
        """The files of a ConfigMap or Secret."""
        self.secret = self.secret or kind == "Secret"
        name = source.get("secretName") or source.get("name")
        if not isinstance(name, str) or not name:
            named = "secretName" if kind == "Secret" and "secretName" in source else "name"
            self.faults.append(FieldFault(f"{field}.{named}", "is missing", "name the object"))
            return
        key, optional = ConfigKey(kind, self.pod.namespace, name), source.get("optional") is True
        found = self.around.config.get(key)
        values = {} if found is None else found.files
        if found is None and not optional:
            self._lacks(field, not_found(key))
        if not source.get("items"):
            for name in sorted(values):
                self._put(name, default, values[name])
            return
        for index, item in enumerate(mappings(source.get("items"))):
            at = f"{field}.items[{index}]"
            wanted, path = str(item.get("key") or ""), self._path(item, at)
            mode = self._mode(item.get("mode"), f"{at}.mode", default)
            if path and wanted in values:
                self._put(path, mode, values[wanted])
            elif path and found is not None and not optional:
                word = "config" if kind == "ConfigMap" else "secret"
                what = f"{kind.lower()} references" if kind == "ConfigMap" else "references"
                self._lacks(at, f"{what} non-existent {word} key: {wanted}")

    def _of_fields(self, items: object, field: str, default: int) -> None:
        """The files of a downward API volume."""
        self.secret = True
        for index, item in enumerate(mappings(items)):
            at = f"{field}.items[{index}]"
            path = self._path(item, at)
            mode = self._mode(item.get("mode"), f"{at}.mode", default)
            text = self._field_text(item)
            if text is None:
                self.missing.append(f"{at} ({path})")
            elif path:
                self._put(path, mode, text.encode("utf-8", "replace"))

    def default_mode(self, source: Mapping[str, Any], field: str) -> int:
        """``defaultMode`` of a volume."""
        return self._mode(source.get("defaultMode"), f"{field}.defaultMode", DEFAULT_MODE)

    def _field_text(self, item: Mapping[str, Any]) -> str | None:
        """What a field of the pod is as text; None for what only a cluster knows."""
        path = str(mapping(item.get("fieldRef")).get("fieldPath") or "")
        if path in ("metadata.labels", "metadata.annotations"):
            kind = path.partition(".")[2]
            return format_map(mapping(mapping(self.document.get("metadata")).get(kind)))
        if path:
            return pod_field(path, self.document, self.pod, self.around)
        resource = mapping(item.get("resourceFieldRef"))
        if not resource or not self.pod.containers:
            return None
        return resource_field(resource, self.pod, self.pod.containers[0], self.around)

    def _put(self, path: str, mode: int, data: bytes) -> None:
        self.files[path] = VolumeFile(path, mode, data)

    def _lacks(self, field: str, message: str) -> None:
        text = f'MountVolume.SetUp failed for volume "{self.name}" : {message}'
        self.unmet.append(UnmetReference(field, MOUNT_ERROR, text))

    def _mode(self, value: object, field: str, default: int) -> int:
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MODE_MAX:
            hint = "such as 0400 in YAML, 256 in JSON"
            self.faults.append(FieldFault(field, f"{value!r} is not between 0 and 0777", hint))
            return default
        return value

    def _path(self, item: Mapping[str, Any], field: str) -> str:
        """``path`` of an item in its plain form; empty with a fault where it is none."""
        path = item.get("path")
        if not isinstance(path, str) or not path:
            message = "is missing" if not path else "is not a path"
        elif path.startswith("/"):
            message = f"{path!r} is not relative"
        elif ".." in path.split("/"):
            message = f"{path!r} has a '..'"
        elif path.startswith(".."):
            message = f"{path!r} begins with '..'"
        elif (
            not path.isprintable() or len(path) >= _PATH_MAX or max(map(len, path.split("/"))) > 255
        ):
            message = f"{path[:80]!r} is too long or has control characters"
        elif plain := "/".join(part for part in path.split("/") if part not in ("", ".")):
            return plain
        else:
            message = f"{path!r} is not a file"
        hint = "use a path below the volume"
        self.faults.append(FieldFault(f"{field}.path", message, hint))
        return ""

    def check(self) -> None:
        """What of all paths together cannot be."""
        for path in self.files:
            for above in parents(path):
                if above in self.files:
                    message = f"{above} is a file and a directory of {path}"
                    self.faults.append(FieldFault(self.field, message, "use other paths"))


def format_map(values: Mapping[str, Any]) -> str:
    """Labels or annotations as lines ``key="value"``, by key, as Go quotes them."""
    return "\n".join(f"{key}={_quoted(str(values[key]))}" for key in sorted(values))


_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _quoted(text: str) -> str:
    """A string as Go's ``%q`` prints it. Source: strconv.Quote."""
    return '"' + "".join(_ESCAPES.get(char) or _plain(char) for char in text) + '"'


def _plain(char: str) -> str:
    code = ord(char)
    if char == " " or char.isprintable():
        return char
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
