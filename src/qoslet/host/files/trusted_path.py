"""Paths that no other user can change or redirect, opened one component at a time.

Each component is opened without following links and checked on its descriptor, so nothing can be
exchanged between the check and the use. The rule is that of sshd's StrictModes: owned by root or
by who runs this, writable by the owner alone, also where the group is root's. A sticky directory
such as ``/tmp`` may stand on the way, since only the owner of an entry can replace it, but is not
itself a directory to read manifests from. A directory that is mounted read-only here may be writable:
that of a ConfigMap is, and whoever mounts it says who writes it.

Source: sshd_config(5) StrictModes, path_resolution(7), inode(7).
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Mapping
from errno import ELOOP, ENOTDIR, ESTALE

from qoslet.core.api.schema import shown
from qoslet.errors import BadInput

LINKS_MAX = 40
"""Links followed in one path, as the kernel does. Source: path_resolution(7)."""

_COMPONENT = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def trusted_owners(environ: Mapping[str, str]) -> frozenset[int]:
    """Who may own what is read: root, who runs this, and who became root by sudo."""
    user = os.geteuid()
    by_sudo = environ.get("SUDO_UID", "")
    further = {int(by_sudo)} if user == 0 and by_sudo.isdecimal() else set()
    return frozenset({0, user} | further)


def open_trusted(path: str, flags: int) -> int:
    """A descriptor of what ``path`` leads to, opened with ``flags``; the caller closes it.

    Raises BadInput where another user can change a component, OSError.
    """
    component = _walk(path, trusted_owners(os.environ))
    try:
        # the same inode, whatever has become of its names
        return os.open(f"/proc/self/fd/{component}", flags | os.O_CLOEXEC)
    finally:
        os.close(component)


def check_trusted(path: str) -> None:
    """Raise BadInput where another user can change a component of ``path``, OSError."""
    os.close(_walk(path, trusted_owners(os.environ)))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _working_directory(path: str) -> str:
    """Where a relative path begins. Raises OSError: where that was removed, nothing is below it, but what is
    beside it may be there."""
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        if ".." not in _parts(path):
            raise
        raise OSError(ESTALE, "the working directory was removed", path) from error


def _walk(path: str, owners: frozenset[int]) -> int:
    """An O_PATH descriptor of what ``path`` leads to, each component checked."""
    # the working directory may be gone, which matters to no absolute path
    base = "" if os.path.isabs(path) else _working_directory(path)
    names = deque(_parts(os.path.join(base, path)))
    links, here = 0, "/"
    at = os.open("/", _COMPONENT)
    try:
        _check(path, here, at, owners, last=not names)
        while names:
            name = names.popleft()
            component = os.open(name, _COMPONENT, dir_fd=at)
            full = os.path.normpath(os.path.join(here, name))
            try:
                facts = _check(path, full, component, owners, last=not names)
                target = _target(path, full, component) if stat.S_ISLNK(facts.st_mode) else None
            except BaseException:
                os.close(component)
                raise
            if target is None:
                at, here = _exchanged(at, component), full
                continue
            os.close(component)
            links += 1
            if links > LINKS_MAX:
                raise OSError(ELOOP, os.strerror(ELOOP), path)
            names.extendleft(reversed(_parts(target)))
            if target.startswith("/"):
                at, here = _exchanged(at, os.open("/", _COMPONENT)), "/"
        if path.endswith("/") and not stat.S_ISDIR(os.fstat(at).st_mode):
            raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR), path)
    except BaseException:
        os.close(at)
        raise
    return at


def _exchanged(old: int, new: int) -> int:
    os.close(old)
    return new


def _target(path: str, link: str, descriptor: int) -> str:
    """Where an open link leads."""
    if os.fstat(descriptor).st_dev == os.stat("/proc").st_dev:
        # readlink gives a text for these, not the place where the kernel goes
        message = f"goes through {shown(link)}, a link of the proc file system"
        raise BadInput(message, where=shown(path), hint="name the file itself")
    return os.readlink("", dir_fd=descriptor)


def _check(
    path: str, component: str, descriptor: int, owners: frozenset[int], *, last: bool
) -> os.stat_result:
    """What is open of this component of ``path``. Raises BadInput where another user can change it."""
    facts = os.fstat(descriptor)
    mode = facts.st_mode
    link, directory = stat.S_ISLNK(mode), stat.S_ISDIR(mode)
    writable = 0 if link else mode & _OTHERS
    if directory and mode & stat.S_ISVTX and not last:
        writable = 0
    if directory and writable and os.fstatvfs(descriptor).f_flag & os.ST_RDONLY:
        writable = 0
    if facts.st_uid in owners and not writable:
        return facts
    commands = []
    if not (link or directory or stat.S_ISREG(mode)):
        # a device or pipe: its owner and mode are others' business
        raise BadInput(
            "is not a regular file", where=shown(path), hint="name a file or a directory"
        )
    if facts.st_uid not in owners:
        commands.append(f"chown {'-h ' if link else ''}root {_quoted(component)}")
    if writable:
        who = ("g" if writable & stat.S_IWGRP else "") + ("o" if writable & stat.S_IWOTH else "")
        commands.append(f"chmod {who}-w {_quoted(component)}")
    kind = "link" if link else "directory" if directory else "file"
    rights = f"owner {facts.st_uid}, group {facts.st_gid}, mode {stat.S_IMODE(mode):04o}"
    message = f"root would run what other users write: they can change the {kind} {shown(component)} ({rights})"
    raise BadInput(message, where=shown(path), hint=shown(" && ".join(commands), 400))


def _quoted(path: str) -> str:
    """A path as a shell takes it."""
    if path.replace("/", "").replace("-", "").replace(".", "").replace("_", "").isalnum():
        return path
    from shlex import quote

    return quote(path)
