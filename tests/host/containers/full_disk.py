"""A disk on which no new file finds room."""

from __future__ import annotations

import errno
import os

import pytest


def fill(monkeypatch: pytest.MonkeyPatch, *others: str) -> None:
    """Let ``os.write`` find no room in new records, nor in files that end with one of ``others``."""
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith((".new", *others)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
