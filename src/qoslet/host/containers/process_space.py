"""The PID and time namespaces in which recorded process IDs and start times hold.

Elsewhere they name other processes or none, so a pod that runs would be started a second time, or
be taken for dead and ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import msgspec

from qoslet.errors import CannotDo
from qoslet.host.containers.records import COPY, RECORD, read_record


@cache
def process_space() -> str:
    """Ours, as the kernel names them. Source: namespaces(7); a kernel may lack that of time."""
    names = []
    for name in ("pid", "time"):
        with suppress(OSError):
            names.append(os.readlink(f"/proc/self/ns/{name}"))
    return " ".join(names)


def refuse_other_space(
    folder: str, root: str, is_populated: Callable[[str], bool], space: str | None = None
) -> None:
    """Raise ``CannotDo`` where ``folder`` has the record of a pod that runs in other namespaces than
    ``space``, which is ours if None. A pod that an earlier version recorded may run in any."""
    ours = process_space() if space is None else space
    for uid in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            if _is_of(f"{folder}/{uid}", ours):
                continue
            record = read_record(f"{folder}/{uid}")
        except (OSError, msgspec.MsgspecError):
            # the keeper says what becomes of it
            continue
        if record.space in ("", ours) or not any(map(is_populated, record.cgroups.values())):
            continue
        raise CannotDo(
            f"Pod {record.spec.key} runs in another PID or time namespace",
            where=root,
            hint="run qoslet where it was started: nsenter --all --target 1 qoslet ... on a host",
        )


def _is_of(place: str, space: str) -> bool:
    """Whether a record names these namespaces, by its text: decoding all of them takes longer."""
    word = space.encode()
    for name in (RECORD, COPY):
        with suppress(FileNotFoundError), open(f"{place}/{name}", "rb") as file:
            return word in file.read()
    return False
