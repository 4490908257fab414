"""What real kernels made of 1,260 writes to v2 files and 720 to v1 files, against what is said."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from qoslet.core.convert.answer import Ground
from qoslet.core.convert.kernel import written
from qoslet.core.knobs import cpu_numbers
from tests.live.kernel.kernel_writes import BEFORE_V1, BEFORE_V2, TEXTS, Machine, Write

DATA = Path(__file__).parents[2] / "data" / "kernel-writes"
RECORDINGS = ("6.1-v1", "6.1-v2", "6.12-v2", "6.18-v1", "7.2-v2")
_WITHOUT_HUGETLB = "6.18-v1"


def _recorded(name: str) -> tuple[Machine, list[Write]]:
    first, *rows = map(json.loads, (DATA / f"{name}.jsonl").read_text().splitlines())
    return Machine(*first), [Write(*row) for row in rows]


def _said(row: Write, ground: Ground) -> tuple[str, str]:
    """The error's name and what reads back. A write of no bytes never reaches the file."""
    if not row.text:
        return "", row.before
    said = written(row.file, row.text, row.before, ground)
    if isinstance(said, str):
        return "", said
    names = {os.strerror(code).lower(): name for code, name in errno.errorcode.items()}
    return names[said[0]], row.before


def _texts_that_kernels_differ_on() -> set[str]:
    rows = zip(_recorded("6.12-v2")[1], _recorded("7.2-v2")[1], strict=True)
    return {one.text for one, other in rows if one[1:] != other[1:]}


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_holds_every_write(name: str) -> None:
    machine, rows = _recorded(name)
    files = set(BEFORE_V2 if machine.hierarchy == "v2" else BEFORE_V1)
    if name == _WITHOUT_HUGETLB:
        files = {file for file in files if not file.startswith("hugetlb.")}
    assert {row.file for row in rows} == files
    assert len(rows) == len(files) * len(TEXTS)
    assert {row.kernel for row in rows} == {machine.kernel}


@pytest.mark.parametrize("name", RECORDINGS)
def test_what_is_said_of_a_write_is_what_the_kernel_did(name: str) -> None:
    machine, rows = _recorded(name)
    ground = Ground(
        page_size=machine.page_size,
        cpus=cpu_numbers(machine.cpus),
        mems=cpu_numbers(machine.mems),
    )
    differ = set() if name == RECORDINGS[-1] else _texts_that_kernels_differ_on()
    for row in rows:
        if row.text not in differ:
            assert _said(row, ground) == (row.error, row.reads), row
