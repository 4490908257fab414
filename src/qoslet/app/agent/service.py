"""A run as a service: log lines for machines, signs of life for the service manager, answers for
those who ask. What ``Watching`` is to a person."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, TextIO

from msgspec.structs import replace

from qoslet.agent.snapshots import pods_meanwhile
from qoslet.app.agent.pages import AgentSockets, Questions, pages_of
from qoslet.app.options import LogFormat as LogFormat
from qoslet.core.api.schema import encode_json
from qoslet.core.problem import plural
from qoslet.core.status.pod_events import unseen_exits
from qoslet.errors import QosletError
from qoslet.host.linux.output import OutputWriter
from qoslet.host.systemd.sd_notify import Notifier
from qoslet.render.documents.timestamps import moment
from qoslet.render.terminal import printable

if TYPE_CHECKING:
    from qoslet.agent.loop import Surface
    from qoslet.agent.snapshots import SyncResult
    from qoslet.app.agent.parts import AgentRun
    from qoslet.core.problem import Problem
    from qoslet.core.reconcile.steps import Outcome
    from qoslet.core.status.snapshot import Snapshot

Severity = Literal["error", "warning", "info"]

_PRIORITY = {"error": 3, "warning": 4, "info": 6}
"""Levels of syslog, which a journal reads off the beginning of a line (sd-daemon(3))."""


class Log:
    """One line an event. ``json``: an object each; ``journal``: text with its priority."""

    def __init__(
        self,
        out: TextIO | OutputWriter,
        form: LogFormat,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._out = out
        self._form = form
        self._clock = clock

    @property
    def for_programs(self) -> bool:
        """Whether programs read it, which want each event."""
        return self._form == "json"

    def line(self, severity: Severity, message: str, **fields: object) -> None:
        """Write it; there is nobody to tell where that fails."""
        with suppress(OSError, ValueError):
            self._out.write(self.text(severity, message, **fields))
            self._out.flush()

    def text(self, severity: Severity, message: str, **fields: object) -> str:
        """The line, with its newline."""
        if self._form == "json":
            row = {"time": moment(self._clock()), "level": severity, "message": message, **fields}
            text = encode_json(row).decode()
        elif self._form == "journal":
            text = f"<{_PRIORITY[severity]}>{printable(message)}"
        else:
            word = "" if severity == "info" else f"{severity}: "
            text = f"{moment(self._clock())} {word}{printable(message)}"
        return f"{text}\n"


TROUBLES = 200
"""How many failures are known as told, until a step is done."""


class Service:
    """The loop's surface where nobody watches. Entered, it is ready to be asked."""

    def __init__(
        self,
        log: Log,
        notifier: Notifier,
        questions: Questions,
        look: Callable[[], Snapshot],
        metrics: Callable[[], Snapshot],
        problems: Callable[[], tuple[Problem, ...]] = tuple,
        notes: Callable[[], Sequence[str]] = tuple,
        *,
        verbose: bool = False,
    ) -> None:
        self._verbose = verbose
        self._problems = problems
        self._notes = notes
        self._noted: frozenset[str] = frozenset()
        self._trouble: frozenset[str] = frozenset()
        self._containers = (0, 0)
        self._last: tuple[Problem, ...] = ()
        self._told: frozenset[Problem] = frozenset()
        self._log = log
        self._notifier = notifier
        self._questions = questions
        self._look = look
        self._metrics = metrics
        self._ready = False

    def synced(self, turn: SyncResult) -> None:
        """Each event, exits that nobody saw in one line, and one sentence where something was done or
        other containers run; the watchdog is fed, who asked is answered. A failure that repeats itself
        is told once."""
        self._questions.answer(self._look, self._metrics)
        self._notifier.alive()
        if not self._ready:
            self._ready = True
            self._notifier.ready(turn.summary)
        self._notifier.status(turn.summary)
        self._log_new_problems()
        unseen = "" if self._verbose or self._log.for_programs else unseen_exits(turn.events)
        if unseen:
            self._log.line("warning", unseen, cycle=turn.cycle)
        for event in turn.events:
            if not (unseen and event.unseen):
                self._log.line(event.severity, event.line, cycle=turn.cycle, **event.fields)
        self.tell_notes()
        others, self._containers = turn.containers != self._containers, turn.containers
        if turn.quiet and turn.cycle > 1:
            if others:
                self._log.line("info", turn.summary, **_counts(turn))
            return
        trouble = frozenset((*turn.notes, *turn.errors))
        if turn.errors and trouble <= self._trouble and not turn.done:
            return
        # what fails with other back-offs fails in other syncs
        kept = not turn.done and len(self._trouble) < TROUBLES
        self._trouble = self._trouble | trouble if kept else trouble
        self._log.line("warning" if turn.failed else "info", turn.summary, **_counts(turn))
        events = {event.line for event in turn.events}
        for note in turn.notes:
            if note not in events:
                self._log.line("warning", note, cycle=turn.cycle)
        for error in turn.errors:
            self._log.line("error", error, cycle=turn.cycle)

    def tell_notes(self) -> None:
        """What the runtime, the driver and the volumes noted since the last time."""
        notes = self._notes()
        for note in notes:
            if note not in self._noted:
                self._log.line("warning", note)
        self._noted = frozenset(notes)

    def step(self, command: str, outcome: Outcome) -> None:
        """One action on a cgroup, with the command that would do it by hand."""
        step = outcome.step
        error = f": {outcome.error}" if outcome.error else ""
        waits = " (in progress)" if outcome.pending else ""
        self._log.line(
            "info" if outcome.error is None else "warning",
            f"cgroup: {command}{waits}{error}",
            event="CgroupAction",
            action=step.kind,
            cgroup=step.path,
            file=step.file or None,
            value=step.value if step.kind == "set" else None,
            before=outcome.before,
            error=outcome.error,
        )

    def _log_new_problems(self) -> None:
        """Warnings and errors that have come up; one that went and comes again is told again."""
        rows = self._problems()
        if rows is self._last:
            return
        wrong = [row for row in rows if row.severity != "info"]
        self._last, told, self._told = rows, self._told, frozenset(wrong)
        for row in wrong:
            if row not in told:
                hint = f" ({row.hint})" if row.hint else ""
                self._log.line(row.severity, f"{row.where}: {row.message}{hint}")

    def publish(self, snapshot: Snapshot) -> None:
        """Nobody watches."""

    def log(self, line: str) -> None:
        """The end has begun, or such."""
        self._notifier.stopping(line)
        self._log.line("info", line)


