"""What reclaim achieved for a cgroup between two samples.

What looks reclaimable need not be: sockets and pipes hold page cache that is on the lists, and names
of files in a tmpfs are counted as reclaimable slab. Pages that were taken, swap that moved, slab that
shrank, dirty pages that were written are facts.
Source: Documentation/admin-guide/cgroup-v2.rst "memory.stat" (``pgsteal``, ``workingset_refault_*``),
mm/vmscan.c, fs/dcache.c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.memory.breakdown import dirty_bytes, own_bytes
from qoslet.core.memory.sample import MemorySample

_MIB = 1 << 20


class ReclaimProgress(Struct, frozen=True):
    """What happened over ``seconds``, in bytes a second. ``stolen``: taken by reclaim; ``returned``:
    read or swapped in again, ``reread`` of that from files, of which major faults can be the cause of
    ``faulted`` at most, and ``called`` what system calls read; ``swapped``: moved from or to swap; ``shrunk``: reclaimable slab that went;
    ``cleaned``: dirty pages that were written. ``cpu`` is CPUs in use, ``user_cpu`` those outside of
    the kernel, ``waiting_ratio`` the share of time in which a task waited; None: unknown."""

    seconds: float
    stolen: float = 0.0
    scanned: float = 0.0
    returned: float = 0.0
    reread: float = 0.0
    faulted: float | None = None
    called: float | None = None
    swapped: float = 0.0
    shrunk: float = 0.0
    cleaned: float = 0.0
    cpu: float | None = None
    user_cpu: float | None = None
    waiting_ratio: float | None = None
    outside: float = math.inf
    """Bytes a second by which memory other than page cache left all that it was before: what swings, as
    queues of sockets do, lets nobody go on who waits. Only where usage was above memory.high all the time."""
    rereads: bool = False
    """Whether its text is all that moves: it ``faults_only`` in a cgroup with hardly any page cache, as far back
    as is known if there is some. It gets nowhere."""

    @property
    def freed(self) -> float:
        """The most that any of the signs shows, in bytes a second."""
        return max(self.stolen, self.swapped, self.shrunk, self.cleaned)

    def swaps(self, size: int) -> bool:
        """Whether swap moves as fast as is progress in a cgroup of so many bytes. Less is enough where reclaim
        takes most of what it scans: the device is slow, or the CPU that compresses for it."""
        factor = _SLOW_SWAP if self.stolen >= self.scanned / 2 else 1.0
        return self.swapped >= factor * freed_enough(size)

    @property
    def thrashing(self) -> bool:
        """Whether files are read again as fast as reclaim takes their pages, and nothing else
        happens: tasks wait for most of the time and hardly compute. What is taken then is their own
        program text, unless system calls read it: they get on, as slow as the disk may be."""
        if self.rereads:
            return True
        if not self._returns or self.by_calls:
            return False
        if self.waiting_ratio is None:
            return self.cpu is not None and self.cpu < _IDLE_CPUS
        return self.waiting_ratio >= WAITING_RATIO and (self.cpu or 0.0) < 2 * _IDLE_CPUS

    @property
    def faults_only(self) -> bool:
        """Whether page faults can be all that reads back what reclaim takes, and no more is computed than that takes
        the kernel: of a program whose text is most of what can be taken, that is all it does. On a fast disk
        it hardly waits."""
        if self.faulted is None or self.user_cpu is None or self.cpu is None:
            return False
        most = self.faulted * (_LARGEST_FAULT if self.calls_read_nothing else _LARGE_FAULT)
        fits = most >= self.reread >= self.stolen * _TEXT_RETURNED_RATIO
        return fits and self._of_files and self.user_cpu <= self.cpu / 2

    @property
    def by_calls(self) -> bool:
        """Whether system calls read files again: so many pages are no page faults', as far as is known."""
        many = self.faulted is not None and self.faulted < self.reread
        return many and not self.calls_read_nothing

    @property
    def refilled(self) -> bool:
        """Whether a task waits nearly all the time, however much is freed: others read, write or make files
        and fill at once what reclaim takes of them. Not so where swap moves: to wait for that is to get on."""
        return self.takes_files and (self.blocked or self.rereads)

    @property
    def blocked(self) -> bool:
        """Whether a task waits nearly all the time, where PSI tells."""
        return (self.waiting_ratio or 0.0) >= _BLOCKED_RATIO

    @property
    def takes_files(self) -> bool:
        """Whether most of what is freed is of files, and not moved to swap."""
        return self.swapped < max(self.stolen, self.shrunk, self.cleaned)

    @property
    def calls_read_nothing(self) -> bool:
        """Whether it is known that system calls hardly read anything, with what is read ahead of them."""
        return self.called is not None and self.called < self.reread * _CALLED_RATIO

    @property
    def _returns(self) -> bool:
        return self._of_files and self.reread >= self.stolen * RETURNED_RATIO

    @property
    def _of_files(self) -> bool:
        return max(self.swapped, self.shrunk, self.cleaned) < self.stolen


