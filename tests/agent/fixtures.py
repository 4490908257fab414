"""Parts for tests of the wheel: pods, a source, a runtime and a clock made of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from qoslet.agent.config import Config
from qoslet.agent.memory_ports import MemoryParts
from qoslet.agent.ports import DesiredPod, DesiredState
from qoslet.agent.reconciler import Reconciler
from qoslet.agent.snapshots import SyncResult
from qoslet.core.api.pod import Container, Pod, Resources
from qoslet.core.node.node import Hierarchy, Node
from qoslet.core.plan.live_plan import LivePlan
from qoslet.core.quantity import parse
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.pod_status import PodRow, RuntimePod
from qoslet.core.workload.process_spec import PodSpec, PodVolume, ProcessSpec, RestartPolicy
from qoslet.core.workload.security.context import Credentials
from qoslet.errors import CannotDo
from qoslet.sim.kernel import Fault, SimKernel
from qoslet.sim.memory import SimMemory
from tests.core.reconcile.trees import FOUR_CPUS
from tests.core.vectors.fixtures import node_of

ROOT = "/q"


class Clock:
    """Virtual time; ``at_sleep`` is called with the time after each wait."""

    def __init__(self) -> None:
        self.now = 0.0
        self.at_sleep: Callable[[float], None] = lambda now: None

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return 1e9 + self.now

    def sleep(self, seconds: float) -> bool:
        self.now += seconds
        self.at_sleep(self.now)
        return True


def resources(request: str = "", limit: str = "") -> Resources:
    """``"cpu=500m memory=64Mi"`` each."""

    def amounts(text: str) -> dict[str, Any]:
        pairs = (word.split("=") for word in text.split())
        return {name: parse(value) for name, value in pairs}

    return Resources(amounts(request), amounts(limit))


def pod_of(name: str, asked: Resources | None = None, *names: str) -> Pod:
    """A pod whose UID is its name; one container ``app`` unless others are named."""
    asked = asked or resources("cpu=500m memory=64Mi")
    containers = tuple(
        Container(each, "regular", f"spec.containers[{number}]", asked)
        for number, each in enumerate(names or ("app",))
    )
    return Pod("d", name, name, "t.yaml", containers)


def spec_of(
    pod: Pod, command: str = "x", restart: RestartPolicy = "Always", grace: float = 5.0
) -> PodSpec:
    """Its processes."""
    launches = tuple(
        ProcessSpec(
            one.name,
            one.role,
            (command,),
            (),
            "/",
            Credentials(0, 0, (), frozenset(), False),
            restart,
        )
        for one in pod.containers
    )
    return PodSpec(pod.uid, pod.key, launches, grace, ())


class Manifests:
    """A source that is told what is wanted."""

    def __init__(self, node: Node) -> None:
        self.live = LivePlan(node)
        self.pods: dict[str, DesiredPod] = {}
        self._changed: set[str] = set()
        self._gone: set[str] = set()
        self._version = 0

    def put(self, pod: Pod, spec: PodSpec | None = None) -> None:
        spec = spec or spec_of(pod)
        found = self.live.add(pod)
        self.pods[pod.uid] = DesiredPod(pod, spec, found, f"{pod.name}.yaml", spec.grace)
        self._changed.add(pod.uid)
        for uid in found.others & self.pods.keys():
            self.pods[uid] = replace(self.pods[uid], planned=self.live.groups(uid))
            self._changed.add(uid)
        self._gone.discard(pod.uid)
        self._version += 1

    def drop(self, uid: str) -> None:
        del self.pods[uid]
        self._gone.add(uid)
        self._changed.discard(uid)
        self._version += 1

    def again(self, node: Node) -> None:
        """The node's configuration was read again."""
        wanted, self.live, self.pods = self.pods, LivePlan(node), {}
        for one in wanted.values():
            self.put(one.pod, one.spec)

    def current(self) -> DesiredState:
        changed, gone = frozenset(self._changed), frozenset(self._gone)
        self._changed.clear()
        self._gone.clear()
        rows = tuple(row for one in self.pods.values() for row in one.spec.problems)
        return DesiredState(self._version, dict(self.pods), changed, gone, lambda: rows, self.live)

    def descriptors(self) -> Sequence[int]:
        return ()


class Kept:
    """A pod in the runtime."""

    def __init__(self, spec: PodSpec, cgroups: Mapping[str, str]) -> None:
        self.spec = spec
        self.cgroups = dict(cgroups)
        self.pids: dict[str, int | None] = {}
        self.codes: dict[str, int] = {}
        self.restarts: dict[str, int] = {}
        self.begun = True

    @property
    def running(self) -> bool:
        return any(pid is not None for pid in self.pids.values())


