"""What the agent needs of its surroundings. Real and simulated parts match these by shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from qoslet.core.api.pod import Pod
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.node.node import Node
from qoslet.core.plan.live_plan import PodGroups
from qoslet.core.problem import Problem
from qoslet.core.reconcile.journal import JournalState, Key, Recorder
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec, PodVolume


class Driver(Protocol):
    """Performs steps on a kernel, in the order given."""

    def perform(self, steps: Sequence[Step]) -> list[Outcome]:
        """Do each step; stop after the first that fails. Returns one outcome for each step tried;
        one that cannot be done at once is pending, and the next ones are tried."""

    def poll_pending(self) -> list[Outcome]:
        """The outcomes of pending steps: of one that is done once, of one that goes on each time,
        still pending."""

    def shell(self, step: Step) -> str:
        """The shell line that would do ``step`` by hand, quoted."""


class Observer(Protocol):
    """Reads a kernel."""

    def watch(self, files: Iterable[str]) -> None:
        """Read these files, too, from now on: the known ones are always read."""

    def observe(self, root: str, *, values: bool = True) -> Observed:
        """The subtree below and including ``root``; an absent root gives no cgroups."""

    def read_cgroup(self, path: str) -> ObservedCgroup | None:
        """One cgroup with its values, without those below; None where it is absent."""

    def identity(self, path: str) -> int | None:
        """The inode of a cgroup; None where it is absent, on v1 in any hierarchy."""

    def reclaimable_cache(self, path: str) -> int:
        """Bytes of page cache of a cgroup that can be reclaimed without a kill."""


UsageReader = Callable[[Iterable[str]], Observed]
"""Reads what these cgroups use, those that exist: neither settings nor processes."""

FrozenReader = Callable[[Iterable[str]], Mapping[str, str]]
"""Finds those of the cgroups whose processes do not run, each with the topmost frozen one at or above it."""


class Journal(Recorder, Protocol):
    """The journal of a tree, open."""

    ledger: JournalState

    def seen(self, values: Mapping[Key, str]) -> None:
        """The values of files that are about to be written: recorded as what was there before."""

    def rewrite(self) -> None:
        """Replace what is written by the least that says the same. Raises as ``record``."""


class CgroupKiller(Protocol):
    """Kills the processes of a cgroup, whoever started them."""

    def kill(self, path: str) -> bool:
        """Kill every process of the cgroup and below; returns whether none is left. Raises
        ``QosletError`` where it must not."""

    def describe_processes(self, path: str, pids: Sequence[int], *, killed: bool = False) -> str:
        """The processes in words: ``process 12 (sh)``; of those that were ``killed``, which do not
        notice."""

    def lives(self, pid: int) -> bool:
        """Whether a process has not ended: one that nobody has collected yet has."""

    def lift(self, path: str, *, overdue: bool) -> Sequence[str]:
        """Lift what another process wrote into a cgroup and those below so that it cannot end: a
        frozen state, limits tighter than ours; and widen a memory limit that is all used where that is
        ``overdue``. Returns a line for each."""


class Machine(Protocol):
    """The machine as a whole: its CPUs and its memory in bytes."""

    @property
    def cores(self) -> float:
        """CPUs."""

    @property
    def memory(self) -> int:
        """Bytes."""

    def busy_seconds(self) -> float | None:
        """CPU seconds used or stolen on all CPUs since some start; None if unknown."""

    def runnable(self, path: str, pids: Sequence[int]) -> int | None:
        """How many threads of a cgroup's processes want a CPU now; None if unknown."""


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
    """Time, replaced in tests."""

    def monotonic(self) -> float:
        """Seconds since some start."""

    def wall(self) -> float:
        """Seconds since 1970."""

    def sleep(self, seconds: float) -> bool:
        """Wait; returns False if the wait was cut short because the loop should end."""


class Runtime(Protocol):
    """Starts and stops the containers of pods inside cgroups that exist, and keeps them when the
    agent ends. What it is given is data: it may be another process."""

    def start(self, spec: PodSpec, cgroups: Mapping[str, str]) -> None:
        """Start a pod; ``cgroups`` are the paths of its containers' cgroups by name. A pod that is
        kept already stays as it is. Raises ``QosletError`` where it cannot be started."""

    def poll(self) -> Sequence[ContainerState]:
        """Advance (init order, restarts with back-off) and return the state of every container of
        every pod that is kept, those of an earlier agent too."""

    def list_pods(self) -> Mapping[str, RuntimePod]:
        """The pods that are kept, by UID."""

    def stop(self, uid: str, grace_seconds: float) -> None:
        """Begin to stop a pod; ``poll`` goes on with it: SIGTERM, after the grace period SIGKILL,
        verified gone. It is over when no container runs. A second stop with a shorter grace period
        hurries."""

    def remove_pod(self, uid: str) -> None:
        """Forget a pod whose containers have all ended; an unknown one is no error."""

    def update(self, spec: PodSpec) -> None:
        """Let later (re)starts use these launches, which have the same digest; processes stay."""

    def restart(self, uid: str, container: str) -> None:
        """Begin to stop one container; it starts again at once, whatever its policy and its
        back-off. A container that does not run is no error."""

    def descriptors(self) -> Sequence[int]:
        """Readable when ``poll`` has something new."""


