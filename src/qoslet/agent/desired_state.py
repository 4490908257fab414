"""The desired state of ``run``, followed file by file: an event costs what its file costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from qoslet.agent.manifest_ports import CheckpointStore, ManifestReader
from qoslet.agent.ports import DesiredPod, DesiredState, FailedManifest
from qoslet.agent.removals import Removals, new_name
from qoslet.core.api.kinds import no_pod
from qoslet.core.api.manifest import Options
from qoslet.core.api.manifest_set import Entry, FileChange, ManifestSet
from qoslet.core.api.pod import Pod
from qoslet.core.managers.checkpoint import checkpoint_files, restore_managers
from qoslet.core.managers.container_manager import Assignments, managers_of
from qoslet.core.managers.cpu_manager import CpuRefusal
from qoslet.core.node.node import Node, allocatable, seccomp_default
from qoslet.core.plan.live_plan import LivePlan, PodGroups
from qoslet.core.problem import Problem, ProblemCode
from qoslet.core.resources.node_policy import node_policy
from qoslet.core.workload.config.references import ConfigUsers
from qoslet.core.workload.env import PodEnvironment
from qoslet.core.workload.hook_gates import GATES
from qoslet.core.workload.pod_reader import read
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec
from qoslet.core.workload.security.context import ProcessRights
from qoslet.errors import BadInputs, FaultCode

SLICE = 0.5
"""Seconds that pods are planned between two syncs at most, and one pod."""

SpecReader = Callable[[Pod, Mapping[str, Any], PodEnvironment], PodSpec]
"""Reads a pod document for the runtime that runs it."""


class ManifestSource:
    """The desired state of some manifest files; ``agent.ports.Source``.

    A pod that may not run is desired without cgroups, and its ``spec`` tells why. Raises BadInputs
    where a path cannot be read, a file that a person named has a fault, or such files hold no pod
    at all. What is wrong in a directory is reported by ``current`` and holds up nothing else.
    ``wakes`` are further descriptors that end the wait for news, ``reads`` makes containers of a
    document (plain processes). Of many pods that change at once, ``current`` plans as many as fit
    into ``SLICE`` seconds of ``monotonic``; the others stay as they are until the next call. A pod
    that no manifest has any more is desired for ``removal_seconds`` still.
    """

    def __init__(
        self,
        files: ManifestReader,
        options: Options,
        node: Node,
        powers: ProcessRights,
        *,
        unconfined: bool = False,
        problems: tuple[Problem, ...] = (),
        wakes: Callable[[], Sequence[int]] = tuple,
        reads: SpecReader | None = None,
        monotonic: Callable[[], float] = lambda: 0.0,
        removal_seconds: float = 0.0,
    ) -> None:
        self._monotonic = monotonic
        self._removals = Removals(removal_seconds, monotonic)
        self._settled_at = monotonic() + removal_seconds if removal_seconds else None
        self._planned: dict[str, Entry] = {}
        self._unplanned: dict[str, Entry] = {}
        self._reads = reads or self._processes
        self._files = files
        self._wakes = wakes
        self._adopted: Mapping[str, str] = {}
        self._standing: dict[str, str] = {}
        self._set = ManifestSet(options, self._running)
        self._chosen = _chosen(options)
        self._config_users = ConfigUsers()
        self._powers = powers
        self._unconfined = unconfined
        self._pods: dict[str, DesiredPod] = {}
        self._version = 0
        self._changed: set[str] = set()
        self._gone: set[str] = set()
        self._stale = True
        self._store: CheckpointStore | None = None
        self._unkept = ""
        self._refused: dict[str, CpuRefusal] = {}
        self._paths: list[Problem] = []
        self._problems: tuple[Problem, ...] | None = None
        self._unread = FailedManifest()
        self._specs: tuple[Problem, ...] | None = None
        self._configure(node, problems)
        self._first()

    def descriptors(self) -> list[int]:
        """Readable when ``current`` has something new."""
        return [*self._files.descriptors(), *self._wakes()]

    def current(self) -> DesiredState:
        """The desired state. Only what has changed is read."""
        self._take(self._files.changes())
        paths = list(self._files.rows())
        self._remove_due(paths)
        self._plan_some(self._monotonic() + SLICE)
        self._keep_placed()
        refused = {} if self.live.managers is None else dict(self.live.managers.refused)
        if refused != self._refused:
            self._refused, self._stale = refused, True
        settling = self._settled_at is not None and self._monotonic() < self._settled_at
        if self._stale or paths != self._paths or settling != self._unread.settling:
            self._paths = paths
            self._problems = None
            unread = self._not_read(paths)
            if self._settled_at is not None and self._unread.faulty - unread.faulty:
                # a directory that is there again may be filled file by file
                self._settled_at = self._monotonic() + self._removals.seconds
                settling = True
            self._unread = replace(unread, settling=settling)
            self._stale = False
            self._version += 1
        changed, gone = frozenset(self._changed), frozenset(self._gone)
        self._changed.clear()
        self._gone.clear()
        self._wake_later()
        pods = dict(self._pods)
        return DesiredState(
            self._version,
            pods,
            changed,
            gone,
            self._report,
            self.live,
            self._unread,
            self._set.rejected_edits(),
            self._files.follows,
            self._chosen,
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the node's documents."""
        return self._of_node

    @property
    def sound(self) -> bool:
        """Whether no error concerns the node as a whole: one of a file or a pod is its own."""
        return self.first_node_error() is None

    def first_node_error(self) -> Problem | None:
        """The first error that concerns the node as a whole."""
        rows = (*self._of_node, *self.live.problems())
        about_pods = ProblemCode.POD_NOT_ADMITTED
        errors = (row for row in rows if row.severity == "error" and row.code is not about_pods)
        return next(errors, None)

    def document(self, uid: str) -> Mapping[str, Any]:
        """The manifest of a desired pod; empty for another."""
        entry = self._set.entries.get(uid) or self._removals.entries.get(uid)
        return entry.document if entry is not None else {}

    def configure(self, node: Node, problems: tuple[Problem, ...] = ()) -> None:
        """Plan the same pods on another node; ``problems`` are those of its documents. What CPUs
        and memory they have stays theirs: the node must hand out as before."""
        managers = self.live.managers
        self._configure(node, problems, None if managers is None else managers.kept())
        self._plan_all()

    def take_up(
        self, store: CheckpointStore, where: str, standing: Mapping[str, RuntimePod]
    ) -> None:
        """Go on with the CPUs and memory that an earlier run gave to pods that are wanted or ``standing``
        (by UID), and keep them in ``store``, the directory ``where``. Raises CannotDo."""
        fresh = managers_of(node_policy(self.live.node))
        restore_managers(fresh, store.read(), where)
        self._adopted = {uid: pod.key for uid, pod in standing.items()}
        self._set.keep({uid: pod.manifest for uid, pod in standing.items()})
        started = {pod.manifest for pod in standing.values()}
        absent = started - self._set.files
        unknown = self._set.faulty - started
        self._standing = {file: new_name(file, absent, unknown) for file in started}
        self._configure(self.live.node, self._of_node, None if fresh is None else fresh.kept())
        self._plan_all()
        self.live.keep(standing.keys())
        self._store = store

    def _running(self, uid: str) -> str:
        """Which pod runs, or is about to, with a UID; empty: none."""
        desired_pod = self._pods.get(uid)
        return self._adopted.get(uid) or ("" if desired_pod is None else desired_pod.pod.key)

    def _keep_placed(self) -> None:
        """Save which pod has which CPUs and memory, before any is placed there."""
        if self._store is None:
            return
        managers, unsaved = self.live.managers, ""
        try:
            self._store.write({} if managers is None else checkpoint_files(managers))
        except OSError as error:
            unsaved = f"cannot write the assignments of CPUs and memory: {error.strerror}"
        if unsaved != self._unkept:
            self._unkept, self._stale = unsaved, True

    def _plan_all(self) -> None:
        self._unplanned.clear()
        entries = {**self._removals.entries, **self._set.entries}
        for entry in sorted(entries.values(), key=lambda entry: entry.place):
            self._want(entry)

    def _plan_some(self, until: float) -> None:
        """Plan the pods that came or changed, in their order, as long as there is time."""
        for uid, entry in list(self._unplanned.items()):
            del self._unplanned[uid]
            self._stale = True
            self._want(entry)
            if self._unplanned and self._monotonic() >= until:
                self._files.wake()
                return

    def _configure(
        self, node: Node, problems: tuple[Problem, ...], kept: Assignments | None = None
    ) -> None:
        self.live = LivePlan(node, kept)
        self._of_node = problems
        self._around = PodEnvironment(
            node.name,
            allocatable(node),
            seccomp_default=seccomp_default(node),
            config=self._set.config.objects,
            gates_off=frozenset(gate for gate in GATES if not node.gate_by_release(gate)),
        )
        self._stale = True

    def _first(self) -> None:
        """Read everything. Raises BadInputs."""
        changes = self._files.changes()
        self._take(changes)
        self._plan_some(float("inf"))
        # what an earlier agent started from a directory that is empty now goes on
        paths = [one for one in self._files.faults if one.fault_code is not FaultCode.REPLACED]
        faults = [*paths, *self._set.faults]
        given = all(change.given for change in changes)
        if not faults and changes and given and not self._set.sources:
            faults.append(no_pod(self._set.rows, [change.file for change in changes]))
        if faults:
            raise BadInputs(faults)

    def _take(self, changes: Sequence[FileChange]) -> None:
        """Take in changed files."""
        if not changes:
            return
        self._stale = True
        entries, faulty = self._set.entries, self._set.faulty
        touched = self._set.apply(changes)
        for entry in list(self._removals.entries.values()):
            self._follow_renamed(entry, faulty)
        for file, name in self._standing.items():
            self._standing[file] = new_name(name, faulty, self._set.faulty)
        users = self._config_users.of(self._set.config.take_changed())
        touched |= users & entries.keys()
        for uid in touched & entries.keys():
            self._removals.cancel(uid)
        for uid in touched - entries.keys():
            self._leave(uid, faulty)
        waiting = {**self._unplanned, **{uid: entries[uid] for uid in touched & entries.keys()}}
        ordered = sorted(waiting.values(), key=lambda entry: entry.place)
        self._unplanned = {entry.pod.uid: entry for entry in ordered}

    def _leave(self, uid: str, faulty: frozenset[str]) -> None:
        """No manifest has a pod any more: it may be that its file is being replaced. ``faulty`` had a fault before."""
        entry = self._planned.get(uid)
        if entry is None or uid not in self._pods or not self._removals.seconds:
            self._lose(uid)
            return
        self._unplanned.pop(uid, None)
        self._removals.begin(entry)
        self._follow_renamed(entry, faulty)

    def _follow_renamed(self, entry: Entry, faulty: frozenset[str]) -> None:
        """Let a pod that leaves with a file that had a fault wait for it by its new name, which the runtime keeps
        for the next agent."""
        if (file := new_name(entry.file, faulty, self._set.faulty)) != entry.file:
            uid = entry.pod.uid
            self._pods[uid] = replace(self._pods[uid], manifest=file)
            self._changed.add(uid)
            self._removals.begin(replace(entry, file=file))

    def _remove_due(self, paths: Sequence[Problem]) -> None:
        """Lose the pods that have left; ``paths`` is what there is to say about the files."""
        if self._removals.entries:
            for uid in self._removals.due(self._not_read(paths)):
                self._stale = True
                self._lose(uid)

    def _wake_later(self) -> None:
        """Be asked again when the next pod has left, and when the agent has settled."""
        wait = self._removals.wait() if self._removals.entries else None
        if self._unread.settling and self._settled_at is not None:
            wait = min(
                self._removals.seconds if wait is None else wait,
                self._settled_at - self._monotonic(),
            )
        if wait is not None:
            self._files.wake(max(wait, 0.001))

    def _lose(self, uid: str) -> None:
        """A pod is no longer desired. It stays in the plan until its cgroups are gone."""
        self._unplanned.pop(uid, None)
        self._planned.pop(uid, None)
        self._removals.cancel(uid)
        self._config_users.drop(uid)
        if self._pods.pop(uid, None) is None:
            return
        self._specs = None
        self._gone.add(uid)
        self._changed.discard(uid)

    def _want(self, entry: Entry) -> None:
        """A pod came or changed."""
        pod = entry.pod
        other = self._removals.of_name(pod.key)
        if other and other != pod.uid:
            self._lose(other)
        self._planned[pod.uid] = entry
        self._config_users.put(pod.uid, pod.namespace, entry.document)
        spec = self._reads(pod, entry.document, self._around)
        pod = _without_ephemeral(pod)
        others: frozenset[str] = frozenset()
        if spec.runnable:
            groups = self.live.add(pod)
            others = groups.others
            if others:
                groups = replace(groups, others=frozenset())
            groups = _placed(groups)
        else:
            groups = PodGroups(pod, self.live.planner.qos(pod), (), ())
        desired_pod = DesiredPod(pod, spec, groups, entry.file, spec.grace)
        before = self._pods.get(pod.uid)
        if desired_pod != before:
            if before is None or before.spec.problems != spec.problems:
                self._specs = None
            self._pods[pod.uid] = desired_pod
            self._changed.add(pod.uid)
        self._gone.discard(pod.uid)
        for uid in others & self._pods.keys():
            self._pods[uid] = replace(self._pods[uid], planned=_placed(self.live.groups(uid)))
            self._changed.add(uid)

    def _processes(self, pod: Pod, document: Mapping[str, Any], around: PodEnvironment) -> PodSpec:
        """A pod as plain processes."""
        return read(pod, document, around=around, powers=self._powers, unconfined=self._unconfined)

    def _not_read(self, paths: Sequence[Problem]) -> FailedManifest:
        """What is not known of the manifests; ``paths`` is what there is to say about the files."""
        rows = frozenset(row.where for row in paths if row.code is ProblemCode.UNREAD)
        faulty = rows | self._set.faulty
        if not faulty:
            return FailedManifest()
        folders = frozenset(file.rpartition("/")[0] for file in self._set.files)
        return FailedManifest(faulty, folders, renamed=dict(self._standing))

    def _report(self) -> tuple[Problem, ...]:
        """Everything that there is to say, put together once."""
        if self._problems is None:
            self._problems = self._all_problems()
        return self._problems

    def _all_problems(self) -> tuple[Problem, ...]:
        """Everything that there is to say: of the node, the files, the pods, the plan."""
        if self._specs is None:
            specs = [one.spec.problems for one in self._pods.values()]
            self._specs = tuple(chain.from_iterable(specs))
        files = (*self._paths, *self._set.rows)
        if not self._pods:
            hint = "of a directory *.yaml, *.yml and *.json are read"
            files = (*files, Problem("info", "manifests", "no pods yet", hint))
        if self._unkept:
            hint = "after a restart pods may get other CPUs; check the state directory"
            files = (*files, Problem("warning", "managers", self._unkept, hint))
        return (*self._of_node, *files, *self._specs, *self.live.problems())


def _without_ephemeral(pod: Pod) -> Pod:
    """The pod as it runs here: nobody starts its ephemeral containers."""
    containers = tuple(one for one in pod.containers if one.role != "ephemeral")
    return replace(pod, containers=containers) if len(containers) < len(pod.containers) else pod


def _placed(groups: PodGroups) -> PodGroups:
    """A pod that does not fit gets no cgroups."""
    return groups if groups.refused is None else replace(groups, groups=())


def _chosen(options: Options) -> str:
    """Which pods of the manifests are run, as the command line says it."""
    namespace = f" -n {options.namespace}" if options.namespace is not None else ""
    selector = f" -l {options.selector}" if options.selector is not None else ""
    return f" with{namespace}{selector}" if namespace or selector else ""
