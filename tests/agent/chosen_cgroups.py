"""A bench whose runtime chooses containers' cgroups itself, as containerd does, and a journal that outlives
the agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from qoslet.agent.state.memory_journal import MemoryJournal
from qoslet.agent.state.runtime_cgroups import RuntimeCgroups
from qoslet.core.reconcile.journal import Set
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.core.workload.container_spec import PodMessages
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.process_spec import PodSpec
from qoslet.sim.kernel import SimKernel
from tests.agent.fixtures import ROOT, Keeper, Kept, Recorder
from tests.agent.memory.test_throttle_guard import Throttled


def asked_of(kept: Kept) -> PodMessages:
    """What a container runtime was asked for."""
    assert kept.spec.messages is not None
    return kept.spec.messages


class Choosing(Keeper):
    """A runtime that names each container's cgroup by a new id. ``told`` are other paths than the true
    ones, by container, that it tells."""

    def __init__(self, kernel: SimKernel) -> None:
        super().__init__(kernel)
        self.made = 0
        self.told: dict[str, str] = {}

    def start(self, spec: PodSpec, cgroups: Mapping[str, str]) -> None:
        assert not cgroups, "the plan has no path of a container"
        self._call("start", spec.uid)
        kept = self.kept.setdefault(spec.uid, Kept(spec, {}))
        for launch in spec.launches:
            self.make(kept, launch.name)

    def make(self, kept: Kept, name: str) -> None:
        """A container in a cgroup of its own, with what it was asked to have."""
        self.made += 1
        messages = asked_of(kept)
        path, asked = f"{messages.parent}/{self.made:064x}", messages.containers[name]
        files = dict(asked.get("unified", {}))
        if limit := asked.get("memory_limit_in_bytes"):
            files["memory.max"] = str(limit)
        self.kernel.perform([Step("create", path)])
        self.kernel.perform([Step("set", path, file, value) for file, value in files.items()])
        kept.cgroups[name], kept.pids[name] = path, self.kernel.spawn(path)

    def poll(self) -> list[Any]:
        return [
            replace(one, cgroup=self.told[one.name]) if one.name in self.told else one
            for one in super().poll()
        ]

    def list_pods(self) -> dict[str, RuntimePod]:
        return {
            uid: replace(pod, container_cgroups={}, top_cgroups=(asked_of(self.kept[uid]).parent,))
            for uid, pod in super().list_pods().items()
        }

    def end(self, uid: str, name: str = "app", code: int = 0) -> None:
        super().end(uid, name, code)
        self.kernel.perform([Step("remove", self.kept[uid].cgroups[name])])

    def restart(self, uid: str, container: str) -> None:
        self._call("restart", uid, container)
        kept = self.kept[uid]
        self.end(uid, container, 143)
        self.make(kept, container)
        kept.restarts[container] = kept.restarts.get(container, 0) + 1


class Writing(Recorder):
    """A driver that writes down what it is about to write."""

    def __init__(self, kernel: SimKernel, journal: MemoryJournal) -> None:
        super().__init__(kernel)
        self.journal = journal

    def perform(self, steps: Sequence[Step]) -> list[Outcome]:
        self.journal.record(
            [
                Set(step.path, step.file, self.kernel.read(step.path, step.file), step.value)
                for step in steps
                if step.kind == "set" and step.path in self.kernel.groups
            ]
        )
        return super().perform(steps)


class Chosen(Throttled):
    """A throttled bench with such a runtime."""

    keeper: Any
    driver: Any

    def __init__(self, *given: Any, **more: Any) -> None:
        self.journal = MemoryJournal()
        super().__init__(*given, runtime="containerd-2.0+runc-1.2", **more)

    def begin(self) -> None:
        if not isinstance(self.keeper, Choosing):
            self.keeper = Choosing(self.kernel)
            self.driver = Writing(self.kernel, self.journal)
        super().begin()
        executor = self.reconciler.context.executor
        executor.journal, executor.runtime_cgroups = (
            self.journal,
            RuntimeCgroups(ROOT, self.journal),
        )

    def at(self, name: str, container: str = "app") -> str:
        """The cgroup of a container."""
        return str(self.keeper.kept[name].cgroups[container])