class Keeper:
    """A runtime whose containers are processes of the simulated kernel and run until they are
    ended. ``refuse`` names pods that cannot be begun, ``slow`` those that end only when hurried,
    ``stuck`` those that do not even then, ``deaf`` those whose end it refuses; ``broken`` makes
    every call fail; containers of ``homeless`` pods wait for their cgroups. ``early`` are pods that end
    with a code after a poll, before the runtime lists its pods; ``restless`` ones restart then."""

    def __init__(self, kernel: SimKernel) -> None:
        self.kernel = kernel
        self.kept: dict[str, Kept] = {}
        self.refuse: set[str] = set()
        self.slow: set[str] = set()
        self.stuck: set[str] = set()
        self.deaf: set[str] = set()
        self.homeless, self.restless = set[str](), set[str]()
        self.starting: set[str] = set()
        self.early: dict[str, int] = {}
        self.broken = False
        self.calls: list[tuple[object, ...]] = []

    def _call(self, *what: object) -> None:
        if self.broken:
            raise CannotDo("the keeper cannot be reached")
        self.calls.append(what)

    def start(self, spec: PodSpec, cgroups: Mapping[str, str]) -> None:
        self._call("start", spec.uid)
        if spec.uid in self.refuse:
            raise CannotDo("no such program")
        kept = self.kept.setdefault(spec.uid, Kept(spec, cgroups))
        for launch in spec.launches:
            kept.pids[launch.name] = self.kernel.spawn(kept.cgroups[launch.name])

    def poll(self) -> list[ContainerState]:
        if self.broken:
            raise CannotDo("the keeper cannot be reached")
        return [
            ContainerState(
                uid,
                name,
                kept.cgroups[name],
                pid is not None,
                pid=None if uid in self.starting else pid,
                exit_code=kept.codes.get(name),
                restarts=kept.restarts.get(name, 0),
                awaits_cgroup=uid in self.homeless,
                starting=uid in self.starting,
            )
            for uid, kept in self.kept.items()
            for name, pid in kept.pids.items()
        ]

    def list_pods(self) -> dict[str, RuntimePod]:
        for uid in list(self.early.keys() & self.kept.keys()):
            self.end(uid, code=self.early.pop(uid))
        for uid in self.restless:
            self.kept[uid].restarts["app"] = self.kept[uid].restarts.get("app", 0) + 1
        return {
            uid: RuntimePod(
                uid,
                kept.spec.key,
                kept.spec.digest(),
                kept.spec.grace,
                kept.cgroups,
                not kept.running and kept.begun,
                kept.spec.memo,
                manifest=kept.spec.manifest,
                roles={launch.name: launch.role for launch in kept.spec.launches},
            )
            for uid, kept in self.kept.items()
        }

    def stop(self, uid: str, grace_seconds: float) -> None:
        self._call("stop", uid, grace_seconds)
        if uid in self.deaf:
            raise CannotDo("the keeper cannot be reached")
        kept = self.kept.get(uid)
        if kept is None or uid in self.stuck or (uid in self.slow and grace_seconds):
            return
        for name in kept.pids:
            self.end(uid, name, 143)

    def end(self, uid: str, name: str = "app", code: int = 0) -> None:
        """A container ends by itself."""
        kept = self.kept[uid]
        pid = kept.pids[name]
        if pid is not None:
            self.kernel.end(pid, code)
            kept.codes[name] = code
            kept.pids[name] = None

    def remove_pod(self, uid: str) -> None:
        self._call("remove_pod", uid)
        kept = self.kept.pop(uid, None)
        assert kept is None or not kept.running, "it is still running"

    def update(self, spec: PodSpec) -> None:
        self._call("update", spec.uid)
        assert spec.digest() == self.kept[spec.uid].spec.digest()
        self.kept[spec.uid].spec = spec

    def restart(self, uid: str, container: str) -> None:
        self._call("restart", uid, container)
        if uid in self.slow:
            return
        kept = self.kept[uid]
        self.end(uid, container, 143)
        kept.pids[container] = self.kernel.spawn(kept.cgroups[container])
        kept.restarts[container] = kept.restarts.get(container, 0) + 1

    def descriptors(self) -> Sequence[int]:
        return ()

    @property
    def running(self) -> set[str]:
        """UIDs of pods with processes."""
        return {uid for uid, kept in self.kept.items() if kept.running}


