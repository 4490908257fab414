"""What a machine offers, as a document: ``kind: Doctor`` of ``qoslet/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.core.node.doctor.checks import can_write

if TYPE_CHECKING:
    from qoslet.core.node.doctor.finding import DoctorFinding
    from qoslet.core.node.machine import Machine


def doctor_document(machine: Machine, rows: list[DoctorFinding]) -> dict[str, object]:
    """The answer for programs."""
    return {
        "apiVersion": "qoslet/v1",
        "kind": "Doctor",
        "hierarchy": machine.layout,
        "canWrite": can_write(machine),
        "findings": rows,
        "programs": machine.programs,
        "ociRuntimes": machine.oci_programs,
        "kubeletCgroups": machine.kubelet_trees,
        "agents": machine.agents,
        "podsWithoutAgent": machine.left_roots,
    }
