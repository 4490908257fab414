"""Page cache as a number: by list what reclaim can take, by type what a cgroup is charged for."""

from __future__ import annotations

from qoslet.core.memory.breakdown import (
    file_list_bytes,
    held_bytes,
    human_bytes,
    lazily_freed_bytes,
    page_cache_bytes,
    reclaimable_bytes,
)
from qoslet.core.memory.sample import MemorySample
from qoslet.core.memory.stat_parser import stat_v1

STAT = {
    "anon": 50,
    "file": 100,
    "shmem": 30,
    "inactive_anon": 60,
    "active_anon": 20,
    "inactive_file": 40,
    "active_file": 20,
    "unevictable": 10,
    "slab_reclaimable": 5,
}


def test_locked_pages_of_files_are_its_own_and_cannot_be_taken() -> None:
    sample = MemorySample("/a", 0.0, 1, 200, stat=STAT)
    assert page_cache_bytes(sample) == 60
    assert held_bytes(sample) == 140
    assert file_list_bytes(STAT) == 60
    assert reclaimable_bytes(sample, 0) == 65


def test_locked_anonymous_memory_is_no_locked_file() -> None:
    stat = STAT | {"unevictable": 50, "inactive_anon": 10, "inactive_file": 50}
    sample = MemorySample("/a", 0.0, 1, 200, stat=stat)
    assert page_cache_bytes(sample) == 70
    # no list of files: nothing locked, nothing known
    assert page_cache_bytes(MemorySample("/a", 0.0, 1, 200, stat={"file": 100, "shmem": 30})) == 70


def test_what_was_given_back_by_madv_free_is_the_kernels_to_take() -> None:
    stat = STAT | {"anon": 90, "unevictable": 0, "inactive_file": 120, "active_file": 20}
    sample = MemorySample("/a", 0.0, 1, 200, stat=stat)
    assert lazily_freed_bytes(sample) == 70, "more on the lists of files than there is page cache"
    assert page_cache_bytes(sample) == 70
    assert held_bytes(sample) == 60
    few = MemorySample("/a", 0.0, 1, 200, stat=stat | {"anon": 15})
    assert lazily_freed_bytes(few) == 15, "pages of deleted files in pipes are on no type"
    assert lazily_freed_bytes(MemorySample("/a", 0.0, 1, 200, stat={"inactive_file": 50})) == 0


def test_anonymous_memory_can_be_taken_as_far_as_swap_has_room() -> None:
    sample = MemorySample("/a", 0.0, 1, 200, stat=STAT)
    assert [reclaimable_bytes(sample, room) for room in (-1, 30, 1000)] == [65, 95, 145]


def test_v1_counts_what_is_below_a_group_and_no_slab() -> None:
    text = "inactive_file 1\nactive_file 2\ntotal_inactive_file 10\ntotal_active_file 20\n"
    assert file_list_bytes(stat_v1(text)) == 30
    assert file_list_bytes({}) == 0


def test_bytes_are_shown_in_the_unit_that_people_compare() -> None:
    shown = [human_bytes(amount << 20) for amount in (1, 10 * 1024 - 1, 10 * 1024, 32 * 1024)]
    assert shown == ["1 MiB", "10239 MiB", "10.0 GiB", "32.0 GiB"]
