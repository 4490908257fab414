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
        """Write a line; failures are ignored, since nothing could report them."""
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
"""How many failures are remembered as logged, until a step succeeds."""


class Service:
    """The loop's surface for a service: it logs, answers questions and notifies the service manager."""

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

    def synced(self, result: SyncResult) -> None:
        """Answer questions, notify the service manager, and log what happened: each event, with exits that
        nobody saw in one line, and a summary if something was done or other containers run. A failure
        that repeats itself is logged once."""
        self._questions.answer(self._look, self._metrics)
        self._notifier.alive()
        if not self._ready:
            self._ready = True
            self._notifier.ready(result.summary)
        self._notifier.status(result.summary)
        self._log_new_problems()
        unseen = "" if self._verbose or self._log.for_programs else unseen_exits(result.events)
        if unseen:
            self._log.line("warning", unseen, cycle=result.cycle)
        for event in result.events:
            if not (unseen and event.unseen):
                self._log.line(event.severity, event.line, cycle=result.cycle, **event.fields)
        self.tell_notes()
        others, self._containers = result.containers != self._containers, result.containers
        if result.quiet and result.cycle > 1:
            if others:
                self._log.line("info", result.summary, **_counts(result))
            return
        trouble = frozenset((*result.notes, *result.errors))
        if result.errors and trouble <= self._trouble and not result.done:
            return
        # what fails with other back-offs fails in other syncs
        kept = not result.done and len(self._trouble) < TROUBLES
        self._trouble = self._trouble | trouble if kept else trouble
        self._log.line("warning" if result.failed else "info", result.summary, **_counts(result))
        events = {event.line for event in result.events}
        for note in result.notes:
            if note not in events:
                self._log.line("warning", note, cycle=result.cycle)
        for error in result.errors:
            self._log.line("error", error, cycle=result.cycle)

    def tell_notes(self) -> None:
        """Log what the runtime, the driver and the volumes have noted since the last call."""
        notes = self._notes()
        for note in notes:
            if note not in self._noted:
                self._log.line("warning", note)
        self._noted = frozenset(notes)

    def step(self, command: str, outcome: Outcome) -> None:
        """Log one action on a cgroup, as the command that would do it by hand."""
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
        """Log new warnings and errors; one that had gone is logged again when it comes back."""
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
        """Do nothing."""

    def log(self, line: str) -> None:
        """Log a line about the end of the run, and pass it on to the service manager."""
        self._notifier.stopping(line)
        self._log.line("info", line)


def _counts(result: SyncResult) -> Mapping[str, int]:
    """The numbers behind the summary, as fields of the log line."""
    return {
        "cycle": result.cycle,
        "looked": result.pods_synced,
        "differences": result.differences,
        "done": result.done,
        "failed": result.failed,
        "pending": len(result.pending),
        "waiting": len(result.waiting),
    }


class NoSurface:
    """The surface of a run that shows nothing while it goes on."""

    def synced(self, result: SyncResult) -> None:
        """Do nothing."""

    def publish(self, snapshot: Snapshot) -> None:
        """Do nothing."""

    def log(self, line: str) -> None:
        """Do nothing."""


class AnsweringSurface:
    """Passes everything on to a surface that somebody watches, and answers questions of others."""

    def __init__(self, watching: Surface, questions: Questions) -> None:
        self._watching = watching
        self._questions = questions

    def synced(self, result: SyncResult) -> None:
        """A sync is done."""
        self._watching.synced(result)

    def publish(self, snapshot: Snapshot) -> None:
        """Show the snapshot, and answer questions with it."""
        self._watching.publish(snapshot)
        self._questions.answer(lambda: snapshot, lambda: snapshot)

    def log(self, line: str) -> None:
        """Pass on one line."""
        self._watching.log(line)


@contextmanager
def _asked(parts: AgentRun) -> Iterator[Questions]:
    """Accept questions, which wake the loop; none if the run has no folder for its socket."""
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
    """Answer questions about pods in the middle of a sync that waits."""
    reconciler = parts.reconciler
    if (result := reconciler.last_result) is not None:
        questions.answer_meanwhile(lambda: pods_meanwhile(reconciler.context, result))


def _answer_at_end(parts: AgentRun, questions: Questions) -> None:
    """Answer questions while the pods are stopped, so that a user sees how far that is; failures of an
    answer do not hold it up. The loop wakes for exits only, as nothing else is read any more."""
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
    """Call ``told`` with each action on a cgroup from now on, and with it as a command."""
    executor = parts.reconciler.context.executor
    systemd = parts.source.live.node.driver == "systemd"

    def log_step(outcome: Outcome) -> None:
        step = outcome.step
        told(executor.driver.shell(step) if systemd else step.command(), outcome)

    executor.followed = log_step
