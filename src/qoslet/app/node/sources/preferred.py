"""The pods of a node from the best of several sources that answers.

What is known is never lost: while no source answers, the last reading stays. A pod leaves it only
where its source tells the removal, or lacks it twice, and it does not run any more.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from qoslet.app.node.sources.reader import PodReader, Seen
from qoslet.core.node.cluster.retries import wait_seconds
from qoslet.core.node.running_kubelet.listed_pods import uids_of, with_pods_of
from qoslet.core.node.running_kubelet.pods_reading import PodsReading
from qoslet.errors import CannotDo, QosletError, reason_of

if TYPE_CHECKING:
    from qoslet.core.node.running_kubelet.pods_reading import PodSourceName

SETTLE_SECONDS = 10.0
"""When a reading that may lack pods is looked at again."""
APART_SECONDS = 3.0
"""How far apart two answers are at least that lack the same pods: a watch that opens right after its
list is no second answer."""
USUAL_SECONDS = 60.0
"""How long it is usual that a source lacks pods that were known or run: each pod that is removed is
read twice, and ends after a grace period, which is 30 s where nobody sets it."""
_HINT = "take another source with --pods-from"


class _Candidate(Struct):
    """A reader, what it said last, and since when it fails."""

    reader: PodReader
    seen: Seen | None = None
    due: float = 0.0
    failures: int = 0
    why: str = ""


class _Missing(Struct, frozen=True):
    """A pod that an answer lacks, which answer that was, and when it came."""

    source: PodSourceName
    stamp: float
    at: float

    def is_confirmed(self, seen: Seen, now: float) -> bool:
        """Whether ``seen``, of the same source, is another answer, which came long enough after."""
        is_other = seen.is_live or self.stamp != seen.stamp
        return is_other and now >= self.at + APART_SECONDS


class PreferredPods:
    """A ``PodSource`` over ``readers``, the best first."""

    def __init__(
        self,
        readers: Sequence[PodReader],
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._candidates = [_Candidate(one) for one in readers]
        self._clock, self._chance = clock, chance
        self._last: PodsReading | None = None
        self._uids: frozenset[str] = frozenset()
        self._missing: dict[str, _Missing] = {}
        self._doubted: dict[str, float] = {}
        self._used: _Candidate | None = None

    def poll(self, *, asks: bool = True) -> PodsReading:
        """The latest reading; without ``asks`` only what a watch has told is new. Raises CannotDo while
        nothing was ever read."""
        now = self._clock()
        reasons: dict[str, list[str]] = {}
        chosen, partial = None, None
        for candidate in self._candidates:
            seen = self._ask(candidate, now if asks else float("-inf"))
            if seen is not None and seen.complete:
                chosen = candidate
                break
            if seen is not None and partial is None:
                partial = candidate
            reasons.setdefault(candidate.why or "lacks pods", []).append(candidate.reader.source)
        for candidate in self._candidates:
            if candidate not in (chosen, self._used) and self._is_after(candidate, chosen):
                candidate.reader.rest()
                candidate.seen, candidate.due = None, 0.0
        if chosen is None:
            chosen = self._instead(partial)
        reason = "; ".join(f"{', '.join(sources)}: {why}" for why, sources in reasons.items())
        if chosen is None or chosen.seen is None:
            return self._kept(reason, is_settling=self._is_usual())
        self._used = chosen
        return self._take(chosen, chosen.seen, reason)

    def _is_after(self, candidate: _Candidate, chosen: _Candidate | None) -> bool:
        """Whether it was not asked, since a better one answered."""
        return chosen is not None and self._candidates.index(candidate) > self._candidates.index(
            chosen
        )

    def _instead(self, partial: _Candidate | None) -> _Candidate | None:
        """Which to take where none is complete: none, where more is known from another."""
        if self._last is None or partial is self._used:
            return partial
        return None

    def _ask(self, candidate: _Candidate, now: float) -> Seen | None:
        if now < candidate.due and not candidate.reader.descriptors():
            return candidate.seen
        try:
            candidate.seen = candidate.reader.read(self._uids)
        except QosletError as error:
            candidate.seen = None
            candidate.failures += 1
            # it may have started anew: what it says then is no second answer
            self._missing = {
                uid: one
                for uid, one in self._missing.items()
                if one.source != candidate.reader.source
            }
            candidate.why = reason_of(error)
            candidate.due = now + wait_seconds(candidate.failures, self._chance())
            return None
        candidate.failures, candidate.why = 0, candidate.seen.note
        candidate.due = now + candidate.reader.interval_seconds
        if not candidate.seen.complete:
            candidate.due = min(candidate.due, now + SETTLE_SECONDS)
        return candidate.seen

    @property
    def _requests(self) -> int:
        return sum(one.reader.requests for one in self._candidates)

    def _is_usual(self) -> bool:
        """Whether a source lacks pods for a moment only."""
        return any(one.seen is not None and one.seen.is_usual for one in self._candidates)

    def _kept(self, reason: str, *, is_settling: bool = False) -> PodsReading:
        """The last reading, of which nothing is sure any more."""
        if self._last is None:
            raise CannotDo(f"the pods of this node cannot be read: {reason}", hint=_HINT)
        told = replace(self._last, complete=False, reason=reason, is_settling=is_settling)
        self._last = replace(told, requests=self._requests)
        return self._last

    def _take(self, candidate: _Candidate, seen: Seen, reason: str) -> PodsReading:
        source = candidate.reader.source
        uids = uids_of(seen.pods)
        if seen.complete:
            doubted, doubt = self._doubt(source, seen, uids)
            if doubt:
                now = self._clock()
                self._doubted = {uid: self._doubted.get(uid, now) for uid in doubted}
                usual = not reason and now < min(self._doubted.values()) + USUAL_SECONDS
                told = "; ".join(filter(None, (reason, doubt)))
                return self._completed(candidate, seen, doubted, told, is_settling=usual)
            self._doubted = {}
        self._uids = uids if seen.complete else self._uids | uids
        told = reason if seen.note in reason else f"{reason}; {seen.note}".removeprefix("; ")
        settling = not seen.complete and self._is_usual()
        return self._read(candidate, seen, told, is_settling=settling)

    def _completed(
        self,
        candidate: _Candidate,
        seen: Seen,
        doubted: frozenset[str],
        reason: str,
        *,
        is_settling: bool,
    ) -> PodsReading:
        """An answer with the pods that it lacks as they were known; the last reading alone where that is of
        another source."""
        last = self._last
        pods = None
        if last is not None and last.source == candidate.reader.source:
            pods = with_pods_of(seen.pods, last.pods, doubted)
        if pods is None:
            return self._kept(reason, is_settling=is_settling)
        self._uids = uids_of(pods)
        part = replace(seen, pods=pods, complete=False)
        return self._read(candidate, part, reason, is_settling=is_settling)

    def _read(
        self, candidate: _Candidate, seen: Seen, reason: str, *, is_settling: bool
    ) -> PodsReading:
        last = self._last
        is_same = last is not None and last.pods == seen.pods
        self._last = PodsReading(
            version=0 if last is None else last.version + (not is_same),
            pods=seen.pods,
            place=seen.place,
            source=candidate.reader.source,
            complete=seen.complete,
            reason=reason,
            running=seen.running,
            at=self._clock() if seen.is_live else seen.stamp,
            is_settling=is_settling,
            requests=self._requests,
        )
        return self._last

    def _doubt(
        self, source: PodSourceName, seen: Seen, uids: frozenset[str]
    ) -> tuple[frozenset[str], str]:
        """Pods of which it is not believed that they are gone, and why; none and empty where all are there,
        or it is believed."""
        missing, last = self._uids - uids, self._last
        if not missing or last is None or (seen.tells_removals and last.source == source):
            self._missing = {}
            return frozenset(), ""
        now, running = self._clock(), missing & seen.running
        asked = {uid: one for uid, one in self._missing.items() if one.source == source}
        # those that are confirmed stay, as the answer is not taken while others are in doubt
        self._missing = {
            uid: asked.get(uid) or _Missing(source, seen.stamp, now) for uid in missing - running
        }
        doubted = running | {
            uid for uid, one in self._missing.items() if not one.is_confirmed(seen, now)
        }
        if running:
            return doubted, f"{source} lacks {len(running)} of the pods that run"
        if doubted:
            return doubted, f"{source} lacks {len(doubted)} of the known pods: asked again"
        self._missing = {}
        return doubted, ""

    def refresh(self) -> None:
        """Have the next ``poll`` ask the source again that answered last."""
        if self._used is not None and self._used.seen is not None:
            self._used.due = self._clock()

    def descriptors(self) -> list[int]:
        """Readable when ``poll`` has something new."""
        return [one for candidate in self._candidates for one in candidate.reader.descriptors()]

    def next_at(self) -> float | None:
        """When to call ``poll`` at the latest."""
        dues = [one.due for one in self._candidates if one.seen is not None or one.why]
        if self._missing:
            dues.append(self._clock() + SETTLE_SECONDS)
        return min(dues, default=self._clock())

    def close(self) -> None:
        """Read nothing any more."""
        for candidate in self._candidates:
            candidate.reader.rest()
