"""The planner and `convert` write a container's block as they did when two writers did it."""

from __future__ import annotations

import itertools
import json
from functools import cache
from pathlib import Path

import pytest

import qoslet
from tests.core.oci.frozen_blocks import (
    DRIVERS,
    HIERARCHIES,
    RUNTIMES,
    SWAPS,
    Case,
    Written,
    cases,
    converted,
    frozen,
    node,
    planned,
    pods,
)

COUNT = 33_200

_read = cache(pods)
_frozen = cache(frozen)


def _of(hierarchy: str, runtime: str) -> dict[Case, list[Written]]:
    found = {}
    for driver, swap in itertools.product(DRIVERS, SWAPS):
        case = Case(hierarchy, runtime, driver, swap)
        found[case] = _frozen()[case]
    return found


def test_every_case_is_frozen() -> None:
    rows = _frozen()
    assert list(rows) == list(cases())
    assert sum(map(len, rows.values())) == COUNT


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_the_planner_writes_what_it_wrote(hierarchy: str, runtime: str, tmp_path: Path) -> None:
    found: list[qoslet.Pod] = _read()
    for case, wanted in _of(hierarchy, runtime).items():
        for pod, was, now in zip(found, wanted, planned(found, node(case, tmp_path)), strict=True):
            assert now == was, (case, pod.name)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_convert_writes_what_it_wrote(hierarchy: str, runtime: str) -> None:
    met = set()
    for case, wanted in _of(hierarchy, runtime).items():
        for was in wanted:
            # swap is in the block, so that equal blocks of one driver have one answer
            key = (case.driver, json.dumps(was.block), json.dumps(was.answer))
            if key not in met:
                met.add(key)
                assert converted(was.block, case) == was.answer, (case, was.block)
    assert len(met) > len(DRIVERS) * 100
