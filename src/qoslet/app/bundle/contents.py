"""The parts of a bundle from what was found on a machine, without secrets and, if asked, names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from qoslet.core.api.schema import encode_json
from qoslet.core.bundle import parts as part
from qoslet.core.bundle.allowed import STATE_V2
from qoslet.core.bundle.fields import Rename, keep, node_fields, pod_fields
from qoslet.core.bundle.kubelet_state import HeldValue, KubeletState, kubelet_state
from qoslet.core.bundle.machine_facts import facts_text
from qoslet.core.bundle.redaction import (
    Pseudonyms,
    redacted_cgroups,
    redacted_kubelet,
    redacted_machine,
    redacted_units,
)
from qoslet.core.bundle.rows import lines
from qoslet.core.node.node import Node

if TYPE_CHECKING:
    from qoslet.core.api.pod import Pod
    from qoslet.core.bundle.rows import CgroupRow, UnitRow
    from qoslet.core.managers.container_manager import Assignments
    from qoslet.core.node.machine import Machine
    from qoslet.core.node.running_kubelet.work import KubeletWork
    from qoslet.host.cgroupfs.observe.cgroup_rows import CgroupsResult

MOST = 1_000_000
"""Bytes of a bundle."""
STATE = frozenset((*STATE_V2, "memory.stat", "cpu.stat", "cpuacct.stat"))
_LARGE = frozenset(("memory.stat", "io.stat"))
UNREAD_MOST = 200
"""Files that could not be read and are named."""


class BundleSource(Struct):
    """What a bundle is made of. ``pods`` are documents beside what was read of them, None where
    there are none to be had; ``missing`` says by part why it is not there, or not whole."""

    node: Node
    kubelet: Mapping[str, Any]
    api_node: Mapping[str, Any] | None
    machine: Mapping[str, Any]
    pods: Sequence[tuple[Pod, Mapping[str, Any]]] | None
    cgroups: CgroupsResult
    units: list[UnitRow] | None
    versions: Mapping[str, Any]
    facts: Machine
    least_oom_score_adj: int | None = None
    work: KubeletWork | None = None
    """That of the kubelet which was asked for the pods."""
    kept: Assignments | None = None
    """The CPUs and memory that it has handed out."""
    releases: Sequence[str] = ()
    """Those that it may be besides the node's, where it did not tell its own."""
    held: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The values that qoslet's agent keeps beside it, by path and file."""
    missing: dict[str, str] = field(default_factory=dict)


def bundle_parts(source: BundleSource, time: str, *, redact: bool) -> dict[str, bytes]:
    """The parts of a bundle, made at ``time`` (RFC 3339)."""
    from msgspec import json

    from qoslet.render.documents import encode_yaml

    names = Pseudonyms() if redact else None
    found: dict[str, bytes] = {}
    pods = None if source.pods is None else pod_documents(source.pods, names)
    api_node = source.api_node
    if api_node is not None:
        found[part.NODE] = encode_json(node_fields(api_node, names or keep))
    machine, kubelet = source.machine, source.kubelet
    if names is not None:
        machine = redacted_machine(machine, names)
        kubelet = redacted_kubelet(kubelet, names)
    found[part.MACHINE] = encode_yaml(dict(machine))
    found[part.KUBELET] = encode_yaml(dict(kubelet))
    if pods is not None:
        found[part.PODS] = encode_json({"apiVersion": "v1", "kind": "List", "items": pods})
    cgroups, units = source.cgroups.rows, source.units
    if names is not None:
        cgroups = redacted_cgroups(cgroups, names)
        units = None if units is None else redacted_units(units, names)
    found[part.CGROUPS] = lines(cgroups)
    if units is not None:
        found[part.UNITS] = lines(units)
    found[part.DOCTOR] = facts_text(source.facts, names)
    about = _about(source, time, names)
    return {part.BUNDLE: json.format(encode_json(about), indent=2) + b"\n", **found}


