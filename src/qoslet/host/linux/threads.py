"""Start threads, with the kernel's refusal as what it is."""

from __future__ import annotations

from errno import EAGAIN
from threading import Thread


def start(thread: Thread) -> None:
    """Start a thread. Raises OSError with EAGAIN where the kernel has none left for us: Python
    says that as RuntimeError, without a number."""
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(EAGAIN, f"cannot start a thread: {error}") from error
