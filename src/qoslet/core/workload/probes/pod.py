"""The probes of one pod: which are due, and what their results do to its containers' lives. It
starts nothing; a runtime probes what ``due`` tells, and hands the result to ``took``.

Source: kubelet prober.go probe (events), kuberuntime_manager.go computePodActions (kills).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.workload.hooks import TEXT_LENGTH
from qoslet.core.workload.life import NEW, Life
from qoslet.core.workload.lifecycle import Ending, in_post_start
from qoslet.core.workload.probe_spec import MIN_GRACE, Kind, Probe
from qoslet.core.workload.probes.verdict import has_started
from qoslet.core.workload.probes.worker import (
    ProbeWorker,
    Result,
    Seen,
    counted,
    looked,
    new_worker,
    renewed,
    wants_look,
)
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec

Key = tuple[str, Kind]


class DueProbe(Struct, frozen=True):
    """A probe that is to be made: of which container, and of which of its runs."""

    launch: ProcessSpec
    probe: Probe
    number: int

    @property
    def key(self) -> Key:
        """The container and the kind of probe."""
        return self.launch.name, self.probe.kind


class PodProbes:
    """The workers of a pod. The first tick of one finds no container yet, so the next counts. Of a pod
    that ran before with many others, ``jitter`` tells after what part of its period each begins."""

    def __init__(self, jitter: Callable[[float], float] | None = None) -> None:
        self._begins = jitter or (lambda period: period)
        self._workers: dict[Key, ProbeWorker] = {}
        self._under_way: set[Key] = set()

    def due(
        self, spec: PodSpec, lives: Mapping[str, Life], ending: Ending | None, now: float
    ) -> list[DueProbe]:
        """The probes to make now; each is under way until ``took``."""
        found = []
        for launch in spec.launches:
            seen = _seen(launch, lives.get(launch.name, NEW), ending, now)
            for probe in launch.probes:
                key = (launch.name, probe.kind)
                worker = self._workers.get(key) or new_worker(now, self._begins(probe.period))
                worker = renewed(worker, probe, seen)
                if key not in self._under_way and wants_look(worker, probe, seen, now):
                    worker, due = looked(worker, probe, seen, now)
                    if due:
                        self._under_way.add(key)
                        found.append(DueProbe(launch, probe, seen.number))
                self._workers[key] = worker
        return found

    def next_at(self, spec: PodSpec, lives: Mapping[str, Life]) -> float | None:
        """When time alone makes a probe due; None where none waits for it."""
        return min(
            (
                self._workers[key].next_at
                for launch in spec.launches
                for probe in launch.probes
                if lives.get(launch.name, NEW).phase == "running"
                and (key := (launch.name, probe.kind)) in self._workers
                and key not in self._under_way
            ),
            default=None,
        )

    def took(
        self, spec: PodSpec, life: Life, due: DueProbe, result: Result, text: str, now: float
    ) -> Life:
        """The container's life after the result of a probe of it, which is no longer under way. A
        result of another run counts nothing."""
        self._under_way.discard(due.key)
        worker, probe = self._workers.get(due.key), due.probe
        if worker is None or life.starts != due.number or life.phase != "running":
            return life
        said = {kind: words for kind, words in life.unhealthy.items() if kind != probe.kind}
        if result != "success":
            said[probe.kind] = _words(probe, result, text)
        worker = self._workers[due.key] = counted(worker, probe, result)
        life = life if said == life.unhealthy else replace(life, unhealthy=said)
        if result == "unknown":
            return life
        if probe.kind == "readiness":
            ready = worker.result == "success"
            return life if life.ready == ready else replace(life, ready=ready)
        if worker.result == "success":
            starts = probe.kind == "startup" and not life.started
            return replace(life, started=True) if starts else life
        return _failed(life, spec, probe, now) if worker.on_hold else life


def _seen(launch: ProcessSpec, life: Life, ending: Ending | None, now: float) -> Seen:
    """A container as its workers see it: not before its ``postStart`` has ended."""
    early = life.phase == "starting" or in_post_start(life)
    return Seen(
        0 if early else life.starts,
        life.phase == "running" and not early,
        has_started(launch, life),
        now - life.ran_at,
        ending is not None or life.signalled_at is not None,
    )


def _words(probe: Probe, result: Result, text: str) -> str:
    """As the kubelet's event says it."""
    if result == "unknown":
        return f"{probe.title} probe errored and resulted in unknown state: {text[:TEXT_LENGTH]}"
    return f"{probe.title} probe failed: {text[:TEXT_LENGTH]}"


def _failed(life: Life, spec: PodSpec, probe: Probe, now: float) -> Life:
    """The container is to be ended."""
    if life.end_by is not None:
        return life
    grace = spec.grace if probe.grace is None else probe.grace
    return replace(
        life,
        end_by=now + max(MIN_GRACE, grace),
        failed_probe=probe.kind,
        probe_kills=life.probe_kills + 1,
    )
