"""Files that describe a node to a ``Node``, with this machine for what they leave open."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import IO, Any

import msgspec
from msgspec import Raw, Struct

from qoslet.core.api.pod import System
from qoslet.core.node.node import Node
from qoslet.core.node.resolve import Flags, Probed, node_from
from qoslet.core.problem import Problem
from qoslet.errors import BadInput, BadInputs
from qoslet.host.files.bounds import READ_ONCE, FileLimits


class _Kind(Struct):
    kind: Any = None


class _List(Struct):
    kind: Any = None
    items: list[Raw] | None = None


def _probe() -> Probed:
    from qoslet.host.machine.probe import probe

    return probe()


def _decoded(data: bytes | memoryview) -> Any:
    """The JSON value of a document. In a list only what can be a node is unfolded: a cluster's
    pods may stand beside it by the thousand."""
    try:
        outer = msgspec.json.decode(data, type=_List)
    except msgspec.ValidationError:
        return msgspec.json.decode(data)
    if outer.items is None or outer.kind not in ("List", "NodeList"):
        return msgspec.json.decode(data)
    return {"apiVersion": "v1", "kind": outer.kind, "items": list(map(_node_only, outer.items))}


def _node_only(item: Raw) -> Any:
    try:
        kind = msgspec.json.decode(item, type=_Kind).kind
    except msgspec.ValidationError:
        return None
    return msgspec.json.decode(item) if kind in (None, "Node") else None


def _documents(
    paths: Sequence[str], stdin: IO[bytes] | None, root_check: bool, bounds: FileLimits
) -> Iterator[tuple[str, Any] | BadInput]:
    for path in paths:
        from qoslet.host.files.manifests import documents_of

        count = 0
        for found in documents_of([path], stdin, root_check and os.geteuid() == 0, bounds):
            count += 1
            if isinstance(found, BadInput):
                yield found
                continue
            try:
                yield found.where, _decoded(found.data)
            except RecursionError:
                hint = "Kubernetes documents are not"
                yield BadInput("is nested too deeply", where=found.where, hint=hint)
        if not count:
            yield BadInput("contains no document", where=path, hint="is it the right file?")


def load_node(
    paths: Sequence[str],
    flags: Flags,
    *,
    stdin: IO[bytes] | None = None,
    root_check: bool = False,
    bounds: FileLimits = READ_ONCE,
    acts: bool = False,
    system: System | None = None,
) -> tuple[Node, list[Problem]]:
    """The node that the files at ``paths`` (``-``: standard input) and ``flags`` describe.

    This machine is looked at only for what they do not say, and if they are of another one not at
    all, unless the command ``acts`` on this machine. With ``root_check`` a path that
    another user can change is refused while running as root. ``system`` overrides
    the operating system that the documents name. Raises BadInputs with all faults.
    """
    found = list(_documents(paths, stdin, root_check, bounds))
    faults = [each for each in found if isinstance(each, BadInput)]
    documents = [each for each in found if not isinstance(each, BadInput)]
    if not faults:
        return node_from(documents, flags, _probe, acts=acts, system=system)
    try:
        node_from(documents, flags, _probe, acts=acts, system=system)
    except BadInputs as more:
        faults.extend(more.faults)
    raise BadInputs(faults)
