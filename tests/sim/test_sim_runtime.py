"""Simulated containers under the real loop: CPU by weights, OOM kills, restarts, sidecars."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from qoslet.core.api.memory_annotations import NO_POLICY, read
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.workload.life import Backoff
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.sim.behaviour import Behaviour, behaviour_of, old_key
from qoslet.sim.runtime import SimRuntime, memory_limit

PATHS = {"a": "/q/p/a", "b": "/q/p/b"}


class Kernel:
    """Two containers with shares of 300 and 100, the first with a quota if given."""

    def __init__(self, quota: str = "-1", limit: str = "") -> None:
        files = {"cpu.shares": "300", "cpu.cfs_quota_us": quota, "cpu.cfs_period_us": "100000"}
        if limit:
            files["memory.limit_in_bytes"] = limit
        self.groups = {
            "/q": ObservedCgroup("/q", 1),
            "/q/p": ObservedCgroup("/q/p", 2),
            "/q/p/a": ObservedCgroup("/q/p/a", 3, values=files),
            "/q/p/b": ObservedCgroup("/q/p/b", 4, values={"cpu.shares": "100"}),
        }

    def watch(self, files: Iterable[str]) -> None:
        pass

    def observe(self, root: str, *, values: bool = True) -> Observed:
        return Observed(0.0, self.groups)

    def read_cgroup(self, path: str) -> ObservedCgroup | None:
        return self.groups.get(path)

    def identity(self, path: str) -> int | None:
        return self.groups[path].identity if path in self.groups else None

    def reclaimable_cache(self, path: str) -> int:
        return 0


class Bench:
    """One pod on a kernel with a clock that moves when told."""

    def __init__(self, kernel: Kernel, roles: dict[str, str], **behaviours: Behaviour) -> None:
        self.now = 0.0
        launches = tuple(
            ProcessSpec(name, role, ("x",), (), "/", None, "Always")  # type: ignore[arg-type]
            for name, role in roles.items()
        )
        spec = PodSpec("u", "d/p", launches, 30.0, ())
        self.sim = SimRuntime(
            kernel,
            lambda uid, name, role: behaviours.get(name, Behaviour(threads=2)),
            lambda: self.now,
            "/q",
            cores=2.0,
            backoff=Backoff(),
        )
        self.sim.start(spec, PATHS)
        self.sim.poll()

    def after(self, seconds: float, step: float = 1.0) -> dict[str, ObservedCgroup]:
        end = self.now + seconds
        while self.now < end:
            self.now += step
            self.sim.poll()
        return dict(self.sim.observe("/q").cgroups)


BOTH = {"a": "regular", "b": "regular"}


@pytest.mark.parametrize(("quota", "expected"), [("-1", (15, 5)), ("50000", (5, 15))])
def test_cpu_goes_by_weight_and_quota(quota: str, expected: tuple[int, int]) -> None:
    seen = Bench(Kernel(quota), BOTH).after(10)
    used = [(seen[path].usage_usec or 0) / 1e6 for path in PATHS.values()]
    assert used == pytest.approx(expected)
    assert seen["/q"].usage_usec == pytest.approx(20e6), "a group counts what is below it"
    assert bool(seen["/q/p/a"].throttled_usec) == (quota != "-1")


def test_memory_beyond_the_limit_kills_and_the_container_comes_back() -> None:
    bench = Bench(Kernel(limit=str(64 << 20)), BOTH, a=Behaviour(memory=200 << 20, after=3))
    assert bench.after(3)["/q/p/a"].oom_kills == 0
    bench.after(2)
    state = next(one for one in bench.sim.poll() if one.name == "a")
    assert (state.running, state.restarts, state.oom_killed) == (True, 1, True)
    assert (state.end_reason, state.exit_code) == ("OOMKilled", 137), "the first restart is at once"
    for _ in range(8):
        seen = bench.after(1)
    state = next(one for one in bench.sim.poll() if one.name == "a")
    assert (state.running, state.reason, state.exit_code) == (False, "OOMKilled", 137)
    seen = bench.after(10)
    state = next(one for one in bench.sim.poll() if one.name == "a")
    assert (state.running, state.restarts, state.oom_killed) == (True, 2, True)
    assert seen["/q/p/a"].memory_peak == 64 << 20


def test_init_containers_end_by_themselves_and_come_first() -> None:
    bench = Bench(Kernel(), {"a": "init", "b": "regular"}, a=Behaviour(lasts=2))
    assert [state.running for state in bench.sim.poll()] == [True, False]
    bench.after(3)
    assert [state.running for state in bench.sim.poll()] == [False, True]


def test_a_pod_that_is_stopped_ends() -> None:
    bench = Bench(Kernel(), BOTH)
    bench.sim.stop("u", 5)
    assert not any(state.running for state in bench.sim.poll())
    bench.sim.remove_pod("u")
    assert bench.sim.poll() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("threads=2", Behaviour(threads=2)),
        ("threads=500m, memory=8Mi after=3", Behaviour(0.5, 8 << 20, 3.0)),
        ("lasts=4", Behaviour(lasts=4)),
        ("threads=lots nonsense", Behaviour()),
        ("threads=-1", Behaviour(threads=0)),
        ("", Behaviour()),
    ],
)
@pytest.mark.parametrize("key", ["qoslet.dev/simulate.app", "simulate.qoslet/app"])
def test_behaviour_from_the_annotation(key: str, text: str, expected: Behaviour) -> None:
    document = {"metadata": {"annotations": {key: text}}}
    assert behaviour_of(document, "app", "regular") == expected


def test_the_older_spelling_is_named_where_it_decides() -> None:
    both = {"simulate.qoslet/app": "threads=2", "qoslet.dev/simulate.app": "threads=1"}
    assert old_key({"metadata": {"annotations": both}}, "app") == ""
    del both["qoslet.dev/simulate.app"]
    assert old_key({"metadata": {"annotations": both}}, "app") == "simulate.qoslet/app"
    assert old_key({"metadata": {"annotations": both}}, "side") == ""


def test_a_simulated_behaviour_is_no_policy_of_memory() -> None:
    assert read({"qoslet.dev/simulate.app": "threads=2"}, ["app"]) == (NO_POLICY, ())


def test_the_lowest_limit_on_the_way_up_counts() -> None:
    groups = {
        "/q": ObservedCgroup("/q", 1, values={"memory.max": "100"}),
        "/q/a": ObservedCgroup("/q/a", 2, values={"memory.max": "max"}),
    }
    assert memory_limit("/q/a", groups) == 100
    assert memory_limit("/x", groups) is None
