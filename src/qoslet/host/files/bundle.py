"""Bundles as files: read whatever is there, written in one piece and for their owner only."""

from __future__ import annotations

import os
import sys

from qoslet.core.api.schema import shown
from qoslet.core.bundle.archive import PACKED_MOST, unpack
from qoslet.core.bundle.parts import Bundle
from qoslet.errors import BadInput
from qoslet.host.files.manifests import check_file, open_file, unreadable


def read_bundle(path: str) -> Bundle:
    """The bundle at ``path``, or on standard input (``-``). Raises BadInput."""
    name = "stdin" if path == "-" else shown(path)
    try:
        data = sys.stdin.buffer.read(PACKED_MOST + 1) if path == "-" else _content(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if len(data) > PACKED_MOST:
        message = f"is larger than {PACKED_MOST >> 20} MiB"
        raise BadInput(message, where=name, hint="a bundle has less than 1 MB")
    return unpack(data, name)


def _content(path: str) -> bytes:
    """The bytes of a regular file, one more than are allowed at most."""
    descriptor = open_file(path, False)
    try:
        check_file(path, os.fstat(descriptor).st_mode)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(PACKED_MOST + 1)
    finally:
        os.close(descriptor)