class PlanView(Protocol):
    """The plan of the pods that count, kept up to date pod by pod (``core.plan.live_plan``)."""

    @property
    def node(self) -> Node:
        """The node that is planned for."""

    def __contains__(self, uid: object) -> bool:
        """Whether it holds a pod of this UID."""

    def add(self, pod: Pod) -> PodGroups:
        """Plan a pod, or plan it anew."""

    def remove(self, uid: str) -> frozenset[str]:
        """Leave a pod out; returns the UIDs of pods whose cgroups changed."""

    def groups(self, uid: str) -> PodGroups:
        """What is planned for a pod. Raises KeyError for an unknown one."""

    def equipped(self, uid: str, spec: PodSpec) -> PodSpec:
        """``spec`` with the planned resources of its containers, where the node's runtime writes
        their cgroups itself."""

    def upper(self) -> tuple[Cgroup, ...]:
        """The cgroups of the node, its reservations and its QoS classes."""

    def plan(self) -> Plan:
        """Everything at once, for surfaces."""


class DesiredPod(Struct, frozen=True):
    """A pod that is to run. ``planned`` are its cgroups as they were planned last, ``manifest`` its
    file. One that may not run (``spec.runnable``) has no cgroups and is not in the plan; where it
    ran as something else it terminates."""

    pod: Pod
    spec: PodSpec
    planned: PodGroups
    manifest: str = ""
    grace_seconds: float = 30.0

    @property
    def rejection(self) -> tuple[str, str] | None:
        """Why it may not start, a reason and a sentence that begins with the field: it cannot run
        here, or does not fit. None where it may."""
        if not self.spec.runnable:
            wrong = [row for row in self.spec.problems if row.severity == "error"]
            return "Refused", self._fault(wrong[0]) if wrong else "it has no container to run"
        refusal = self.planned.refused
        return None if refusal is None else (refusal.reason, refusal.message)

    def _fault(self, row: Problem) -> str:
        """A row about the pod with its field."""
        field = row.where.removeprefix(self.pod.where).removeprefix(": ")
        return f"{field}: {row.message}" if field and field != row.where else row.message


class FailedManifest(Struct, frozen=True):
    """Manifest files and directories that cannot be read as they are (``faulty``), and the
    directories of those that can: which pods the former ask for is not known. ``renamed`` has the names by
    which files of an earlier agent's pods go on. ``settling``: the agent has just begun, and a file that is
    absent may be one that is being replaced."""

    faulty: frozenset[str] = frozenset()
    directories: frozenset[str] = frozenset()
    settling: bool = False
    renamed: Mapping[str, str] = {}

    def fault_at(self, manifest: str) -> str:
        """Which of a file and its directory cannot be read; empty where both can."""
        paths = (manifest, manifest.rpartition("/")[0])
        return next((path for path in paths if path in self.faulty), "")

    def fault_of(self, manifest: str) -> str:
        """The path whose fault leaves open whether a pod of ``manifest`` is desired; empty where
        nothing does. A pod of an unknown file may come from any."""
        manifest = self.renamed.get(manifest, manifest)
        if fault := self.fault_at(manifest):
            return fault
        known = bool(manifest) and manifest.rpartition("/")[0] in self.directories
        return "" if known else min(self.faulty, default="")


class DesiredState(Struct, frozen=True):
    """What should be. ``version`` differs whenever anything else does; ``changed`` and ``gone`` are
    UIDs since the last ``current()``. ``report`` gives what there is to say about the input, which
    is put together when somebody asks: pods come and go before that. The source of manifests adds pods to ``plan``; the agent
    removes them: a pod counts until its cgroups are gone. ``unread`` tells of
    which pods it is not known whether they should be, ``rejected_edits`` by UID why a pod's
    manifest, as it is now, does not count. ``follows`` tells whether a manifest is among those that
    are read, ``chosen`` which of their pods: `` with -n shop``."""

    version: int
    pods: Mapping[str, DesiredPod]
    changed: frozenset[str]
    removed: frozenset[str]
    report: Callable[[], tuple[Problem, ...]]
    plan: PlanView
    unread: FailedManifest = FailedManifest()
    rejected_edits: Mapping[str, str] = {}
    follows: Callable[[str], bool] = lambda manifest: True
    chosen: str = ""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What there is to say about the input; the same object while nothing is another."""
        return self.report()


class Source(Protocol):
    """Where the desired state comes from."""

    def current(self) -> DesiredState:
        """The desired state; of a file whose content has become bad its last good one. Only what
        changed since the last call is read."""

    def descriptors(self) -> Sequence[int]:
        """Readable when ``current`` has something new."""


class Volumes(Protocol):
    """Keeps the volumes of pods, from before their containers start until they have ended for
    good."""

    def provide(self, uid: str, volumes: Sequence[PodVolume]) -> Mapping[str, str]:
        """Create what does not exist yet, and bring files up to date; returns the host's path of
        each volume by its name. Raises ``QosletError`` where one cannot be created."""

    def remove(self, uid: str) -> bool:
        """Remove a pod's volumes; without any it is no error. False: that goes on, to be asked
        again. Raises ``CannotDo`` with the processes where something still uses them."""

    def existing(self) -> Mapping[str, tuple[str, ...]]:
        """The names of all volumes that exist, by pod UID; those of earlier agents too."""
