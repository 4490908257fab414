"""Every driver answers the same: refusals, what is read back, what is inherited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from msgspec.structs import replace

from qoslet.core.cgroup.accepts import effective
from qoslet.core.cgroup.interface_files import joined
from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.steps import Step
from qoslet.sim.cgroups import CONTROLLERS
from tests.contract.cases import CASES, Case
from tests.contract.drivers import Bench, real, simulated

COMPARISONS = {"v1": 167, "v2": 145}
"""How many answers a driver of that hierarchy is compared in: a case that is lost is noticed."""


@contextmanager
def sim(hierarchy: Hierarchy) -> Iterator[Bench]:
    yield simulated(hierarchy)


Open = Callable[[], AbstractContextManager[Bench]]
BENCHES = [
    pytest.param(lambda: sim("v1"), id="sim-v1"),
    pytest.param(lambda: sim("v2"), id="sim-v2"),
    pytest.param(lambda: real("v1"), id="cgroupfs-v1", marks=pytest.mark.live),
    pytest.param(lambda: real("v2"), id="cgroupfs-v2", marks=pytest.mark.live),
]


class Answer:
    """What a driver made of a case: the refusal of its last step, and what stands afterwards."""

    def __init__(self, refused: str | None, reads: dict[str, str], missing: list[str]) -> None:
        self.refused = refused
        self.reads = reads
        self.missing = missing


def ask(bench: Bench, case: Case) -> Answer:
    """Do the case in a group of its own; every step but the last has to work."""
    top = f"{bench.root}/case"
    steps = [replace(step, path=f"{top}/{step.path}".rstrip("/")) for step in case.steps]
    pid = None
    try:
        if case.using is not None:
            outcome = bench.driver.perform([Step("create", f"{top}/a")])[-1]
            assert outcome.error is None, outcome.error
            pid = bench.processes.start(f"{top}/a", case.using)
        outcomes = bench.driver.perform([Step("create", top), *steps])
        early = [one for one in outcomes[:-1] if one.error is not None]
        assert not early, (case.name, early)
        assert len(outcomes) == len(steps) + 1 or outcomes[-1].error, case.name
        return Answer(outcomes[-1].errno_name, *_state(bench, top))
    finally:
        if pid is not None:
            bench.processes.end(pid)
        bench.clear()


def _state(bench: Bench, top: str) -> tuple[dict[str, str], list[str]]:
    """Every file below ``top``, with who is in each group and its OOM kills."""
    reads: dict[str, str] = {}
    missing = []
    for path, group in bench.observer.observe(top).cgroups.items():
        name = path.removeprefix(top).removeprefix("/")
        reads |= {f"{name}/{file}": text for file, text in group.values.items()}
        reads[f"{name}/pids"] = "busy" if group.pids else ""
        reads[f"{name}/oom_kills"] = str(group.oom_kills)
        missing += [f"{name}/{controller}" for controller in group.missing]
    return reads, missing


def wanted(bench: Bench, text: str) -> str:
    """A value of a case on this bench's machine."""
    facts = bench.facts
    most = effective("memory.limit_in_bytes", "-1", facts.page_size)
    return text.format(cpus=joined(facts.cpus or ()), mems=joined(facts.mems or ()), most=most)


@pytest.mark.parametrize("opened", BENCHES)
def test_a_driver_refuses_keeps_and_inherits_as_the_kernel_documents(opened: Open, record_property):
    wrong, compared = [], 0
    with opened() as bench:
        for case in CASES[bench.hierarchy]:
            answer = ask(bench, case)
            rows = [("refusal", case.refused, answer.refused)]
            rows += [
                (place, wanted(bench, text), answer.reads.get(place))
                for place, text in case.reads.items()
            ]
            compared += len(rows)
            wrong += [(case.name, *row) for row in rows if row[1] != row[2]]
        record_property("compared", compared)
        assert not wrong, "\n".join(map(str, wrong))
        assert compared == COMPARISONS[bench.hierarchy]


@pytest.mark.live
@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_the_simulated_kernel_answers_as_this_machine_file_by_file(
    hierarchy: Hierarchy, record_property
):
    """Every file that both have, after every case."""
    wrong, compared = [], 0
    with real(hierarchy) as bench:
        found = bench.driver.perform([Step("create", bench.root)])[-1]
        assert found.error is None, found.error
        files = bench.observer.observe(bench.root).cgroups[bench.root].values
        controllers = {file.split(".")[0] for file in files} | {"cpuacct"}
        names = tuple(name for name in CONTROLLERS[hierarchy] if name in controllers)
        twin = simulated(hierarchy, bench.facts, names)
        for case in CASES[hierarchy]:
            theirs, ours = ask(bench, case), ask(twin, case)
            places = theirs.reads.keys() & ours.reads.keys()
            assert len(places) == len(theirs.reads), theirs.reads.keys() - ours.reads.keys()
            assert theirs.missing == ours.missing == []
            rows = [("refusal", theirs.refused, ours.refused)]
            rows += [(place, theirs.reads[place], ours.reads[place]) for place in sorted(places)]
            compared += len(rows)
            wrong += [(case.name, *row) for row in rows if row[1] != row[2]]
    record_property("compared", compared)
    assert not wrong, "\n".join(map(str, wrong))
    assert compared > 1000


@pytest.mark.parametrize("opened", BENCHES)
def test_a_group_that_is_made_anew_is_another_one(opened: Open):
    with opened() as bench:
        seen = []
        for _ in range(2):
            outcomes = bench.driver.perform([Step("create", f"{bench.root}/a")])
            assert [one.error for one in outcomes] == [None]
            seen.append(bench.observer.observe(bench.root).cgroups[f"{bench.root}/a"].identity)
            bench.driver.perform([Step("remove", f"{bench.root}/a")])
        assert seen[0] != seen[1]


@pytest.mark.parametrize("opened", BENCHES)
def test_nothing_is_done_after_the_first_refusal(opened: Open):
    with opened() as bench:
        steps = [
            Step("create", f"{bench.root}/a"),
            Step("set", f"{bench.root}/a", "pids.max", "no"),
            Step("create", f"{bench.root}/b"),
        ]
        outcomes = bench.driver.perform(steps)
        assert [one.errno_name for one in outcomes] == [None, "EINVAL"]
        assert f"{bench.root}/b" not in bench.observer.observe(bench.root).cgroups
        assert bench.observer.observe(f"{bench.root}/b").cgroups == {}


@pytest.mark.parametrize("opened", BENCHES)
def test_every_step_has_a_line_for_the_shell(opened: Open):
    with opened() as bench:
        file = "cpu.shares" if bench.hierarchy == "v1" else "cpu.weight"
        path = f"{bench.root}/a b"
        for step in (
            Step("create", path),
            Step("set", path, file, "7"),
            Step("attach", path, pid=7),
            Step("remove", path),
        ):
            assert "a b'" in bench.driver.shell(step) or "a b/" in bench.driver.shell(step)
            assert "'/" in bench.driver.shell(step)
