"""Results come in the order of the work, whatever the workers' pace."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qoslet.host.linux.processes.workers import spread


def until(file: Path) -> None:
    """Wait for a file, but not for good."""
    deadline = time.monotonic() + 20
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.005)


@pytest.mark.timeout(60)
def test_a_worker_that_is_far_behind_stops_nobody(tmp_path: Path) -> None:
    """The first worker has tasks 0 and 1; the other one is 15 ahead when 0 is done, gets one more
    and is done with that, too, before 1 is."""

    def begin() -> Callable[[int], int]:
        def work(number: int) -> int:
            if number == 0:
                until(tmp_path / "begun 15")
            elif number == 15:
                (tmp_path / "begun 15").touch()
                until(tmp_path / "given 0")
            elif number == 16:
                (tmp_path / "done 16").touch()
            elif number == 1:
                until(tmp_path / "done 16")
                time.sleep(0.3)
            return number

        return work

    found = []
    for _, result in spread(range(40), begin, 2):
        found.append(result)
        (tmp_path / f"given {result}").touch()
    assert found == list(range(40))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_are_in_the_order_of_the_tasks(count: int) -> None:
    def begin() -> Callable[[int], int]:
        return lambda number: number * number

    assert [result for _, result in spread(range(100), begin, count)] == [
        number * number for number in range(100)
    ]
