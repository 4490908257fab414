"""A plugin over pods, a runtime and cgroups that are values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from qoslet.agent.nri.planned_values import PlannedValues
from qoslet.agent.nri.plugin import NriPlugin
from qoslet.agent.nri.plugin_loop import PluginParts, PluginReconciler
from qoslet.core.guest.nri_container import NriContainer, Unified
from qoslet.core.reconcile.journal import Entry, JournalState
from qoslet.errors import CannotDo
from tests.agent.guest.beside import KUBEPODS, MIB, PROTECT, Source, kubelet_pod

BEGINS = {"memory.min": "0", "memory.low": "0", "memory.high": "max"}
VALUES = {"memory.min": "0", "memory.low": str(64 * MIB), "memory.high": "248299520"}


class Journal:
    """The journal in memory; ``wrong``: it cannot be written."""

    def __init__(self) -> None:
        self.state = JournalState()
        self.wrong = False

    def paths(self) -> Sequence[str]:
        return list(self.state.names)

    def values_of(self, path: str) -> dict[str, str | None]:
        return {file: self.state.files[path, file][0] for file in self.state.names.get(path, ())}

    def record(self, entries: Sequence[Entry]) -> None:
        if self.wrong:
            raise CannotDo("no room")
        self.state.add(entries)


class Link:
    """A runtime that tells what it has, while it ``is_there``."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_there, self.is_connected = True, False

    def connect(self) -> str:
        if self.is_connected or not self.is_there:
            return ""
        self.is_connected = True
        self.world.plugin.synchronized(list(self.world.containers.values()))
        return "registered"

    def next_at(self) -> float | None:
        return None

    def close(self) -> None:
        self.is_connected = False


class Specs:
    """What the runtime keeps of each container; ``wrong`` is why it cannot be asked. What it is given
    it writes, where the container has a cgroup."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.kept: dict[str, Unified] = {}
        self.given: dict[str, dict[str, str]] = {}
        self.wrong = ""

    def give_back(self, values: Mapping[str, Unified]) -> dict[str, str]:
        assert not self.world.link.is_connected or self.world.source.policy != PROTECT
        if self.wrong:
            return dict.fromkeys(values, self.wrong)
        for id in values.keys() & self.kept.keys():
            self.given[id] = dict(values[id])
            path = self.world.containers[id].path or ""
            if path not in self.world.gone:
                self.world.holds[path] |= values[id]
        return {}


class Surface:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.summary = ""

    def synced(self, summary: str) -> None:
        self.summary = summary

    def log(self, line: str, *, wrong: bool = False) -> None:
        self.lines.append(line)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> bool:
        self.now += seconds
        return True


class Once:
    """Asks to end after so many turns."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def requested(self) -> int:
        self.turns -= 1
        return int(self.turns < 0)

    def reload(self) -> bool:
        return False


class World:
    """A plugin over a source of pods, a runtime and the files of its cgroups; those of ``fails`` cannot
    be written."""

    def __init__(self, *pods: str, writes: bool = True) -> None:
        self.written: list[tuple[str, str, str]] = []
        self.fails: dict[str, OSError] = {}
        self.after_write: Callable[[str], None] = lambda path: None
        self.source = Source([kubelet_pod(name) for name in pods])
        self.journal, self.surface, self.link = Journal(), Surface(), Link(self)
        self.usage: dict[str, int] = {}
        self.holds: dict[str, dict[str, str]] = {}
        self.containers: dict[str, NriContainer] = {}
        self.gone: set[str] = set()
        self.wakes = 0
        self.hurries: list[bool] = []
        self.planned = PlannedValues(self.wake, 0.05, 0.05)
        self.specs = Specs(self)
        self.plugin = NriPlugin(
            self.planned, self.journal, self, self.specs, self.surface.log, writes=writes
        )
        parts = PluginParts(
            self.plugin,
            self.planned,
            self.source,
            self.link,
            Clock(),
            self.surface,
            self.hurries.append,
        )
        self.loop = PluginReconciler(parts)

    def read(self, path: str, files: Iterable[str]) -> dict[str, str]:
        if path in self.gone:
            return {}
        found = {"memory.current": str(self.usage.get(path, 0)), **self.holds.get(path, {})}
        return {file: found[file] for file in files if file in found}

    def write(self, path: str, file: str, value: str) -> None:
        name = path.rpartition("/")[2]
        if name in self.fails:
            raise self.fails[name]
        assert self.journal.values_of(path).keys() >= {file}, "written down first"
        if path in self.gone:
            raise FileNotFoundError
        self.written.append((name, file, value))
        self.holds.setdefault(path, {})[file] = value
        self.after_write(path)

    def values(self, name: str) -> dict[str, str]:
        """What was written last."""
        return {file: value for one, file, value in self.written if one == name}

    def wake(self) -> None:
        self.wakes += 1

    def container(self, pod: str, number: int = 0, **unified: str) -> NriContainer:
        id = f"{pod}{number}"
        path = f"{KUBEPODS}/burstable/pod{pod}/{id}"
        values = {file.replace("_", "."): value for file, value in unified.items()}
        made = NriContainer(id, pod, "app", f"d/{pod}", path, "", 256 * MIB, values)
        self.containers[id] = made
        return made

    def create(self, pod: str, number: int = 0, *, started: bool = True) -> NriContainer:
        """A container whose spec, and files if it is ``started``, have what the plugin sets."""
        one = self.container(pod, number)
        path = one.path or ""
        self.specs.kept[one.id] = values = self.plugin.created(one)
        if started:
            self.holds[path] = dict(values)
        else:
            self.gone.add(path)
        return one

    def files(self) -> dict[tuple[str, str], str]:
        return {
            (path.rpartition("/")[2], file): value
            for (path, file), (_, value) in self.journal.state.files.items()
        }
