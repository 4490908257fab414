"""Memory QoS switched off, on and off again under running pods: every value is back at once, also
where the agent was killed on the way."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.node.node import Node
from qoslet.core.problem import Problem
from qoslet.core.quantity import parse
from qoslet.core.reconcile.drift import compare
from qoslet.core.reconcile.steps import Step
from qoslet.core.versions.kubernetes import resolve
from qoslet.core.workload.process_spec import PodSpec
from qoslet.sim.kernel import Fault
from tests.agent.fixtures import ROOT, Bench, node, pod_of, resources
from tests.agent.world import Agent, World
from tests.agent.world import pod as running

SYSTEM, KUBE = "/system", "/runtime"
FILES = {"memory.min": "0", "memory.low": "0", "memory.high": "max"}
THEIRS = {"memory.min": "16777216", "memory.low": "8388608", "pids.max": "77"}
"""What the owner of the reserved group had there before."""
FORMS = ("1.22", "1.27", "1.36", "1.37", "design", "qoslet")
Values = Mapping[tuple[str, str], str]


def of(form: str, **kubelet: Any) -> Node:
    """A node on which that form is in force."""
    given: dict[str, Any] = {
        "memory_throttling_factor": 0.9,
        "memory_reservation_policy": "TieredReservation",
        "enforce_node_allocatable": ("pods", "system-reserved", "kube-reserved"),
        "system_reserved": {"cpu": parse("500m"), "memory": parse("256Mi")},
        "system_reserved_cgroup": SYSTEM,
        "kube_reserved": {"cpu": parse("500m"), "memory": parse("128Mi")},
        "kube_reserved_cgroup": KUBE,
        **kubelet,
    }
    return replace(node("v2", **given), profile=resolve("1.36", "process", form))


def without(form: str, how: str) -> Node:
    """The same node where ``how`` takes something of the form away."""
    match how:
        case "gate":
            release = form if form.startswith("1.") else "1.36"
            off = of(form, gates={"MemoryQoS": False})
            return replace(off, profile=resolve(release, "process"))
        case "off":
            return of("off")
        case "policy":
            return of(form, memory_reservation_policy="None")
        case "factor":
            return of(form, memory_throttling_factor=None)
    return of(form, enforce_node_allocatable=("pods",))


PODS = (
    ("g", "cpu=500m memory=64Mi", "cpu=500m memory=64Mi"),
    ("b", "cpu=100m memory=64Mi", "memory=256Mi"),
    ("x", "", ""),
)


def made(form: str) -> Bench:
    """Pods of each class that run, and groups of others in which something stands."""
    bench = Bench("v2")
    for path in (SYSTEM, KUBE):
        bench.kernel.perform([Step("create", path)])
    sets = [Step("set", SYSTEM, file, value) for file, value in THEIRS.items()]
    assert not any(one.error for one in bench.kernel.perform(sets))
    bench.source.again(of(form))
    for name, request, limit in PODS:
        bench.put(name, request, limit)
    bench.turn()
    assert bench.keeper.running == {"g", "b", "x"}
    return bench


def values(read: Callable[[str, str], str], paths: list[str]) -> Values:
    return {(path, file): read(path, file) for path in paths for file in (*FILES, "pids.max")}


def standing(bench: Bench) -> Values:
    return values(bench.value, [*bench.groups(), SYSTEM, KUBE])


def is_as_planned(bench: Bench) -> None:
    seen = bench.kernel.observe("/")
    rows = compare(bench.source.live.plan(), seen)
    ours = [one for one in rows if one.path.startswith(ROOT) and one.verdict != "surplus"]
    assert ours == []


@pytest.mark.parametrize("how", ["gate", "off", "policy", "factor", "reserved"])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_planned_any_more_is_back_within_one_turn(form: str, how: str) -> None:
    bench = made(form)
    before = standing(bench)
    pids = {uid: dict(kept.pids) for uid, kept in bench.keeper.kept.items()}
    bench.source.again(without(form, how))
    bench.turn(1.0)
    is_as_planned(bench)
    now = standing(bench)
    assert now[SYSTEM, "pids.max"] == "77"
    if how in ("gate", "off"):
        off = {key: FILES[key[1]] for key in now if key[0].startswith(ROOT) and key[1] in FILES}
        assert off
        assert {key: now[key] for key in off} == off
    if how in ("gate", "off", "reserved"):
        assert {file: now[SYSTEM, file] for file in THEIRS} == THEIRS
        assert now[KUBE, "memory.min"] == "0"
    assert not bench.turn(11.0, whole=True).differences
    bench.source.again(of(form))
    bench.turn(1.0)
    assert standing(bench) == before
    assert {uid: dict(kept.pids) for uid, kept in bench.keeper.kept.items()} == pids
    assert not [call for call in bench.keeper.calls if call[0] in ("stop", "restart")]


def test_forms_follow_each_other_and_leave_nothing_behind() -> None:
    bench = made(FORMS[0])
    for form in (*FORMS[1:], "off", *FORMS):
        bench.source.again(of(form))
        bench.turn(1.0)
        is_as_planned(bench)
        fresh = made(form) if form != "off" else None
        if fresh is not None:
            assert standing(bench) == standing(fresh), form


def test_what_somebody_has_written_there_since_stays_and_is_said_once() -> None:
    bench = made("1.36")
    bench.kernel.write(SYSTEM, "memory.min", "33554432")
    bench.source.again(of("off"))
    bench.turn(1.0)
    assert bench.value(SYSTEM, "memory.min") == "33554432"
    said = [
        one for one in bench.said if "another process changed " in one and "to '33554432'" in one
    ]
    assert len(said) == 1
    bench.turn(60.0)
    bench.source.again(of("1.36"))
    bench.turn(1.0)
    assert bench.value(SYSTEM, "memory.min") == str(256 << 20)
    bench.source.again(of("off"))
    bench.turn(1.0)
    assert bench.value(SYSTEM, "memory.min") == "33554432", "their value is what was before"
    assert len([one for one in bench.said if "another process changed" in one]) == 1


def test_a_file_that_we_have_not_written_there_is_never_reset() -> None:
    bench = made("1.36")
    bench.kernel.write(SYSTEM, "memory.high", "1073741824")
    bench.kernel.write(KUBE, "memory.low", "4096")
    for form in ("off", "1.22", "off"):
        bench.source.again(of(form))
        bench.turn(11.0)
        assert bench.value(SYSTEM, "memory.high") == "1073741824"
        assert bench.value(KUBE, "memory.low") == "4096"


def test_a_reserved_group_that_was_made_anew_is_left_alone() -> None:
    bench = made("1.36")
    bench.kernel.rmdir(KUBE)
    bench.kernel.perform([Step("create", KUBE), Step("set", KUBE, "memory.min", str(128 << 20))])
    bench.source.again(of("off", enforce_node_allocatable=("pods",)))
    bench.turn(1.0)
    assert bench.value(KUBE, "memory.min") == str(128 << 20)


@pytest.mark.parametrize("form", ["1.36", "qoslet"])
@pytest.mark.parametrize("to", ["off", "on"])
def test_a_kill_at_any_moment_of_a_switch_leaves_it_to_the_next_agent(
    form: str, to: str, tmp_path: Path
) -> None:
    """Values of the kernel, of the journal and of the reserved groups, after a kill before each
    thing that the turn does which finds the gate switched."""
    pods = [running(name, request=request, limit=limit) for name, request, limit in PODS]
    world = World("v2", [SYSTEM, KUBE])
    for file, value in THEIRS.items():
        world.kernel.write(SYSTEM, file, value)
    first = Agent(world, tmp_path / "first", of(form), pods)
    first.settle()
    begun = dict(world.runtime.begins)
    paths = [*world.kernel.observe(ROOT).cgroups, SYSTEM, KUBE]
    on = values(world.kernel.read, paths)
    assert int(on[SYSTEM, "memory.min"]) > 128 << 20
    if to == "on":
        first.source.again(of("off"))
        first.settle()
    killed: list[World] = []

    def boundary(_: str) -> None:
        copy = world.copy()
        copy.journal = first.file.read_bytes()
        killed.append(copy)

    first.source.again(of("off" if to == "off" else form))
    world.on = boundary
    first.turn()
    world.on = lambda what: None
    boundary("")
    first.close()
    assert len(killed) > 15
    theirs = {(SYSTEM, file): value for file, value in THEIRS.items()}
    reset = {key: FILES[key[1]] for key in on if key[1] in FILES} | theirs
    for number, each in enumerate(killed):
        for next_one in ("off", form):
            after = each.copy()
            agent = Agent(after, tmp_path / f"{number}{next_one}", of(next_one), pods)
            agent.turn()
            now = values(after.kernel.read, paths)
            if next_one == form:
                assert now == on
            else:
                assert {key: now[key] for key in reset} == reset, number
            assert dict(after.runtime.begins) == begun
            agent.close()


def default(bench: Bench, name: str) -> None:
    """Nothing of Memory QoS stands in the groups of a pod."""
    paths = bench.groups(name)
    assert paths
    for path in paths:
        assert {file: bench.value(path, file) for file in FILES} == FILES


def no_program(name: str) -> PodSpec:
    wrong = Problem("error", f"{name}.yaml", "it has no container to run", "")
    return PodSpec(name, f"d/{name}", (), 5.0, (wrong,))


@pytest.mark.parametrize("again", [False, True])
def test_a_pod_whose_edit_is_refused_is_reset_as_well(again: bool) -> None:
    bench = made("1.36")
    pod = pod_of("b", resources("cpu=100m memory=64Mi", "memory=256Mi"))
    assert bench.value(bench.groups("b")[0], "memory.low") != "0"
    bench.source.put(pod, no_program("b"))
    bench.turn(1.0)
    bench.source.again(of("off"))
    bench.source.live.remove("b")
    if again:
        bench.begin()
    turn = bench.turn(1.0)
    assert turn.errors == ()
    default(bench, "b")
    assert "b" in bench.keeper.running


def test_a_pod_that_takes_its_time_to_end_is_reset_as_well() -> None:
    bench = made("1.36")
    bench.keeper.slow.add("b")
    bench.source.drop("b")
    bench.turn(1.0)
    assert bench.value(bench.groups("b")[0], "memory.low") != "0"
    bench.source.again(of("off"))
    assert bench.turn(1.0).errors == ()
    default(bench, "b")
    bench.keeper.end("b")
    bench.turn(1.0)
    assert not bench.groups("b")


def test_a_pod_that_waits_for_its_next_attempt_is_reset_at_once() -> None:
    bench = made("1.36")
    (path,) = [one for one in bench.groups("b") if one.endswith("/app")]
    bench.kernel.write(path, "memory.high", "4096")
    bench.kernel._faults = {bench.kernel._performed: Fault(0, errno.EIO, "always")}
    assert bench.turn(11.0, whole=True).failed == 1
    bench.kernel._refused.clear()
    bench.source.again(of("off"))
    bench.turn(0.01)
    default(bench, "b")


def test_a_file_that_is_refused_once_and_for_all_holds_up_no_other() -> None:
    """As systemd refuses ``memory.oom.group`` of a scope that runs."""
    bench = made("1.27")
    ofs = of("off")
    bench.source.again(replace(ofs, profile=resolve("1.26", "process", "off")))
    (path,) = [one for one in bench.groups("b") if one.endswith("/app")]
    assert bench.value(path, "memory.oom.group") == "1"
    step = Step("set", path, "memory.oom.group")
    bench.kernel._refused[step] = errno.EINVAL
    assert bench.turn(1.0).failed == 1
    default(bench, "b")
