"""A file system whose files nobody answers for: who looks at one sleeps uninterruptibly, also when killed."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_HEADER = struct.Struct("=IIQQIIII")
_ANSWER = struct.Struct("=IiQ")
_GETATTR, _INIT = 3, 26
_MINOR = 31


@contextmanager
def hanging_mount(folder: Path) -> Iterator[threading.Event]:
    """Mount it at a directory; the event tells that a process hangs there, and all that do get an error at
    the end. The kernel's linux/fuse.h has the protocol."""
    folder.mkdir(exist_ok=True)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"hangs", os.fsencode(folder), b"fuse", 0, options.encode()):
        os.close(device)
        raise OSError(ctypes.get_errno(), "cannot mount", str(folder))
    hangs = threading.Event()
    answers = threading.Thread(target=_answer, args=(device, hangs), daemon=True)
    answers.start()
    try:
        yield hangs
    finally:
        subprocess.run(["umount", "--force", "--lazy", str(folder)], check=True)
        answers.join(10)
        os.close(device)


def _answer(device: int, hangs: threading.Event) -> None:
    """Answer for the file system itself and its root directory."""
    with suppress(OSError):
        while True:
            request = os.read(device, 1 << 17)
            _, kind, number, *_ = _HEADER.unpack_from(request)
            if kind == _INIT:
                body = struct.pack("=IIIIHHIIHHI28x", 7, _MINOR, 0, 0, 12, 9, 4096, 1, 0, 0, 0)
            elif kind == _GETATTR:
                root = struct.pack(
                    "=6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, stat.S_IFDIR | 0o755, 2, *5 * [0]
                )
                body = struct.pack("=QII", 3600, 0, 0) + root
            else:
                hangs.set()
                continue
            os.write(device, _ANSWER.pack(_ANSWER.size + len(body), 0, number) + body)
