"""What is said of a state folder that cannot be used."""

from __future__ import annotations

import errno
import os

import pytest

from qoslet.host.state.root_lock import cannot


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EROFS, "read-only"),
        (errno.EFBIG, "ulimit -f"),
        (errno.ENOSPC, "file system is full"),
        (errno.ENOTDIR, "check the directory"),
        (errno.ENAMETOOLONG, "use a shorter --cgroup-root"),
        (errno.EACCES, "run as root"),
    ],
)
def test_the_hint_is_of_what_is_wrong(number: int, hint: str) -> None:
    said = cannot("cannot write the journal", OSError(number, os.strerror(number)), "/x")
    assert hint in said.hint
