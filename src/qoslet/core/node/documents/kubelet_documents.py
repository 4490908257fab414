"""Documents that configure a kubelet: a KubeletConfiguration, one inside another document, flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from qoslet.core.node.documents.sources import Fields, Sources
from qoslet.core.node.faults import Faults, close_to, place, shown
from qoslet.core.node.fields import mapping
from qoslet.core.problem import Problem
from qoslet.core.versions.feature_gates import is_known

_WARNINGS = 20
"""Mistyped fields that are told."""

_ROWS = 3
"""Documents without a configuration that are told one by one."""


def add_kubelet(
    faults: Faults,
    found: Sources,
    where: str,
    document: Any,
    places: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Take a KubeletConfiguration; ``places`` are the fields that stand under another name."""
    given = mapping(faults, where.rstrip(": ."), document)
    if given is None:
        return
    adds = found.kubelet is not None and "evictionHard" not in found.kubelet
    found.over_defaults |= adds and isinstance(given.get("evictionHard"), Mapping)
    fields = found.kubelet = found.kubelet or {}
    from qoslet.core.node.documents.kubelet_field_names import SINCE

    for key, value in given.items():
        place_of = f"{where}{places.get(key, key)}"
        if key in SINCE:
            # A null factor is told from an absent one: since 1.27 both are legal, with a meaning.
            if value is not None or key == "memoryThrottlingFactor":
                fields[key] = _over(found, key, value, place_of)
        elif key not in ("apiVersion", "kind"):
            found.unknown.append((key, place_of))
    swap = given.get("memorySwap")
    for key in swap if isinstance(swap, Mapping) else ():
        if key != "swapBehavior" and isinstance(key, str):
            found.unknown.append((key, f"{where}memorySwap.{key}"))


def _over(found: Sources, field: str, value: Any, where: str) -> tuple[Any, str]:
    """A field's value and place, merged with that of an earlier KubeletConfiguration if both are
    maps."""
    before = (found.kubelet or {}).get(field)
    if before is None or not (isinstance(before[0], Mapping) and isinstance(value, Mapping)):
        return value, where
    # imported where there are several
    from qoslet.core.node.documents.merge_patch import entries, merge

    known = found.entries.get(field) or dict(entries(before[0], before[1]))
    found.entries[field] = {**known, **dict(entries(value, where))}
    return merge(before[0], value), where


def in_force(configz: Any) -> Any:
    """A configuration as a kubelet's /configz has it: complete, so that an empty list or map, which
    JSON leaves out, is no default; and the default thresholds are merged already.

    Source: kubelet config v1beta1 types.go (``omitempty``); a kubelet always has both frequencies.
    """
    if not isinstance(configz, Mapping) or not {
        "syncFrequency",
        "nodeStatusUpdateFrequency",
    } <= set(configz):
        return configz
    given = {key: value for key, value in configz.items() if key != "mergeDefaultEvictionSettings"}
    return {"evictionHard": {}, "enforceNodeAllocatable": [], **with_known_gates(given)}


def with_known_gates(running: Any) -> Any:
    """The configuration of a kubelet that runs, without gates of which nothing is known. OpenShift's kubelets
    warn of those that they do not know, and newer releases have more: neither decides a value here."""
    gates = running.get("featureGates") if isinstance(running, Mapping) else None
    if not isinstance(gates, Mapping) or all(is_known(str(name)) for name in gates):
        return running
    known = {name: value for name, value in gates.items() if is_known(str(name))}
    return {**running, "featureGates": known}


def ineffective(unknown: Sequence[tuple[str, str]]) -> Iterator[Problem]:
    """What to know about fields that no release of the kubelet has."""
    if not unknown:
        return
    from qoslet.core.node.documents.kubelet_field_names import SINCE

    told = _WARNINGS if len(unknown) <= _WARNINGS else _WARNINGS - 1
    for key, where in unknown[:told]:
        known = ("swapBehavior",) if where.endswith(f".memorySwap.{key}") else SINCE
        message = f"{shown(key)} is not a KubeletConfiguration field and has no effect"
        yield Problem("warning", place(where), message, close_to(key, known) or "remove it")
    if len(unknown) > told:
        message = f"{len(unknown) - told} more fields are not KubeletConfiguration fields"
        yield Problem("warning", place(unknown[told][1]), message, "remove them")


def put_over(found: Sources, defaults: Fields, flags: Fields) -> None:
    """Put fields below those of the KubeletConfiguration, and those of flags above them."""
    if "featureGates" in flags and "featureGates" in (found.kubelet or {}):
        found.gates = flags.pop("featureGates")
    found.kubelet = {**defaults, **(found.kubelet or {}), **flags}


def add_arguments(faults: Faults, found: Sources) -> None:
    """Take the kubelet's flags of documents of distributions."""
    from qoslet.core.node.command_line.kubelet_arguments import read_arguments
    from qoslet.core.node.documents.embedded import arguments_of

    for where, given in found.arguments:
        said = read_arguments(faults, arguments_of(given, where), where)
        found.problems += said.problems
        put_over(found, {}, said.fields)
        if said.name is not None:
            found.kubeadm = {**found.kubeadm, "metadata.name": said.name}


def add_embedded(
    faults: Faults,
    found: Sources,
    label: str,
    given: Mapping[str, Any],
    empty: list[tuple[str, str, str]],
) -> bool:
    """Read the KubeletConfiguration inside a document of a distribution; whether it is one. Those
    without a configuration are added to ``empty``."""
    from qoslet.core.node.documents.embedded import embedded, partial_row

    inside = embedded(given)
    if inside is None:
        return False
    if inside.is_empty:
        empty.append((label, inside.message, inside.hint))
        return True
    if inside.message:
        faults.add(label, inside.message, inside.hint)
        return True
    given_at = inside.field if inside.document is not None else inside.arguments_field
    found.problems.append(partial_row(f"{label}: {given_at}" if given_at else label))
    found.from_distribution = True
    if inside.hierarchy is not None:
        version, field = inside.hierarchy
        found.own = {**(found.own or {}), "host.hierarchy": (version, f"{label}: {field}")}
    for name, (value, field) in inside.node.items():
        found.kubeadm = {**found.kubeadm, name: (value, f"{label}: {field}")}
    if inside.document is not None:
        where = f"{label}: {inside.field}." if inside.field else f"{label}: "
        add_kubelet(faults, found, where, inside.document, inside.places)
    if inside.arguments:
        found.arguments.append((f"{label}: {inside.arguments_field}", inside.arguments))
    return True


def without_kubelet(documents: Sequence[tuple[str, str, str]]) -> Iterator[Problem]:
    """What to know about documents of distributions that hold no configuration."""
    for label, message, _ in documents[:_ROWS]:
        yield Problem("info", place(label), f"skipped: {message}", "")
    if len(documents) > _ROWS:
        message = f"skipped: {len(documents) - _ROWS} more documents say nothing of a kubelet"
        yield Problem("info", place(documents[_ROWS][0]), message, "")
