"""What tmpfs mounts of this machine hold beyond every pod."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qoslet.host.memory.reader import MemoryFiles

MIB = 1 << 20
SHM = Path("/dev/shm")


def writable() -> bool:
    mounted = [line.split(" ") for line in Path("/proc/mounts").read_text().splitlines()]
    return any(words[1:3] == [str(SHM), "tmpfs"] for words in mounted) and os.access(SHM, os.W_OK)


@pytest.mark.skipif(not writable(), reason="/dev/shm is no tmpfs, or cannot be written")
def test_a_file_of_the_machine_survives_every_pod(tmp_path: Path) -> None:
    reader = MemoryFiles("v2", str(tmp_path))
    file = SHM / f"qoslet-test-{os.getpid()}"
    before = reader.surviving_tmpfs()
    try:
        file.write_bytes(bytes(32 * MIB))
        assert reader.surviving_tmpfs() - before > 24 * MIB
    finally:
        file.unlink()
    assert reader.surviving_tmpfs() - before < 8 * MIB
