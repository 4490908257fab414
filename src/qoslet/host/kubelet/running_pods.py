"""Which pods have processes, as the kernel tells it: a kubelet that has just started may not."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from qoslet.host.linux.procfs import text

_UID = re.compile(r"pod([0-9a-f][0-9a-f_-]{31,35})\b")
"""Of a static pod it is a hash without dashes."""
_KUBELETS_UID = re.compile(rf"kubepods\b.*{_UID.pattern}")


def pods_with_processes(uids: Collection[str], root: str = "") -> frozenset[str]:
    """Those of ``uids`` that have a process in a cgroup named after them, by either driver. ``root``
    stands in front of /proc. A process that this user may not see is none."""
    return frozenset(uids) & _named(_UID, root) if uids else frozenset()


def pods_of_kubelets(root: str = "") -> frozenset[str]:
    """The UIDs of all pods that have a process in a cgroup that a kubelet has made."""
    return _named(_KUBELETS_UID, root)


def _named(uid: re.Pattern[str], root: str) -> frozenset[str]:
    found: set[str] = set()
    for name in os.listdir(f"{root}/proc"):
        if name.isdecimal():
            cgroups = text(f"{root}/proc/{name}/cgroup") or ""
            found.update(one.replace("_", "-") for one in uid.findall(cgroups))
    return frozenset(found)
