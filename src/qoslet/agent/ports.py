"""What the loop needs from its surroundings. Real and simulated parts match these by shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from qoslet.core.api.pod import Pod
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.memory.events import OomKill
from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.node.node import Node
from qoslet.core.plan.live_plan import PodGroups
from qoslet.core.problem import Problem
from qoslet.core.reconcile.journal import JournalState, Key, Recorder
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.workload.lifecycle import ContainerState
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import MemoryVolume, PodSpec


class Driver(Protocol):
    """Performs steps on a kernel, in the order given."""

    def perform(self, steps: Sequence[Step]) -> list[Outcome]:
        """Do each step; stop after the first that fails. One outcome for each step tried; one
        that cannot be done at once is pending, and the next ones are tried."""

    def poll_pending(self) -> list[Outcome]:
        """What came of pending steps: of one that is over once, of one that goes on each time,
        still pending."""

    def shell(self, step: Step) -> str:
        """The shell line that would do ``step`` by hand, quoted."""


class Observer(Protocol):
    """Reads a kernel."""

    def watch(self, files: Iterable[str]) -> None:
        """Read these settings, too, from now on: the known ones are always read."""

    def observe(self, root: str, *, values: bool = True) -> Observed:
        """The subtree below and including ``root``; an absent root gives no cgroups."""

    def read_cgroup(self, path: str) -> ObservedCgroup | None:
        """One group with its values, without those below; None where it is absent."""

    def reclaimable_cache(self, path: str) -> int:
        """Bytes of page cache below a group that can be taken back without a kill."""


class Journal(Recorder, Protocol):
    """The journal of a tree, open."""

    ledger: JournalState

    def seen(self, values: Mapping[Key, str]) -> None:
        """The values of files that are about to be written: recorded as what was there before."""

    def rewrite(self) -> None:
        """Replace what is written by the least that says the same. Raises as ``record``."""


class CgroupKiller(Protocol):
    """Ends what is in a group, whoever put it there."""

    def kill(self, path: str) -> bool:
        """End every process of the group and below; True once none is left. Raises
        ``QosletError`` where it must not."""

    def describe_processes(self, path: str, pids: Sequence[int]) -> str:
        """Who these processes are, for people: ``process 12 (sh)``."""


class Machine(Protocol):
    """What the loop asks about the machine as a whole: its CPUs and its memory in bytes."""

    @property
    def cores(self) -> float:
        """CPUs."""

    @property
    def memory(self) -> int:
        """Bytes."""

    def busy_seconds(self) -> float | None:
        """CPU seconds used or stolen on all CPUs since some start; None if unknown."""

    def runnable(self, path: str, pids: Sequence[int]) -> int | None:
        """How many threads of a group's processes want a CPU now; None if unknown."""


class NoMachine:
    """A machine of which nothing is known."""

    cores = 1.0
    memory = 0

    def busy_seconds(self) -> float | None:
        """Unknown."""
        return None

    def runnable(self, path: str, pids: Sequence[int]) -> int | None:
        """Unknown."""
        return None


class Clock(Protocol):
    """Time, so that tests need none."""

    def monotonic(self) -> float:
        """Seconds since some start."""

    def wall(self) -> float:
        """Seconds since 1970, for people."""

    def sleep(self, seconds: float) -> bool:
        """Wait; False if the wait was cut short because the loop should end."""


class Runtime(Protocol):
    """Starts and ends the containers of pods inside cgroups that exist already, and keeps them
    over the end of the agent. What it is told is data: it may be another process."""

    def start(self, spec: PodSpec, cgroups: Mapping[str, str]) -> None:
        """Begin a pod; ``cgroups`` is the path of each container's group by its name. A pod
        that is kept already stays as it is. Raises ``QosletError`` where it cannot be begun."""

    def poll(self) -> Sequence[ContainerState]:
        """Advance (init order, restarts with back-off) and tell the state of every container of
        every pod that is kept, those begun under an earlier agent too."""

    def list_pods(self) -> Mapping[str, RuntimePod]:
        """The pods that are kept, by UID."""

    def stop(self, uid: str, grace_seconds: float) -> None:
        """Begin to end a pod; ``poll`` carries it through: SIGTERM, after the grace period
        SIGKILL, verified gone. It is over when no container is running. Stopping again with a
        shorter grace period hurries."""

    def remove_pod(self, uid: str) -> None:
        """Drop a pod whose containers have all ended; one that is not known is no fault."""

    def update(self, spec: PodSpec) -> None:
        """Later (re)starts use these launches, which have the same digest; processes stay."""

    def restart(self, uid: str, container: str) -> None:
        """Begin to end one container; it is started again at once, whatever its policy and its
        back-off. A container that does not run is no fault."""

    def descriptors(self) -> Sequence[int]:
        """Become readable when ``poll`` has something to tell."""


