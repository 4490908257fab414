"""Capabilities of this process and what executes from it.

Source: prctl(2), capabilities(7).
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Container
from functools import cache

from qoslet.host.linux.mount_syscalls import library

_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522


@cache
def last_capability() -> int:
    """The highest capability that this kernel knows; 40 where it does not tell."""
    try:
        with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 40


def prctl(option: int, value: int) -> None:
    """prctl(2); raises OSError."""
    if library().prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def bound_capabilities(kept: Container[int]) -> None:
    """Drop all but ``kept`` from the bounding set, and every one from the ambient and inheritable
    sets: a program that is executed next has at most ``kept``. Raises OSError; PermissionError
    where this process may drop none."""
    for number in range(last_capability() + 1):
        if number not in kept:
            prctl(_PR_CAPBSET_DROP, number)
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    _clear_inheritable()


def _clear_inheritable() -> None:
    """An inheritable set would pass capabilities to root beyond the bounding set."""
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION_3, 0), 8)
    data = ctypes.create_string_buffer(24)
    if library().capget(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    low_effective, low_permitted, _, high_effective, high_permitted, _ = struct.unpack(
        "6I", data.raw
    )
    cleared = struct.pack("6I", low_effective, low_permitted, 0, high_effective, high_permitted, 0)
    if library().capset(header, ctypes.create_string_buffer(cleared, 24)) != 0:
        raise OSError(ctypes.get_errno(), "capset")
