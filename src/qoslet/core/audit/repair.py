"""The shell line that repairs a finding: a unit's property first, a file where no property exists."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.names import DEFAULT_POINT
from qoslet.core.cgroup.unit_properties import carried, properties, properties_v1, words

UNKNOWN_SYSTEMD = 999
"""Stands for a systemd whose version is not known: it has every property."""


class Repair(Struct, frozen=True):
    """``mounts``: v1 controller to mount point, or ``unified`` to that of v2. ``systemd`` is its
    version where the driver is systemd's, else None."""

    hierarchy: str
    mounts: Mapping[str, str]
    systemd: int | None = None

    def directory(self, path: str, name: str = "") -> str:
        """Where a cgroup is; ``name`` is the controller on v1."""
        path = "" if path == "/" else path
        if self.hierarchy == "v1":
            name = name or next(iter(self.mounts), "memory")
            return self.mounts.get(name, f"{DEFAULT_POINT}/{name}") + path
        return self.mounts.get("unified", DEFAULT_POINT) + path

    def write(self, path: str, file: str, value: str, unit: str | None = None) -> str:
        """The line that writes a value."""
        if unit is not None and self.systemd is not None:
            line = self._property(unit, file, value)
            if line:
                return line
        place = f"{self.directory(path, controller(file))}/{file}"
        # the kernel sees no write of nothing
        text = f"printf '%s' {shlex.quote(value)}" if value else "echo"
        return f"{text} > {shlex.quote(place)}"

    def _property(self, unit: str, file: str, value: str) -> str:
        if self.systemd is None or not carried(file, self.hierarchy, self.systemd):
            return ""
        try:
            if self.hierarchy == "v1":
                found = properties_v1({file: value}, self.systemd)
            else:
                found = properties({file: value}, self.systemd)
        except ValueError:
            return ""
        if not found:
            return ""
        named = " ".join(shlex.quote(word) for word in words(found))
        return f"systemctl set-property --runtime {shlex.quote(unit)} {named}"

    def create(self, path: str, controllers: tuple[str, ...] = ()) -> str:
        """The line that creates a cgroup; on v1 in the hierarchies of ``controllers``."""
        names = controllers if self.hierarchy == "v1" else ("",)
        places = dict.fromkeys(self.directory(path, name) for name in names)
        return "mkdir -p " + " ".join(shlex.quote(place) for place in places)

    def remove(self, path: str, unit: str | None = None) -> str:
        """The line that removes a cgroup without processes, whether or not systemd knows its unit."""
        names = dict.fromkeys(self.mounts.values()) if self.hierarchy == "v1" else ()
        path = "" if path == "/" else path
        places = [f"{point}{path}" for point in names] or [self.directory(path)]
        existing = " ".join(shlex.quote(place) for place in places)
        line = f"find {existing} -depth -type d -exec rmdir {{}} +"
        if unit is not None and self.systemd is not None:
            return f"systemctl stop {shlex.quote(unit)}; {line} 2>/dev/null"
        return line if len(places) == 1 else f"{line} 2>/dev/null"
