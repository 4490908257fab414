"""The PID and time namespaces in which recorded process IDs and start times hold.

Elsewhere they name other processes or none, so a pod that runs would be started a second time, or
be taken for dead and ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache

from qoslet.errors import CannotDo
from qoslet.host.containers.records import PodRecord


@cache
def process_namespaces() -> str:
    """Ours, as the kernel names them. Source: namespaces(7); a kernel may lack that of time."""
    names = []
    for name in ("pid", "time"):
        with suppress(OSError):
            names.append(os.readlink(f"/proc/self/ns/{name}"))
    return " ".join(names)


def refuse_other_namespaces(
    records: Iterable[PodRecord],
    root: str,
    is_populated: Callable[[str], bool],
    namespaces: str | None = None,
) -> None:
    """Raise ``CannotDo`` where one of the ``records`` is of a pod that runs in other ``namespaces``,
    which are ours if None. A pod that an earlier version recorded may run in any."""
    ours = process_namespaces() if namespaces is None else namespaces
    for record in records:
        if record.namespaces in ("", ours) or not any(map(is_populated, record.cgroups.values())):
            continue
        raise CannotDo(
            f"Pod {record.spec.key} runs in another PID or time namespace",
            where=root,
            hint="run qoslet where it was started: nsenter --all --target 1 qoslet ... on a host",
        )
