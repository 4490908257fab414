"""What the memory of a group is made of: what can be dropped, what goes with its processes.

Reads ``memory.stat`` by v2's names. Source: Documentation/admin-guide/cgroup-v2.rst "memory.stat".
"""

from __future__ import annotations

from qoslet.core.memory.sample import MemorySample


def cache_of(sample: MemorySample) -> int:
    """Bytes of page cache that can be dropped: no tmpfs and no shared memory."""
    return max(0, sample.stat.get("file", 0) - shmem_bytes(sample))


def shmem_bytes(sample: MemorySample) -> int:
    """Bytes in tmpfs and shared memory, which may outlive the processes of a group."""
    return sample.stat.get("shmem", 0)


def process_bytes(sample: MemorySample) -> int:
    """Bytes that go with the processes of a group: anonymous memory, swapped out or not, and what
    the kernel keeps for them."""
    names = ("anon", "kernel_stack", "pagetables")
    return sum(sample.stat.get(name, 0) for name in names) + (sample.swap or 0)


def protected_cache(sample: MemorySample, protection: int) -> int:
    """Bytes of a group's page cache that reclaim may not take, under so much effective
    protection."""
    return max(0, cache_of(sample) - max(0, sample.current - protection))


def human_bytes(amount: int) -> str:
    """Bytes as people read them."""
    return f"{amount / (1 << 20):.0f} MiB" if amount < 10 << 30 else f"{amount / (1 << 30):.1f} GiB"