def _counts(turn: SyncResult) -> Mapping[str, int]:
    """The numbers behind the sentence."""
    return {
        "cycle": turn.cycle,
        "looked": turn.pods_synced,
        "differences": turn.differences,
        "done": turn.done,
        "failed": turn.failed,
        "pending": len(turn.pending),
        "waiting": len(turn.waiting),
    }


class NoSurface:
    """The surface of a run that shows nothing while it goes on."""

    def synced(self, turn: SyncResult) -> None:
        """Nobody watches."""

    def publish(self, snapshot: Snapshot) -> None:
        """Nobody watches."""

    def log(self, line: str) -> None:
        """Nobody watches."""


class AnsweringSurface:
    """The surface of somebody who watches, and answers for others who ask."""

    def __init__(self, watching: Surface, questions: Questions) -> None:
        self._watching = watching
        self._questions = questions

    def synced(self, turn: SyncResult) -> None:
        """A turn is over."""
        self._watching.synced(turn)

    def publish(self, snapshot: Snapshot) -> None:
        """Who asked gets what is shown."""
        self._watching.publish(snapshot)
        self._questions.answer(lambda: snapshot, lambda: snapshot)

    def log(self, line: str) -> None:
        """One line beside that."""
        self._watching.log(line)


@contextmanager
def _asked(parts: AgentRun) -> Iterator[Questions]:
    """Questions come in and wake the loop, while it lasts. Without a folder nobody can ask."""
    questions = Questions()
    live = parts.source.live
    pages = pages_of(questions, parts.config.root, lambda: live.node, parts.metrics)
    try:
        if not parts.folder:
            yield questions
            return
        parts.clock.further.extend(questions.descriptors)
        with AgentSockets(parts.folder, pages, parts.listener) as sockets:
            parts.mends.append(sockets.mend)
            yield questions
    finally:
        questions.close()