def packed(source: BundleSource, seconds: float, *, redact: bool) -> bytes:
    """The archive, made at ``seconds`` since 1970. Where it would be larger than ``MOST``, statistics
    are left out, which ``missing`` says then."""
    from qoslet.core.bundle.archive import pack
    from qoslet.render.documents.timestamps import moment

    for names, what in ((), ""), (_LARGE, "memory.stat and io.stat"), (STATE, "statistics"):
        if names:
            rows = [_without(row, names) for row in source.cgroups.rows]
            source.cgroups.rows = rows
            source.missing[part.CGROUPS] = f"{what} are left out, to keep the bundle below 1 MB"
        found = pack(bundle_parts(source, moment(seconds), redact=redact), modified=int(seconds))
        if len(found) <= MOST:
            break
    return found


def _without(row: CgroupRow, names: frozenset[str]) -> CgroupRow:
    files = {name: text for name, text in row.files.items() if name not in names}
    return replace(row, files=files)


def pod_documents(
    pods: Sequence[tuple[Pod, Mapping[str, Any]]], names: Pseudonyms | None
) -> list[dict[str, Any]]:
    """The pods as the API prints them, with the fields that may be in a bundle. Redacted ones have
    the UID that their cgroups are named after, since it may be computed from the name."""
    rename: Rename = names or keep
    found = []
    for pod, document in pods:
        meta = dict(document.get("metadata") or {})
        meta |= {"name": pod.name, "namespace": pod.namespace}
        if pod.uid_from == "generated":
            meta.pop("uid", None)
        if names is not None and pod.uid_from != "config.hash":
            meta["uid"] = pod.uid
        if pod.controller is not None and not meta.get("ownerReferences"):
            kind, name = pod.controller
            meta["ownerReferences"] = [{"kind": kind, "name": name, "controller": True}]
        whole = {**document, "apiVersion": "v1", "kind": "Pod", "metadata": meta}
        found.append(pod_fields(whole, rename))
    return found


def _about(source: BundleSource, time: str, names: Pseudonyms | None) -> dict[str, object]:
    """``bundle.json``."""
    unread = source.cgroups.unread
    return {
        "apiVersion": "qoslet/v1",
        "kind": "Bundle",
        "time": time,
        "versions": dict(source.versions),
        "redacted": names is not None,
        "pods": None if source.pods is None else len(source.pods),
        "cgroups": len({row.path for row in source.cgroups.rows}),
        "missing": [{"part": name, "reason": why} for name, why in source.missing.items()],
        "unread": [
            {
                "path": names.path(one.path) if names is not None else one.path,
                "file": one.file,
                "error": one.error,
            }
            for one in unread[:UNREAD_MOST]
        ],
        "unreadFiles": len(unread),
        "leastOomScoreAdj": source.least_oom_score_adj,
        "kubelet": None if source.work is None else _kubelet_state(source, source.work, names),
    }


def _kubelet_state(
    source: BundleSource, work: KubeletWork, names: Pseudonyms | None
) -> KubeletState:
    held = [
        HeldValue(path if names is None else names.path(path), file, value)
        for (path, file), value in source.held.items()
    ]
    return kubelet_state(work, source.kept, names or keep, source.releases, held)


def kubelet_document(node: Node) -> dict[str, Any]:
    """The KubeletConfiguration in force: the driver, and what documents and flags gave."""
    from qoslet.core.explain.node_config import documents
    from qoslet.core.node.documents.kubelet_config import READERS

    given = {name for name in READERS if name in node.origins}
    whole = documents(node)[1]
    found = {name: whole[name] for name in ("apiVersion", "kind", "cgroupDriver")}
    found |= {name: value for name, value in whole.items() if name in given}
    if not node.kubelet_given:
        # only a configured kubelet refuses to start
        found |= {"failCgroupV1": False, "failSwapOn": False}
    elif "memoryThrottlingFactor" in given:
        found.setdefault("memoryThrottlingFactor", None)
    return found