RETURNED_RATIO = 0.8
"""Share of what reclaim took from which on what comes back is all of it."""
_BLOCKED_RATIO = 0.9
WAITING_RATIO = 0.7
"""Share of the time for which tasks wait who do hardly anything else."""
_IDLE_CPUS = 0.12
_TEXT_RATIO = 1 / 8
"""Share of memory.high up to which what can be taken may be a program's text. 6 of 77 MiB are java's: each second
it read 10 to 30 MiB of its 23 again, and it did in 70 s what takes 1 s below a limit alone."""
_SURE_TEXT_RATIO = 1 / 4
"""The same where system calls are known to read nothing: 12 of 77 MiB were java's on Linux 7.2."""
_TEXT_RETURNED_RATIO = 0.2
"""Share of what reclaim took that is counted as read again at least where all of it is a program's text. What is read
beside the page of a fault need not be counted: a third of it on Linux 7.2."""
_WRITTEN_RATIO = 1 / 16
"""Share of what can be taken from which on it is no text where that is dirty: pages of a file that is mapped and
written come back by faults as well. 0.07 to 0.8 of 15 MiB within each 2.5 s on Linux 6.12; 0.03 of 1 MiB of text."""
_SLOW_SWAP = 1 / 16
"""Share of ``freed_enough``. Zram on a busy CPU, Linux 7.2: 69 pages a second scanned, all of them taken."""
_FAULTED_PAGES = 64
"""Pages that one major fault reads at most, twice the kernel's usual readahead."""
_LARGE_FAULT = 8
"""Times as many that it may read of a program's text: 2 MiB at once, as Linux 7.2 does."""
_LARGEST_FAULT = 64
"""The same where system calls are known to read nothing: who runs through its text has it read ahead. A fault in
4 to 8 MiB was counted on Linux 7.2."""
_CALLED_RATIO = 1 / 8
"""Share of what is read again from which on system calls may have read it: the kernel reads 128 KiB for some."""


def freed_enough(size: int) -> float:
    """Bytes a second that count as progress in a cgroup of so many bytes: 1 MiB, less if it is
    small, and a page at least. A stalled cgroup of any size showed less than 0.4 MiB (``tests/data/stalls``)."""
    return min(float(_MIB), max(size / 40, 4096.0))


def progress_between(before: MemorySample, after: MemorySample) -> ReclaimProgress:
    """The progress from one sample of a cgroup to a later one."""
    seconds = after.at - before.at
    if seconds <= 0:
        return ReclaimProgress(0.0)

    def pages(*names: str) -> float:
        return sum(_rise(before, after, name) for name in names) * after.page_size / seconds

    returned_anon, reread = pages("workingset_refault_anon"), pages("workingset_refault_file")
    moved_swap = max(pages("pswpin", "zswpin"), returned_anon)
    if before.swap is not None and after.swap is not None:
        moved_swap = max(moved_swap, abs(after.swap - before.swap) / seconds)
    else:
        # tries are counted, and a device that is full takes none of them
        moved_swap = max(moved_swap, pages("pswpout", "zswpout"))
    return ReclaimProgress(
        seconds=seconds,
        stolen=pages("pgsteal"),
        scanned=pages("pgscan"),
        returned=returned_anon + reread,
        reread=reread,
        faulted=pages("pgmajfault") * _FAULTED_PAGES if "pgmajfault" in after.stat else None,
        called=_rate(before.called, after.called, seconds),
        swapped=moved_swap,
        shrunk=_fall(before, after, "slab_reclaimable") / seconds,
        cleaned=_fall(before, after, "file_dirty", "file_writeback") / seconds,
        cpu=_cpus(before.usage_usec, after.usage_usec, seconds),
        user_cpu=_cpus(before.user_usec, after.user_usec, seconds),
        waiting_ratio=_waiting(before, after, seconds),
    )


def progress_since(
    before: MemorySample, samples: Sequence[MemorySample], reclaimable: int
) -> ReclaimProgress:
    """The progress to the last of ``samples``, of which so many bytes look reclaimable, from an earlier one of
    them, with what is ``outside`` and whether it ``rereads``."""
    found = progress_between(before, samples[-1])
    high, whole = samples[-1].high or 0, progress_between(samples[0], samples[-1])
    if reclaimable <= high * (_SURE_TEXT_RATIO if whole.calls_read_nothing else _TEXT_RATIO):
        seen = found if reclaimable <= high * _TEXT_RATIO / 4 else whole
        text = seen.faults_only and not _are_written(samples, reclaimable)
        found = replace(found, rereads=text)
    if found.seconds <= 0 or any(one.current <= (one.high or 0) for one in samples):
        return found
    held, now = [own_bytes(one) for one in samples if one.at <= before.at], own_bytes(samples[-1])
    amount = max(now - max(held), min(held) - now, 0)
    return replace(found, outside=amount / found.seconds)


def _are_written(samples: Sequence[MemorySample], reclaimable: int) -> bool:
    """Whether so much of what can be taken was dirty that it is no text."""
    least = max(reclaimable * _WRITTEN_RATIO, freed_enough(samples[-1].high or 0))
    return any(dirty_bytes(one) >= least for one in samples)


def _rise(before: MemorySample, after: MemorySample, name: str) -> int:
    """How far a counter of memory.stat rose."""
    return max(0, after.stat.get(name, 0) - before.stat.get(name, 0))


def _fall(before: MemorySample, after: MemorySample, *names: str) -> int:
    """How far the sum of amounts of memory.stat fell."""
    return max(0, sum(before.stat.get(name, 0) - after.stat.get(name, 0) for name in names))


def _cpus(before: int | None, after: int | None, seconds: float) -> float | None:
    """Microseconds of CPU time as CPUs in use."""
    if before is None or after is None:
        return None
    return max(0, after - before) / 1e6 / seconds


def _rate(before: int | None, after: int | None, seconds: float) -> float | None:
    """A counter a second; None where it fell, as that of processes does of which one has ended."""
    if before is None or after is None or after < before:
        return None
    return (after - before) / seconds


def _waiting(before: MemorySample, after: MemorySample, seconds: float) -> float | None:
    """The share of the time in which a task waited for memory. A kernel that was started without
    PSI may print zero for ever."""
    old, new = before.pressure, after.pressure
    if old is None or new is None or not new.some_total:
        return None
    return min(1.0, max(0, new.some_total - old.some_total) / 1e6 / seconds)
