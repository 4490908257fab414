"""The items of a batch: pods as members of shapes, nodes as what decides about them, and faults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from qoslet.core.api.documents import Document, Options, Spot, Text
from qoslet.core.api.input.nested_lists import nested
from qoslet.core.api.manifest import some_pods
from qoslet.core.api.pod import Pod
from qoslet.core.api.pod_decoder import DocumentPath, PodReader
from qoslet.core.api.schema import DECODE_ERRORS, Envelope, Metadata, decode_pod, shown
from qoslet.core.fleet.shapes import key_of, quick_key, shape_of
from qoslet.core.fleet.splitter import Batch
from qoslet.core.problem import Problem, ProblemCode
from qoslet.errors import BadInput

_LISTS = ("List", "PodList", "NodeList")
_POD = re.compile(rb'\{\s*"apiVersion"\s*:\s*"v1"\s*,\s*"kind"\s*:\s*"Pod"\s*,')


class Taint(Struct, frozen=True, gc=False):
    """core/v1 Taint."""

    key: str
    value: str
    effect: str


class NodeRow(Struct, frozen=True, gc=False):
    """A node of the input. ``body`` is the part of its document that decides, as JSON; nodes with
    equal ones are equal but for their names. ``labels`` choose its configuration."""

    name: str
    where: str
    body: bytes
    labels: dict[str, str]
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    bundled: bool = False
    """Whether labels and taints are not known: a bundle does not hold them."""


ENDED = -1
"""Stands for the shape of a pod that uses nothing any more."""


class Rows(Struct, gc=False):
    """What a batch holds. Pods are columns: ``keys`` (namespace and name), ``uids``, ``nodes``
    (empty: not scheduled) and ``shapes``, numbers of this reader, or ``ENDED``. ``new`` are the
    shapes that it met for the first time, ``skipped`` counts other kinds."""

    file: str
    keys: list[str] = []
    uids: list[str] = []
    nodes: list[str] = []
    shapes: list[int] = []
    new: list[tuple[int, str, Pod]] = []
    machines: list[NodeRow] = []
    problems: list[Problem] = []
    skipped: dict[str, int] = {}


class _Info(Struct, gc=False, rename="camel"):
    kubelet_version: Any = None
    container_runtime_version: Any = None
    operating_system: Any = None
    kernel_version: Any = None
    os_image: Any = None
    architecture: Any = None
    swap: Any = None


class _Status(Struct, gc=False, rename="camel"):
    capacity: Any = None
    allocatable: Any = None
    node_info: _Info | None = None


class _Spec(Struct, gc=False):
    taints: Any = None
    unschedulable: bool | None = None


class _Node(Struct, gc=False, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    metadata: Metadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


class _Body(Struct, gc=False, omit_defaults=True):
    status: _Status | None = None


_decode_node = msgspec.json.Decoder(_Node).decode


class BatchReader:
    """Reads batches; resources and names that repeat are read once. ``allocated`` takes resources
    from the status."""

    def __init__(self, allocated: bool = False) -> None:
        self._reader = PodReader(allocated, trusts=True)
        self._options = Options(allocated=allocated)
        self._shapes: dict[object, int] = {}
        self._kept: list[Pod] = []

    def read(self, batch: Batch) -> Rows:
        """What the items of a batch hold."""
        rows = Rows(batch.file)
        document = Document(
            batch.file,
            batch.number if batch.number > 1 else 0,
            Envelope(api_version="v1", kind="List"),
            batch.data,
        )
        whole = memoryview(batch.data)
        for at, (begin, end) in enumerate(batch.spans):
            spot = Spot(document, batch.first + at if batch.first >= 0 else -1)
            self._item(whole[begin:end], spot, batch.implied, rows)
        return rows

    def _item(self, raw: memoryview, spot: Spot, implied: str | None, rows: Rows) -> None:
        if _POD.match(raw) or implied == "Pod":
            self._pod(raw, spot, implied, rows)
            return
        try:
            node = _decode_node(raw)
        except DECODE_ERRORS:
            self._odd(raw, spot, implied, rows)
            return
        kind = node.kind or implied
        if kind == "Node" and (node.api_version or "v1") == "v1":
            self._node(node, spot, rows)
        elif kind == "Pod":
            self._pod(raw, spot, implied, rows)
        elif kind in _LISTS:
            self._nested(raw, spot, rows)
        else:
            name = shown(kind or "objects without a kind", 60)
            rows.skipped[name] = rows.skipped.get(name, 0) + 1

    def _nested(self, raw: Text, spot: Spot, rows: Rows) -> None:
        """The items of a list that is an item itself."""

        def broken(fault: BadInput) -> None:
            rows.problems.append(_broken(fault.where, fault.message, fault.hint))

        for document in nested(raw, spot, broken):
            implied = (document.envelope.kind or "").removesuffix("List") or None
            items = document.envelope.items
            for at, one in enumerate([] if items is UNSET or items is None else items):
                self._item(memoryview(one), Spot(document, at), implied, rows)

    def _odd(self, raw: memoryview, spot: Spot, implied: str | None, rows: Rows) -> None:
        """An item that is no well-typed object."""
        try:
            value = msgspec.json.decode(raw)
        except DECODE_ERRORS as error:
            rows.problems.append(_broken(spot.where, f"cannot be read: {shown(str(error))}"))
            return
        if not isinstance(value, dict):
            rows.problems.append(_broken(spot.where, "must be an object"))
        elif (value.get("kind") or implied) == "Node":
            self._node(_lenient(value), spot, rows)
        else:
            self._pod(raw, spot, implied, rows)

    def _node(self, node: _Node, spot: Spot, rows: Rows) -> None:
        meta = node.metadata or Metadata()
        where = f"{spot.document.file}: Node {shown(meta.name)}" if meta.name else spot.where
        if not meta.name:
            rows.problems.append(_broken(f"{where}: metadata.name", "is missing"))
            return
        spec = node.spec or _Spec()
        body = msgspec.json.encode(_Body(node.status))
        rows.machines.append(
            NodeRow(
                meta.name,
                where,
                body,
                meta.labels or {},
                bool(spec.unschedulable),
                _taints(spec.taints),
            )
        )

    def _pod(self, raw: memoryview, spot: Spot, implied: str | None, rows: Rows) -> None:
        try:
            shape = decode_pod(raw)
        except DECODE_ERRORS:
            rows.problems += self._faults(raw, spot, implied)
            return
        where = spot.named("Pod", shape.metadata)
        built = self._reader.build(shape, DocumentPath(where, shape.metadata))
        pod = built.pod
        if pod is None:
            rows.problems += self._faults(raw, spot, implied)
            return
        rows.keys.append(pod.key)
        rows.uids.append(pod.uid)
        rows.nodes.append(pod.node_name or "")
        if pod.has_ended:
            rows.shapes.append(ENDED)
            return
        for note in built.notes:
            place = f"{where}: {note.path}"
            rows.problems.append(Problem(note.severity, place, note.message, note.hint))
        rows.shapes.append(self._number(pod, rows))

    def _number(self, pod: Pod, rows: Rows) -> int:
        key = quick_key(pod)
        number = self._shapes.get(key)
        if number is None:
            number = self._shapes[key] = len(self._shapes)
            # the objects whose identity is in the key stay, so that no other takes it
            self._kept.append(pod)
            shape = shape_of(pod)
            rows.new.append((number, key_of(shape), shape))
        return number

    def _faults(self, raw: memoryview, spot: Spot, implied: str | None) -> Iterator[Problem]:
        """Why an item cannot be read as a pod, as ``plan`` says it."""
        kind = "List" if implied is None else f"{implied}List"
        envelope = Envelope(api_version="v1", kind=kind, items=[Raw(bytes(raw))])
        document = Document(
            spot.document.file, spot.document.number, envelope, b"", max(spot.item, 0)
        )
        for fault in some_pods([document], self._options, self._reader).faults:
            yield _broken(fault.where, fault.message, fault.hint)


def _taints(given: Any) -> tuple[Taint, ...]:
    """What keeps pods off a node, as far as it can be read."""
    found = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return tuple(
        Taint(*[str(one.get(name) or "") for name in ("key", "value", "effect")]) for one in found
    )


def _lenient(value: dict[str, Any]) -> _Node:
    """A node with a field of a wrong type; those that decide are checked where they are read."""

    def part(of: Any, name: str) -> Any:
        return of.get(name) if isinstance(of, dict) else None

    meta = value.get("metadata")
    labels = part(meta, "labels")
    name = part(meta, "name")
    status = value.get("status")
    info = part(status, "nodeInfo")
    found = _Info(*[part(info, key) for key in _Info.__struct_encode_fields__])
    spec = value.get("spec")
    return _Node(
        spec=_Spec(part(spec, "taints"), part(spec, "unschedulable") is True),
        metadata=Metadata(
            name=name if isinstance(name, str) else None,
            labels={k: v for k, v in labels.items() if isinstance(v, str)}
            if isinstance(labels, dict)
            else None,
        ),
        status=_Status(part(status, "capacity"), part(status, "allocatable"), found),
    )


def _broken(where: str, message: str, hint: str = "") -> Problem:
    return Problem("error", where, message, hint, ProblemCode.UNREAD)
