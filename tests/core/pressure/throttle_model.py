"""A cgroup above its memory.high as mm/memcontrol.c throttles it (``calculate_high_delay``,
``mem_cgroup_handle_over_high`` of Linux 6.12), in ticks of 10 ms: who charges a batch of 64 pages reclaims
for as long as that achieves something, and sleeps by the square of the overage once it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from qoslet.core.memory.sample import MemorySample, Pressure

MIB = 1 << 20
BATCH = 64 * 4096
TICK = 0.01
_HZ = 250
_RETRIES = 16


def delay(usage: int, high: int) -> float:
    """Seconds that a task sleeps after a batch."""
    overage = (max(0, usage - high) << 20) // high
    return min(2.0, (overage * overage * _HZ >> 34) / _HZ)


@dataclass
class Task:
    """One that charges ``rate`` bytes a tick until it holds ``most``. ``kind``: ``grows`` is the one whose
    steps of a MiB count, ``comes`` and goes again, ``names`` makes and removes files, ``streams``
    page cache that is read once, ``reads`` a file of ``most`` again and again, ``faults`` the same by
    page faults, ``pins`` page cache of ``most`` that cannot be taken, as pipes and sockets do, ``computes``. After
    each batch it waits ``pause`` seconds for a disk. ``share``: of the ticks, in which it has a CPU.
    ``stops``: seconds for which somebody stops it, and lets it run, again and again."""

    kind: str
    rate: int = BATCH
    most: int = 0
    held: int = 0
    pause: float = 0.0
    share: float = 1.0
    stops: tuple[float, float] = (0.0, 1.0)
    asleep_until: float = 0.0
    above: bool = False
    retries: int = _RETRIES
    stepped_at: float = 0.0

    def is_stopped(self, now: float) -> bool:
        """Whether it is, unless the kernel holds it up."""
        return now % sum(self.stops) < self.stops[0]

    @property
    def over(self) -> bool:
        return self.kind == "grows" and self.held >= self.most


@dataclass
class Throttled:
    """The cgroup; amounts in bytes."""

    high: int
    limit: int
    tasks: Sequence[Task]
    random: Random
    now: float = 0.0
    anon: int = 0
    cache: int = 0
    names: int = 0
    pinned: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    waited: float = 0.0
    user: float = 0.0
    killed: bool = False
    longest: float = 0.0
    """Seconds without a step of the one that grows, at memory.high below the limit."""

    @property
    def usage(self) -> int:
        return self.anon + self.cache + self.names + self.pinned

    def count(self, name: str, number: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def tick(self) -> None:
        """What all tasks do in one."""
        self.now += TICK
        for task in self.random.sample(self.tasks, len(self.tasks)):
            runs = task.share >= 1.0 or self.random.random() < task.share
            runs = runs and not task.is_stopped(self.now)
            if runs and not task.over and self.now >= task.asleep_until:
                (self._reclaim if task.above else self._run)(task)
        if any(self._waits(task) for task in self.tasks):
            self.waited += TICK
        for task in self.tasks:
            if (
                task.kind == "grows"
                and not task.over
                and self.high * 0.98 < self.usage < self.limit
            ):
                self.longest = max(self.longest, self.now - task.stepped_at)

    def _waits(self, task: Task) -> bool:
        """Whether the kernel holds it up: a task is not stopped before it has slept."""
        return task.asleep_until > self.now or (task.above and not task.is_stopped(self.now))

    def _run(self, task: Task) -> None:
        if task.kind == "computes":
            self.user += TICK
            return
        for _ in range(max(1, task.rate // BATCH)):
            if not self._charge(task):
                return
            self.user += 0.0003
            task.asleep_until = self.now + task.pause
            self._take(max(0, self.usage - self.limit))
            self.killed = self.killed or self.usage > self.limit
            if self.usage > self.high:
                self.count("high", 1)
                self._take(BATCH)
                if delay(self.usage, self.high) > TICK:
                    task.above, task.retries = True, _RETRIES
                    return

    def _charge(self, task: Task) -> bool:
        """Charge one batch; whether there was anything to charge."""
        if task.kind in ("comes", "names"):
            kind = "anon" if task.kind == "comes" else "names"
            step = -task.held if task.held >= task.most else BATCH
            task.held += step
            setattr(self, kind, getattr(self, kind) + step)
            return step > 0
        if task.kind in ("reads", "faults"):
            if self.cache >= task.most:
                return False
            self.count("workingset_refault_file", BATCH // 4096)
            self.count("pgmajfault", 2 if task.kind == "faults" else 0)
        if task.kind == "pins" and task.held >= task.most:
            return False
        task.held += BATCH
        if task.kind == "pins":
            self.pinned += BATCH
        elif task.kind == "grows":
            self.anon += BATCH
            if task.held % MIB == 0:
                task.stepped_at = self.now
        else:
            self.cache += BATCH
        return not task.over

    def _reclaim(self, task: Task) -> None:
        """The loop of one that is above: it goes on while something is reclaimed."""
        for _ in range(8):
            self.count("high", 1)
            got = self._take(32 * 4096)
            seconds = delay(self.usage, self.high)
            if seconds <= TICK:
                task.above = False
                return
            task.retries -= not got
            if task.retries < 0:
                task.above, task.asleep_until = False, self.now + seconds
                return

    def _take(self, amount: int) -> int:
        got = min(amount, self.cache)
        self.cache -= got
        self.count("pgsteal", got // 4096)
        # what cannot be taken is scanned at each priority, down to all of it
        self.count("pgscan", (amount if got == amount else amount + 2 * self.pinned) // 4096)
        return got

    def sample(self) -> MemorySample:
        """What the guard reads."""
        stat = {"anon": self.anon, "inactive_anon": self.anon, "kernel": self.names}
        files = self.cache + self.pinned
        stat |= {"file": files, "inactive_file": files, "slab_reclaimable": self.names}
        return MemorySample(
            *("/a", self.now, 1, self.usage, self.high, self.limit),
            stat=stat | {"pgmajfault": 0} | self.counts,
            local={"high": self.counts.get("high", 0)},
            pressure=Pressure(0.0, int(self.waited * 1e6), 0.0, 0),
            usage_usec=int(self.user * 1e6),
            user_usec=int(self.user * 1e6),
        )


def mixture(random: Random) -> Throttled:
    """One that grows beside up to three kinds of others."""
    limit = random.choice([8, 24, 48, 96, 256, 1024]) * MIB
    high = int(limit * random.choice([0.8, 0.9, 0.95]))
    most = high + int((limit - high) * random.choice([0.3, 0.6, 0.9]))
    tasks = [Task("grows", random.choice([BATCH, MIB // 2, MIB, 2 * MIB]), most)]
    sizes: dict[str, Callable[[], float]] = {
        "comes": lambda: high * random.choice([0.01, 0.03, 0.06]),
        "names": lambda: high * random.choice([0.02, 0.05]),
        "reads": lambda: high * random.choice([0.1, 0.3, 2.0]),
        "streams": lambda: 0.0,
        "computes": lambda: 0.0,
    }
    for _ in range(random.randint(0, 3)):
        kind = random.choice([*sizes])
        tasks += [
            Task(kind, random.choice([BATCH, MIB, 4 * MIB]), int(sizes[kind]()))
            for _ in range(random.choice([1, 2, 4, 8]))
        ]
    return Throttled(high, limit, tasks, random)


def beside_pinned(random: Random) -> Throttled:
    """The same mixtures beside page cache that only looks as if it could be taken."""
    group = mixture(random)
    size = min(group.high // 2, int(group.high * random.choice([0.02, 0.05, 0.08, 0.12, 0.3])))
    grows = group.tasks[0]
    grows.most = max(BATCH, grows.most - size)
    pins = Task("pins", 4 * MIB, size)
    return Throttled(group.high, group.limit, [grows, pins, *group.tasks[1:]], random)


def on_slow_disk(random: Random) -> Throttled:
    """One that grows beside up to eight that read files again as fast as a slow disk gives them."""
    group = mixture(random)
    readers = [
        Task(
            random.choice(["reads", "faults"]),
            BATCH,
            int(group.high * random.choice([0.1, 0.3, 2.0])),
            pause=random.choice([0.02, 0.1, 0.3, 1.0]),
        )
        for _ in range(random.randint(1, 8))
    ]
    return Throttled(group.high, group.limit, [group.tasks[0], *readers], random)
