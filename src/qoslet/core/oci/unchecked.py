"""``checkBeforeUpdate`` where the container's usage is not said.

Source: opencontainers/cgroups fs2 memory.go CheckMemoryUsage; crun cgroup-resources.c.
"""

from __future__ import annotations

from qoslet.core.oci.resources import NO_MEMORY, Block
from qoslet.core.oci.result import Hierarchy, Lost
from qoslet.core.oci.write import Update
from qoslet.core.versions.runtime import Runtime

UNCHECKED = Lost(
    "the check before an update",
    "whether the runtime refuses a limit depends on memory.current, which is not said",
    "--usage BYTES[,SWAP], what memory.current and memory.swap.current hold",
    "elsewhere",
    "memory.checkBeforeUpdate",
)
"""Told with the rows that stand where the check passes."""


def unchecked(block: Block, hierarchy: Hierarchy, runtime: Runtime, update: Update) -> bool:
    """Whether an update's answer depends on usage that is not known: v1 has no such check."""
    asked = (block.memory or NO_MEMORY).check_before_update
    return bool(asked and runtime.check and hierarchy == "v2" and update.usage is None)
