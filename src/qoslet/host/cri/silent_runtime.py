"""Says once that a container runtime does not answer, and once that it answers again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

SLOW_SECONDS = 10.0


class NoteLog(Protocol):
    """Takes a line for the surface."""

    def __call__(self, line: str, over: str = "") -> None:
        """Keep it, once; ``over`` is a line that is not true any more."""


class SilentRuntime:
    """Whether the runtime at ``endpoint`` is known to be silent. ``slow_seconds`` is how long an answer
    may take before that is said; the call goes on."""

    def __init__(self, endpoint: str, note: NoteLog, slow_seconds: float) -> None:
        self._endpoint, self._note, self._slow_seconds = endpoint, note, slow_seconds
        self._over = f"{endpoint}: the container runtime answers again"
        self._said = ""

    def begin(self, why: str) -> None:
        """Say that no answer comes, and why."""
        line = f"{why}; running containers stay and are checked when it answers again"
        if self._said:
            return
        self._note(line, self._over)
        self._said = line

    def end(self) -> None:
        """Say that it answers again, if anything was said."""
        if self._said:
            self._note(self._over, self._said)
            self._said = ""

    async def watched(self, asked: Coroutine[Any, Any, None]) -> None:
        """Wait for an answer, and say so where it takes long. Raises what ``asked`` raises."""
        task = asyncio.ensure_future(asked)
        done, _ = await asyncio.wait({task}, timeout=self._slow_seconds)
        if not done:
            self.begin(f"{self._endpoint}: no answer for {self._slow_seconds:g} s")
        await task
        self.end()
