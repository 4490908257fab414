"""What differs between a frozen answer and today's, wording apart from everything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

ADDED: dict[tuple[str, str], str] = {
    ("PodStates", "memory.groups[].bindingLimit"): "a plain name of binds",
    ("PodStates", "memory.groups[].ineffective"): "a plain name of worthLess",
    ("PodStates", "memory.guard.overrides"): "a plain name of held",
    ("PodStates", "memory.groups[].unknown"): "what cgroup v1 does not tell",
    ("Config", "fields[].sources"): "the entries of a value have several sources",
    ("Diff", "problems"): "warnings that only the second side has",
    ("PodStates", "lastSyncSeconds"): "how old an answer from the middle of a sync is",
    ("PodStates", "items[].containersWanted"): "those that are not made yet count, too",
    ("PodStates", "items[].controller"): "what ps deployment/web is compared with",
    ("Plan", "node.assumed"): "what is assumed of a described machine",
    ("Explanation", "node.assumed"): "the same",
    ("PodStates", "items[].containers[].ready"): "what probes say, not only that it runs",
    ("PodStates", "items[].containers[].unhealthy"): "what probes say that fail",
    ("PodStates", "items[].containers[].lastExit"): "why a container that runs again had ended",
    ("Run", "pods[].containers[].lastExit"): "the same",
    ("Run", "pods[].containers[].ready"): "what probes say, not only that it runs",
    ("Run", "pods[].containers[].unhealthy"): "what probes say that fail",
    ("Plan", "node.os"): "Windows nodes have no cgroups",
    ("Plan", "node.cgroupsInForce"): "the same",
    ("Plan", "pods[].controller"): "which workload a pod stands for",
    ("Plan", "pods[].isolation"): "pods with a RuntimeClass are isolated one by one",
    ("Explanation", "node.os"): "Windows nodes have no cgroups",
    ("Explanation", "node.cgroupsInForce"): "the same",
    ("PodStates", "memory.watched[].notFreedSeconds"): "since when reclaim frees nothing",
    ("Release", "messages"): "notes and remarks in one list",
}
"""Keys that the frozen answers lack: (kind of document, place) to why there is one. A place is
written as a difference tells it, such as ``cgroups[].settings[].worth``."""

CORRECTED: dict[tuple[str, str], str] = {
    ("Explanation", "cgroups[].name"): "one name was that of containers of several pods",
    ("Plan", "cgroups[].name"): "the same",
    ("Plan", "cgroups[].settings[].binds.name"): "the same",
}
"""Where a name without pod cgroups (``/app``) may have the UID of its pod now (``/UID-app``)."""

FILLED: dict[tuple[str, str], frozenset[str]] = {
    ("Config", "fields[].flag"): frozenset(("--memory-throttling-factor",)),
}
"""Where nothing stood and one of these texts may stand now: flags that are new."""

PROSE = frozenset(("because", "message", "hint", "source"))
"""Fields of every kind of document that hold sentences for people: their wording may change, their
presence and type may not."""

PROSE_OF: dict[str, frozenset[str]] = {
    "Explanation": frozenset(
        ("decidedBy", "evidence", "kept", "profile", "standing", "worth", "written")
    ),
    "Conversion": frozenset(("how", "instead", "what", "why")),
    "Apply": frozenset(("notes", "remarks")),
    "Release": frozenset(("notes", "remarks")),
}
"""The same of one kind of document."""

NO_PROSE = frozenset((("Config", "source"),))
"""Where a field of ``PROSE`` is a value: programs read where a setting comes from."""


class Difference(NamedTuple):
    """One place that is not as it was; ``wording``: only a sentence is another."""

    place: str
    was: object
    now: object
    wording: bool = False

    def __str__(self) -> str:
        return f"{self.place}: was {_shown(self.was)}, now {_shown(self.now)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 300 else f"{text[:300]}…"


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()


def prose(kind: str, field: str) -> bool:
    """Whether a field holds sentences."""
    if (kind, field) in NO_PROSE:
        return False
    return field in PROSE or field in PROSE_OF.get(kind, ())


def differences(was: Any, now: Any) -> Iterator[Difference]:
    """Where ``now`` is not the document ``was``; added keys that are listed are none."""
    kind = was.get("kind", "") if isinstance(was, dict) else ""
    yield from _values(was, now, "", str(kind))


def _values(was: Any, now: Any, place: str, kind: str) -> Iterator[Difference]:
    if isinstance(was, dict) and isinstance(now, dict):
        yield from _mappings(was, now, place, kind)
    elif isinstance(was, list) and isinstance(now, list):
        if len(was) != len(now):
            yield Difference(f"{place}[]", was, now)
            return
        for old, new in zip(was, now, strict=True):
            yield from _values(old, new, f"{place}[]", kind)
    elif was is None and isinstance(now, str) and now in FILLED.get((kind, place), ()):
        return
    elif (type(was) is not type(now) or was != now) and not _corrected(was, now, (kind, place)):
        yield Difference(place, was, now)


def _corrected(was: Any, now: Any, where: tuple[str, str]) -> bool:
    """Whether a name is the same with a UID before its last part."""
    if where not in CORRECTED or not (isinstance(was, str) and isinstance(now, str)):
        return False
    above, _, leaf = was.rpartition("/")
    below = now.removeprefix(f"{above}/")
    return below != now and "/" not in below and below.endswith(f"-{leaf}")


def _mappings(
    was: Mapping[str, Any], now: Mapping[str, Any], place: str, kind: str
) -> Iterator[Difference]:
    for key, value in was.items():
        here = f"{place}.{key}" if place else key
        if key not in now:
            yield Difference(here, value, NOTHING)
        elif prose(kind, key) and _sentences(value) and _sentences(now[key]):
            yield from _wording(value, now[key], here)
        else:
            yield from _values(value, now[key], here, kind)
    for key in now.keys() - was.keys():
        here = f"{place}.{key}" if place else key
        if (kind, here) not in ADDED:
            yield Difference(here, NOTHING, now[key])
    order = [key for key in now if key in was]
    if order != [key for key in was if key in now]:
        yield Difference(f"{place}: order of keys", list(was), list(now))


def _sentences(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return value is None or isinstance(value, str)


def _wording(was: Any, now: Any, place: str) -> Iterator[Difference]:
    """Sentences may be others, but not come, go or be of another number."""
    if was == now:
        return
    same = type(was) is type(now) and bool(was) == bool(now)
    if same and isinstance(was, list):
        same = len(was) == len(now)
    yield Difference(place, was, now, wording=same)


def lines_of(text: str) -> list[str]:
    """Printed lines, comments of a script by their number only: they are for people."""
    return ["#" if line.startswith("#") else line for line in text.splitlines()]
