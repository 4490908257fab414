"""What this process may do below a root: which controllers it can give to groups there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct

from qoslet.core.cgroup.controllers import WANTED_V2, own_path
from qoslet.core.cgroup.names import DEFAULT_POINT
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.v1 import CONTROLLERS
from qoslet.host.linux.openat import parent

_CONTROL = "cgroup.subtree_control"
_HINT = "run as root, or in a delegated cgroup: systemd-run --user -p Delegate=yes -p DelegateSubgroup=main ..., or give one with --cgroup-root"


class Delegation(Struct, frozen=True):
    """``mounts`` are the hierarchies that can be used, ``missing`` the controllers of this
    machine that groups below the root cannot get, each with why; ``given``: the root is a group
    of somebody else that was handed to this user."""

    mounts: Mapping[str, str]
    missing: Mapping[str, str]
    given: bool = False

    @property
    def controllers(self) -> frozenset[str]:
        """What groups on v2 get of the controllers that a kubelet asks for."""
        return WANTED_V2 - frozenset(self.missing)


def probe_delegation(
    hierarchy: str, mounts: Mapping[str, str], root: str, user: int, *, write: bool = True
) -> Delegation:
    """Look at the root, or at the nearest group above it. Raises ``CannotDo`` where no group
    can be made at all; what is not to ``write`` sees what root could make there."""
    if hierarchy == "v1":
        return _reach_v1(mounts, root, user, write)
    point = mounts.get("unified", DEFAULT_POINT)
    place = _nearest(point, root)
    group = place.removeprefix(point)
    if not os.access(place, os.W_OK | os.X_OK):
        if write:
            raise _no_right(place)
        return Delegation(mounts, missing_below(point))
    given = group == root and is_delegated(place, user)
    return Delegation(mounts, _missing_v2(point, group, given), given)


def is_delegated(place: str, user: int) -> bool:
    """Whether a group was given to this user: it owns it, or systemd says so (``Delegate=``)."""
    try:
        if user != 0:
            return os.stat(place).st_uid == user
        return _delegated(place)
    except OSError:
        return False


def _delegated(place: str) -> bool:
    """What systemd writes on a unit with ``Delegate=yes``. Source: systemd.resource-control(5)."""
    for name in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            if os.getxattr(place, name) == b"1":
                return True
    return False


def own_root(hierarchy: str, mounts: Mapping[str, str], user: int) -> str | None:
    """The root that a user without one gets: ``qoslet`` in the delegated group that this
    process runs in; None where it runs in none."""
    if hierarchy == "v1" or user == 0:
        return None
    point = mounts.get("unified", DEFAULT_POINT)
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            group = own_path(file)
    except (OSError, ValueError):
        return None
    while group not in ("", "/"):
        if is_delegated(point + group, user) and _delegated(point + group):
            return f"{group}/qoslet"
        group = parent(group)
    return None


def _nearest(point: str, root: str) -> str:
    """The directory of the root, or of the nearest group above it that stands."""
    group = root
    while group and not os.path.isdir(point + group):
        group = parent(group)
    return point + group


def _no_right(place: str) -> CannotDo:
    """Why no group can be made at a place."""
    if _is_read_only(place):
        hint = "mount it read-write, or run outside the container"
        return CannotDo("the cgroup file system is mounted read-only", where=place, hint=hint)
    return CannotDo("no permission to create cgroups", where=place, hint=_HINT)


def _is_read_only(place: str) -> bool:
    """Whether a mount takes no writes from anybody."""
    return bool(os.statvfs(place).f_flag & os.ST_RDONLY)


def _reach_v1(mounts: Mapping[str, str], root: str, user: int, write: bool) -> Delegation:
    """The hierarchies in which groups can be made."""
    usable, missing, given = {}, {}, False
    for name in (one for one in CONTROLLERS if one in mounts):
        point = mounts[name]
        place = _nearest(point, root)
        if os.access(place, os.W_OK | os.X_OK):
            usable[name] = point
            given = given or (place == point + root and user != 0 and is_delegated(place, user))
        else:
            why = "is mounted read-only" if _is_read_only(place) else "cannot be written"
            missing[name] = f"{place} {why}"
    if not usable and missing:
        if not write:
            return Delegation(mounts, {})
        raise _no_right(_nearest(mounts[next(iter(missing))], root))
    return Delegation(usable, missing, given)


def _missing_v2(point: str, group: str, given: bool) -> dict[str, str]:
    """The controllers of this machine that groups below ``group`` cannot get, with why."""
    machine = WANTED_V2 & _words(f"{point}/cgroup.controllers")
    there = _words(f"{point}{group}/cgroup.controllers")
    enabled = _words(f"{point}{group}/{_CONTROL}")
    missing = dict.fromkeys(machine - there, f"not delegated to {group or '/'}")
    wanted = (machine & there) - enabled
    if wanted and not os.access(f"{point}{group}/{_CONTROL}", os.W_OK):
        missing |= dict.fromkeys(wanted, f"{point}{group}/{_CONTROL} cannot be written")
    elif wanted and group and (pids := _words(f"{point}{group}/cgroup.procs")):
        some = ", ".join(sorted(pids, key=int)[:5])
        why = f"{group} has processes ({some}), so it cannot enable controllers: start the unit with -p DelegateSubgroup=main, or move them into a child cgroup"
        if not enabled:
            raise CannotDo("no controller can be enabled", where=point + group, hint=why)
        missing |= dict.fromkeys(wanted, why)
    return missing


def missing_below(point: str) -> dict[str, str]:
    """The controllers of this machine that a manager at ``point`` of v2 does not have itself."""
    machine = WANTED_V2 & _words(f"{DEFAULT_POINT}/cgroup.controllers")
    there = _words(f"{point}/cgroup.controllers")
    return dict.fromkeys(machine - there, f"not delegated to {point}")


def _words(path: str) -> frozenset[str]:
    """The words of a file; none where it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return frozenset(file.read().split())
    except OSError:
        return frozenset()
