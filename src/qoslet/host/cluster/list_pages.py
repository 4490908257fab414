"""A list of an API server, page by page, as its JSON."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from qoslet.core.api.schema import DECODE_ERRORS
from qoslet.core.node.cluster.messages import Status, status_of
from qoslet.core.node.cluster.retries import wait_seconds
from qoslet.errors import CannotDo
from qoslet.host.cluster.session import NoResponse, ReadLimits, Session, body_of

PAGE_SIZE = 500
_TRIES = 5
_RETRIED = (429, 500, 502, 503, 504)


class _Metadata(Struct):
    next: str = msgspec.field(default="", name="continue")


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
        pause: Callable[[float], Any] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._session, self._path = session, path
        self._limits = limits or ReadLimits(120.0)
        self._pause, self._chance = pause, chance
        self.inconsistent = False

    def __iter__(self) -> Iterator[bytes]:
        """Each page. Raises CannotDo where it is not to be had."""
        token, failures = "", 0
        while True:
            query = {"limit": str(PAGE_SIZE), **({"continue": token} if token else {})}
            found = self._page(query)
            if isinstance(found, Status):
                if found.code == 410 and found.next and found.next != token:
                    token, self.inconsistent = found.next, True
                    continue
                failures += 1
                if failures >= _TRIES or found.code not in (0, *_RETRIED):
                    raise self._refused(found)
                self._pause(wait_seconds(failures, self._chance(), found.retry_seconds))
                continue
            failures = 0
            token, body = found
            yield body
            if not token:
                return

    def _page(self, query: dict[str, str]) -> tuple[str, bytes] | Status:
        """A page with what asks for the next; the status of a refusal, of code 0 where the network
        failed."""
        try:
            response = self._session.get(
                self._path, query, silence_seconds=self._limits.silence_seconds
            )
            try:
                body = body_of(response, self._limits, time.monotonic)
                if response.status != 200:
                    return status_of(response.status, body, response.retry_seconds)
            finally:
                response.close()
            head = msgspec.json.decode(body, type=_ListPage)
        except NoResponse as error:
            return Status(0, message=error.message)
        except DECODE_ERRORS:
            return Status(0, message="it answers something else than a list")
        if not head.kind.endswith("List"):
            return Status(0, message=f"it answers a {head.kind}, not a list")
        return head.metadata.next, body

    def _refused(self, status: Status) -> CannotDo:
        where = f"{self._session.server}{self._path}"
        kind = self._path.rpartition("/")[2]
        if status.code == 401:
            hint = "log in again as for kubectl"
            return CannotDo("the credentials are not valid", where=where, hint=hint)
        if status.code == 403:
            message = status.message or f"may not list {kind}"
            return CannotDo(message, where=where, hint=f"grant list on {kind}")
        said = status.message or status.reason or "no reason given"
        return CannotDo(f"answers {status.code}: {said}" if status.code else said, where=where)
