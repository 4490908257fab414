"""The agent beside a kubelet as a service: log lines, signs of life for the service manager, answers
for those who ask."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from qoslet.agent.guest.guest_status import status_of
from qoslet.app.agent.pages import AgentSockets
from qoslet.app.agent.service import Log, LogFormat, log_on_stderr
from qoslet.app.node.asked_guest import STATUS
from qoslet.core.guest.status import GuestStatus, GuestSync
from qoslet.core.problem import plural
from qoslet.core.reconcile.journal import Key
from qoslet.host.questions.http_server import Page, Pages
from qoslet.host.questions.request_queue import RequestQueue
from qoslet.host.systemd.sd_notify import Notifier
from qoslet.render.text.audit.labels import place_label, pod_label

if TYPE_CHECKING:
    from socket import socket

    from qoslet.app.guest.machine import GuestRun
    from qoslet.host.linux.clock import WakingClock

RESET_SECONDS = 600.0
"""How long a file that is reset again and again is not told again."""


class GuestQuestions:
    """What others ask of the loop, each kind for itself: an answer costs what it shows."""

    def __init__(self) -> None:
        self.status: RequestQueue[GuestStatus] = RequestQueue()
        self.health: RequestQueue[bool] = RequestQueue()
        """Whether the loop answers at all."""

    def answer(self, look: Callable[[], GuestStatus]) -> None:
        """Answer all who wait; nothing is made where nobody does."""
        self.health.answer(lambda: True)
        self.status.answer(look)

    def close(self) -> None:
        """Nobody asks any more."""
        self.status.close()
        self.health.close()


class GuestService:
    """Tells what happened in each sync; matches ``agent.guest.guest_loop.GuestSurface``. ``verbose``:
    each value that is written or restored, too."""

    def __init__(
        self,
        log: Log,
        notifier: Notifier,
        questions: GuestQuestions,
        look: Callable[[], GuestStatus],
        notes: Callable[[], Sequence[str]],
        *,
        verbose: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._notifier = notifier
        self._questions = questions
        self._look = look
        self._notes = notes
        self._noted: set[str] = set()
        self._verbose = verbose
        self._clock = clock
        self._told_resets: dict[Key, float] = {}
        self._is_ready = False

    def synced(self, done: GuestSync) -> None:
        """One sync is over: who asked is answered, what is new is told."""
        self._questions.answer(self._look)
        self._notifier.alive()
        self._notifier.status(done.summary)
        is_first, self._is_ready = not self._is_ready, True
        if is_first:
            self._notifier.ready(done.summary)
            self._log.line("info", done.summary)
        for one in done.events:
            finding = one.finding
            severity = "info" if one.kind == "gone" else finding.severity
            self._log.line(
                severity,
                f"finding {one.kind}: {finding.verdict} {place_label(finding)}: {finding.message}",
                event="Finding",
                change=one.kind,
                verdict=finding.verdict,
                cgroup=finding.path,
                pod=pod_label(finding) or None,
                file=finding.file,
                expected=finding.expected,
                found=finding.found,
            )
        self._tell_resets(done)
        # the line of the first sync counts them
        self._tell_values("wrote", done.written, counted=is_first)
        self._tell_values("restored", done.restored, counted=is_first)
        for line in (*done.notes, *self._new_notes()):
            self._log.line("warning", line)
        for line in done.errors:
            self._log.line("error", line)

    def _tell_resets(self, done: GuestSync) -> None:
        """One line for the files that were reset; a file is told again only after a while."""
        now = self._clock()
        told = self._told_resets
        new = [
            key
            for key in done.resets
            if self._verbose or now >= told.get(key, float("-inf")) + RESET_SECONDS
        ]
        if not new:
            return
        recent = {key: at for key, at in told.items() if now < at + RESET_SECONDS}
        self._told_resets = recent | dict.fromkeys(new, now)
        (path, file), found = new[0], done.resets[new[0]]
        more = f", and {len(new) - 1} more" if len(new) > 1 else ""
        again = "written again"
        if (path, file) not in done.written:
            again = "written again later, its budget is used up"
        self._log.line(
            "warning",
            f"another process resets {path}/{file}{more}: it wrote {found!r}; {again}; "
            "all are in qoslet agent --status",
            event="Reset",
            cgroup=path,
            file=file,
            found=found,
            files=len(new),
        )

    def _tell_values(self, what: str, values: Mapping[Key, str], *, counted: bool) -> None:
        if values and not counted:
            self._log.line("info", f"{what} {plural(len(values), 'value')}")
        for (path, file), value in values.items() if self._verbose else ():
            line = f"{what} {path}/{file} = {value}"
            self._log.line("info", line, event="CgroupAction", cgroup=path, file=file, value=value)

    def _new_notes(self) -> list[str]:
        """What the tree and the driver noted since the last time."""
        notes = [line for line in self._notes() if line not in self._noted]
        self._noted.update(notes)
        return notes

    def warn(self, line: str) -> None:
        """Something is left otherwise than it should be."""
        self._log.line("warning", line)

    def log(self, line: str) -> None:
        """The end has begun, or such."""
        self._notifier.stopping(line)
        self._log.line("info", line)


def pages_of(questions: GuestQuestions) -> Pages:
    """What can be asked: the status, the metrics, and whether the loop answers."""

    def status() -> Page:
        from qoslet.render.documents import encode
        from qoslet.render.documents.agent.guest import status_document

        return Page("application/json", encode(status_document(questions.status.ask())))

    def metrics() -> Page:
        from qoslet.render.guest_metrics import MEDIA, guest_exposition

        return Page(MEDIA, guest_exposition(questions.status.ask()))

    def healthz() -> Page:
        questions.health.ask()
        return Page("text/plain", b"ok\n")

    return {STATUS: status, "/metrics": metrics, "/healthz": healthz}


@contextmanager
def serving(
    made: GuestRun,
    clock: WakingClock,
    form: LogFormat,
    listener: socket | None,
    *,
    verbose: bool = False,
) -> Iterator[tuple[GuestService, AgentSockets]]:
    """The surface of an agent, and its sockets."""
    questions = GuestQuestions()
    with ExitStack() as rest:
        log = rest.enter_context(log_on_stderr(form))
        rest.callback(questions.close)
        clock.further += (questions.status.descriptor, questions.health.descriptor)
        sockets = AgentSockets(made.folder, pages_of(questions), listener)
        rest.enter_context(sockets)
        notifier = Notifier(os.environ)
        rest.callback(notifier.close)
        if notifier.watchdog_seconds is not None:
            clock.longest = notifier.watchdog_seconds / 4

        def look() -> GuestStatus:
            return status_of(made.agent, time.monotonic())

        yield (
            GuestService(log, notifier, questions, look, made.notes, verbose=verbose),
            sockets,
        )
