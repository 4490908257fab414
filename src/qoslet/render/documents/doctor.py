"""What a machine offers, as a document: ``kind: Doctor`` of ``qoslet/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.render.documents import API_VERSION, Document

if TYPE_CHECKING:
    from qoslet.core.node.doctor.finding import DoctorFinding
    from qoslet.core.node.machine import Machine


def doctor_document(machine: Machine, rows: list[DoctorFinding], *, able: bool) -> Document:
    """The answer for programs; ``able``: qoslet can make cgroups there."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Doctor",
        "hierarchy": machine.layout,
        "canWrite": able,
        "findings": rows,
        "programs": machine.programs,
        "ociRuntimes": machine.oci_programs,
        "kubeletCgroups": machine.kubelet_trees,
        "agents": machine.agents,
        "podsWithoutAgent": machine.left_roots,
        "silentAgents": machine.silent_roots,
    }
