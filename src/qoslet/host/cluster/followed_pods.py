"""The pods of one node, followed on an API server in a thread of its own."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from threading import Event, Lock, Thread

from msgspec import Struct

from qoslet.core.api.schema import shown
from qoslet.core.node.cluster.messages import LONGEST_LINE, status_of
from qoslet.core.node.cluster.pod_reflector import PATH, PodReflector, Request
from qoslet.errors import QosletError, reason_of
from qoslet.host.cluster.session import (
    NoResponse,
    OpenSession,
    ReadLimits,
    Response,
    Session,
    Silence,
    body_of,
)

_STATUS_BYTES = 64 << 10
_END_SLACK_SECONDS = 5.0
_END_SECONDS = 1.0


class WatchLimits(Struct, frozen=True):
    """``silence_seconds``: most servers send a bookmark each minute; a watch on which nothing comes for
    longer may be dead: the pods are listed again. ``late_seconds``: how much longer than asked for a watch
    may last."""

    silence_seconds: float = 180.0
    late_seconds: float = 30.0


class FollowedState(Struct, frozen=True):
    """What is known now. ``pods`` is a PodList as JSON, None until a whole list was read; ``changes``
    rises with it; ``fault`` is why it is not followed at the moment; ``at`` is monotonic seconds of
    the last answer. ``is_open``: a watch is open, which tells every change as it happens."""

    pods: bytes | None
    uids: frozenset[str]
    changes: int
    fault: str
    at: float
    is_open: bool = False


class FollowedPods:
    """Follows the pods of ``node``. ``start`` begins, ``close`` ends."""

    def __init__(
        self,
        node: str,
        open_session: OpenSession,
        *,
        lists: ReadLimits | None = None,
        watches: WatchLimits | None = None,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        wait_scale: float = 1.0,
    ) -> None:
        self._reflector = PodReflector(node)
        self._open = open_session
        self._lists, self._watches = lists or ReadLimits(), watches or WatchLimits()
        self._chance, self._clock, self._scale = chance, clock, wait_scale
        self._session: Session | None = None
        self._response: Response | None = None
        self._lock, self._stopping = Lock(), Event()
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Readable when ``state`` may be another."""
        self._state = FollowedState(None, frozenset(), 0, "", clock())
        self.requests = 0
        """Sent so far."""
        self._is_open = False
        self._thread = Thread(target=self._run, name="api-pods", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def state(self) -> FollowedState:
        """What is known now."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)
        with self._lock:
            return self._state

    def close(self) -> None:
        """End, whatever the server does."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        with self._lock:
            response = self._response
        if response is not None:
            response.abort()
        if self._thread.ident is not None:
            # one that connects just now ends by itself
            self._thread.join(_END_SECONDS)
        with self._lock:
            os.close(self.descriptor)

    def _run(self) -> None:
        self._try(self._knock)
        while not self._stopping.is_set():
            request = self._reflector.next_request(self._chance())
            if self._stopping.wait(request.wait * self._scale):
                break
            self._try(partial(self._perform, request))
        self._end_session()

    def _try(self, act: Callable[[], object]) -> None:
        """Do it, and show what came of it."""
        try:
            act()
        except QosletError as error:
            self._reflector.broken(reason_of(error))
            self._end_session()
        except Exception as error:  # noqa: BLE001 - a thread that ends would leave an old set as if it were true
            self._reflector.broken(f"{type(error).__name__}: {shown(str(error), 120)}")
            self._end_session()
        self._publish()

    def _knock(self) -> None:
        """Connect at once, so that a server that is not there is told: the first list waits, so that
        nodes that start together do not ask together."""
        self._session = self._open()
        self._session.reach()

    def _perform(self, request: Request) -> None:
        """Send a request, and tell the reflector what comes. Raises QosletError."""
        began = self._clock()
        response = self._asked(request)
        with self._lock:
            self._response = response
        try:
            if response.status != 200:
                self._refused(response)
            elif request.is_watch:
                self._follow(response, began, int(request.query["timeoutSeconds"]))
            else:
                self._reflector.page(body_of(response, self._lists, self._clock))
        finally:
            self._is_open = False
            with self._lock:
                self._response = None
            response.close()

    def _asked(self, request: Request) -> Response:
        """The answer; a 401 is asked again once with credentials that are read anew."""
        watch = self._watches.silence_seconds
        silence = watch if request.is_watch else self._lists.silence_seconds
        for again in (False, True):
            if self._session is None:
                self._session = self._open()
            self.requests += 1
            response = self._session.get(PATH, request.query, silence_seconds=silence)
            if response.status != 401 or again:
                return response
            response.close()
            self._end_session()
        raise AssertionError

    def _refused(self, response: Response) -> None:
        limits = ReadLimits(self._lists.seconds, _STATUS_BYTES)
        try:
            body = body_of(response, limits, self._clock)
        except NoResponse:
            body = b""
        self._reflector.refused(status_of(response.status, body, response.retry_seconds))
        if response.status in (401, 403):
            # whoever mends it may do so in the files
            self._end_session()

    def _follow(self, response: Response, began: float, asked: int) -> None:
        """Tell the reflector the lines of a watch. A server that is silent may have nothing to tell, so
        that is no fault until it does not answer. Raises NoResponse."""
        self._is_open = True
        self._reflector.opened()
        self._publish()
        try:
            self._take_lines(response, began, asked)
        except Silence:
            self._reflector.silent()

    def _take_lines(self, response: Response, began: float, asked: int) -> None:
        """Tell the reflector each line as it comes, and the end. Raises NoResponse."""
        until = began + asked + self._watches.late_seconds
        rest = b""
        for chunk in response.chunks():
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            for line in _not_empty(lines):
                if not self._reflector.line(line):
                    return
            if len(rest) > LONGEST_LINE:
                raise NoResponse(f"an event is larger than {LONGEST_LINE >> 20} MiB")
            if self._clock() > until:
                raise NoResponse("the watch does not end when it was asked to")
            self._publish()
        if rest.strip():
            raise NoResponse("the watch ends in the middle of an event")
        self._reflector.ended(in_time=self._clock() - began >= asked - _END_SLACK_SECONDS)

    def _publish(self) -> None:
        """Show what is known; the list is put together only where it is another."""
        reflector, before = self._reflector, self._state
        pods, uids = before.pods, before.uids
        is_new = reflector.is_complete and (pods is None or reflector.changes != before.changes)
        if is_new:
            pods, uids = reflector.pod_list(), reflector.uids()
        at = before.at if reflector.fault else self._clock()
        fault, is_open = reflector.fault, self._is_open
        made = FollowedState(pods, uids, reflector.changes, fault, at, is_open)
        with self._lock:
            self._state = made
            if (is_new or made.fault != before.fault) and not self._stopping.is_set():
                os.eventfd_write(self.descriptor, 1)

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


def _not_empty(lines: list[bytes]) -> Iterator[bytes]:
    return (line for line in lines if line.strip())
