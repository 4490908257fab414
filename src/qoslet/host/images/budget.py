"""What an image may take while it is read, whatever it says of itself."""

from __future__ import annotations

STEPS = 32
"""Steps for each entry that may be there: an image has fewer, one made to cost time has more."""


class Budget:
    """Bytes (content, headers and padding), entries (directories on the way to one among them) and
    steps: a name on a way, a stream of gzip, a few records of an extended header, each a few
    microseconds. ``spend`` raises ValueError beyond."""

    def __init__(self, most_bytes: int, most_entries: int) -> None:
        self._most = most_bytes, most_entries
        self._bytes, self._entries = most_bytes, most_entries
        self._steps = STEPS * most_entries

    def spend(self, size: int = 0, entries: int = 0, steps: int = 0) -> None:
        """Take so much."""
        self._bytes -= size
        self._entries -= entries
        self._steps -= steps
        if self._bytes < 0:
            raise ValueError(f"more than {self._most[0]} bytes unpacked")
        if self._entries < 0:
            raise ValueError(f"more than {self._most[1]} entries")
        if self._steps < 0:
            raise ValueError(f"more than {STEPS * self._most[1]} steps to read it")
