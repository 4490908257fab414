"""Questions of other threads that the loop answers between two syncs.

The loop pays only when somebody asks: a descriptor wakes it, one answer serves all who wait.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from qoslet.errors import CannotDo

Answer = TypeVar("Answer")

PATIENCE = 4.0
"""Seconds that who asks waits for the loop."""


class RequestQueue(Generic[Answer]):
    """``ask`` in any thread, ``answer`` in the loop's."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._changed = threading.Condition()
        self._waiting = 0
        self._number = 0
        self._last: Answer | None = None

    @property
    def descriptor(self) -> int:
        """Readable while somebody waits."""
        return self._descriptor

    def ask(self) -> Answer:
        """What the loop says to a question that was asked from now on. Raises CannotDo where it
        does not come to answer."""
        with self._changed:
            self._waiting += 1
            number = self._number
            os.eventfd_write(self._descriptor, 1)
            answered = self._changed.wait_for(lambda: self._number > number, self._patience)
            self._waiting -= 1
            if not answered or self._last is None:
                raise CannotDo(
                    f"its loop has been busy for {self._patience:g} s",
                    hint="ask again; the log says what it waits for",
                )
            return self._last

    def answer(self, make: Callable[[], Answer]) -> None:
        """Answer all who wait; nothing is made where nobody does."""
        try:
            os.eventfd_read(self._descriptor)
        except BlockingIOError:
            return
        if not self._waiting:
            return
        made = make()
        with self._changed:
            self._last = made
            self._number += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody asks any more."""
        os.close(self._descriptor)
