"""Which series are left out where there would be too many."""

from __future__ import annotations

import pytest

from qoslet.core.status.fields import FIELDS, Metric
from qoslet.core.status.series import kubelet_labels, within

_CGROUP = Metric("m", "", ("level", "pod", "container", "cgroup"))
_POD = Metric("p", "", ("namespace", "pod", "uid"))
_RESTARTS = Metric("r", "", ("namespace", "pod", "uid", "container"), counter=True)
_AGENT = Metric("a", "", ())


def _samples() -> dict[Metric, list[tuple[tuple[str, ...], float]]]:
    rows = [("node", "", "", "/k"), ("qos", "", "", "/k/b"), ("pod", "d/a", "", "/k/b/a")]
    rows += [("container", "d/a", name, f"/k/b/a/{name}") for name in ("x", "y")]
    rows += [("sandbox", "d/a", "", "/k/b/a/s")]
    return {
        _CGROUP: [(row, 1.0) for row in rows],
        _POD: [(("d", "a", "u"), 1.0)],
        _RESTARTS: [(("d", "a", "u", "x"), 0.0)],
        _AGENT: [((), 3.0)],
    }


@pytest.mark.parametrize(
    ("most", "levels", "left"),
    [
        (9, ["node", "qos", "pod", "container", "container", "sandbox"], (0, 0)),
        (8, ["node", "qos", "pod"], (4, 0)),
        (5, ["node", "qos", "pod"], (4, 0)),
        (4, ["node", "qos"], (4, 2)),
        (1, ["node", "qos"], (4, 2)),
    ],
)
def test_a_level_is_left_out_whole_and_counted(
    most: int, levels: list[str], left: tuple[int, int]
) -> None:
    kept, found = within(_samples(), most)
    assert [values[0] for values, _ in kept[_CGROUP]] == levels
    assert (found["container"], found["pod"]) == left
    assert bool(kept[_POD]) is (left[1] == 0)
    assert bool(kept[_RESTARTS]) is (left[0] == 0)
    assert kept[_AGENT] == [((), 3.0)]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (("container", "d/a", "x", "/k/x"), ("x", "/k/x", "d", "a")),
        (("sandbox", "d/a", "", "/k/s"), ("POD", "/k/s", "d", "a")),
        (("pod", "d/a", "", "/k"), ("", "/k", "d", "a")),
        (("node", "", "", "/"), ("", "/", "", "")),
    ],
)
def test_a_cgroup_is_named_as_a_kubelet_names_it(
    values: tuple[str, ...], named: tuple[str, ...]
) -> None:
    assert kubelet_labels(_CGROUP.labels, values) == named


def test_what_has_a_name_of_the_kubelet_is_of_a_cgroup() -> None:
    named = [one.metric for one in FIELDS if one.metric is not None and one.metric.kubelet]
    assert len(named) >= 6
    assert {one.labels for one in named} == {_CGROUP.labels}
    assert len({one.kubelet for one in named}) == len(named)
