"""Bundles as files: read whatever is there, written in one piece and for their owner only."""

from __future__ import annotations

import os
import sys

from qoslet.core.api.schema import shown
from qoslet.core.bundle.archive import PACKED_MOST, unpack
from qoslet.core.bundle.parts import Bundle
from qoslet.errors import BadInput, CannotDo
from qoslet.host.files.manifests import check_file, open_file, unreadable
from qoslet.host.linux.descriptors import owned

_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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
    with owned(open_file(path, False)) as descriptor:
        check_file(path, descriptor, "give a file, or - for standard input")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(PACKED_MOST + 1)


def write_bundle(path: str, data: bytes) -> None:
    """Put a bundle at ``path`` in one piece, in place of what is there; only its owner can read it.
    Raises CannotDo."""
    folder, _, name = path.rpartition("/")
    fresh = f"{folder or ('/' if path.startswith('/') else '.')}/.{name}.{os.urandom(8).hex()}"
    try:
        descriptor = os.open(fresh, _FRESH, 0o600)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            os.fchmod(descriptor, 0o600)
            os.fsync(descriptor)
            os.rename(fresh, path)
        except OSError:
            os.unlink(fresh)
            raise
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = f"cannot be written: {reason}"
        raise CannotDo(message, where=shown(path), hint="name another file with -o") from error
