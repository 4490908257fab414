"""A disk on which no new file finds room."""

from __future__ import annotations

import errno
import os

import pytest

from qoslet.host.containers.records import COPY, RECORD


def fill(monkeypatch: pytest.MonkeyPatch, *others: str) -> None:
    """Let ``os.write`` find no room in records that are new, nor in files that end with one of
    ``others``."""
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        is_new = name.endswith((RECORD, COPY)) and not os.fstat(descriptor).st_size
        if is_new or name.endswith(others):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
