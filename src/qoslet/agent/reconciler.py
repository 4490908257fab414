"""One turn of the wheel: what is due is looked at, made true, and said in one sentence.

Due are pods that changed, whose back-off is over or whose containers did something, and now and
then everything. What a turn costs depends on what is due, not on what stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qoslet.agent.config import Config
from qoslet.agent.memory.monitor import Memory
from qoslet.agent.pods.admission import Taking
from qoslet.agent.pods.garbage_collection import Orphans
from qoslet.agent.pods.node_cgroups import Tiers
from qoslet.agent.pods.resize import Resizing
from qoslet.agent.pods.startup import Rising
from qoslet.agent.pods.teardown import Falling
from qoslet.agent.ports import (
    Clock,
    Desired,
    Driver,
    Killing,
    Machine,
    MemoryParts,
    Observer,
    Runtime,
    Volumes,
)
from qoslet.agent.snapshots import Snapshots, Turn
from qoslet.agent.state.cgroup_executor import Book, Hands
from qoslet.agent.state.pod_worker import Pace
from qoslet.agent.state.sync_context import Shared
from qoslet.core.problem import Problem
from qoslet.core.status.snapshot import Snapshot
from qoslet.core.workload.lifecycle import ContainerState
from qoslet.core.workload.pod_status import Held
from qoslet.errors import QosletError


class Wheel:
    """The loop's memory between turns; one for each root.

    ``book`` is the journal, None where everything below the root is ours. ``meet`` lets the
    driver write in groups of others. Nothing that happens to a single pod raises.
    """

    def __init__(
        self,
        config: Config,
        driver: Driver,
        observer: Observer,
        runtime: Runtime,
        volumes: Volumes,
        clock: Clock,
        killing: Killing,
        *,
        book: Book | None = None,
        machine: Machine | None = None,
        memory: MemoryParts | None = None,
        meet: Callable[[Sequence[str]], None] = lambda paths: None,
    ) -> None:
        hands = Hands(
            config.root, driver, observer, clock.monotonic, book=book, shrink=config.shrink
        )
        self.shared = Shared(config, hands, runtime, volumes, clock, killing)
        self.falling = Falling(self.shared)
        self._rising = Rising(self.shared)
        self._resizing = Resizing(self.shared)
        self._taking = Taking(self.shared, self.falling, self._resizing)
        self._tiers = Tiers(self.shared, meet=meet)
        self._orphans = Orphans(self.shared)
        self.memory = Memory(self.shared, memory)
        self._snapshots = Snapshots(self.shared, self.falling.final, machine)
        self._cycle = 0
        self._states: dict[int, ContainerState] = {}
        self._resync_at: float | None = None
        self._resync = config.resync
        self.last: Turn | None = None

    @property
    def started(self) -> tuple[str, ...]:
        """UIDs of the pods that were begun and have not ended."""
        return tuple(
            pace.uid for pace in self.shared.paces.values() if pace.stage in ("running", "ending")
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What there is to say about the manifests and the node, as of the last turn."""
        return self.shared.desired.problems if self.shared.desired is not None else ()

    def turn(self, desired: Desired, *, whole: bool = False) -> Turn:
        """Do what is due; ``whole``: look at everything, which is due now and then anyway."""
        shared = self.shared
        self._cycle += 1
        shared.begin_turn()
        anew = self._taking.take(desired)
        whole = whole or anew or self._resync_at is None or shared.now >= self._resync_at
        if whole:
            shared.hands.watch(shared.live.upper())
            for pace in shared.paces.values():
                shared.hands.watch(pace.groups)
            seen = shared.hands.look_at_all()
            shared.due |= shared.paces.keys()
            self._orphans.find(seen)
        self._listen()
        self._settled()
        self.memory.turn(whole=whole)
        self._carry(whole)
        self.memory.follow(whole=whole)
        shared.hands.forget_all()
        self.last = self._told(whole)
        return self.last

    def _listen(self) -> None:
        """What containers did."""
        shared = self.shared
        try:
            told = {id(state): state for state in shared.runtime.poll()}
            # a state is a value: another one says something new
            differ = told.keys() ^ self._states.keys()
            held = shared.held(anew=True) if differ else {}
        except (QosletError, OSError) as error:
            shared.said.errors.append(f"the runtime: {error}")
            return
        before, self._states = self._states, told
        moved: dict[str, list[ContainerState]] = {
            (told.get(one) or before[one]).pod_uid: [] for one in differ
        }
        for state in told.values() if moved else ():
            if state.pod_uid in moved:
                moved[state.pod_uid].append(state)
        for uid, states in moved.items():
            pace, kept = shared.paces.get(uid), held.get(uid)
            if pace is None and kept is not None:
                pace = self._taking.meet(kept)
            # a runtime may need a while after the last container has ended
            over = kept is not None and kept.ended
            if pace is not None and (over or tuple(states) != pace.states) and not pace.cleared:
                shared.note(pace, tuple(states))
                self._moved(pace, kept)

    def _moved(self, pace: Pace, kept: Held | None) -> None:
        """A pod's containers did something."""
        shared = self.shared
        shared.due.add(pace.uid)
        if pace.stage != "running":
            return
        if kept is None:
            shared.said.notes.append(f"{pace.key}: the runtime has lost it; it is begun anew")
            shared.turn_to_waiting(pace)
        elif not kept.ended or pace.wanted is None:
            return
        elif kept.ending:
            self._taking.restart(pace, "an agent before has ended it")
        else:
            pace.turn_to("over", shared.clock.wall())

    def _settled(self) -> None:
        """What came of steps that were pending."""
        for late in self.shared.hands.settled():
            self.shared.said.outcomes.append(late)
            if late.error is not None:
                self.shared.said.errors.append(f"{late.step.describe()}: {late.error}")

    def _carry(self, whole: bool) -> None:
        """Down first, then the tiers, then up: a tier follows what went, and is ready for what
        comes before that is made."""
        shared = self.shared
        gone = self._down()
        rising = self._up()
        look_at = self._tiers.look_at
        if (
            whole
            or gone
            or self._tiers.behind
            or any(pace.stage == "waiting" or pace.resize == "InProgress" for pace in rising)
            or (look_at is not None and shared.now >= look_at)
        ):
            self._tiers.write()
        if whole:
            self._rising.keep([one for one in shared.paces.values() if one.stage == "ending"])
        begun = self._rising.carry(rising, self._tiers.absent)
        self._orphans.carry()
        if begun:
            self._listen()
        for uid in shared.due:
            pace = shared.paces.get(uid)
            if pace is not None:
                shared.said.looked += 1
                pace.settle(shared.clock.wall())

    def _down(self) -> bool:
        """Carry down what is due; whether any groups are gone."""
        shared = self.shared
        gone = False
        for uid in list(shared.due):
            pace = shared.paces.get(uid)
            if pace is None:
                continue
            unwanted = pace.wanted is None and pace.stage in ("refused", "running", "waiting")
            refused = pace.stop_within is not None and not pace.held_up(shared.now)
            if unwanted or refused:
                self.falling.stop(pace, pace.stop_within)
            if self.falling.carry(pace):
                gone = True
            if pace.cleared and (pace.stage == "clearing" or pace.again or pace.wanted is None):
                self.falling.finish(pace)
            elif pace.cleared and pace.stage == "over":
                shared.drop(uid)
        if gone:
            self._resizing.look_again()
        return gone

    def _up(self) -> list[Pace]:
        """The pods that are due on their way up, in the order that they are wanted."""
        shared = self.shared
        now = shared.now
        for uid in list(shared.due):
            self._resizing.look_again(uid)
        found = [
            pace
            for uid in shared.due
            if (pace := shared.paces.get(uid)) is not None
            and pace.stage in ("waiting", "running")
            and pace.wanted is not None
            and not pace.held_up(now)
        ]
        return sorted(found, key=lambda pace: pace.number)

    def _told(self, whole: bool) -> Turn:
        """The turn as a value; sets when everything is looked at again."""
        shared, said = self.shared, self.shared.said
        said.notes += shared.hands.notes
        shared.hands.notes.clear()
        failed = sum(one.error is not None for one in said.outcomes)
        pending = tuple(dict.fromkeys(o.step.describe() for o in said.outcomes if o.pending))
        done = sum(one.error is None and not one.pending for one in said.outcomes)
        waiting = tuple(dict.fromkeys([*self._tiers.waiting, *said.waiting]))
        turn = Turn(
            cycle=self._cycle,
            at=shared.now,
            looked=said.looked,
            differences=said.differences,
            done=done,
            failed=failed,
            pending=pending,
            waiting=waiting,
            errors=tuple(said.errors),
            notes=tuple(dict.fromkeys(said.notes)),
            summary=summary(shared, said.differences, done, failed, len(pending), len(waiting)),
        )
        said.notes, said.errors = [], []
        if whole:
            config = shared.config
            idle = turn.quiet and self._resync_at is not None and config.interval is None
            self._resync = min(self._resync * 2, config.resync_longest) if idle else config.resync
            self._resync_at = shared.now + self._resync
        return turn

    def fall(self) -> None:
        """A turn of the end: every pod is ended, nothing is begun."""
        shared = self.shared
        shared.begin_turn()
        for pace in list(shared.paces.values()):
            pace.wanted = None
            if pace.stage == "running":
                self.falling.stop(pace)
        self._listen()
        self._settled()
        shared.due = set(shared.paces)
        self._down()

    def next_at(self) -> float | None:
        """The monotonic time at which something is due that no descriptor tells."""
        times = [
            self.shared.next_timer(),
            self._resync_at,
            self._tiers.look_at,
            self._orphans.next_at(),
            self.memory.next_at(),
            self.shared.now if self.shared.said.notes else None,
        ]
        return min((one for one in times if one is not None), default=None)

    def snapshot(self) -> Snapshot:
        """Everything as it stands now, for surfaces; reads the whole tree."""
        assert self.last is not None
        return self._snapshots.take(self.last, self.memory.view())


def summary(
    shared: Shared, differences: int, done: int, failed: int, pending: int, waiting: int
) -> str:
    """The turn in one sentence."""
    wanted = len(shared.desired.pods) - len(shared.refused) if shared.desired is not None else 0
    running, containers = shared.containers
    people = f"{_many(wanted, 'pod')}, {running} of {containers} containers running"
    waits = [f"{_many(pending, 'write')} pending"] if pending else []
    if waiting:
        waits.append(f"{_many(waiting, 'limit')} above the plan until usage falls")
    if failed:
        return "; ".join([people, f"{_many(failed, 'step')} failed, {done} done", *waits])
    if differences:
        found = f"{_many(differences, 'difference')}, {_many(done, 'step')} done"
        return "; ".join([people, found, *waits])
    return "; ".join([people, *waits]) if waits else f"{people}; the tree is as planned"


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
