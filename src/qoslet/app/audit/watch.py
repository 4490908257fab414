"""Audits a node again and again until it is told to end: woken by what happens in its cgroups, and by
time."""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from qoslet.app.audit.machine import Audited
from qoslet.core.audit.events import FindingEvent, Known, events
from qoslet.errors import QosletError
from qoslet.host.cgroupfs.mounted import mounted
from qoslet.host.linux.clock import Signals, WakingClock
from qoslet.host.linux.inotify import Inotify

if TYPE_CHECKING:
    from qoslet.core.audit.finding import AuditReport
    from qoslet.core.resources.cgroup_tree import Plan

SHARE = 0.1
"""The part of the time that audits take at most."""
LEAST_SECONDS = 1.0
"""The time between two audits at least."""
MOST_WATCHES = 4000
"""Directories that are watched; beyond, only time wakes."""

Tell = Callable[[float, tuple[FindingEvent, ...]], None]
"""Takes wall-clock seconds and what happened. May raise BrokenPipeError."""


def watch(
    look: Callable[[Callable[[float], object]], Audited],
    choose: Callable[[Audited], AuditReport],
    tell: Tell,
    note: Callable[[str], None],
    interval: float,
) -> None:
    """Audit every ``interval`` seconds, and soon after something happens in a planned cgroup; ``look``
    audits once and waits with the function that it is given. ``note`` takes what goes wrong, once.
    Ends with SIGINT, SIGTERM, SIGHUP and where the reader of standard output is gone. Raises
    QosletError where the first audit cannot be done."""
    known, trouble, is_first = Known(), "", True
    with Signals() as signals:
        watches = CgroupDirectories()
        try:
            clock = WakingClock(signals, watches.descriptors)
            pipe = _pipe()
            clock.further += pipe
            while not signals.requested():
                begun, waited = clock.monotonic(), list[float]()
                watches.forget_events()
                try:
                    audited = look(_counted(WakingClock(signals).sleep, waited))
                    report, trouble = choose(audited), ""
                except QosletError as error:
                    if is_first:
                        raise
                    if str(error) != trouble:
                        trouble = str(error)
                        note(trouble)
                else:
                    if signals.requested():
                        # the second look of this one did not wait
                        break
                    known, told = events(known, audited.report, report.findings)
                    if told:
                        tell(time.time(), told)
                    watches.follow(audited.plan)
                    is_first = False
                took = clock.monotonic() - begun - sum(waited)
                if not _rest(clock, signals, pipe, took, interval - sum(waited)):
                    break
        finally:
            watches.close()


def _counted(sleep: Callable[[float], object], waited: list[float]) -> Callable[[float], object]:
    """``sleep``, which adds the seconds to those that an audit ``waited``: they cost nobody anything."""

    def counted(seconds: float) -> object:
        waited.append(seconds)
        return sleep(seconds)

    return counted


def _rest(
    clock: WakingClock, signals: Signals, pipe: list[int], took: float, interval: float
) -> bool:
    """Wait for the next audit: the time that this one must leave to others, then until something
    happens. False where the watch is to end."""
    pause = max(LEAST_SECONDS, took / SHARE)
    quiet = WakingClock(signals, lambda: pipe)
    until = clock.monotonic() + pause
    while (left := until - clock.monotonic()) > 0:
        if not quiet.sleep(left) or _is_gone(pipe):
            return False
    return clock.sleep(max(0.0, interval - took - pause)) and not _is_gone(pipe)


def _pipe() -> list[int]:
    """Standard output where it is a pipe: it tells when its reader is gone."""
    with suppress(OSError):
        if stat.S_ISFIFO(os.fstat(1).st_mode):
            return [1]
    return []


def _is_gone(pipe: Iterable[int]) -> bool:
    """Whether the reader is."""
    poller = select.poll()
    for descriptor in pipe:
        poller.register(descriptor, 0)
    return bool(poller.poll(0))


class CgroupDirectories:
    """The directories of planned cgroups; without inotify, or with too many, it tells nothing."""

    def __init__(self) -> None:
        self._added: set[str] = set()
        self._inotify: Inotify | None = None
        with suppress(OSError):
            self._inotify = Inotify()

    def descriptors(self) -> list[int]:
        """Readable when something happens."""
        return [] if self._inotify is None else self._inotify.descriptors()

    def forget_events(self) -> bool:
        """What happened so far is about to be looked at; whether anything did."""
        events = () if self._inotify is None else self._inotify.events()
        self._added -= {one.directory for one in events if one.kind == "ended"}
        return bool(events)

    def follow(self, plan: Plan) -> None:
        """Watch the cgroups of a plan."""
        if self._inotify is None:
            return
        points = set(mounted().points.values())
        paths = {one.path for one in plan.cgroups if one.path is not None}
        wanted = {f"{point}{path}" for point in points for path in paths}
        for gone in self._added - wanted:
            self._inotify.drop(gone)
        self._added &= wanted
        for directory in sorted(wanted - self._added)[: MOST_WATCHES - len(self._added)]:
            try:
                self._inotify.add(directory)
            except OSError:
                continue
            self._added.add(directory)

    def close(self) -> None:
        """Watch nothing any more."""
        if self._inotify is not None:
            self._inotify.close()
