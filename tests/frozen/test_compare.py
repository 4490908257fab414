"""The comparison bites: what may be another, and what may not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frozen import compare
from tests.frozen.answers import compared
from tests.frozen.compare import differences
from tests.frozen.store import Asked

WAS: dict[str, Any] = {
    "kind": "Plan",
    "cgroups": [{"value": "5", "count": 1, "because": "cpu 5 -> 5"}, {"value": None}],
    "problems": [{"severity": "info", "message": "so", "hint": ""}],
}


def changed(**top: Any) -> dict[str, Any]:
    return {**WAS, **top}


def told(now: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(one.place, one.wording) for one in differences(WAS, now)]


FIRST = WAS["cgroups"][0]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({**FIRST, "because": "other words"}, [("cgroups[].because", True)]),
        ({**FIRST, "because": ""}, [("cgroups[].because", False)]),
        ({**FIRST, "because": None}, [("cgroups[].because", False)]),
        ({**FIRST, "because": 5}, [("cgroups[].because", False)]),
        ({**FIRST, "value": "6"}, [("cgroups[].value", False)]),
        ({**FIRST, "value": 5}, [("cgroups[].value", False)]),
        ({**FIRST, "count": 1.0}, [("cgroups[].count", False)]),
        ({**FIRST, "count": True}, [("cgroups[].count", False)]),
        ({**FIRST, "new": 1}, [("cgroups[].new", False)]),
        ({"value": "5", "count": 1}, [("cgroups[].because", False)]),
        (
            {"count": 1, "value": "5", "because": "cpu 5 -> 5"},
            [("cgroups[]: order of keys", False)],
        ),
    ],
)
def test_a_row(row: dict[str, Any], expected: list[tuple[str, bool]]) -> None:
    assert told(changed(cgroups=[row, {"value": None}])) == expected


def test_rows_that_come_or_go() -> None:
    assert told(WAS) == []
    assert told(changed(cgroups=[FIRST])) == [("cgroups[]", False)]
    assert told(changed(problems=[])) == [("problems[]", False)]
    assert told(changed(kind="Plane")) == [("kind", False)]


def test_keys_that_are_listed_may_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = changed(cgroups=[{**FIRST, "new": 1}, {"value": None}])
    monkeypatch.setitem(compare.ADDED, ("Plan", "cgroups[].new"), "a reason")
    assert told(now) == []
    monkeypatch.setitem(compare.ADDED, ("Config", "cgroups[].old"), "a reason")
    assert told(changed(cgroups=[{**FIRST, "old": 1}, {"value": None}])) != []


def test_a_name_may_get_the_uid_of_its_pod() -> None:
    was, now = (
        {"kind": "Plan", "cgroups": [{"name": name}]} for name in ("/root/app", "/root/u1-app")
    )
    assert list(differences(was, now)) == []
    assert list(differences({**was, "kind": "Config"}, {**now, "kind": "Config"})) != []
    for other in ("/app", "/root/u1-other", "/root/u1/x-app", "/u1-app"):
        assert list(differences(was, {"kind": "Plan", "cgroups": [{"name": other}]})) != []


def test_a_source_is_a_value_where_programs_read_it() -> None:
    was, now = ({"kind": "Config", "fields": [{"source": text}]} for text in ("default", "other"))
    assert [one.wording for one in differences(was, now)] == [False]
    assert [
        one.wording for one in differences({**was, "kind": "Plan"}, {**now, "kind": "Plan"})
    ] == [True]


@pytest.mark.parametrize(
    ("code", "form", "out", "wrong"),
    [
        (0, "text", "# other\nvalue", False),
        (0, "text", "# said\nvalue\n# more", True),
        (0, "text", "# said\nother", True),
        (1, "text", "# said\nvalue", True),
        (0, "yaml", "# said\nvalue", True),
    ],
)
def test_printed_lines(code: int, form: str, out: str, wrong: bool) -> None:
    was = Asked(["plan"], 0, "text", "# said\nvalue")
    assert bool(compared(was, Asked(["plan"], code, form, out))) is wrong
