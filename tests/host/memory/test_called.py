"""What system calls of a cgroup's processes read, as this machine's kernel tells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qoslet.host.memory.reader import MemoryFiles

MIB = 1 << 20


def called(point: Path, pids: str, high: str = "81920000", current: int = 80000000) -> int | None:
    """Of a folder that stands for a hierarchy with a group of these processes."""
    group = point / "g"
    group.mkdir(exist_ok=True)
    (group / "cgroup.procs").write_text(pids)
    (group / "memory.current").write_text(f"{current}\n")
    (group / "memory.high").write_text(f"{high}\n")
    (group / "memory.stat").write_text("anon 4096\n")
    sample = MemoryFiles("v2", str(point)).sample("/g")
    assert sample is not None
    return sample.called


def test_at_memory_high_what_its_processes_read_is_counted(tmp_path: Path) -> None:
    if not Path("/proc/self/io").exists():
        pytest.skip("this kernel does not count it")
    me = f"{os.getpid()}\n"
    before = called(tmp_path, me)
    with Path("/dev/zero").open("rb", buffering=0) as zeroes:
        zeroes.read(MIB)
    after = called(tmp_path, me)
    assert before is not None
    assert after is not None
    assert after - before >= MIB
    assert called(tmp_path, me, current=70000000) is None, "nobody asks"
    assert called(tmp_path, me, high="max") is None, "nobody asks"
    assert called(tmp_path, me * 40) is None, "too many"
    (tmp_path / "g" / "below").mkdir()
    assert called(tmp_path, me) is None, "others may be there"


@pytest.mark.parametrize("pids", ["", "4194305\n"])
def test_of_nobody_nothing_is_known(tmp_path: Path, pids: str) -> None:
    assert called(tmp_path, pids) is None
