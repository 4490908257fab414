"""The names of the managers' files in a state folder; contracts with other versions."""

from __future__ import annotations

CPU_STATE = "cpu_manager_state"
MEMORY_STATE = "memory_manager_state"
FILES = (CPU_STATE, MEMORY_STATE)