def _answer_meanwhile(parts: AgentRun, questions: Questions) -> None:
    """In the middle of a sync that waits, tell who asks what is known of the pods."""
    reconciler = parts.reconciler
    if (turn := reconciler.last_result) is not None:
        questions.answer_meanwhile(lambda: pods_meanwhile(reconciler.context, turn))


def _answer_at_end(parts: AgentRun, questions: Questions) -> None:
    """While pods are stopped, tell who asks how far that is; no answer holds up their end. But
    for exits nothing is read of what wakes the loop, so it wakes for nothing else."""
    reconciler = parts.reconciler
    parts.clock.watch_only(parts.exits)
    if reconciler.last_result is None:
        return
    summary = f"stopping {plural(len(reconciler.context.workers), 'pod')}"
    with suppress(QosletError, OSError):
        questions.answer(
            lambda: replace(reconciler.snapshot(), summary=summary), reconciler.metrics_snapshot
        )


@contextmanager
def answering(parts: AgentRun, watching: Surface) -> Iterator[Surface]:
    """The surface of a run that somebody watches."""
    with _asked(parts) as questions:
        parts.clock.idle = partial(_answer_meanwhile, parts, questions)
        parts.ending = partial(_answer_at_end, parts, questions)
        yield AnsweringSurface(watching, questions)


@contextmanager
def log_on_stderr(form: LogFormat) -> Iterator[Log]:
    """The log on standard error. A reader that stops reading, such as a journal on a node that is
    short of memory, holds up neither pods nor guard."""
    plain = Log(sys.stderr, form)

    def left_out(count: int) -> str:
        return plain.text(
            "warning", f"dropped {count} log lines: the reader of the log is too slow"
        )

    writer = OutputWriter(sys.stderr.fileno(), left_out=left_out)
    try:
        yield Log(writer, form)
    finally:
        writer.close()


@contextmanager
def serving(parts: AgentRun, form: LogFormat, *, verbose: bool = False) -> Iterator[Surface]:
    """The surface of a run as a service. ``verbose``: each action on a cgroup is logged."""
    reconciler = parts.reconciler
    with log_on_stderr(form) as log, _asked(parts) as questions:
        notifier = Notifier(os.environ)
        if notifier.watchdog_seconds is not None:
            longest = parts.clock.longest or notifier.watchdog_seconds
            parts.clock.longest = min(longest, notifier.watchdog_seconds / 4)

        def idle() -> None:
            notifier.alive()
            _answer_meanwhile(parts, questions)

        parts.clock.idle = idle
        service = Service(
            log,
            notifier,
            questions,
            reconciler.snapshot,
            reconciler.metrics_snapshot,
            lambda: reconciler.problems,
            parts.notes,
            verbose=verbose,
        )
        if verbose:
            follow_steps(parts, service.step)
        try:
            yield service
        finally:
            service.tell_notes()
            notifier.close()


def follow_steps(parts: AgentRun, told: Callable[[str, Outcome], None]) -> None:
    """Tell each action on a cgroup from now on, as a command."""
    executor = parts.reconciler.context.executor
    systemd = parts.source.live.node.driver == "systemd"

    def log_step(outcome: Outcome) -> None:
        step = outcome.step
        told(executor.driver.shell(step) if systemd else step.command(), outcome)

    executor.followed = log_step
