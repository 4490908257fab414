"""Lists that are items of a list, which kubectl reads as their items.

Source: k8s.io/cli-runtime pkg/resource visitor.go FlattenListVisitor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Raw

from qoslet.core.api.documents import TOO_DEEP, Document, Spot, Text
from qoslet.core.api.schema import DECODE_ERRORS, decode_envelope, shown
from qoslet.errors import BadInput

LEVELS_MAX = 16
"""Lists within each other that are read."""


def nested(
    raw: Raw | Text, spot: Spot, add_fault: Callable[[BadInput], None]
) -> Iterator[Document]:
    """The item at ``spot`` as a document of its own place; nothing of one that is faulty."""
    if spot.where.count("items[") >= LEVELS_MAX:
        hint = f"qoslet reads {LEVELS_MAX} lists within each other"
        add_fault(BadInput(TOO_DEEP, where=spot.where, hint=hint))
        return
    try:
        envelope = decode_envelope(raw)
    except DECODE_ERRORS as error:
        hint = "a list has an array of objects as items"
        add_fault(BadInput(shown(str(error)), where=spot.where, hint=hint))
        return
    yield Document(spot.document.file, 0, envelope, memoryview(raw), item_of=spot.where)
