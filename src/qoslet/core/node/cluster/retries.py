"""How long a client of the API server waits before it asks again, so that thousands of nodes do not
ask together.

Source: AWS Architecture Blog, "Exponential Backoff and Jitter" (full jitter); client-go
``tools/cache`` (a watch is asked for 5 to 10 minutes).
"""

from __future__ import annotations

FIRST_SECONDS = 10.0
"""The first wait is at most this long, and on average half of it."""
LONGEST_SECONDS = 120.0
MOST_ASKED_SECONDS = 600.0
"""A server that asks for a longer wait is asked again all the same."""
WATCH_SECONDS = (300.0, 600.0)
"""A watch is asked for a time between these: the ends of many watches lie apart."""


def wait_seconds(failures: int, chance: float, asked_for: float = 0.0) -> float:
    """The wait after so many failures in a row, at least one. ``chance`` lies in 0..1. The server's
    own ``asked_for`` (Retry-After) is waited for, up to ten minutes, and up to half of it more."""
    most = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 1, 10))
    return max(min(asked_for, MOST_ASKED_SECONDS) * (1 + chance / 2), most * chance)


def watch_seconds(chance: float) -> int:
    """How long to ask a watch for."""
    least, most = WATCH_SECONDS
    return int(least + (most - least) * chance)
