"""Which folder holds the state of a root, for those that only ask."""

from __future__ import annotations

import os

from qoslet.errors import BadInput
from qoslet.host.state.resume import state_directory
from qoslet.host.state.root_lock import escaped


def state_folder(root: str, sign: str = "journal") -> str:
    """The state folder of the cgroup root that a user names, whichever driver made its tree:
    the one that has ``sign``. Raises CannotDo where this user can have none."""
    from qoslet.core.cgroup.names import root_path

    state = state_directory(os.environ, os.geteuid())
    try:
        units = f"{state}/{escaped(root_path(root, 'systemd'))}"
    except BadInput:
        units = ""
    if units and os.path.exists(f"{units}/{sign}"):
        return units
    return f"{state}/{escaped(root)}"
