"""The numbers of the verdict on a cgroup at its memory.high (``throttle_stall``)."""

from __future__ import annotations

from msgspec import Struct

_MIB = 1 << 20


class StallTuning(Struct, frozen=True):
    """When a cgroup at its memory.high makes progress, and when it is stalled."""

    near_ratio: float = 0.97
    """Share of memory.high from which a cgroup is watched closely."""
    batch_pages: int = 64
    """Pages that the kernel charges at once, delays the task for, and takes back while it waits where they were not asked
    for: usage is read that much lower. Source: mm/memcontrol.c, MEMCG_CHARGE_BATCH."""
    change_ratio_per_second: float = 1 / 40
    """Share of memory.high: memory that grows or falls faster is progress."""
    min_change_per_second: float = 128 * 1024
    """Lower bound of that, in bytes: who waits two seconds for each 64 pages, as the kernel delays a task at
    most, takes so much."""
    busy_cpus: float = 0.5
    """CPUs in use that count as progress, for ``busy_seconds``, if the kernel does not tell those
    outside of it."""
    busy_user_cpus: float = 0.25
    """CPUs in use outside of the kernel that do."""
    blocked_ratio: float = 0.5
    """Share of the time for which a task waits, where PSI tells, from which CPUs in use are those of others
    beside it, and no progress, where nothing can be taken back: the kernel is asked."""
    waiting_ratio: float = 0.2
    """Share of the time: less waiting for memory is progress, where PSI tells."""
    paused_waiting_ratio: float = 0.05
    """The same over the whole history, where nothing can be taken back and usage stays above ``delayed_ratio``."""
    delayed_ratio: float = 1 / 64
    """Share of memory.high by which usage is above it where the kernel delays whoever asks for memory, and
    reclaims for as long as that takes anything: it lets go by what is no more than 10 ms."""
    reclaimable_ratio: float = 1 / 32
    """Share of memory.high: with more that looks reclaimable there is patience; a quarter at most."""
    min_reclaimable_bytes: int = 2 * _MIB
    """Lower bound of that amount."""
    min_interval_seconds: float = 0.4
    """Time between the two samples that are compared, at least."""
    history_seconds: float = 2.5
    """Time between them, at most."""
    max_gap_seconds: float = 10.0
    """Time between two samples after which the older one proves nothing, where it was not at memory.high:
    the agent did not run."""
    max_stall_gap_seconds: float = 60.0
    """The same where it was: a machine may be so busy that an agent looks every 20 seconds."""
    agreeing_comparisons: int = 2
    """Comparisons in a row that must agree before a cgroup counts as stalled."""
    sufficient_seconds: float = 1.5
    """Time between two samples from which one comparison is enough."""
    sufficient_blocked_seconds: float = 0.9
    """The same where a task waits nearly all the time, and next to nothing can be taken back."""
    close_to_limit_ratio: float = 0.96
    """Share of memory.max from which a memory.high is close to it: the shortest time is enough for one who is
    delayed there, and may have waited further down before."""
    many_files_factor: float = 8.0
    """So many times what counts as freed is of others that write or read: 38 to 50 MiB/s of a writer at 93 of 96
    MiB, 1 to 6 where a task takes memory beside a reader."""
    busy_seconds: float = 10.0
    """Time without progress after which a cgroup that computes, or that reads back at once what
    reclaim takes, counts as stalled, too."""
    text_seconds: float = 2.0
    """The same where it is known that nothing but its own text is read back: no system call reads."""
    blind_seconds: float = 1.5
    """The same where next to nothing is reclaimable and the kernel has no PSI: nobody tells whether a
    task waits beside one that computes."""
    patience_seconds: float = 0.9
    """Time without progress for which memory that looks reclaimable is believed."""
    vain_scan_factor: float = 4.0
    """Times what looks reclaimable that the kernel has to scan between two samples, without progress, to
    show that it is not."""
    vain_scan_ratio: float = 1 / 8
    """Share of memory.high that has to look reclaimable for that: less may be what is being read."""
    vain_stolen_ratio: float = 0.02
    """Share of scanned pages up to which what is taken meanwhile is filled again at once by those who wait for it."""
    overage_ratio: float = 0.03
    """Share of memory.high by which usage stays above it only where reclaim does not keep up: the kernel
    delays a task by 60 ms for each 64 pages then, and more by the square."""
    overage_stolen_ratio: float = 0.25
    """Share of scanned pages that reclaim takes there, at most."""
    exhausted_factor: float = 4.0
    """With next to nothing reclaimable, so many times as much has to be freed to be progress."""

    def is_near(self, current: int, high: int, page_size: int) -> bool:
        """Whether ``current`` bytes are at a memory.high of ``high``, or close to it."""
        return current >= min(high * self.near_ratio, self.delayed_bytes(high, page_size))

    def delayed_bytes(self, high: int, page_size: int) -> int:
        """Usage, as it is read, above which the kernel delays who asks for memory: ``high``, or less where
        that is a few MiB."""
        ahead = self.batch_pages * page_size
        return high - ahead if ahead > high * (1 - self.near_ratio) else high


STALL_TUNING = StallTuning()
