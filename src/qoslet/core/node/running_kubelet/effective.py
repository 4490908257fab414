"""The configuration that a kubelet runs with: flags over drop-ins over the file.

Source: cmd/kubelet/app/server.go of 1.36: loadConfigFile, mergeKubeletConfigurations,
kubeletConfigFlagPrecedence; options.go applyLegacyDefaults; RFC 7396.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from qoslet.core.node.command_line.parse import Document
from qoslet.core.node.documents.kubelet_config import EVICTION
from qoslet.core.node.documents.merge_patch import merge
from qoslet.core.node.documents.sources import KUBELET_API

NO_FILE: Mapping[str, Any] = {
    "readOnlyPort": 10255,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "evictionHard": {},
}
"""What differs from the defaults of the API in a kubelet without ``--config``. Only reading the
file sets the hard eviction thresholds."""

_PATHS = (
    "staticPodPath",
    "tlsCertFile",
    "tlsPrivateKeyFile",
    "resolvConf",
    "volumePluginDir",
    "podLogsDir",
)
"""Fields of paths, which ``--config`` may give relative to its own folder. Source: pkg/kubelet/
apis/config/helpers.go KubeletConfigurationPathRefs."""


class Source(Struct, frozen=True):
    """A document with the place that it stands at."""

    where: str
    document: Mapping[str, Any]


class Effective(Struct, frozen=True):
    """The configuration in force, without the defaults of the release. ``origins`` names, for each
    top field, the place that had the last word on it."""

    document: Mapping[str, Any]
    origins: Mapping[str, str]

    def sources(self) -> list[Source]:
        """KubeletConfigurations that have each field once, where it comes from."""
        apart: dict[str, Document] = {}
        for field, value in self.document.items():
            apart.setdefault(self.origins[field], {})[field] = value
        head = {"apiVersion": KUBELET_API, "kind": "KubeletConfiguration"}
        # the thresholds first: they are complete, and later ones would stand over the defaults
        places = sorted(apart, key=lambda where: "evictionHard" not in apart[where])
        return [Source(where, {**head, **apart[where]}) for where in places]


def effective(flags: Source, file: Source | None, drop_ins: Sequence[Source] = ()) -> Effective:
    """The configuration of a kubelet with these flags, the file of ``--config`` and the drop-ins of
    ``--config-dir`` in their order."""
    if file is None:
        base, where = dict(NO_FILE), "default without --config"
    else:
        base, where = _with_thresholds(_fields(file.document)), file.where
    document: Document = base
    origins = dict.fromkeys(document, where)
    for drop_in in drop_ins:
        given = _fields(drop_in.document)
        document = merge(document, given)
        if "evictionHard" in given and "evictionHard" not in document:
            # null there takes the thresholds away, and only reading --config sets them
            document["evictionHard"] = {}
        origins.update(dict.fromkeys(given, drop_in.where))
    gates = document.get("featureGates")
    for field, value in flags.document.items():
        document[field] = _flagged(field, document.get(field), value)
        origins[field] = flags.where
    if isinstance(gates, Mapping) and "featureGates" in flags.document:
        document["featureGates"] = {**gates, **flags.document["featureGates"]}
    # what it asks for is done, and is done for the file only
    document.pop("mergeDefaultEvictionSettings", None)
    return Effective(document, {field: origins[field] for field in document})


def _flagged(field: str, before: Any, value: Any) -> Any:
    """A field with a flag's value: a map is replaced as a whole, a section only where flags say."""
    if field in ("authentication", "authorization") and isinstance(before, Mapping):
        return merge(before, value)
    return value


def _fields(document: Mapping[str, Any]) -> Document:
    return {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}


def _with_thresholds(document: Document) -> Document:
    """The file's fields, and the hard eviction thresholds that reading it sets."""
    given = document.get("evictionHard")
    if given is None:
        return {**document, "evictionHard": dict(EVICTION)}
    if document.get("mergeDefaultEvictionSettings") is True and isinstance(given, Mapping):
        return {**document, "evictionHard": {**EVICTION, **given}}
    return document


def with_absolute_paths(document: Mapping[str, Any], folder: str) -> Document:
    """The document of ``--config`` with its relative paths from the ``folder`` that it is in."""
    result = dict(document)
    for field in _PATHS:
        path = result.get(field)
        if isinstance(path, str) and path and not path.startswith("/"):
            result[field] = f"{folder.rstrip('/')}/{path}"
    x509 = _section(_section(document, "authentication"), "x509")
    path = x509.get("clientCAFile")
    if isinstance(path, str) and path and not path.startswith("/"):
        absolute = {"x509": {"clientCAFile": f"{folder.rstrip('/')}/{path}"}}
        result["authentication"] = merge(_section(document, "authentication"), absolute)
    return result


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}
