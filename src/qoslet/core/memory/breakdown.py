"""What the memory of a cgroup is made of: what reclaim can take, what goes with its processes.

The one owner of page cache as a number. ``memory.stat`` has it twice, and both are needed:

- by list (``inactive_file``, ``active_file``): what reclaim looks at. Locked pages are on neither,
  pages of tmpfs and shared memory are on the anonymous lists, pages freed with MADV_FREE are here
  (``lazily_freed_bytes``).
  ``file_list_bytes`` and ``reclaimable_bytes`` answer what can be taken back: the guard at
  memory.high, headroom, the room below a lower limit.
- by type (``file`` less ``shmem``), without what is locked: ``page_cache_bytes`` answers what a cgroup
  is charged for beside its own memory: the ranking of victims, page cache under protection, and what
  is shown of a cgroup at its limit. Locked files, and memory of ``memfd_secret`` which counts as
  ``file``, are its own memory: only its end gives them back, and the kernel counts them as not available.

Reads ``memory.stat`` by v2's names. Source: Documentation/admin-guide/cgroup-v2.rst "memory.stat"
(the lists and the types need not agree), mm/swap.c lru_lazyfree, mm/vmscan.c get_scan_count, mm/secretmem.c.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qoslet.core.memory.sample import MemorySample


def file_list_bytes(stat: Mapping[str, int]) -> int:
    """Bytes on the lists of file pages, which reclaim can take."""
    return stat.get("inactive_file", 0) + stat.get("active_file", 0)


def reclaimable_bytes(sample: MemorySample, swap_headroom: int) -> int:
    """Bytes that reclaim could take: file pages, slab that says so, and anonymous memory as far as
    there is room in swap."""
    stat = sample.stat
    anonymous = stat.get("inactive_anon", 0) + stat.get("active_anon", 0)
    slab = stat.get("slab_reclaimable", 0)
    return file_list_bytes(stat) + slab + min(anonymous, max(0, swap_headroom))


def page_cache_bytes(sample: MemorySample) -> int:
    """Bytes of page cache by type: no tmpfs, no shared memory, and no locked pages."""
    cache = max(0, sample.stat.get("file", 0) - shmem_bytes(sample))
    listed = file_list_bytes(sample.stat)
    # locked anonymous memory is among the unevictable, too
    return cache - min(sample.stat.get("unevictable", 0), max(0, cache - listed))


def lazily_freed_bytes(sample: MemorySample) -> int:
    """Bytes of anonymous memory that a process gave back with MADV_FREE: on the lists of file pages, by type
    anonymous, and available, until reclaim takes them."""
    stat = sample.stat
    if "file" not in stat:
        return 0
    cache = max(0, stat["file"] - shmem_bytes(sample))
    return min(stat.get("anon", 0), max(0, file_list_bytes(stat) - cache))


def dirty_bytes(sample: MemorySample) -> int:
    """Bytes of page cache that reclaim cannot take before they are written."""
    return sample.stat.get("file_dirty", 0) + sample.stat.get("file_writeback", 0)


def shmem_bytes(sample: MemorySample) -> int:
    """Bytes in tmpfs and shared memory, which may outlive the processes of a cgroup."""
    return sample.stat.get("shmem", 0)


def own_bytes(sample: MemorySample) -> int:
    """Bytes of a cgroup by type, without page cache, in memory or in swap."""
    names = ("anon", "shmem", "kernel", "sock")
    return sum(sample.stat.get(name, 0) for name in names) + (sample.swap or 0)


def held_bytes(sample: MemorySample) -> int:
    """All bytes of a cgroup but its page cache and what it gave back with MADV_FREE, swapped or not: anonymous
    memory, shared memory and tmpfs, and what the kernel keeps for it (stacks, page tables, sockets, pipes,
    slab, percpu)."""
    droppable = page_cache_bytes(sample) + lazily_freed_bytes(sample)
    return max(0, sample.current - droppable) + (sample.swap or 0)


def freed_bytes(sample: MemorySample, surviving: int) -> int:
    """Bytes that end with a cgroup's processes and volumes. ``surviving`` bytes are in tmpfs mounts
    that nobody removes; they may be this cgroup's."""
    return held_bytes(sample) - min(shmem_bytes(sample), max(0, surviving))


def surviving_bytes(tmpfs: int, shmem: int | None, pods: Iterable[MemorySample]) -> int:
    """Bytes of the node's own ``tmpfs`` mounts that may be pods' at least: what is charged outside
    of pods of all ``shmem`` of the node may lie there. None: unknown."""
    if shmem is None:
        return tmpfs
    outside = max(0, shmem - sum(shmem_bytes(one) for one in pods))
    return max(0, tmpfs - outside)


def protected_cache(sample: MemorySample, protection: int) -> int:
    """Bytes of a cgroup's page cache that reclaim may not take under this effective protection."""
    return max(0, page_cache_bytes(sample) - max(0, sample.current - protection))


def human_bytes(amount: int) -> str:
    """Bytes in MiB, from 10 GiB in GiB."""
    return f"{amount / (1 << 20):.0f} MiB" if amount < 10 << 30 else f"{amount / (1 << 30):.1f} GiB"
