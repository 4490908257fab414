"""What is stored or sent keeps its names: those of an earlier version are read, none goes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec
import pytest

from tests.old_state import DATA, same_again
from tests.stored import ROOTS, table

FROZEN, SPECIMENS = DATA / "stored-names.tsv", DATA / "specimens.tsv"


def frozen() -> dict[str, str]:
    return dict(line.split("\t") for line in FROZEN.read_text().splitlines())


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The names that are gone, and those that are something else now."""
    gone = [name for name in before if name not in now]
    other = [
        f"{name}: {kind} before, {now[name]} now"
        for name, kind in before.items()
        if now.get(name, kind) not in (kind, "optional" if kind == "needed" else kind)
    ]
    return gone, other


def test_no_stored_name_goes_or_changes(record_property: Callable[[str, object], None]) -> None:
    before = frozen()
    assert len(before) > 700
    wrong = differences(before, table())
    assert wrong == ([], []), "raise the format number, and read the old format, too"
    record_property("compared", len(before))


def test_a_new_name_need_not_be_there() -> None:
    before, now = frozen(), table()
    known = {_owner(name) for name in before}
    added = {name for name, kind in now.items() if kind == "needed" and name not in before}
    needed = sorted(name for name in added if _owner(name) in known)
    assert needed == [], "an earlier version did not write it: give it a default"


def _owner(name: str) -> str:
    """What has a field: ``pod`` of ``pod.uid!``, ``journal(type=set)`` of ``journal(type=set)[1]!``."""
    return re.sub(r"(\.\w+|\[\d+\])!$", "", name)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"pod.uid": None}, "gone"),
        ({"pod.uid": "integer"}, "pod.uid: text before, integer now"),
        ({"pod.uid!": "optional"}, ""),
        ({"held.memo!": "needed"}, "held.memo!: optional before, needed now"),
        ({"pod.more!": "optional"}, ""),
    ],
)
def test_a_change_is_found(change: dict[str, str | None], found: str) -> None:
    now = {name: kind for name, kind in {**table(), **change}.items() if kind is not None}
    gone, other = differences(frozen(), now)
    assert (["gone"] if gone else other) == ([found] if found else [])


def test_a_value_of_each_kind_is_read_and_written_again(
    record_property: Callable[[str, object], None],
) -> None:
    """In these every field is there, and none has its default."""
    rows = [line.split("\t") for line in SPECIMENS.read_text().splitlines()]
    kinds = Counter(name for name, _ in rows)
    assert kinds.keys() == ROOTS.keys()
    assert (kinds["journal"], kinds["keeper-request"], kinds["keeper-news"]) == (9, 6, 5)
    compared = 0
    for name, text in rows:
        compared += same_again(text.encode(), msgspec.json.decode(text, type=ROOTS[name]))
    assert compared > 500
    record_property("compared", compared)
