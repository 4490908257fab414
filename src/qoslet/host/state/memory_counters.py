"""Keeps what was counted of memory in the state folder of a root; matches ``agent.memory_ports.CounterFile``."""

from __future__ import annotations

from qoslet.errors import QosletError
from qoslet.host.state.folder import MEMORY_COUNTERS
from qoslet.host.state.manager_checkpoint import StateFiles


class KeptCounters:
    """One file of one folder."""

    def __init__(self, folder: str) -> None:
        self._files = StateFiles(folder, (MEMORY_COUNTERS,))

    def load(self) -> bytes | None:
        """What was kept; None where nothing was, or it is none of ours to trust."""
        try:
            return self._files.read().get(MEMORY_COUNTERS)
        except QosletError:
            return None

    def save(self, text: bytes) -> None:
        """Keep it. Raises OSError."""
        self._files.write({MEMORY_COUNTERS: text})
