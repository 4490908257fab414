"""Who writes a file, and what resets a value set by hand: one answer for every reader."""

from __future__ import annotations

import pytest

from qoslet.core.reconcile.file_writers import TABLE, Level, resets, writer_of


@pytest.mark.parametrize(
    ("level", "file", "minor", "reset"),
    [
        # a cgroup that exists is left alone: EnsureExists in every release that was read
        ("pod", "memory.min", 36, ""),
        ("pod", "pids.max", 36, ""),
        ("pod", "memory.max", 26, ""),
        ("pod", "memory.max", 27, "at an in-place resize"),
        ("pod", "cpu.weight", 36, "at an in-place resize"),
        ("pod", "hugetlb.2MB.max", 31, ""),
        ("pod", "hugetlb.2MB.max", 32, "at an in-place resize"),
        ("pod", "memory.min", 37, "at an in-place resize"),
        ("qos", "cpu.weight", 22, "with each QoS update, at most a minute later"),
        ("kubepods", "memory.min", 36, "with each QoS update, at most a minute later"),
        ("kubepods", "memory.max", 36, "at its start"),
        ("container", "cpuset.cpus", 21, "every 10 seconds"),
        (
            "container",
            "cpuset.cpus",
            22,
            "when it changes the container's CPUs, and within 10 seconds of its start",
        ),
        ("container", "memory.max", 26, "when the static CPU manager changes the container's CPUs"),
        (
            "container",
            "memory.max",
            27,
            "at an in-place resize, and when the static CPU manager changes the container's CPUs",
        ),
        ("sandbox", "cpu.weight", 36, ""),
    ],
)
def test_what_resets_a_value_by_release(level: Level, file: str, minor: int, reset: str) -> None:
    row = writer_of(level, file, minor)
    assert row is not None
    assert row.reset == reset


def test_a_unit_is_reset_by_systemd_too() -> None:
    row = writer_of("pod", "memory.min", 36)
    assert resets(row, "memory.min") == "nothing resets it"
    assert resets(row, "memory.min", unit=True) == (
        "systemd resets it at the next daemon-reload or set-property of the unit"
    )
    # systemd has no property for it
    assert resets(row, "hugetlb.2MB.max", unit=True) == "nothing resets it"
    group = "memory.oom.group"
    said = resets(writer_of("container", group), group, unit=True)
    assert "systemd writes 0 with the next property of the unit" in said
    assert "systemd" not in resets(writer_of("container", group), group)


def test_no_row_hides_another() -> None:
    for number, row in enumerate(TABLE):
        minor = row.since or min(row.until, 36)
        for start in row.files:
            first = writer_of(row.level, start, minor)
            assert first is not None
            assert TABLE.index(first) <= number
    assert len({(row.level, row.files, row.since) for row in TABLE}) == len(TABLE)


def test_every_row_names_its_source() -> None:
    assert all(row.source and row.when and row.writer for row in TABLE)
