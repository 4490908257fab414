"""What real kernels made of 1,260 writes to v2 files and 720 to v1 files, against what is said."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from qoslet.core.cgroup.accepts import ERRNOS, written
from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.cgroup.interface_files import cpu_numbers
from tests.live.kernel.kernel_writes import BEFORE_V1, BEFORE_V2, TEXTS, Machine, Write

DATA = Path(__file__).parents[2] / "data" / "kernel-writes"
RECORDINGS = ("6.1-v1", "6.1-v2", "6.12-v2", "6.18-v1", "7.2-v2")
_WITHOUT_HUGETLB = "6.18-v1"


def _recorded(name: str) -> tuple[Machine, list[Write]]:
    first, *rows = map(json.loads, (DATA / f"{name}.jsonl").read_text().splitlines())
    return Machine(*first), [Write(*row) for row in rows]


def _version(release: str) -> tuple[int, int]:
    major, minor = release.split(".")[:2]
    return int(major), int(minor)


def _said(row: Write, ground: KernelFeatures) -> tuple[str, str]:
    """The error's name and what reads back. A write of no bytes does not reach the file."""
    if not row.text:
        return "", row.before
    said = written(row.file, row.text, row.before, ground)
    return ("", said) if isinstance(said, str) else (errno.errorcode[ERRNOS[said[0]]], row.before)


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
    ground = KernelFeatures(
        page_size=machine.page_size,
        cpus=cpu_numbers(machine.cpus),
        mems=cpu_numbers(machine.mems),
        kernel=_version(machine.kernel),
    )
    for row in rows:
        assert _said(row, ground) == (row.error, row.reads), row


def test_kernels_differ() -> None:
    rows = zip(_recorded("6.12-v2")[1], _recorded("7.2-v2")[1], strict=True)
    differing = {(one.file, one.text) for one, other in rows if one[4:] != other[4:]}
    assert ("memory.max", "K") in differing
    assert ("cpu.max", "18446744073709551615") in differing
    assert ("cpu.weight", "18446744073709551616") not in differing
