"""Keeps what this process uses in memory, so that it can act while memory is short.

Only what was used once is kept; what it starts is not. Source: mlockall(2), ``MCL_ONFAULT``.
"""

from __future__ import annotations

import ctypes
import os

_CURRENT, _FUTURE, _ONFAULT = 1, 2, 4
_IPC_LOCK = 14


def lock_memory() -> str:
    """From now on; why not, empty where it works. Needs CAP_IPC_LOCK: under a limit, memory that
    this process wants later would be refused."""
    with open("/proc/self/status", encoding="ascii") as file:
        rights = next((line.split()[1] for line in file if line.startswith("CapEff:")), "0")
    if not int(rights, 16) >> _IPC_LOCK & 1:
        return "this process has no CAP_IPC_LOCK"
    library = ctypes.CDLL(None, use_errno=True)
    if library.mlockall(_CURRENT | _FUTURE | _ONFAULT):
        return os.strerror(ctypes.get_errno())
    return ""
