"""The pods of a list that is read again and again: only those whose text is another are decoded."""

from __future__ import annotations

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
    """What ``load_text`` gives, for one source after another."""

    def __init__(self) -> None:
        self._known: dict[bytes, Loaded] = {}
        self._known_for: tuple[Options, str] | None = None

    def load(self, text: bytes, options: Options, name: str) -> Loaded:
        """The pods of ``text``. Raises BadInputs."""
        if self._known_for != (options, name):
            self._known, self._known_for = {}, (options, name)
        try:
            items = msgspec.json.decode(text, type=_PodList).items
            made = {self._key(raw): raw for raw in items}
            parts = {key: self._part(key, raw, options, name) for key, raw in made.items()}
        except (*DECODE_ERRORS, BadInputs):
            return load_text(text, options, name=name)
        self._known = parts
        found = Loaded(
            [pod for one in parts.values() for pod in one.pods],
            [row for one in parts.values() for row in one.problems],
            [],
        )
        nodes = {node for one in parts.values() for node in one.nodes}
        if (
            len(parts) == len(items)
            and _are_distinct(found)
            and (options.node_name or len(nodes) < 2)
        ):
            return found
        # what is said of several pods together
        return load_text(text, options, name=name)

    @staticmethod
    def _key(raw: Raw) -> bytes:
        return blake2b(raw, digest_size=16).digest()

    def _part(self, key: bytes, raw: Raw, options: Options, name: str) -> Loaded:
        """One pod as it was decoded. Raises BadInputs."""
        known = self._known.get(key)
        if known is not None:
            return known
        alone = b'{"apiVersion":"v1","kind":"PodList","items":[%b]}' % bytes(raw)
        return load_text(alone, options, name=name)


def _are_distinct(loaded: Loaded) -> bool:
    """Whether no two pods have one name or one UID."""
    count = len(loaded.pods)
    return count == len({one.key for one in loaded.pods}) == len({one.uid for one in loaded.pods})
