"""The checkpoint files of a kubelet's CPU and memory managers, in its root directory.

Source: cmd/kubelet/app/options ``--root-dir``; cm/container_manager_linux.go, stateFileDirectory.
"""

from __future__ import annotations

from qoslet.core.managers.state_files import CPU_STATE, MEMORY_STATE
from qoslet.host.kubelet.process_files import ProcessFiles


def manager_states(folder: str, root: str) -> dict[str, bytes]:
    """The files by their names, of the kubelet at ``folder`` (``/proc/PID``) with the root directory ``root``;
    those that cannot be read are left out."""
    found: dict[str, bytes] = {}
    try:
        files = ProcessFiles(folder)
    except OSError:
        return found
    with files:
        for name in (CPU_STATE, MEMORY_STATE):
            try:
                found[name] = files.read(f"{files.absolute(root)}/{name}")
            except OSError:
                continue
    return found
