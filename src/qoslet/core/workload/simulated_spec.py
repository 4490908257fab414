"""A pod document as containers that a simulation starts.

What a simulated container does says an annotation of its pod (``sim.behaviour``), never its
command: a container whose command only its image knows runs as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qoslet.core.api.pod import Container, Pod
from qoslet.core.problem import Problem
from qoslet.core.workload.env import PodEnvironment
from qoslet.core.workload.pod_reader import PodReading, ProcessReader
from qoslet.core.workload.process_spec import PodSpec
from qoslet.core.workload.security.context import ProcessRights
from qoslet.core.workload.volumes import ContainerMounts

_ENTRYPOINT = "entrypoint"


def read_simulated(
    pod: Pod,
    document: Mapping[str, Any],
    around: PodEnvironment,
    *,
    rights: ProcessRights,
    unconfined: bool = False,
) -> PodSpec:
    """The simulated containers of ``pod``, whose manifest is ``document``."""
    return _SimulatedReader(pod, document, rights).read(around, unconfined=unconfined)


class _SimulatedReader(ProcessReader):
    """Reads a pod as plain processes that no kernel starts."""

    def remarks(self) -> list[Problem]:
        """Nothing runs on this host."""
        return []

    def add_container(
        self,
        reading: PodReading,
        shape: Container,
        raw: Mapping[str, Any],
        variables: Mapping[str, str],
        mounted: ContainerMounts,
    ) -> None:
        """Read one container; one without a command stands for the entrypoint of its image."""
        known = raw if raw.get("command") else {**raw, "command": [_ENTRYPOINT]}
        super().add_container(reading, shape, known, variables, mounted)
