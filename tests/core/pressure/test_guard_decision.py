"""The guard's decision as one pure call, held to decisions that were recorded on random samples."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from qoslet.core.memory.sample import MemorySample, NodeMemory
from qoslet.core.pressure.guard_decision import Resolution, StallSituation, decide
from qoslet.core.pressure.stall_signs import StallSignals
from qoslet.core.pressure.throttle_guard import HighOverride
from qoslet.core.pressure.throttle_stall import StallVerdict

MIB = 1 << 20
RECORDED = Path(__file__).parents[2] / "data" / "guard-decisions.jsonl.xz"
"""One line a decision: the cgroups, their samples and raised values, and what was decided."""


def recorded() -> list[dict[str, Any]]:
    lines = lzma.decompress(RECORDED.read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def situation_of(row: dict[str, Any]) -> StallSituation:
    """A recorded row as the guard would gather it."""
    uid = {group["path"]: group["uid"] for group in row["groups"]}
    path = row["path"]
    samples = {one["path"]: MemorySample(at=9.0, **one) for one in row["samples"]}
    holds = {
        one["path"]: HighOverride(
            planned=one["planned"],
            value=one["value"],
            changed_at=one["at"],
            identity=one["identity"],
            raises=one["times"],
            reclaimed=one["reclaimed"],
        )
        for one in row["overrides"]
    }
    raised = [at for at, hold in holds.items() if hold.raised]
    read = {
        path,
        *raised,
        *(at for one in (path, *raised) for at in uid if one.startswith(f"{at}/")),
    }
    own = [at for at in sorted(uid, key=len) if f"{path}/".startswith(f"{at}/") and uid[at]]
    sample, cold = samples[path], row["reclaimable"]
    signs = StallSignals(
        0.5, sample.current, sample.high or 0, sample.current - cold, cold, 0, 0.0, 300.0
    )
    hold = holds.get(path) or HighOverride(0, 0, 0.0, sample.identity)
    return StallSituation(
        path=path,
        pod=own[0] if own else "",
        verdict=StallVerdict("stalled", 8.0, "", signs),
        override=replace(hold, reclaimed=row["reclaimed"]),
        node=NodeMemory(9.0, row["total"], row["available"], 0),
        samples={at: one for at, one in samples.items() if at in read},
        overrides=holds,
    )


def test_decisions_are_those_that_were_recorded() -> None:
    rows, met = recorded(), Counter[tuple[str, bool]]()
    for row in rows:
        wanted = row["decision"]
        found = decide(situation_of(row))
        assert found.decision is not None
        decision = found.decision
        assert (decision.answer, decision.value) == (wanted["answer"], wanted["value"]), row
        assert decision.because == wanted["because"]
        assert list(found.lowered.items()) == [tuple(pair) for pair in wanted["lower"]]
        met[decision.answer, bool(found.lowered)] += 1
    assert met == {
        ("reclaim", False): 60,
        ("limit", False): 60,
        ("raise", False): 60,
        ("end", False): 60,
        ("none", False): 60,
        ("limit", True): 29,
        ("raise", True): 31,
    }


def scene(**more: Any) -> StallSituation:
    """A container of 250 MiB that is stalled on a node with 1000 MiB, its limit 256 MiB."""
    sample = MemorySample("/q/podx/a", 9.0, 1, 250 * MIB, 243 * MIB, max=256 * MIB)
    signs = StallSignals(0.5, 250 * MIB, 243 * MIB, 250 * MIB, more.pop("cold", 0), 0, 0.0, 300.0)
    situation = StallSituation(
        path=sample.path,
        pod="/q/podx",
        verdict=StallVerdict("stalled", 8.0, "", signs),
        override=HighOverride(243 * MIB, 243 * MIB, 0.0, 1),
        node=NodeMemory(9.0, 4096 * MIB, more.pop("available", 1000) * MIB, 0),
        samples={sample.path: sample},
        overrides={},
    )
    return replace(situation, **more)


def answered(found: Resolution) -> str:
    return "" if found.decision is None else found.decision.answer


def test_a_reclaim_waits_for_that_of_another_cgroup_and_not_for_long() -> None:
    assert answered(decide(scene(cold=8 * MIB))) == "reclaim"
    first = decide(scene(cold=8 * MIB, reclaim="busy"))
    assert first == Resolution(None, queued=True)
    later = decide(scene(cold=8 * MIB, reclaim="busy", queued=0.5))
    assert answered(later) == "limit"
    assert later.queued
    assert later.decision is not None
    assert later.decision.because.endswith("; reclaim skipped: another cgroup is being reclaimed")
    assert not decide(scene(reclaim="busy")).queued, "nothing is cold: nobody is waited for"


def test_without_reclaim_the_next_answer_is_given_at_once() -> None:
    assert answered(decide(scene(cold=8 * MIB, reclaim="absent"))) == "limit"


def test_nobody_is_killed_while_the_memory_of_another_is_being_freed() -> None:
    assert answered(decide(scene(available=200))) == "end"
    found = decide(scene(available=200, killed="d/a/app"))
    assert found.decision is not None
    assert found.decision.answer == "none"
    assert found.decision.because.endswith(
        "; d/a/app was killed; waiting for its memory to be freed"
    )
    assert answered(decide(scene(killed="d/a/app"))) == "limit"


def test_a_pod_and_its_containers_that_were_all_raised_do_not_hold_the_decision_up() -> None:
    """What the containers keep counts for the pod, too: to lower the pod again frees nothing."""
    pod, names = "/q/pody", ("a", "b", "c")
    samples = {f"{pod}/{name}": MemorySample("", 9.0, 3, 30 * MIB) for name in names}
    holds = {path: HighOverride(20 * MIB, 200 * MIB, 0.0, 3, 1) for path in samples}
    samples[pod] = MemorySample(pod, 9.0, 2, 90 * MIB)
    holds[pod] = HighOverride(80 * MIB, 300 * MIB, 0.0, 2, 1)
    base = scene(available=700)
    base = replace(base, samples={**base.samples, **samples}, overrides=holds)
    found = decide(base)
    assert answered(found) == "limit"
    assert found.lowered == {pod: 106 * MIB, f"{pod}/c": 46 * MIB}
    tight = decide(replace(base, node=NodeMemory(9.0, 4096 * MIB, 220 * MIB, 0)))
    assert answered(tight) == "end"
    assert not tight.lowered


@given(st.sampled_from(recorded()), st.integers(0, 1 << 12), st.integers(0, 1 << 12))
def test_a_decision_changes_nothing_and_lowers_only_what_is_raised(
    row: dict[str, Any], available: int, total: int
) -> None:
    situation = replace(
        situation_of(row),
        node=NodeMemory(9.0, total * MIB, available * MIB, 0),
        reclaim="absent",
    )
    holds, samples = dict(situation.overrides), dict(situation.samples)
    found = decide(situation)
    assert found == decide(situation)
    assert (situation.overrides, situation.samples) == (holds, samples)
    for path, value in found.lowered.items():
        assert holds[path].raised
        assert value > max(holds[path].planned, samples[path].current)
        assert answered(found) in ("raise", "limit")


def test_a_pod_that_is_evicted_first_spares_the_container_without_memory() -> None:
    short = scene(available=100)
    assert answered(decide(short)) == "end"
    first = decide(replace(short, short_for=0.0))
    assert first == Resolution(None, no_memory=True, wanted=16 * MIB)
    assert answered(decide(replace(short, short_for=2.0))) == "end"
    meanwhile = decide(replace(short, short_for=9.0, evicted="d/hog"))
    assert answered(meanwhile) == "none"
    assert meanwhile.decision is not None
    assert meanwhile.decision.because.endswith("; d/hog is being evicted; waiting for its memory")
    assert answered(decide(replace(short, short_for=10.0, evicted="d/hog"))) == "end"
    assert answered(decide(scene(short_for=0.0))) == "limit", "with memory nobody waits"


def test_a_question_that_brought_nothing_is_not_asked_again() -> None:
    """The kernel may take seconds to say no on a machine whose CPUs are taken."""
    first = scene(cold=8 * MIB)
    doubtful = replace(first, verdict=replace(first.verdict, doubtful=True))
    assert answered(decide(doubtful)) == "reclaim"
    assert answered(decide(replace(doubtful, asked=True))) == "limit"
    assert answered(decide(replace(first, asked=True))) == "reclaim", "nobody is in doubt"


def test_a_program_s_own_text_is_not_asked_for() -> None:
    found = scene(cold=8 * MIB)
    assert found.verdict.signals is not None
    signals = replace(found.verdict.signals, rereads=True)
    for doubtful in (False, True):
        verdict = replace(found.verdict, doubtful=doubtful, signals=signals)
        assert answered(decide(replace(found, verdict=verdict))) == "limit"


def test_what_was_scanned_in_vain_is_not_asked_for_and_hardly_waited_for() -> None:
    def vain(available: int, idle: float) -> str:
        found = scene(cold=8 * MIB, available=available)
        verdict = replace(found.verdict, doubtful=True, in_vain=True)
        assert verdict.signals is not None
        signals = replace(verdict.signals, idle_seconds=idle)
        return answered(decide(replace(found, verdict=replace(verdict, signals=signals))))

    assert vain(1500, 0.5) == "limit"
    assert vain(100, 0.5) == "none", "nobody is killed for half a second"
    assert vain(100, 2.0) == "end"


def test_nobody_is_killed_while_files_stream_through_it() -> None:
    base = scene(available=200)
    before = base.verdict.signals
    assert before is not None

    def freeing(rate: float, returned: float, **more: Any) -> str:
        signs = replace(before, freed_per_second=rate * MIB, refault_ratio=returned, **more)
        override = replace(base.override, reclaimed=True)
        verdict = replace(base.verdict, signals=signs)
        return answered(decide(replace(base, override=override, verdict=verdict)))

    assert freeing(25, 0.1) == "none"
    assert freeing(2, 0.1) == "end"
    assert freeing(25, 1.0) == "end", "program text in circles"
    assert freeing(25, 1.0, by_calls=True) == "none", "a file in circles"
    assert freeing(25, 0.4, by_calls=True, rereads=True) == "none", "it may be"
    assert freeing(25, 0.4, rereads=True) == "end", "faults alone read no file"
    mapped = {"reclaimable": 6 * MIB}
    assert freeing(25, 1.0, waiting_ratio=0.3, **mapped) == "none", "it may go through a file"
    assert freeing(25, 1.0, waiting_ratio=0.9, **mapped) == "end", "it hardly gets through one"


def test_close_to_its_limit_first_where_reclaim_takes_files_of_others() -> None:
    """The kernel kills at a limit whose dirty pages cannot be taken at once, and at memory.high it waits."""

    def raised(current: int, limit: int, rate: float, **more: Any) -> tuple[str, int]:
        base = scene()
        sample = replace(base.samples[base.path], current=current * MIB, max=limit * MIB)
        assert base.verdict.signals is not None
        signs = replace(base.verdict.signals, freed_per_second=rate * MIB, **more)
        verdict = replace(base.verdict, signals=signs)
        found = decide(replace(base, verdict=verdict, samples={base.path: sample})).decision
        assert found is not None
        return found.answer, found.value // MIB if found.answer == "raise" else 0

    assert raised(250, 320, 5) == ("raise", 310)
    assert raised(250, 320, 0.2) == ("limit", 0), "nobody else takes memory"
    assert raised(250, 320, 5, rereads=True) == ("limit", 0), "what is taken is its own text"
    assert raised(250, 270, 5) == ("raise", 261)
    assert raised(250, 262, 5) == ("limit", 0), "the limit is as close"
    assert raised(310, 320, 5) == ("limit", 0), "it stalled there"


@pytest.mark.parametrize(
    ("dirty", "idle", "doubtful", "wanted"),
    [
        (40, 20.0, True, "none"),
        (40, 70.0, True, "end"),
        (10, 20.0, True, "end"),
        (40, 20.0, False, "end"),
    ],
)
def test_nobody_is_killed_for_a_disk_that_takes_no_pages(
    dirty: int, idle: float, doubtful: bool, wanted: str
) -> None:
    base = scene(available=200, cold=60 * MIB, refused=True)
    signs = base.verdict.signals
    assert signs is not None
    verdict = replace(base.verdict, doubtful=doubtful, signals=replace(signs, idle_seconds=idle))
    sample = replace(base.samples[base.path], stat={"file_writeback": dirty * MIB})
    found = decide(replace(base, verdict=verdict, samples={base.path: sample}))
    assert answered(found) == wanted
    assert found.decision is not None
    assert ("wait to be written to a disk" in found.decision.because) == (wanted == "none")


def test_what_the_node_has_not_is_said_before_anybody_is_killed() -> None:
    found = decide(scene(available=200, short_for=0.0))
    assert (found.decision, found.no_memory, found.wanted) == (None, True, 16 * MIB)
    limited = MemorySample("/q", 9.0, 7, 300 * MIB, max=300 * MIB)
    base = scene(available=3000, short_for=0.0)
    own = replace(base.samples[base.path], max=512 * MIB)
    found = decide(replace(base, samples={base.path: own, "/q": limited}))
    assert (found.no_memory, found.wanted) == (True, 0), (
        "a QoS cgroup has not: no pod of others helps"
    )


def test_one_that_computes_is_not_killed_for_another_that_nobody_sees_wait() -> None:
    base = scene(available=200)
    before = base.verdict.signals
    assert before is not None

    def computing(idle: float, waits: float | None) -> str:
        signs = replace(before, user_cpu=0.8, idle_seconds=idle, waiting_ratio=waits)
        return answered(decide(replace(base, verdict=replace(base.verdict, signals=signs))))

    assert computing(3.0, None) == "none"
    assert computing(10.0, None) == "end"
    assert computing(3.0, 0.95) == "end", "PSI sees it"


@pytest.mark.parametrize(
    ("freed", "ago", "answer"), [(0, 0.6, "raise"), (0, 1.5, "limit"), (2, 0.0, "raise")]
)
def test_files_that_were_just_reclaimed_pass(freed: int, ago: float, answer: str) -> None:
    """A writer beside a heap is held up as well: nothing was freed for 0.6 s at 81 of 96 MiB, and once
    memory.high was lifted the kernel killed the container for pages that wait for a disk."""
    found = scene()
    sample = MemorySample(found.path, 9.0, 1, 81 * MIB, 77 * MIB, max=96 * MIB)
    signs = StallSignals(0.5, 81 * MIB, 77 * MIB, 81 * MIB, 0, 0, 0.0, 300.0)
    signs = replace(signs, freed_per_second=freed * MIB, not_freed_seconds=ago)
    verdict = replace(found.verdict, signals=signs)
    made = decide(replace(found, verdict=verdict, samples={found.path: sample}))
    assert answered(made) == answer
