"""A list of an API server, page by page, as its JSON."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from qoslet.core.api.schema import DECODE_ERRORS
from qoslet.core.node.cluster.messages import Status, refusal, status_of
from qoslet.core.node.cluster.retries import wait_seconds
from qoslet.errors import CannotDo
from qoslet.host.cluster.session import NoResponse, ReadLimits, Session, body_of

PAGE_SIZE = 500
_TRIES = 5
_RETRIED = (429, 500, 502, 503, 504)
_SHARE = 0.25
"""Of the waits of agents: somebody looks at a screen, and no thousand others ask at the same time."""
_FIRST_TRIES = 3
_FIRST_PAUSE_SECONDS = 1.0
_FIRST_SECONDS = 4.0
"""A server of which nothing was ever heard is given up soon: its address may be wrong."""

ListProgress = Callable[[str, int, int | None], object]
"""Is told what is being done, how many items are read, and how many there are."""


class _Metadata(Struct):
    next: str = msgspec.field(default="", name="continue")
    remaining: int = msgspec.field(default=0, name="remainingItemCount")


class _ListPage(Struct):
    """What is read of a page; its items are skipped."""

    kind: str
    metadata: _Metadata


class ListPages:
    """The pages of ``path`` (``/api/v1/pods``). ``inconsistent``: the server forgot the state that the
    first pages are of, and gave the rest as it is now."""

    def __init__(
        self,
        session: Session,
        path: str,
        *,
        limits: ReadLimits | None = None,
        progress: ListProgress = lambda what, done, whole: None,
        pause: Callable[[float], Any] = time.sleep,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session, self._path = session, path
        self._kind = path.rpartition("/")[2]
        self._limits = limits or ReadLimits(120.0)
        self._progress = progress
        self._pause, self._chance, self._clock = pause, chance, clock
        self._was_heard = False
        self.inconsistent = False

    def __iter__(self) -> Iterator[bytes]:
        """Each page. Raises CannotDo where it is not to be had."""
        token, failures, done = "", 0, 0
        began = self._clock()
        while True:
            self._progress(f"reading {self._kind}", done, None)
            query = {"limit": str(PAGE_SIZE), **({"continue": token} if token else {})}
            found = self._page(query)
            if isinstance(found, Status) and found.code == 410 and found.next not in ("", token):
                token, self.inconsistent = found.next, True
                continue
            if isinstance(found, Status | NoResponse):
                failures += 1
                seconds = self._wait(found, failures, self._clock() - began)
                reason = refusal(found) if isinstance(found, Status) else found.message
                again = f"{self._session.server}: {reason}; trying again in {seconds:.0f} s"
                self._progress(again, 0, None)
                self._pause(seconds)
                continue
            failures = 0
            head, body = found
            done += PAGE_SIZE
            self._progress(f"reading {self._kind}", done, done + head.remaining)
            yield body
            token = head.next
            if not token:
                return

    def _wait(self, found: Status | NoResponse, failures: int, seconds: float) -> float:
        """How long to wait after so many failures in a row and ``seconds``. Raises CannotDo where it is
        given up."""
        if isinstance(found, Status):
            if failures >= _TRIES or found.code not in _RETRIED:
                raise self._refused(found)
            return wait_seconds(failures, self._chance() * _SHARE, found.retry_seconds)
        tries = _TRIES if self._was_heard else _FIRST_TRIES
        if failures >= tries or not (self._was_heard or seconds < _FIRST_SECONDS):
            raise CannotDo(found.message, where=self._session.server, hint=found.hint)
        if not self._was_heard:
            return _FIRST_PAUSE_SECONDS
        return wait_seconds(failures, self._chance() * _SHARE)

    def _page(self, query: dict[str, str]) -> tuple[_Metadata, bytes] | Status | NoResponse:
        """A page and what it says of the next; the status of a refusal; what kept it from being read.
        Raises CannotDo for what is no list."""
        try:
            response = self._session.get(
                self._path, query, silence_seconds=self._limits.silence_seconds
            )
            self._was_heard = True
            try:
                body = body_of(response, self._limits, self._clock)
                if response.status != 200:
                    return status_of(response.status, body, response.retry_seconds)
            finally:
                response.close()
            head = msgspec.json.decode(body, type=_ListPage)
        except NoResponse as error:
            return error
        except DECODE_ERRORS:
            raise self._no_list("something else than a list") from None
        if not head.kind.endswith("List"):
            raise self._no_list(f"a {head.kind}, not a list")
        return head.metadata, body

    @property
    def _where(self) -> str:
        return f"{self._session.server}{self._path}"

    def _no_list(self, what: str) -> CannotDo:
        hint = "is it an API server? kubectl config view --minify"
        return CannotDo(f"answers {what}", where=self._where, hint=hint)

    def _refused(self, status: Status) -> CannotDo:
        hint = ""
        if status.code == 401:
            return CannotDo(
                "answers 401: the credentials are not valid",
                where=self._where,
                hint="log in again as for kubectl",
            )
        if status.code == 403:
            hint = f"grant list on {self._kind}"
        elif status.code not in _RETRIED:
            hint = "is it an API server? kubectl config view --minify"
        return CannotDo(refusal(status), where=self._where, hint=hint)
