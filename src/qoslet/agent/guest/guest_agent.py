"""The agent beside a kubelet: one sync reads the node, writes what the policy names, lets the guard
look, and audits."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from qoslet.agent.guest.condition_keeper import ConditionKeeper
from qoslet.agent.guest.node_auditor import NodeAuditor
from qoslet.agent.guest.pod_guard import PodGuard
from qoslet.agent.guest.policy_files import FilesSync, PolicyFiles
from qoslet.agent.guest.ports import Auditor, NodeSource, NodeView
from qoslet.agent.ports import Clock
from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.core.cgroup.names import to_cgroupfs
from qoslet.core.guest.node_condition import condition_of
from qoslet.core.guest.policy import governed, nothing_to_write
from qoslet.core.guest.status import GuestSync
from qoslet.core.problem import plural
from qoslet.core.reconcile.journal import Key
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.errors import CannotDo, QosletError

SYNC_SECONDS = 10.0
"""Between two looks at the files where nothing wakes the agent."""
LONGEST_SYNC_SECONDS = 60.0
"""While nothing differs, that time doubles up to this."""
LEAST_SECONDS = 1.0
"""Between two looks at least, however often something happens."""
SHARE = 0.05
"""The part of the time that looks at the files take at most."""
HELD_SECONDS = 15.0
"""How long looks at everything wait for the guard."""

RELEASE_SECONDS, RELEASE_POLL_SECONDS = 10.0, 0.2
"""How long the end waits for values that the kernel takes slowly, and between two looks then."""


class GuestAgent:
    """One for each node. ``guard`` is None where nothing watches memory."""

    def __init__(
        self,
        source: NodeSource,
        auditor: Auditor,
        files: PolicyFiles,
        executor: CgroupExecutor,
        clock: Clock,
        guard: PodGuard | None = None,
        interval: float = SYNC_SECONDS,
        condition: ConditionKeeper | None = None,
    ) -> None:
        self._source = source
        self._auditor = auditor
        self.audit = NodeAuditor(auditor, clock, interval)
        self.files = files
        self.guard = guard
        self.condition = condition
        self.executor = executor
        self.view: NodeView | None = None
        self.governed: tuple[Cgroup, ...] = ()
        self._asked: dict[Key, str] = {}
        self.last = FilesSync()
        self.errors: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.syncs = 0
        self._clock = clock
        self._interval = self._pause = interval
        self._due_at = self._woken_at = self._asked_at = float("-inf")
        self._is_woken = False

    def sync(self) -> GuestSync:
        """Once: what is due of it. Raises QosletError while the node is not known."""
        self.syncs += 1
        errors = list[str]()
        audits_again = self.audit.looks_again(self._held_seconds())
        if audits_again:
            self._asked_at = float("-inf")
        if audits_again or (self.files.needs_pods() and not self._is_held()):
            self._source.refresh()
        changed = self._follow(errors)
        view = self.view
        assert view is not None
        self._take_events()
        done = FilesSync()
        now = self._clock.monotonic()
        if changed or now >= self._next_look() + self._held_seconds():
            done = self._sync_files(view)
        guarded = self._guarded(view)
        plan = self._with_overrides(view.plan)
        events = self.audit.look(plan, self._held_seconds(), is_new=audits_again)
        errors += [
            *view.faults,
            *self.files.faults,
            *([self.audit.error] if self.audit.error else []),
        ]
        errors += self._keep_condition(view)
        why = nothing_to_write(view.policy, self.governed, view.plan.node, len(view.plan.pods))
        lasting = [*view.notes, *([why] if why else [])]
        told = GuestSync(
            _summary(view, self.governed, done),
            events,
            done.written,
            done.restored,
            done.resets,
            (*done.errors, *_new(errors, self.errors, done.errors)),
            (*done.notes, *guarded, *_new(lasting, self.notes)),
        )
        self.errors, self.notes = tuple(errors), tuple(lasting)
        return told

    def _held_seconds(self) -> float:
        """How long audits and files are put off while the guard may have to act on a container."""
        return HELD_SECONDS if self.guard is not None and self.guard.urgent else 0.0

    def _is_held(self) -> bool:
        """Whether to go on with the pods as they are known: while memory is short a kubelet may take seconds
        to answer, and the guard must not wait for it."""
        return self._clock.monotonic() < self._asked_at + self._held_seconds()

    def _follow(self, errors: list[str]) -> bool:
        """Read the node again; if that fails, the last view stays. Returns whether it has changed. Raises
        QosletError if the node never was read."""
        before = self.view
        asks = not self._is_held()
        try:
            self.view = view = self._source.current(asks=asks)
        except QosletError as error:
            if before is None:
                raise
            errors.append(str(error))
            return False
        if asks:
            self._asked_at = self._clock.monotonic()
        same = before is not None and before.policy == view.policy
        same = same and before is not None and before.plan is view.plan
        same = same and before is not None and before.allocated is view.allocated
        if not same:
            root = to_cgroupfs(view.plan.node.kubelet.pods_cgroup)
            self.governed = governed(view.in_force, view.policy, root)
            asked = () if view.allocated is None else governed(view.plan, view.policy, root)
            self._asked = {
                (one.path or "", row.file): row.applied for one in asked for row in one.settings
            }
        return not same

    def _take_events(self) -> None:
        """Make the next looks due early if something happened in a planned cgroup."""
        if self._auditor.happened():
            self._is_woken = True
            self.audit.wake()

    def _next_look(self) -> float:
        """When the files are due, in monotonic seconds."""
        again = self.files.next_at()
        times = [self._due_at, *([self._woken_at] if self._is_woken else [])]
        if again is not None:
            times.append(max(again, self._woken_at))
        return min(times)

    def _sync_files(self, view: NodeView) -> FilesSync:
        """Write and restore files. While nothing differs, the looks get rarer."""
        begun = self._clock.monotonic()
        complete = view.source.complete or not self.governed
        pods_at = begun - view.source.age_seconds
        try:
            done = self.files.sync(
                view.plan.node, self.governed, complete=complete, pods_at=pods_at, asked=self._asked
            )
        except (QosletError, OSError) as error:
            done = FilesSync(errors=[f"nothing was written: {error}"])
        now = self._clock.monotonic()
        busy = done.written or done.restored or done.resets or done.errors
        longest = max(self._interval, LONGEST_SYNC_SECONDS)
        self._pause = self._interval if busy else min(2 * self._pause, longest)
        self._due_at = now + self._pause
        self._woken_at = now + max(LEAST_SECONDS, (now - begun) / SHARE)
        self._is_woken = False
        self.last = done
        return done

    def _guarded(self, view: NodeView) -> list[str]:
        """Let the guard look. Returns its lines. In guard mode the cgroups that it may write are adopted
        first."""
        if self.guard is None:
            return []
        if view.policy.mode == "watch":
            self.guard.stop()
            return []
        if view.policy.mode == "guard":
            self.files.adopt(one.path for one in self.governed if one.path is not None)
        return self.guard.sync(replace(view, plan=view.in_force))

    def _keep_condition(self, view: NodeView) -> list[str]:
        """Have the status of the node say what the audit found, if that is asked for; what went
        wrong."""
        keeper, audit = self.condition, self.audit
        if keeper is None:
            return []
        wanted = None
        if view.policy.node_condition:
            if not audit.compared and not audit.error:
                return []
            complete = view.source.complete
            wanted = condition_of(audit.findings, is_complete=complete, fault=audit.error)
        keeper.sync(wanted)
        return [keeper.fault] if keeper.fault else []

    def _with_overrides(self, plan: Plan) -> Plan:
        """The plan with what the guard has raised, which is no drift."""
        if not self.executor.overrides:
            return plan
        return replace(plan, cgroups=tuple(self.executor.with_overrides(plan.cgroups)))

    def release(self, seconds: float = RELEASE_SECONDS) -> list[str]:
        """Restore every file that holds a value of ours, for at most so long; what there is to say,
        such as the files that another process has written since, which stay. Raises CannotDo with
        what is left."""
        if self.view is None:
            return []
        self.executor.overrides.clear()
        said, until = list[str](), self._clock.monotonic() + seconds
        while True:
            done = self.files.sync(self.view.plan.node, ())
            said += [line for line in (*done.notes, *done.errors) if line not in said]
            left = self.executor.journal.ledger.files
            if not left or self._clock.monotonic() >= until:
                break
            self._clock.sleep(RELEASE_POLL_SECONDS)
        if left:
            path, file = next(iter(left))
            raise CannotDo(
                f"{plural(len(left), 'file')} not restored, such as {path}/{file}",
                where=self.executor.root,
                hint=f"qoslet release --cgroup-root {self.executor.root}",
            )
        return said

    def descriptors(self) -> Sequence[int]:
        """Readable when a sync is due. Once a cgroup has asked for one, no other needs to."""
        guard = () if self.guard is None else self.guard.descriptors()
        cgroups = () if self._is_woken else self._auditor.descriptors()
        return (*self._source.descriptors(), *cgroups, *guard)

    def _source_due(self) -> float | None:
        """When the node is to be read again."""
        due = self._source.next_at()
        held = self._asked_at + self._held_seconds()
        return max(due, held) if due is not None and self._is_held() else due

    def wait_seconds(self) -> float:
        """Until something is due that no descriptor tells."""
        held = self._held_seconds()
        times = [
            self._next_look() + held,
            self.audit.next_at() + held,
            self._source_due(),
            None if self.guard is None else self.guard.next_at(),
            None if self.condition is None else self.condition.next_at(),
        ]
        return max(0.0, min(at for at in times if at is not None) - self._clock.monotonic())


def _new(lines: Sequence[str], before: Collection[str], said: Collection[str] = ()) -> list[str]:
    """Lines that were not there in the sync before, nor are said already."""
    return [line for line in dict.fromkeys(lines) if line not in before and line not in said]


def _summary(view: NodeView, governed: Sequence[Cgroup], done: FilesSync) -> str:
    """The sync in one sentence."""
    files = sum(len(one.settings) for one in governed)
    parts = [f"{plural(len(view.plan.pods), 'pod')} from {view.source.place}"]
    if view.policy.mode == "watch":
        parts.append("watching")
    else:
        written = f", {len(done.written)} of them written" if done.written else ""
        parts.append(f"{plural(files, 'value')} kept as planned{written}")
    if done.restored:
        parts.append(f"{plural(len(done.restored), 'value')} restored")
    if done.resets:
        parts.append(f"{plural(len(done.resets), 'value')} reset by another process")
    return "; ".join(parts)
