"""Signals by the names that Kubernetes has for them.

Source: core/v1 Signal; signal(7).
"""

from __future__ import annotations

import signal


def signal_number(name: str) -> int:
    """The number of a signal such as ``SIGUSR1`` or ``SIGRTMIN+1``; SIGTERM for another name."""
    for base, sign in (("SIGRTMIN", "+"), ("SIGRTMAX", "-")):
        head, found, offset = name.partition(sign)
        if head == base and found and offset.isdecimal():
            number = int(f"{sign}{offset}") + int(getattr(signal, base))
            return number if signal.SIGRTMIN <= number <= signal.SIGRTMAX else signal.SIGTERM
    known = getattr(signal, name, None)
    return known if isinstance(known, signal.Signals) else signal.SIGTERM
