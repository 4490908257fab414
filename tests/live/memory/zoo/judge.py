"""What came of a load, and whether that is what an operator expects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.live.memory.zoo.load import Load

RUNNING, DONE, FAILED = range(3)


@dataclass(frozen=True)
class Watched:
    """A line of ``zoo watch``: times in seconds, ``peak`` in MiB. The gaps are the longest times
    without a step, by where usage stood: at memory.high below the limit, at memory.max, elsewhere.
    ``queued``: how much of the first the load could have run and had no CPU."""

    name: str
    count: int
    state: int
    error: int
    seconds: float
    alive: bool
    at_high: float
    at_max: float
    elsewhere: float
    high_events: int
    max_events: int
    oom_kills: int
    peak: int
    queued: float = 0.0

    @classmethod
    def of(cls, line: str) -> Watched:
        """Reads one line; ValueError if it is none."""
        name, count, state, error, seconds, alive, *rest = line.split()
        high, limit, other, events, hits, kills, peak, *queued = rest
        return cls(
            *(name, int(count), int(state), int(error), float(seconds), alive == "1"),
            *(float(high), float(limit), float(other)),
            *(int(events), int(hits), int(kills), int(peak)),
            *map(float, queued),
        )


@dataclass(frozen=True)
class Result:
    """A row of the table. ``faults`` are what an operator would complain about."""

    scene: str
    load: Load
    outcome: str
    at_high: float
    at_max: float
    elsewhere: float
    answers: tuple[str, ...]
    faults: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The row as JSON."""
        return {
            "scene": self.scene,
            "load": self.load.name,
            "words": " ".join(map(str, self.load.words)),
            "limit": self.load.limit or self.load.pod_limit,
            "expected": self.load.expected,
            "outcome": self.outcome,
            "at_high": self.at_high,
            "at_max": self.at_max,
            "elsewhere": self.elsewhere,
            "answers": list(self.answers),
            "faults": list(self.faults),
        }


def result(
    scene: str,
    bound: float,
    load: Load,
    parts: Iterable[Watched],
    ended: Mapping[str, str],
    answers: Iterable[str],
) -> Result:
    """The row of a load. ``parts``: its containers; ``ended``: how each ended, as ``qoslet ps`` says
    (``Completed``, ``OOMKilled``, ``Evicted``, …), those that run are absent; ``answers``: what was
    decided about it."""
    seen, said = list(parts), tuple(answers)
    outcome = _outcome(seen, ended)
    gaps = [max((getattr(one, key) for one in seen), default=0.0) for key in _GAPS]
    faults = list(_faults(load, outcome, said))
    held, queued = max(((one.at_high, one.queued) for one in seen), default=(0.0, 0.0))
    if held > bound and load.expected != "left alone":
        why = f" ({queued:.1f} s of it without a CPU)" if queued >= _QUEUED_SECONDS else ""
        faults.append(f"no step for {held:.1f} s at memory.high{why}, {bound:g} s at most")
    return Result(scene, load, outcome, gaps[0], gaps[1], gaps[2], said, tuple(faults))


_QUEUED_SECONDS = 0.5
_GAPS = ("at_high", "at_max", "elsewhere")


def _outcome(seen: list[Watched], ended: Mapping[str, str]) -> str:
    if not seen:
        return "did not start"
    failed = [one for one in seen if one.state == FAILED]
    if failed:
        return f"failed with errno {failed[0].error}"
    for reason, word in (("Evicted", "evicted"), ("OOMKilled", "killed")):
        if reason in ended.values():
            return word
    if all(one.state == DONE for one in seen):
        return "finished"
    others = {reason for reason in ended.values() if reason != "Completed"}
    return f"ended: {', '.join(sorted(others))}" if others else "running"


_GOOD = {
    "finishes": ("finished",),
    "killed": ("killed",),
    "ends": ("finished", "killed"),
    "goes on": ("running",),
    "as alone": ("running", "killed"),
    "untouched": ("running", "finished"),
    "left alone": ("running", "finished"),
    "evicted": ("evicted",),
}


def _faults(load: Load, outcome: str, answers: tuple[str, ...]) -> Iterable[str]:
    if outcome not in _GOOD[load.expected]:
        yield f"{outcome}, expected: {load.expected}"
    if answers and load.expected in ("untouched", "left alone"):
        yield f"decided: {', '.join(answers)}"


def ends_of(document: dict[str, Any], pod: str) -> dict[str, str]:
    """How each ended container of a pod ended, in the words of ``qoslet ps``."""
    ended = {}
    for item in document.get("items", ()):
        if item["name"] == pod:
            for one in item["containers"]:
                if not one["running"]:
                    reason = "Evicted" if item["reason"] == "Evicted" else one["exitReason"]
                    ended[one["name"]] = reason or item["status"]
    return ended


def decisions(document: dict[str, Any], pod: str) -> list[str]:
    """What the guard and memory pressure decided about a pod."""
    memory = document.get("memory") or {}
    found = [
        str(one["answer"])
        for one in memory.get("guard", {}).get("decisions", ())
        if (one["pod"] or "").rpartition("/")[2] == pod and one["answer"] != "none"
    ]
    found += [
        str(one["verdict"])
        for one in memory.get("pressure", {}).get("decisions", ())
        if (one["pod"] or "").rpartition("/")[2] == pod and one["verdict"] != "none"
    ]
    return found
