"""Starts a process as a keeper does, and waits until it runs."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence

from qoslet.core.workload.process_spec import ProcessSpec
from qoslet.host.containers.spawn import Spawned, begin, settle


def started(launch: ProcessSpec, joins: Sequence[int], output: int) -> Spawned:
    """The process. Raises ``StartFailed``; no process is left then."""
    birth = begin(launch, joins, output)
    poller = select.poll()
    poller.register(birth.report, select.POLLIN)
    while (found := settle(birth)) is None:
        poller.poll(max(0.0, birth.deadline - time.monotonic()) * 1000 + 1)
    return found
