"""Which driver made the tree at a root."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from qoslet.host.cgroupfs.mounted import is_cgroup
from qoslet.host.state.folder import JOURNAL, folder_of, unescaped, units_folder

if TYPE_CHECKING:
    from qoslet.core.cgroup.names import DriverName


def driver_of(root: str) -> DriverName:
    """The driver that made the tree at a root, by the journals that there are, else by what stands."""
    plain = folder_of(root)
    units = units_folder(root, os.path.dirname(plain))
    if units and not (os.path.exists(units) or os.path.exists(plain)):
        return "systemd" if is_cgroup(unescaped(os.path.basename(units))) else "cgroupfs"
    return driver_of_folders(units, plain)


def driver_of_folders(units: str, plain: str) -> DriverName:
    """The driver whose journal there is, of a root's state folder with each; of two the one that was
    written last, as where a kubelet changed its driver between two repairs."""
    if units and units != plain:
        if os.path.exists(f"{units}/{JOURNAL}"):
            return "systemd" if _written(units) >= _written(plain) else "cgroupfs"
        if not os.path.exists(plain) and os.path.exists(units):
            # a folder without its journal: whatever else it holds is of this driver
            return "systemd"
    return "cgroupfs"


def _written(folder: str) -> float:
    """When the journal in a folder was written last; 0 without one."""
    try:
        return os.stat(f"{folder}/{JOURNAL}").st_mtime
    except OSError:
        return 0.0