class PlanView(Protocol):
    """The plan of the pods that count, followed pod by pod (``core.live.Live``)."""

    @property
    def node(self) -> Node:
        """The node that is planned for."""

    def __contains__(self, uid: object) -> bool:
        """Whether a pod of this UID is in it."""

    def add(self, pod: Pod) -> PodGroups:
        """Plan a pod; one with its UID is replaced."""

    def remove(self, uid: str) -> frozenset[str]:
        """Leave a pod out; the UIDs of pods whose groups changed."""

    def groups(self, uid: str) -> PodGroups:
        """What was planned for a pod that was put. Raises KeyError for another."""

    def equipped(self, uid: str, spec: PodSpec) -> PodSpec:
        """``spec`` with what is planned for the containers of a pod that was put, where the node's
        runtime writes their groups itself."""

    def upper(self) -> tuple[Cgroup, ...]:
        """The groups of the node, its reservations and its tiers, for the pods put."""

    def plan(self) -> Plan:
        """Everything at once, for surfaces."""


class DesiredPod(Struct, frozen=True):
    """A pod that is to run. ``planned`` are as it was put last; ``manifest`` is its file,
    ``grace_seconds`` seconds. ``predecessors`` are UIDs of earlier pods of its name, which must be gone first.
    One that may not run (``spec.runnable``) has no groups and is not in the plan; where it ran
    as something else it ends."""

    pod: Pod
    spec: PodSpec
    planned: PodGroups
    manifest: str = ""
    grace_seconds: float = 30.0
    predecessors: frozenset[str] = frozenset()

    @property
    def rejection(self) -> tuple[str, str] | None:
        """Why it may not be begun, a reason and a sentence: it cannot be run here, or has no
        place. None where it may."""
        if not self.spec.runnable:
            wrong = [row for row in self.spec.problems if row.severity == "error"]
            return "Refused", wrong[0].message if wrong else "it has no container to run"
        refusal = self.planned.refused
        return None if refusal is None else (refusal.reason, refusal.message)


class DesiredState(Struct, frozen=True):
    """What should be. ``version`` differs whenever anything else does; ``changed`` and ``removed``
    are UIDs since the last ``current()``. Whoever reads manifests puts pods into ``plan``; the
    loop drops them: a pod counts in the tiers until its groups are gone."""

    version: int
    pods: Mapping[str, DesiredPod]
    changed: frozenset[str]
    removed: frozenset[str]
    problems: tuple[Problem, ...]
    plan: PlanView


class Source(Protocol):
    """Where the desired state comes from."""

    def current(self) -> DesiredState:
        """What should be now; the last good state of each file whose input has become bad.
        Only what changed since the last call is read."""

    def descriptors(self) -> Sequence[int]:
        """Become readable when ``current`` has something new to tell."""


class Volumes(Protocol):
    """Keeps the memory-backed volumes of pods: from before their containers start until they
    have ended for good."""

    def provide(self, uid: str, volumes: Sequence[MemoryVolume]) -> Mapping[str, str]:
        """Make what is not there yet, and the host's directory of each volume by its name.
        Raises ``QosletError`` where one cannot be had."""

    def remove(self, uid: str) -> None:
        """Give a pod's volumes back; one that has none is no fault. Raises ``CannotDo`` with
        the holders where something uses them still."""

    def existing(self) -> Mapping[str, tuple[str, ...]]:
        """Pod UID to volume names of all that stand, those of earlier agents too."""


class MemoryReader(Protocol):
    """Reads what a kernel tells of memory."""

    def sample(self, path: str) -> MemorySample | None:
        """One group; None where there is no such group, or no memory controller has it."""

    def node(self) -> NodeMemory:
        """The machine."""


class MemoryWatch(Protocol):
    """Told by the kernel when something happens to the memory of groups."""

    @property
    def how(self) -> tuple[str, ...]:
        """What wakes it, and what cannot: a sentence each."""

    @property
    def complete(self) -> bool:
        """Whether everything that is counted of a followed group wakes it."""

    def follow(self, paths: Iterable[str]) -> None:
        """These groups, too. One that is followed already and was made anew under its path is
        followed anew; one that is not there is left out."""

    def drop(self, paths: Iterable[str]) -> None:
        """These no longer."""

    def woken(self) -> frozenset[str]:
        """Groups to which something happened since asked last; an empty path: to the memory of
        the machine, or to an unknown group."""

    def descriptors(self) -> Sequence[int]:
        """Become readable when ``woken`` has something to tell."""


class OomLog(Protocol):
    """What the kernel writes down of its kills for memory."""

    @property
    def readable(self) -> bool:
        """Whether it can be read here."""

    def kills(self) -> Sequence[OomKill]:
        """Those since asked last, in order."""


class ProactiveReclaim(Protocol):
    """Takes memory back from groups, without waiting for it."""

    @property
    def busy(self) -> bool:
        """Whether that goes on for some group: no other one can be begun."""

    def begin(self, path: str, amount: int) -> str:
        """Begin to take so many bytes back, in small amounts and for a moment. What went wrong,
        empty if nothing; nothing is begun while it is busy."""


class CounterFile(Protocol):
    """Keeps what was counted over the end of the agent."""

    def load(self) -> bytes | None:
        """What was kept last, None where there is nothing."""

    def save(self, text: bytes) -> None:
        """Keep it instead. Raises OSError."""


class MemoryParts(Struct, frozen=True):
    """What ``agent.memory`` looks with. ``reclaim`` is None where the kernel takes nothing back when
    asked."""

    reader: MemoryReader
    watch: MemoryWatch
    log: OomLog
    counters: CounterFile | None = None
    reclaim: ProactiveReclaim | None = None
