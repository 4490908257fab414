"""Files that describe a node to a ``Node``, with this machine for what they leave open."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from qoslet.core.api.pod import System
from qoslet.core.node.documents.sources import LISTED_KINDS
from qoslet.core.node.node import Node
from qoslet.core.node.resolve import Flags, Probed, node_from
from qoslet.core.problem import Problem
from qoslet.errors import BadInput, BadInputs
from qoslet.host.files.bounds import READ_ONCE, FileLimits

if TYPE_CHECKING:
    from qoslet.core.api.documents import Document


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
    items = [_node_only(item) for item in outer.items]
    return {"apiVersion": "v1", "kind": outer.kind, "items": items}


def _node_only(item: Raw) -> Any:
    try:
        kind = msgspec.json.decode(item, type=_Kind).kind
    except msgspec.ValidationError:
        return None
    known = kind in (None, "Node", "ConfigMap") or kind in LISTED_KINDS
    return msgspec.json.decode(item) if known else None


_WITH_TEXTS = ("ConfigMap", "Cluster", "MachineConfig")
"""The kinds that hold documents as text."""


def _unwrapped(where: str, value: Any, bounds: FileLimits) -> Iterator[tuple[str, Any] | BadInput]:
    """The document, or those that are text in it, also in a List; kind's Cluster stands beside them."""
    items = value.get("items") if isinstance(value, dict) and value.get("kind") == "List" else None
    if not isinstance(items, list):
        texts = _texts(value)
        if not texts or value.get("kind") == "Cluster":
            yield where, value
    else:
        maps = {at: _texts(item) for at, item in enumerate(items)}
        texts = {
            f"items[{at}].{key}": text for at, some in maps.items() for key, text in some.items()
        }
        rest = [item for at, item in enumerate(items) if not maps[at]]
        if not texts or any(isinstance(one, dict) and one.get("kind") == "Node" for one in rest):
            yield (
                where,
                {**value, "items": [None if maps[at] else one for at, one in enumerate(items)]},
            )
    for key, text in texts.items():
        from qoslet.core.node.documents.inner_texts import with_api_version
        from qoslet.host.files.manifests import text_documents

        for found in text_documents(text.encode(errors="surrogatepass"), f"{where}: {key}", bounds):
            if isinstance(found, BadInput):
                yield found
            else:
                yield found.where, with_api_version(msgspec.json.decode(found.data))


def _texts(value: Any) -> dict[str, str]:
    """The texts of a document that are node documents, by their fields."""
    if not isinstance(value, dict) or value.get("kind") not in _WITH_TEXTS:
        return {}
    # imported where a document has them
    from qoslet.core.node.documents.inner_texts import texts_inside

    return texts_inside(value)


def _documents(
    paths: Sequence[str], stdin: IO[bytes] | None, root_check: bool, bounds: FileLimits
) -> Iterator[tuple[str, Any] | BadInput]:
    for path in paths:
        from qoslet.host.files.manifests import documents_of

        files = [path]
        if path != "-" and os.path.isdir(path):
            # imported where a directory is given
            from qoslet.host.files.manifest_names import drop_ins

            files += drop_ins(path)
        found = documents_of(files, stdin, root_check and os.geteuid() == 0, bounds)
        yield from _values(found, path, bounds)


def _values(
    documents: Iterator[Document | BadInput], path: str, bounds: FileLimits
) -> Iterator[tuple[str, Any] | BadInput]:
    """The documents of one file, decoded."""
    count = 0
    for found in documents:
        count += 1
        if isinstance(found, BadInput):
            yield found
            continue
        try:
            yield from _unwrapped(found.where, _decoded(found.data), bounds)
        except RecursionError:
            hint = "Kubernetes documents are not"
            yield BadInput("is nested too deeply", where=found.where, hint=hint)
    if not count:
        hint = "is it the right file?"
        if path != "-" and os.path.isdir(path):
            hint = "of a directory *.yaml, *.yml, *.json and *.conf are read"
        yield BadInput("contains no document", where=path, hint=hint)


def _text_values(
    texts: Iterable[tuple[str, bytes]], bounds: FileLimits
) -> Iterator[tuple[str, Any] | BadInput]:
    for name, text in texts:
        from qoslet.host.files.manifests import text_documents

        yield from _values(text_documents(text, name, bounds), name, bounds)


def node_values(path: str) -> list[tuple[str, Any]]:
    """The documents of a file or ``-`` that describe nodes, decoded, each with its place. Raises
    BadInputs."""
    found = [*_documents([path], None, False, READ_ONCE)]
    faults = [one for one in found if isinstance(one, BadInput)]
    if faults:
        raise BadInputs(faults)
    return [one for one in found if not isinstance(one, BadInput)]


def load_node(
    paths: Sequence[str],
    flags: Flags,
    *,
    stdin: IO[bytes] | None = None,
    root_check: bool = False,
    bounds: FileLimits = READ_ONCE,
    acts: bool = False,
    own_tree: bool = False,
    system: System | None = None,
    texts: Iterable[tuple[str, bytes]] = (),
) -> tuple[Node, list[Problem]]:
    """The node that the files at ``paths`` (``-``: standard input) and ``flags`` describe, and
    before them ``texts``, each after its name in messages.

    This machine is looked at only for what they do not say, and if they are of another one not at
    all, unless the command ``acts`` on this machine; ``own_tree`` as for ``node_from``. With ``root_check`` a path that
    another user can change is refused while running as root. ``system`` overrides
    the operating system that the documents name. Raises BadInputs with all faults.
    """
    found = [*_text_values(texts, bounds), *_documents(paths, stdin, root_check, bounds)]
    faults = [each for each in found if isinstance(each, BadInput)]
    documents = [each for each in found if not isinstance(each, BadInput)]
    if not faults:
        return node_from(documents, flags, _probe, acts=acts, own_tree=own_tree, system=system)
    try:
        node_from(documents, flags, _probe, acts=acts, own_tree=own_tree, system=system)
    except BadInputs as more:
        faults.extend(more.faults)
    raise BadInputs(faults)
