"""Simulated containers: a runtime, an observer and a machine.

Containers get CPU by weights and quotas (``core.cgroup.usage.fair_share``); their memory grows until a
limit kills. The cgroups are those of a kernel behind the usual ports, so the agent's loop runs
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from qoslet.agent.ports import Observer
from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.cgroup.usage.fair_share import Contender, cap_of, fair_shares, weight_of
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import NEW, Backoff, Life, began, ended, restarted
from qoslet.core.workload.lifecycle import Ending, actions, backoff_seconds, finished
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec
from qoslet.errors import CannotDo
from qoslet.sim.behaviour import GROWTH, Behaviour

_OOM = 137


class _Counters(Struct):
    """What a kernel counts for a group."""

    usec: float = 0.0
    throttled: float = 0.0
    memory: int = 0
    peak: int = 0
    kills: int = 0


class _Run(Struct):
    """A started pod. ``digest`` is that of the spec at its start."""

    spec: PodSpec
    digest: str
    cgroups: Mapping[str, str]
    lives: dict[str, Life]
    ending: Ending | None = None


class SimRuntime:
    """Matches ``agent.ports.Runtime``, ``Observer`` and ``Machine``.

    ``kernel`` holds the groups; ``behaviour_of`` tells what a container does, by pod UID,
    name and role; ``clock`` is any monotonic time in seconds.
    """

    def __init__(
        self,
        kernel: Observer,
        behaviour_of: Callable[[str, str, str], Behaviour],
        clock: Callable[[], float],
        root: str,
        *,
        cores: float = 2.0,
        memory: int = 8 << 30,
        backoff: Backoff | None = None,
    ) -> None:
        self.cores = cores
        self.memory = memory
        self._kernel = kernel
        self._behaviour_of = behaviour_of
        self._clock = clock
        self._root = root
        self._backoff = backoff or Backoff()
        self._pods: dict[str, _Run] = {}
        self._counters: dict[str, _Counters] = {}
        self._now = clock()
        self._busy = 0.0

    def busy_seconds(self) -> float | None:
        """CPU seconds used by all containers."""
        return self._busy

    def runnable(self, path: str, pids: Sequence[int]) -> int | None:
        """Threads of the container at ``path`` that want a CPU."""
        return next(
            (round(self._threads(run, name)) for run, name, at in self._all() if at == path), 0
        )

    def start(self, spec: PodSpec, cgroups: Mapping[str, str]) -> None:
        """Start a pod. Raises ``CannotDo`` if it cannot be run."""
        if spec.uid in self._pods:
            return
        if not spec.runnable or {launch.name for launch in spec.launches} != cgroups.keys():
            raise CannotDo("this pod is not run", where=f"Pod {spec.key}")
        lives = {launch.name: NEW for launch in spec.launches}
        self._pods[spec.uid] = _Run(spec.unprobed(), spec.digest(), dict(cgroups), lives)

    def stop(self, uid: str, grace_seconds: float) -> None:
        """Terminate a pod; its containers end with the next ``poll``."""
        run = self._pods.get(uid)
        if run is not None and run.ending is None:
            run.ending = Ending(self._clock(), grace_seconds)

    def remove_pod(self, uid: str) -> None:
        """Drop a pod. Raises ``CannotDo`` if a container is running."""
        run = self._pods.get(uid)
        if run is not None and any(life.alive for life in run.lives.values()):
            raise CannotDo("containers are still running", where=f"Pod {run.spec.key}")
        self._pods.pop(uid, None)

    def update(self, spec: PodSpec) -> None:
        """Later starts use these launches."""
        run = self._pods.get(spec.uid)
        if run is not None:
            run.spec = spec.unprobed()

    def restart(self, uid: str, container: str) -> None:
        """End one container and start it again."""
        run = self._pods.get(uid)
        if run is None or container not in run.lives:
            return
        life, now = run.lives[container], self._clock()
        if life.alive:
            state = ended(restarted(life, now, 0.0), 143, False, now, self._backoff)
            run.lives[container] = began(state, now)

    def list_pods(self) -> Mapping[str, RuntimePod]:
        """The pods that are kept."""
        return {
            uid: RuntimePod(
                uid,
                run.spec.key,
                run.digest,
                run.spec.grace,
                run.cgroups,
                not any(life.alive for life in run.lives.values())
                and (run.ending is not None or finished(run.spec, run.lives)),
                run.spec.memo,
                run.ending is not None,
                manifest=run.spec.manifest,
                roles=run.spec.roles,
            )
            for uid, run in self._pods.items()
        }

    def descriptors(self) -> Sequence[int]:
        """None: time alone moves it."""
        return ()

    def poll(self) -> list[ContainerState]:
        """Advance to the current time, do the due actions, and return the states."""
        self._pass_time()
        now = self._clock()
        for run in self._pods.values():
            for _ in range(2 * len(run.spec.launches) + 1):
                due = actions(run.spec, run.lives, now, run.ending)
                for action in due:
                    life = run.lives[action.name]
                    run.lives[action.name] = (
                        began(life, now)
                        if action.verb == "start"
                        else ended(life, 143, False, now, self._backoff)
                    )
                if not due:
                    break
        return [
            ContainerState(
                pod_uid=run.spec.uid,
                name=name,
                cgroup=path,
                running=run.lives[name].phase == "running",
                exit_code=run.lives[name].exit_code,
                restarts=run.lives[name].restarts,
                reason=run.lives[name].reason,
                oom_killed=run.lives[name].oom_killed,
                end_reason=run.lives[name].end_reason,
                backoff=0.0
                if run.ending
                else backoff_seconds(run.spec.launch(name), run.lives[name]),
            )
            for run, name, path in self._all()
        ]

    def watch(self, files: Iterable[str]) -> None:
        """As the kernel does."""
        self._kernel.watch(files)

    def observe(self, root: str, *, values: bool = True) -> Observed:
        """The kernel's groups with the simulated counters."""
        self._pass_time()
        observed = self._kernel.observe(root, values=values)
        cgroups = {path: self._counted(path, cgroup) for path, cgroup in observed.cgroups.items()}
        return Observed(self._clock(), cgroups)

    def read_cgroup(self, path: str) -> ObservedCgroup | None:
        """One group with its counters."""
        self._pass_time()
        cgroup = self._kernel.read_cgroup(path)
        return None if cgroup is None else self._counted(path, cgroup)

    def identity(self, path: str) -> int | None:
        """The inode of a group, None where it is absent."""
        return self._kernel.identity(path)

    def reclaimable_cache(self, path: str) -> int:
        """What the kernel would take back."""
        return self._kernel.reclaimable_cache(path)

    def _counted(self, path: str, cgroup: ObservedCgroup) -> ObservedCgroup:
        """A group with its counters: its own and those below it."""
        counted = [counters for at, counters in self._counters.items() if is_at_or_below(at, path)]
        return replace(
            cgroup,
            usage_usec=round(sum(each_counters.usec for each_counters in counted)),
            throttled_usec=round(sum(each_counters.throttled for each_counters in counted)),
            memory=sum(each_counters.memory for each_counters in counted),
            memory_peak=sum(each_counters.peak for each_counters in counted),
            oom_kills=sum(each_counters.kills for each_counters in counted),
        )

    def _all(self) -> list[tuple[_Run, str, str]]:
        """Every container: its pod, name and path."""
        return [
            (run, launch.name, run.cgroups[launch.name])
            for run in self._pods.values()
            for launch in run.spec.launches
        ]

    def _behaviour(self, run: _Run, name: str) -> Behaviour:
        """What a container does."""
        return self._behaviour_of(run.spec.uid, name, run.spec.launch(name).role)

    def _threads(self, run: _Run, name: str) -> float:
        """How many CPUs a container wants now."""
        life = run.lives[name]
        behaviour = self._behaviour(run, name)
        waits = self._clock() - life.began_at < behaviour.after
        return 0.0 if life.phase != "running" or waits else behaviour.threads

    def _pass_time(self) -> None:
        """Count CPU and memory since the last call; end containers that exit."""
        now = self._clock()
        seconds, self._now = now - self._now, now
        if seconds <= 0:
            return
        cgroups = self._kernel.observe(self._root).cgroups
        demand = {path: self._threads(run, name) for run, name, path in self._all()}
        shares = fair_shares(_contenders(cgroups, demand), self.cores)
        for run, name, path in self._all():
            counters = self._counters.setdefault(path, _Counters())
            if run.lives[name].phase != "running":
                counters.memory = 0
                continue
            used = shares.get(path, 0.0)
            counters.usec += used * seconds * 1e6
            self._busy += used * seconds
            cap = cap_of(cgroups[path].values) if path in cgroups else None
            if cap is not None and demand[path] > cap:
                counters.throttled += (demand[path] - cap) * seconds * 1e6
            self._grow(run, name, path, cgroups, seconds)

    def _grow(
        self, run: _Run, name: str, path: str, cgroups: Mapping[str, ObservedCgroup], seconds: float
    ) -> None:
        """Grow memory up to the container's target; a lower limit kills it."""
        life = run.lives[name]
        behaviour = self._behaviour(run, name)
        counters = self._counters[path]
        age = self._now - life.began_at
        if age >= behaviour.after:
            grown = counters.memory + int(GROWTH * min(seconds, age - behaviour.after))
            counters.memory = min(behaviour.memory, grown)
        limit = memory_limit(path, cgroups)
        if limit is not None and counters.memory > limit:
            counters.peak = max(counters.peak, limit)
            counters.kills += 1
            counters.memory = 0
            run.lives[name] = ended(life, _OOM, True, self._now, self._backoff)
            return
        counters.peak = max(counters.peak, counters.memory)
        if behaviour.lasts is not None and age >= behaviour.lasts:
            counters.memory = 0
            run.lives[name] = ended(life, 0, False, self._now, self._backoff)


def memory_limit(path: str, cgroups: Mapping[str, ObservedCgroup]) -> int | None:
    """The lowest memory limit of a group and those above it; None without one."""
    limits = []
    while path:
        values = cgroups[path].values if path in cgroups else {}
        for file in ("memory.limit_in_bytes", "memory.max"):
            text = values.get(file, "")
            if text.isdigit():
                limits.append(int(text))
        path = path.rpartition("/")[0]
    return min(limits, default=None)


def _contenders(
    cgroups: Mapping[str, ObservedCgroup], demand: Mapping[str, float]
) -> list[Contender]:
    """The observed groups as competitors for the CPU."""
    below: dict[str, list[str]] = {}
    for path in cgroups:
        parent = path.rpartition("/")[0]
        below.setdefault(parent if parent in cgroups else "", []).append(path)

    def build(path: str) -> Contender:
        values = cgroups[path].values
        return Contender(
            path=path,
            weight=weight_of(values),
            cap=cap_of(values),
            demand=demand.get(path, 0.0),
            children=tuple(build(child) for child in below.get(path, ())),
        )

    return [build(path) for path in below.get("", ())]
