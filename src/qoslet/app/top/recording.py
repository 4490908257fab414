"""``qoslet record``: reads a node again and again, and appends each moment to a file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from qoslet.core.problem import plural
from qoslet.core.recording.codec import Encoder
from qoslet.core.recording.recording import Recording
from qoslet.core.recording.rows import recorded_rows

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from qoslet.core.recording.moment import RecordedRow, Session
    from qoslet.core.resources.cgroup_tree import Plan
    from qoslet.host.files.recording_file import RecordingFile
    from qoslet.host.memory.moment_reader import MomentReader

KEY_EVERY = 180
"""Moments after which one is recorded whole again."""


class Recorder:
    """Records the node that ``args`` name. ``moments`` counts what was recorded."""

    def __init__(self, args: argparse.Namespace) -> None:
        from qoslet.app.audit.machine import machine_source
        from qoslet.app.top.top import NodeTop
        from qoslet.host.files.recording_file import RecordingFile
        from qoslet.host.memory.moment_reader import MomentReader

        self._top = NodeTop(args)
        plan = self._top.plan
        mounts = machine_source(plan)[1]
        self._reader: MomentReader = MomentReader(plan.node.hierarchy, mounts)
        self._interval: float = args.interval
        self._planned: Plan | None = None
        self._rows: tuple[RecordedRow, ...] = ()
        self._encoder, self._until_key = Encoder(), 0
        self.moments = 0
        self.file: RecordingFile = RecordingFile(args.file, args.max_size)
        self.file.append(self._encoder.session(self._session()))

    def describe(self) -> str:
        """What is recorded, in a few words."""
        plan = self._top.plan
        cgroups = sum(one.path is not None for one in plan.cgroups)
        return f"{plural(len(plan.pods), 'pod')}, {plural(cgroups, 'cgroup')}"

    def look(self) -> None:
        """Record one moment. Raises CannotDo where it cannot be written."""
        self._top.replan()
        if self._top.plan is not self._planned:
            self._planned = self._top.plan
            self._rows = recorded_rows(self._planned)
        moment = self._reader.read(self._rows)
        if self.file.is_full:
            self.file.rotate()
            self.file.append(self._encoder.session(self._session()))
            self._until_key = 0
        key = not self._until_key
        self._until_key = KEY_EVERY if key else self._until_key
        payload = self._encoder.moment(moment, key=key)
        self._until_key -= 1
        self.file.append(payload)
        self.moments += 1

    def follow(self, seconds: float | None, note: Callable[[str], None]) -> None:
        """Record every ``interval`` until a signal asks to end, or for ``seconds``. ``note`` is told
        why the pods cannot be asked for again, once."""
        from qoslet.host.linux.clock import Signals, WakingClock

        said = ""
        with Signals() as signals:
            clock = WakingClock(signals)
            begun = due = clock.monotonic()
            while True:
                self.look()
                if self._top.trouble != said:
                    said = self._top.trouble
                    note(said or "the pods can be asked for again")
                due = max(due + self._interval, clock.monotonic())
                if seconds is not None:
                    due = min(due, begun + seconds)
                while (left := due - clock.monotonic()) > 0:
                    if not clock.sleep(left):
                        return
                if signals.requested() or (seconds is not None and due >= begun + seconds):
                    return

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
        self.file.close()

    def _session(self) -> Session:
        import os

        from qoslet.core.pressure.guard_mode import default_mode
        from qoslet.core.recording.moment import Session
        from qoslet.core.resources.node_policy import node_policy
        from qoslet.host.linux.procfs import this_boot
        from qoslet.render.documents.plan import node_block
        from qoslet.version import VERSION

        node = self._top.plan.node
        return Session(
            boot=this_boot(),
            started=round(time.time(), 3),
            interval=self._interval,
            hierarchy=node.hierarchy,
            page_size=os.sysconf("SC_PAGE_SIZE"),
            node=node_block(self._top.plan),
            guard=default_mode(node_policy(node).memory_qos),
            version=VERSION,
        )


def load(path: str, note: Callable[[str], None]) -> Recording:
    """A recording to look at; ``note`` is told what of it is damaged. Raises BadInput."""
    from qoslet.errors import BadInput
    from qoslet.host.files.recording_file import read_segments

    recording = Recording(read_segments(path))
    for line in recording.notes:
        note(line)
    if not len(recording):
        raise BadInput("holds no moment", where=path, hint="record for longer")
    return recording
