"""What is decided by must be told, and counted: a group without ``memory.stat`` is not sampled."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.host.memory.reader import MemoryFiles


@pytest.mark.parametrize("text", ["", None])
def test_a_group_that_does_not_tell_what_its_memory_is_is_not_sampled(
    tmp_path: Path, text: str | None
) -> None:
    group = tmp_path / "pod"
    group.mkdir()
    (group / "memory.current").write_text("104857600\n")
    (group / "memory.stat").write_text("anon 4096\nfile 104853504\n")
    reader = MemoryFiles("v2", str(tmp_path))
    sample = reader.sample("/pod")
    assert sample is not None
    assert sample.stat["file"] == 104853504
    (group / "memory.stat").unlink()
    if text is not None:
        (group / "memory.stat").write_text(text)
    assert reader.sample("/pod") is None


def test_the_kernel_is_made_to_count_before_what_it_counted_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux 6.12, a process that takes 8 pages again and again: memory.stat had them after cpu.stat was read."""
    (tmp_path / "memory.current").write_text("4096\n")
    (tmp_path / "memory.stat").write_text("anon 4096\n")
    opened: list[str] = []

    def read(directory: int, file: str) -> str | None:
        opened.append(file)
        return (tmp_path / file).read_text() if (tmp_path / file).exists() else None

    monkeypatch.setattr("qoslet.host.memory.reader._read", read)
    assert MemoryFiles("v2", str(tmp_path)).sample("/") is not None
    assert opened.index("cpu.stat") < opened.index("memory.stat")
