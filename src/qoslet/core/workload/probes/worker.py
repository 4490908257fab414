"""How the results of one probe count, as the kubelet's worker counts them. Pure; time is a number.

``looked`` is a tick of the worker up to the probe, ``counted`` what follows it.

Source: kubelet prober/worker.go run and doProbe; prober_manager.go UpdatePodStatus (readiness is
probed at once when a container has started).
"""

from __future__ import annotations

import math
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.workload.probe_spec import Kind, Probe

Result = Literal["success", "failure", "unknown"]

_INITIAL: dict[Kind, Result] = {
    "startup": "unknown",
    "readiness": "failure",
    "liveness": "success",
}


class Seen(Struct, frozen=True):
    """A container as a worker sees it. ``number`` tells one run from another, 0: there was none yet;
    ``ran`` is for how many seconds it has been running; ``stopping``: its pod is."""

    number: int
    running: bool
    started: bool = True
    ran: float = 0.0
    stopping: bool = False


class ProbeWorker(Struct, frozen=True):
    """What a worker remembers. ``next_at`` is its next tick, ``run`` how often in a row the probe
    came to ``last``; ``on_hold``: it waits for the next run of the container."""

    next_at: float
    number: int = 0
    result: Result = "unknown"
    last: Result = "unknown"
    run: int = 0
    on_hold: bool = False
    triggered: bool = False


def new_worker(now: float, jitter: float = 0.0) -> ProbeWorker:
    """A worker that begins now, or a part of its period later where many begin at once."""
    return ProbeWorker(now + jitter)


def renewed(worker: ProbeWorker, probe: Probe, seen: Seen) -> ProbeWorker:
    """The worker where the container may be another run than before."""
    if not seen.number or worker.number == seen.number:
        return worker
    initial = _INITIAL[probe.kind]
    return replace(worker, number=seen.number, result=initial, on_hold=False, triggered=False)


def wants_look(worker: ProbeWorker, probe: Probe, seen: Seen, now: float) -> bool:
    """Whether the worker has something to do now: its tick, or the first look at readiness."""
    trigger = probe.kind == "readiness" and not worker.triggered
    return now >= worker.next_at or (trigger and seen.running and seen.started)


def looked(worker: ProbeWorker, probe: Probe, seen: Seen, now: float) -> tuple[ProbeWorker, bool]:
    """A look at the container: the worker after it, and whether it probes now."""
    worker = renewed(worker, probe, seen)
    if now >= worker.next_at:
        missed = math.floor((now - worker.next_at) / probe.period)
        worker = replace(worker, next_at=worker.next_at + probe.period * (missed + 1))
    if not seen.number or worker.on_hold:
        return worker, False
    if not seen.running:
        return replace(worker, result="failure"), False
    if probe.kind == "readiness" and seen.started:
        worker = replace(worker, triggered=True)
    if seen.stopping and probe.kind != "readiness":
        return replace(worker, result="success"), False
    due = seen.ran >= probe.delay and seen.started == (probe.kind != "startup")
    return worker, due


def counted(worker: ProbeWorker, probe: Probe, result: Result) -> ProbeWorker:
    """The worker after a probe; an error of the prober itself is ``unknown`` and counts nothing."""
    if result == "unknown":
        return worker
    run = worker.run + 1 if worker.last == result else 1
    worker = replace(worker, last=result, run=run)
    if run < (probe.failure if result == "failure" else probe.success):
        return worker
    worker = replace(worker, result=result)
    if probe.kind != "readiness" and result == "failure":
        return replace(worker, on_hold=True, run=0)
    return worker
