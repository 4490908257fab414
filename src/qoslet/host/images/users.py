"""Who an image means by a user: its own ``/etc/passwd`` and ``/etc/group`` decide.

The files are the image's, so they are read through links as the container would see them, and no
more than a bounded part of them. Source: OCI image-spec config.md (User); core/v1 PodSecurityContext;
containerd oci/spec_opts.go WithUser.
"""

from __future__ import annotations

import os

from qoslet.core.workload.oci.bundle import User
from qoslet.host.images.layers import LARGEST_ID
from qoslet.host.linux.descriptors import owned
from qoslet.host.linux.open_in_root import open_in_root

MOST_BYTES = 1024 * 1024

_Rows = list[list[str]]


def user_of(
    root: str, named: str, uid: int | None, gid: int | None, groups: tuple[int, ...]
) -> User:
    """The user of a container whose image names ``named``; ``uid`` and ``gid`` are the manifest's,
    which go before. Raises ValueError where a name is not known."""
    with owned(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as opened:
        people = _rows(opened, "passwd", 7)
        circles = _rows(opened, "group", 4)
    wanted, colon, group = named.partition(":")
    if uid is not None:
        wanted, group, colon = str(uid), "", ""
    number, row = _person(wanted or "0", people)
    primary = int(row[3]) if row is not None and _is_number(row[3]) else 0
    if colon and group:
        primary = _circle(group, circles)
    name = row[0] if row is not None else ""
    member = tuple(
        int(one[2]) for one in circles if name and _is_number(one[2]) and name in one[3].split(",")
    )
    every = dict.fromkeys((*groups, *member))
    return User(number, primary if gid is None else gid, tuple(every))


def _rows(root: int, name: str, fields: int) -> _Rows:
    """The lines of a file in ``/etc`` that have so many fields; none where it cannot be read."""
    try:
        with open_in_root(root, f"etc/{name}") as file:
            text = file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    rows = [line.split(":") for line in text.splitlines()]
    return [row for row in rows if len(row) >= fields]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= LARGEST_ID


def _person(wanted: str, people: _Rows) -> tuple[int, list[str] | None]:
    """The number of a user, and its line."""
    if _is_number(wanted):
        row = next((one for one in people if one[2] == wanted), None)
        return int(wanted), row
    row = next((one for one in people if one[0] == wanted and _is_number(one[2])), None)
    if row is None:
        raise ValueError(f"the image's user {wanted[:80]!r} is not in its /etc/passwd")
    return int(row[2]), row


def _circle(wanted: str, circles: _Rows) -> int:
    """The number of a group."""
    if _is_number(wanted):
        return int(wanted)
    row = next((one for one in circles if one[0] == wanted and _is_number(one[2])), None)
    if row is None:
        raise ValueError(f"the image's group {wanted[:80]!r} is not in its /etc/group")
    return int(row[2])
