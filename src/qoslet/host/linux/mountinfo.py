"""The mounts that this process sees. Source: proc(5), /proc/PID/mountinfo."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from qoslet.host.linux.procfs import text


class MountPoint(Struct, frozen=True, gc=False):
    """A mounted file system; ``options`` are mount and super options, ``number`` its mount ID."""

    point: str
    type: str
    options: tuple[str, ...]
    source: str = ""
    number: int = 0


def mounts(root: str = "", about: Collection[str] = ("",)) -> list[MountPoint]:
    """Every mount whose line has one of these texts in it, in the order of mounting; ``root`` stands
    in front of ``/proc``."""
    found = []
    for line in (text(f"{root}/proc/self/mountinfo") or "").splitlines():
        if not any(part in line for part in about):
            continue
        before, dash, after = line.partition(" - ")
        fields, types = before.split(" "), after.split(" ")
        if dash and len(fields) >= 6 and types[0]:
            options = ",".join((fields[5], *types[2:])).split(",")
            source = _unescaped(types[1]) if len(types) > 1 else ""
            number = int(fields[0]) if fields[0].isdigit() else 0
            point = _unescaped(fields[4])
            found.append(MountPoint(point, types[0], tuple(dict.fromkeys(options)), source, number))
    return found


def systemds_own(table: Collection[MountPoint]) -> list[str]:
    """Systemd's own hierarchies beside the controllers of v1: on a hybrid host the unified one
    counts, and the named one is kept in step. One that has controllers is in use already. Others
    mount a cgroup2 of their own elsewhere, which is not systemd's. Source: systemd
    mount-setup.c."""
    named = [one.point for one in table if one.type == "cgroup" and "name=systemd" in one.options]
    beside_it = {f"{point.rpartition('/')[0]}/unified" for point in named[:1]}
    unified = [one.point for one in table if one.type == "cgroup2" and one.point in beside_it]
    return unified[:1] + named[:1]


def beside(points: Collection[str]) -> tuple[str, ...]:
    """The mount points of all control group hierarchies except these."""
    kinds = ("cgroup", "cgroup2")
    return tuple(one.point for one in mounts() if one.type in kinds and one.point not in points)


def _unescaped(text: str) -> str:
    """A field with its octal escapes undone."""
    if "\\" not in text:
        return text
    parts = text.split("\\")
    return parts[0] + "".join(
        chr(int(part[:3], 8)) + part[3:] if part[:3].isdigit() else "\\" + part
        for part in parts[1:]
    )