class Disk:
    """Volumes made of names. ``held`` are pods whose volumes somebody uses, ``large`` those whose
    volumes take long to remove, ``refuse`` those that get none."""

    def __init__(self) -> None:
        self.there: dict[str, tuple[str, ...]] = {}
        self.held, self.large, self.refuse = set[str](), set[str](), set[str]()

    def provide(self, uid: str, volumes: Sequence[PodVolume]) -> Mapping[str, str]:
        if uid in self.refuse:
            raise CannotDo("no memory left")
        self.there[uid] = tuple(volume.name for volume in volumes)
        return {volume.name: f"/v/{uid}/{volume.name}" for volume in volumes}

    def remove(self, uid: str) -> bool:
        if uid in self.held:
            raise CannotDo("process 7 (sh) uses it")
        if uid in self.large:
            return False
        self.there.pop(uid, None)
        return True

    def existing(self) -> Mapping[str, tuple[str, ...]]:
        return dict(self.there)


class Recorder:
    """A driver that keeps what it was told; ``slow`` are files whose writes go on."""

    def __init__(self, kernel: SimKernel) -> None:
        self.kernel = kernel
        self.steps: list[Step] = []
        self.slow: set[str] = set()
        self.late: list[Outcome] = []

    def perform(self, steps: Sequence[Step]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for step in steps:
            self.steps.append(step)
            if step.file in self.slow:
                outcomes.append(Outcome(step, pending=True))
                self.late = [outcomes[-1]]
                continue
            outcomes += self.kernel.perform([step])
            if outcomes[-1].error is not None:
                break
        return outcomes

    def poll_pending(self) -> list[Outcome]:
        late, self.late = self.late, []
        self.late += [one for one in late if one.pending]
        return late

    def shell(self, step: Step) -> str:
        return step.describe()


def node(hierarchy: Hierarchy = "v1", runtime: str = "process", **kubelet: Any) -> Node:
    """A node with 4 CPUs and 8 GiB whose tree is below ``/q``."""
    return node_of(
        36,
        capacity={"cpu": "4", "memory": "8Gi"},
        host={"hierarchy": hierarchy},
        cgroup_root=ROOT,
        runtime=runtime,
        **kubelet,
    )


class Bench:
    """A wheel on a simulated kernel; time passes as told."""

    def __init__(
        self,
        hierarchy: Hierarchy = "v1",
        *faults: Fault,
        config: Config | None = None,
        **kubelet: Any,
    ) -> None:
        self.clock = Clock()
        self.kernel = SimKernel(
            hierarchy, clock=self.clock.monotonic, facts=FOUR_CPUS, faults=faults
        )
        self.driver = Recorder(self.kernel)
        self.keeper = Keeper(self.kernel)
        self.disk = Disk()
        self.source = Manifests(node(hierarchy, **kubelet))
        self.config = config or Config(root=ROOT)
        self.memory = SimMemory(self.kernel, self.clock.monotonic, 8 << 30)
        self.begin()
        self.said: list[str] = []

    def begin(self) -> None:
        """A new agent: what stands and what the keeper has is from before."""
        self.reconciler = Reconciler(
            self.config,
            self.driver,
            self.kernel,
            self.keeper,
            self.disk,
            self.clock,
            self.kernel,
            memory=MemoryParts(self.memory, self.memory, self.memory, counters=self.memory.kept),
        )

    def turn(self, seconds: float = 0.0, *, whole: bool = False) -> SyncResult:
        """One turn, so many seconds after the last one."""
        self.clock.now += seconds
        turn = self.reconciler.sync(self.source.current(), whole=whole)
        self.said += [*turn.errors, *turn.notes]
        return turn

    def put(
        self, name: str, request: str = "cpu=500m memory=64Mi", limit: str = "", **spec: Any
    ) -> None:
        pod = pod_of(name, resources(request, limit))
        self.source.put(pod, spec_of(pod, **spec))

    @property
    def rows(self) -> dict[str, PodRow]:
        """The pods as surfaces see them."""
        return {row.uid: row for row in self.reconciler.snapshot().pods}

    def value(self, path: str, file: str) -> str:
        return self.kernel.read(path, file)

    def groups(self, name: str = "") -> list[str]:
        """The groups below the root, or those of a pod."""
        every = self.kernel.observe(ROOT).cgroups
        return [path for path in every if not name or f"/pod{name}" in path]
