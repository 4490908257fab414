"""The pods of a list that is read again and again: only those whose text is another are decoded."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from qoslet.core.api.loaded import Loaded
from qoslet.core.api.manifest import Options
from qoslet.core.api.schema import DECODE_ERRORS
from qoslet.errors import BadInputs
from qoslet.host.files.manifests import load_text


class _PodList(Struct):
    kind: Literal["PodList"]
    apiVersion: Literal["v1"]  # noqa: N815
    items: list[Raw]


class DecodedPods:
    """What ``load_text`` gives, for one list after another and several options for each."""

    def __init__(self) -> None:
        self._known: dict[Options, dict[bytes, Loaded]] = {}
        self._known_for = ""
        self._split: tuple[bytes, Mapping[bytes, Raw] | None] = b"", None

    def load(self, text: bytes, options: Options, name: str) -> Loaded:
        """The pods of ``text``. Raises BadInputs."""
        if self._known_for != name:
            self._known, self._known_for = {}, name
        known = self._known.get(options, {})
        try:
            pods = self._pods(text)
            if pods is None:
                return load_text(text, options, name=name)
            parts = {
                key: known[key] if key in known else _decoded(raw, options, name)
                for key, raw in pods.items()
            }
        except BadInputs:
            return load_text(text, options, name=name)
        self._known[options] = parts
        found = Loaded(
            [pod for one in parts.values() for pod in one.pods],
            [row for one in parts.values() for row in one.problems],
            [],
        )
        nodes = {node for one in parts.values() for node in one.nodes}
        if _are_distinct(found) and (options.node_name or len(nodes) < 2):
            return found
        # what is said of several pods together
        return load_text(text, options, name=name)

    def _pods(self, text: bytes) -> Mapping[bytes, Raw] | None:
        """The texts of the pods by their digests; None where two are the same, and of what is no
        PodList."""
        if self._split[0] is not text:
            try:
                items = msgspec.json.decode(text, type=_PodList).items
            except DECODE_ERRORS:
                items = []
            pods = {blake2b(raw, digest_size=16).digest(): raw for raw in items}
            self._split = text, pods if len(pods) == len(items) > 0 else None
        return self._split[1]


def _decoded(raw: Raw, options: Options, name: str) -> Loaded:
    """One pod. Raises BadInputs."""
    alone = b'{"apiVersion":"v1","kind":"PodList","items":[%b]}' % bytes(raw)
    return load_text(alone, options, name=name)


def _are_distinct(loaded: Loaded) -> bool:
    """Whether no two pods have one name or one UID."""
    count = len(loaded.pods)
    return count == len({one.key for one in loaded.pods}) == len({one.uid for one in loaded.pods})
