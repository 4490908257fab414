"""An aspect's measure looks at no file that the aspect does not name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from qoslet.core.diff.aspects import ASPECTS, Aspect, aspect_of

HUGE = "hugetlb.2MB.max"
VALUES = ("1", "max", "0-3", "100000 100000")


class Seen(Mapping[str, str]):
    """Files that all have one value; ``names`` are those that somebody looked at."""

    def __init__(self, value: str | None) -> None:
        self.names: set[str] = set()
        self._value = value

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        if self._value is None:
            raise KeyError(name)
        return self._value

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return self._value is not None

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("a measure asks for files by name")

    def __len__(self) -> int:
        raise AssertionError("a measure asks for files by name")


@pytest.mark.parametrize("aspect", [*ASPECTS, aspect_of(HUGE)], ids=lambda one: one.id)
@pytest.mark.parametrize("value", [None, *VALUES])
def test_a_measure_reads_the_files_of_its_aspect(aspect: Aspect, value: str | None) -> None:
    seen = Seen(value)
    aspect.measure(seen)
    assert seen.names <= set(aspect.reads)
