"""Whether this machine's runc has the fix of CVE-2024-21626: containers that reach the host through
a descriptor that runc left open (``/proc/self/fd``).

Source: runc 1.1.12's release notes. Distributions put the fix into older versions (Debian 12:
1.1.5+ds1-1+deb12u1); what their package says of itself is its changelog.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Literal

from qoslet.host.linux.procfs import listed

CVE = "CVE-2024-21626"
FIXED_IN = (1, 1, 12)

RuncFix = Literal["fixed", "missing", "unknown"]

_LISTS = "/var/lib/dpkg/info"
_DOCUMENTS = "/usr/share/doc"
_RPM = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")
_CHANGELOGS = ("changelog.Debian.gz", "changelog.gz", "changelog.Debian", "changelog")
_LARGEST = 16 << 20


def runc_fix(program: str, version: str, root: str = "") -> RuncFix:
    """Of the runc at ``program`` that tells this version; ``root`` is before every path."""
    numbers = tuple(int(part) for part in version.split(".") if part.isdecimal())
    if not numbers:
        return "unknown"
    if numbers >= FIXED_IN:
        return "fixed"
    package = _package(program, root)
    if package is None:
        return "unknown" if any(os.path.isdir(root + path) for path in _RPM) else "missing"
    changelog = _changelog(f"{root}{_DOCUMENTS}/{package}")
    if changelog is None:
        return "unknown"
    return "fixed" if CVE.encode() in changelog else "missing"


def _package(program: str, root: str) -> str | None:
    """The Debian package of a program; None for one of no package."""
    # usr-merged systems list /bin/x where /usr/bin/x is
    paths = {program.encode(), program.removeprefix("/usr").encode()}
    for name in listed(root + _LISTS):
        if name.endswith(".list") and any(part in name for part in ("runc", "containerd", "moby")):
            try:
                with open(f"{root}{_LISTS}/{name}", "rb") as file:
                    if paths & set(file.read().splitlines()):
                        return name.removesuffix(".list").partition(":")[0]
            except OSError:
                continue
    return None


def _changelog(folder: str) -> bytes | None:
    """The changelog of a package; None where it is not installed."""
    for name in _CHANGELOGS:
        place = f"{folder}/{name}"
        with suppress(OSError, EOFError, ValueError), open(place, "rb") as file:
            if not name.endswith(".gz"):
                return file.read(_LARGEST)
            from gzip import GzipFile

            return GzipFile(fileobj=file).read(_LARGEST)
    return None
