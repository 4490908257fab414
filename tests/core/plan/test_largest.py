"""The pods that make most of a sum: as if sorted each time, at the cost of what changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.api.pod import Pod
from qoslet.core.plan.totals import MOST_NAMED, Largest, TemplateSummary
from qoslet.core.quantity import from_int, from_milli


def shape(number: int, cpu_milli: int, memory: int, count: int = 1) -> TemplateSummary:
    pod = Pod("default", f"p{number}", f"u{number}", "f.yaml", ())
    requests = {"cpu": from_milli(cpu_milli)}
    limits = {"memory": from_int(memory, "BinarySI")}
    return TemplateSummary(pod, count, "Burstable", requests, limits, (), ())


CHANGES = st.lists(
    st.tuples(st.integers(0, 20), st.none() | st.tuples(st.integers(0, 5), st.integers(1, 3))),
    max_size=40,
)


@given(st.lists(CHANGES, max_size=4))
def test_it_is_what_sorting_all_gives(
    rounds: list[list[tuple[int, tuple[int, int] | None]]],
) -> None:
    shapes: dict[int, TemplateSummary] = {}
    largest = Largest(shapes.get)
    for changes in rounds:
        for number, made in changes:
            if made is None:
                shapes.pop(number, None)
            else:
                shapes[number] = shape(number, made[0], made[0] << 20, made[1])
            largest.changed(number)
        for name, limits in (("cpu", False), ("memory", True)):
            parts = [
                (part.amount, part.pod, part.count) for part in largest.of(name, limits=limits)
            ]
            amounts = [
                (
                    one.count
                    * (one.requests["cpu"].milli if name == "cpu" else one.limits["memory"].value),
                    one,
                )
                for one in shapes.values()
            ]
            ranked = sorted(amounts, key=lambda row: (-row[0], row[1].pod.key))[:MOST_NAMED]
            assert parts == [(amount, one.pod.key, one.count) for amount, one in ranked if amount]


def test_one_change_among_many_ranks_one() -> None:
    shapes = {number: shape(number, number, number) for number in range(1000)}
    asked: list[int] = []

    def summary(number: int) -> TemplateSummary:
        asked.append(number)
        return shapes[number]

    largest = Largest(summary)
    for number in shapes:
        largest.changed(number)
    assert [part.pod for part in largest.of("cpu")] == [f"default/p{n}" for n in (999, 998, 997)]
    asked.clear()
    shapes[3] = shape(3, 5000, 1)
    largest.changed(3)
    assert [part.amount for part in largest.of("cpu")] == [5000, 999, 998]
    largest.of("memory", limits=True)
    assert asked == [3]
