"""Audits this machine for the agent beside a kubelet, and tells when something happens in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qoslet.app.audit.machine import look, machine_source
from qoslet.app.audit.watch import CgroupDirectories
from qoslet.app.guest.node_inputs import NodeInputs
from qoslet.core.audit.finding import AuditReport
from qoslet.core.audit.live import LiveSource
from qoslet.core.audit.two_looks import judged
from qoslet.core.resources.cgroup_tree import Plan


class MachineAuditor:
    """Matches ``agent.guest.ports.Auditor``."""

    def __init__(self, inputs: NodeInputs) -> None:
        self._inputs = inputs
        self._machine: tuple[LiveSource, Mapping[str, str]] | None = None
        self._directories = CgroupDirectories()

    def look(self, plan: Plan) -> AuditReport:
        """Read everything once. Raises QosletError where nothing can be read."""
        if self._machine is None:
            self._machine = machine_source(plan)
        source, mounts = self._machine
        report = look(plan, source, mounts)[1]
        self._directories.follow(plan)
        return report

    def judged(self, first: AuditReport, second: AuditReport, plan: Plan) -> AuditReport:
        """What stands of two looks. Raises QosletError."""
        inputs = self._inputs
        allocated, work, releases = inputs.allocated, inputs.kubelet_work, inputs.releases
        return judged(first, second, plan, allocated, work, releases, self.look)

    def happened(self) -> bool:
        """Whether something happened in a planned cgroup since the last call."""
        return self._directories.forget_events()

    def descriptors(self) -> Sequence[int]:
        """Readable when something happened there."""
        return self._directories.descriptors()

    def close(self) -> None:
        """Watch nothing any more."""
        self._directories.close()
