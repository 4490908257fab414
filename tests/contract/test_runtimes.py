"""One suite over every runtime: the simulated one, processes of this one, and the keeper's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from msgspec.structs import replace

from qoslet.agent.ports import Runtime
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.problem import Problem
from qoslet.core.workload.container_state import ContainerState
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.process_spec import PodSpec
from qoslet.errors import CannotDo
from qoslet.host.containers.log_files import ContainerLogs
from qoslet.host.containers.records import ProcessRecords
from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.keeper.process_runtime import ProcessRuntime
from qoslet.sim.behaviour import Behaviour
from qoslet.sim.runtime import SimRuntime
from tests.host.keeper import test_keeper as keeping
from tests.host.keeper.sessions import Sessions
from tests.live.oci import bundles

QUICK = Backoff(first=0.05, longest=0.2, reset_after=60)
STAYS, ENDS = "exec sleep 600", "exit 0"


class Bench(Protocol):
    """A runtime, time, and what it is like after its agent was replaced."""

    def runtime(self) -> Runtime:
        """For an agent: what the one before had is there."""

    def turn(self) -> None:
        """Let a little time pass."""

    def dress(self, spec: PodSpec) -> PodSpec:
        """A pod of shell lines as this runtime is given it."""

    def start(self, runtime: Runtime, spec: PodSpec) -> dict[str, str]:
        """Begin such a pod; the groups of its containers."""


class _Kernel:
    """A kernel in which every container may have what it wants."""

    def watch(self, files: Iterable[str]) -> None:
        pass

    def observe(self, root: str, *, values: bool = True) -> Observed:
        return Observed(0.0, {})

    def read_cgroup(self, path: str) -> ObservedCgroup | None:
        return None

    def identity(self, path: str) -> int | None:
        return None

    def reclaimable_cache(self, path: str) -> int:
        return 0


class Plain:
    """Pods are as they are, and groups need not be made."""

    def dress(self, spec: PodSpec) -> PodSpec:
        return spec

    def start(self, runtime: Runtime, spec: PodSpec) -> dict[str, str]:
        paths = keeping.paths(spec)
        runtime.start(spec, paths)
        return paths


class Simulated(Plain):
    def __init__(self, _: Path) -> None:
        self.now = 100.0
        self.sim = SimRuntime(_Kernel(), self.does, lambda: self.now, "/g", backoff=QUICK)

    def does(self, uid: str, name: str, role: str) -> Behaviour:
        return Behaviour(lasts=0.0 if name.startswith("ends") else None)

    def runtime(self) -> Runtime:
        return self.sim

    def turn(self) -> None:
        self.now += 0.05


class Here(Plain):
    def __init__(self, folder: Path) -> None:
        logs, records = (
            ContainerLogs(str(folder / "logs")),
            ProcessRecords(str(folder / "keeper"), "boot"),
        )
        self.one = ProcessRuntime(Sessions(), logs, records, backoff=QUICK)

    def runtime(self) -> Runtime:
        return self.one

    def turn(self) -> None:
        time.sleep(0.01)


class Kept(Plain):
    def __init__(self, folder: Path) -> None:
        self.bench = keeping.Bench(folder)

    def runtime(self) -> Runtime:
        return self.bench.client()

    def turn(self) -> None:
        time.sleep(0.01)


class Bundled:
    """Containers of runc on this machine."""

    def __init__(self, folder: Path) -> None:
        found = bundles.found("runc")
        if isinstance(found, str):
            pytest.skip(found)
        self.bench = bundles.Bench(folder, found)

    def runtime(self) -> Runtime:
        self.bench.runtime = self.bench.client()
        return self.bench.runtime

    def turn(self) -> None:
        time.sleep(0.01)

    def dress(self, spec: PodSpec) -> PodSpec:
        launches = [
            replace(bundles.launch(one.name, one.argv[-1], restart=one.restart), oom_score_adj=None)
            for one in spec.launches
        ]
        return self.bench.spec(spec.uid, *launches)

    def start(self, runtime: Runtime, spec: PodSpec) -> dict[str, str]:
        assert isinstance(runtime, KeeperRuntime)
        return self.bench.start(spec, runtime)


LIVE = pytest.param(Bundled, id="oci", marks=pytest.mark.live)


@pytest.fixture(
    params=[
        pytest.param(Simulated, id="simulated"),
        pytest.param(Here, id="process"),
        pytest.param(Kept, id="keeper"),
        LIVE,
    ]
)
def bench(request, tmp_path: Path) -> Iterator[Bench]:
    made = request.param(tmp_path)
    if isinstance(made, Bundled):
        try:
            yield made
            made.bench.end()
        finally:
            made.bench.clean()
        return
    yield made
    if isinstance(made, Kept):
        made.bench.end()
        return
    runtime = made.runtime()
    for uid in runtime.list_pods():
        runtime.stop(uid, 0)
    until(made, runtime, lambda states: not any(one.running for one in states.values()))


States = dict[str, ContainerState]


def until(bench: Bench, runtime: Runtime, ready: Callable[[States], bool]) -> States:
    """The states once they are ``ready``, by container name."""
    deadline = time.monotonic() + keeping.PATIENCE
    while True:
        states = {one.name: one for one in runtime.poll()}
        if ready(states):
            return states
        assert time.monotonic() < deadline, states
        bench.turn()


def pod(*names: str, uid: str = "u1", restart: str = "Never") -> PodSpec:
    lines = [(name, ENDS if name.startswith("ends") else STAYS) for name in names]
    return keeping.pod(uid, *lines, restart=restart)


def begin(bench: Bench, runtime: Runtime, spec: PodSpec) -> dict[str, str]:
    return bench.start(runtime, spec)


def test_a_pod_from_its_start_to_its_end(bench: Bench) -> None:
    runtime, spec = bench.runtime(), bench.dress(pod("a", "ends"))
    assert (dict(runtime.list_pods()), list(runtime.poll())) == ({}, [])
    paths = begin(bench, runtime, spec)
    states = until(bench, runtime, lambda s: s["a"].running and s["ends"].exit_code == 0)
    assert {one.pod_uid for one in states.values()} == {"u1"}
    assert {name: one.cgroup for name, one in states.items()} == paths
    assert states["ends"].reason == "Completed"
    held = runtime.list_pods()["u1"]
    assert (held.uid, held.key, held.spec_digest, held.grace_seconds) == (
        "u1",
        spec.key,
        spec.digest(),
        5.0,
    )
    assert (dict(held.container_cgroups), held.ended) == (paths, False)
    runtime.start(spec, paths)
    with pytest.raises(CannotDo):
        runtime.remove_pod("u1")
    runtime.stop("u1", 5)
    over = until(bench, runtime, lambda s: runtime.list_pods()["u1"].ended)
    assert not any(one.running for one in over.values())
    assert over["a"].restarts == 0
    runtime.remove_pod("u1")
    assert (dict(runtime.list_pods()), list(runtime.poll())) == ({}, [])


def test_a_pod_whose_work_is_done_is_over(bench: Bench) -> None:
    runtime = bench.runtime()
    begin(bench, runtime, bench.dress(pod("ends")))
    until(bench, runtime, lambda s: runtime.list_pods()["u1"].ended)
    assert [one.exit_code for one in runtime.poll()] == [0]
    runtime.remove_pod("u1")
    assert dict(runtime.list_pods()) == {}


def test_restarts_by_policy_and_on_demand(bench: Bench) -> None:
    runtime = bench.runtime()
    begin(bench, runtime, bench.dress(pod("a", "ends", restart="Always")))
    before = until(bench, runtime, lambda s: s["ends"].restarts >= 2 and s["a"].running)
    assert before["a"].restarts == 0
    runtime.restart("u1", "a")
    after = until(bench, runtime, lambda s: s["a"].restarts == 1 and s["a"].running)
    assert after["a"].exit_code is not None
    assert not runtime.list_pods()["u1"].ended


def test_what_may_not_run_is_refused_and_not_kept(bench: Bench) -> None:
    runtime, spec = bench.runtime(), bench.dress(pod("a"))
    wrong = PodSpec("u1", spec.key, spec.launches, 5.0, (Problem("error", "x", "y", ""),))
    for refused, paths in [(wrong, keeping.paths(spec)), (spec, {})]:
        with pytest.raises(CannotDo):
            runtime.start(refused, paths)
    assert dict(runtime.list_pods()) == {}


def test_what_is_not_known_is_no_fault(bench: Bench) -> None:
    runtime = bench.runtime()
    runtime.stop("none", 1)
    runtime.remove_pod("none")
    runtime.restart("none", "a")
    runtime.update(pod("a", uid="none"))
    begin(bench, runtime, bench.dress(pod("a")))
    runtime.restart("u1", "none")
    until(bench, runtime, lambda s: s["a"].running)
    assert [*runtime.list_pods()] == ["u1"]


def test_an_update_is_for_later_starts(bench: Bench) -> None:
    runtime, spec = bench.runtime(), bench.dress(pod("a"))
    begin(bench, runtime, spec)
    before = until(bench, runtime, lambda s: s["a"].running)
    changed = spec.scored({"a": None})
    runtime.update(replace(changed, grace=7.0, memo="remember"))
    until(bench, runtime, lambda s: runtime.list_pods()["u1"].allocation == "remember")
    held = runtime.list_pods()["u1"]
    assert (held.spec_digest, held.grace_seconds) == (spec.digest(), 7.0)
    assert [one.pid for one in runtime.poll()] == [before["a"].pid]


def test_the_next_agent_finds_what_the_one_before_has_begun(bench: Bench) -> None:
    one = bench.runtime()
    for number in range(3):
        begin(bench, one, bench.dress(pod("a", uid=f"u{number}")))
    until(bench, one, lambda s: all(x.running and not x.starting for x in one.poll()))
    before = sorted(one.poll(), key=lambda state: state.pod_uid)
    two = bench.runtime()
    assert sorted(two.list_pods()) == ["u0", "u1", "u2"]
    until(bench, two, lambda s: len(two.poll()) == 3)
    assert sorted(two.poll(), key=lambda state: state.pod_uid) == before
    two.stop("u0", 5)
    until(bench, two, lambda s: two.list_pods()["u0"].ended)
    two.remove_pod("u0")
    assert sorted(two.list_pods()) == ["u1", "u2"]


def test_descriptors_tell_that_there_is_news(bench: Bench) -> None:
    runtime = bench.runtime()
    begin(bench, runtime, bench.dress(pod("a")))
    until(bench, runtime, lambda s: s["a"].running)
    for descriptor in runtime.descriptors():
        assert os.fstat(descriptor).st_ino
