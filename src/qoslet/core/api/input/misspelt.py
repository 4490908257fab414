"""The key that is meant where a field is missing."""

from __future__ import annotations

import re
from functools import cache

import msgspec
from msgspec import Raw

from qoslet.core.api import schema
from qoslet.core.api.documents import Text

_STEP = re.compile(r"[^.\[\]]+")


@cache
def _fields() -> frozenset[str]:
    """The names that documents may have: none of them is a misspelling."""
    shapes = (
        schema.ContainerShape,
        schema.Envelope,
        schema.JobShape,
        schema.Metadata,
        schema.PodShape,
        schema.PodSpecShape,
        schema.WorkloadSpecShape,
    )
    return frozenset(name for shape in shapes for name in shape.__struct_encode_fields__)


def misspelt(raw: Raw | Text, path: str) -> str:
    """``container: did you mean containers?`` where the object that lacks the field ``path`` has a
    key of nearly its name; else nothing."""
    try:
        value = msgspec.json.decode(raw)
    except schema.DECODE_ERRORS:
        return ""
    *above, name = _STEP.findall(path)
    for step in above:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
    keys = tuple(value.keys() - _fields()) if isinstance(value, dict) else ()
    from difflib import get_close_matches

    near = {key.lower(): key for key in keys}
    found = get_close_matches(name.lower(), near, 1, 0.8)
    return f"{schema.shown(near[found[0]])}: did you mean {name}?" if found else ""
