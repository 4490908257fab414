"""The state folder of a root: where it is, and what each thing in it is called.

The names are contracts: another version's agent, keeper or ``release`` looks for them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from qoslet.core.managers.state_files import FILES as MANAGERS
from qoslet.errors import BadInput, CannotDo

LOG_DIRECTORY = "/var/log/qoslet"
"""The logs of root, with one directory for each cgroup root."""
STATE = "/run/qoslet"
"""The state directory of root, with one folder for each cgroup root."""

JOURNAL, LOCK = "journal", "lock"
UNREADABLE = "unreadable"
"""The ending of a journal that was put aside because it could not be read."""
DAMAGED = f"{JOURNAL}.damaged"
"""A journal of a tree of another manager that was damaged: only a person removes it."""
PLUGIN_JOURNAL, PLUGIN_LOCK = "nri.journal", "nri.lock"
"""What the plugin of a container runtime set in a kubelet's tree, and the lock of the plugin."""
RESERVE = "reserve"
"""A file of zeros, so that there is room for the journal where the file system is full."""
AGENT_SOCKET = "agent.sock"
KEEPER_SOCKET, KEEPER_LOCK, KEEPER_ERRORS = "keeper.sock", "keeper.lock", "keeper.err"
CRI_ENDPOINT = "cri.endpoint"
"""The file that names the socket of the container runtime that has the pods."""
MEMORY_COUNTERS = "memory-events"
MANIFEST_DIRECTORIES = "manifest-directories"
"""Which directories the manifests of the pods were in."""

LOGS, VOLUMES = "logs", "volumes"
KEEPER, CRI = "keeper", "cri"
"""The records of pods of plain processes and OCI runtimes, and of those of a CRI runtime."""
DEFAULT_STORAGE = "/var/lib/qoslet"
"""What runc and crun run: unpacked images, and what containers write, unless another place is named."""
OCI = "oci"
"""Bundles and the state of OCI runtimes."""

POD_FOLDERS = (LOGS, VOLUMES, KEEPER, CRI)
MANAGER_COPIES = tuple(f"{name}.copy" for name in MANAGERS)
"""The state of the managers once more, for a time when it is damaged."""
POD_FILES = (
    *(KEEPER_SOCKET, KEEPER_ERRORS, KEEPER_LOCK, CRI_ENDPOINT),
    *(*MANAGERS, *MANAGER_COPIES, MEMORY_COUNTERS, MANIFEST_DIRECTORIES),
)
"""What is there for pods only, and goes with the last one."""


def state_directory(environ: Mapping[str, str], user: int, *, write: bool = True) -> str:
    """Where the state folders of a user are: /run/qoslet for root, else below the runtime
    directory, which must be there to ``write``. Raises ``CannotDo`` where there is none."""
    if user == 0:
        return STATE
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{user}"
    if not runtime.startswith("/") or (write and not os.path.isdir(runtime)):
        raise CannotDo(
            "no runtime directory for the journal",
            where=runtime,
            hint="set XDG_RUNTIME_DIR to your directory on a tmpfs",
        )
    return f"{runtime.rstrip('/')}/qoslet"


def own_state_directory(*, write: bool = True) -> str:
    """``state_directory`` of the user who runs this. Raises ``CannotDo``."""
    return state_directory(os.environ, os.geteuid(), write=write)


def log_directory(environ: Mapping[str, str], user: int) -> str:
    """Where the logs of a user are: root's on the disk, another's below the state home.
    Source: XDG Base Directory Specification."""
    if user == 0:
        return LOG_DIRECTORY
    home = environ.get("XDG_STATE_HOME") or f"{environ.get('HOME', '')}/.local/state"
    return f"{home.rstrip('/')}/qoslet/logs"


def own_log_directory() -> str:
    """``log_directory`` of the user who runs this."""
    return log_directory(os.environ, os.geteuid())


def has_logs_of(logs: str, paths: Iterable[str]) -> bool:
    """Whether pods whose cgroups are among ``paths`` have logs in the directory of their root: then
    qoslet started them, whatever became of its state."""
    try:
        uids = {name.rpartition("_")[2] for name in os.listdir(logs)}
    except OSError:
        return False
    # systemd writes the dashes of a UID as underscores
    leaves = {path.rpartition("/")[2].removesuffix(".slice").replace("_", "-") for path in paths}
    return any(leaf.endswith(f"pod{uid}") for leaf in leaves for uid in uids)


def is_of_pods(name: str) -> bool:
    """Whether a name in a state folder is there for pods only."""
    return name in POD_FOLDERS or name.removesuffix(".new") in POD_FILES


def escaped(root: str) -> str:
    """A root as one file name; different roots have different ones."""
    return root.strip("/").replace("%", "%25").replace("/", "%2F")


def unescaped(name: str) -> str:
    """The root of a file name."""
    return "/" + name.replace("%2F", "/").replace("%25", "%")


def folder_of(root: str) -> str:
    """The state folder of a root as its driver names it. Raises ``CannotDo``."""
    return f"{own_state_directory()}/{escaped(root)}"


def units_folder(root: str, state: str) -> str:
    """The folder below ``state`` that a root has with the systemd driver; empty if systemd can have no
    slice of that name."""
    from qoslet.core.cgroup.names import root_path

    try:
        return f"{state}/{escaped(root_path(root, 'systemd'))}"
    except BadInput:
        return ""


def state_folder(root: str, *signs: str) -> str:
    """The state folder of the cgroup root that a user names, whichever driver created its tree. For
    each of ``signs`` (file names, by default that of the journal) the systemd driver's folder is
    looked at first; without any of them it is the cgroupfs driver's. Raises ``CannotDo`` if this user
    can have no state folder."""
    state = own_state_directory()
    units, plain = units_folder(root, state), f"{state}/{escaped(root)}"
    for sign in signs or (JOURNAL,):
        for folder in filter(None, (units, plain)):
            if os.path.exists(f"{folder}/{sign}"):
                return folder
    return plain
