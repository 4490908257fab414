"""Thousands of nodes that follow their pods on one API server: how many requests come in one second.

The real reflectors ask; the server is a few rules, and the clock a heap. ``python -m
tests.core.node.cluster.load`` prints the table of the documents.
"""

from __future__ import annotations

import heapq
import json
import random
import sys
from collections import Counter

from msgspec import Struct

from qoslet.core.node.cluster.messages import Status
from qoslet.core.node.cluster.pod_reflector import PodReflector, Request

NODES = 5000
SECONDS = 2400.0
EVENT = 1200.0
"""When something happens: until then the watches have drifted apart."""
_PAGE = json.dumps(
    {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": None}
).encode()
_BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2"},"spec":{}}}'


class Scene(Struct, frozen=True):
    """What happens. ``cuts``: all watches end; the server refuses for ``down_seconds``, and then
    answers each node's first request with ``answer`` where that is a status."""

    title: str
    cuts: bool = True
    down_seconds: float = 0.0
    answer: Status | None = None
    start: bool = False


SCENES = (
    Scene("nothing", cuts=False),
    Scene("all agents start in one second", cuts=False, start=True),
    Scene("all watches end"),
    Scene("the API server is away for 10 s", down_seconds=10),
    Scene("the API server is away for 5 minutes", down_seconds=300),
    Scene("all watches end, and their version is gone (410)", answer=Status(410, "Expired")),
    Scene(
        "all watches end, and the server is busy (429, Retry-After: 10)",
        answer=Status(429, "TooManyRequests", retry_seconds=10),
    ),
)


class Load(Struct, frozen=True):
    """The requests of the worst second, the lists among them, and after how many seconds every node
    follows its pods."""

    peak: int
    lists: int
    settled: float


class _Node(Struct):
    reflector: PodReflector
    request: Request | None = None
    """What it waits to ask; None while its watch is open."""
    turn: int = 0
    answered: bool = False
    follows: bool = False
    """Whether its watch is open since the event."""


def simulate(scene: Scene, nodes: int = NODES, seed: int = 1) -> Load:
    """Run a scene of half an hour and more."""
    chance = random.Random(seed).random
    fleet = [_Node(PodReflector(f"n{number}")) for number in range(nodes)]
    heap: list[tuple[float, int, int]] = []
    every, lists = Counter[int](), Counter[int]()
    event = 0.0 if scene.start else EVENT
    settled = 0.0

    def ask_later(number: int, now: float) -> None:
        node = fleet[number]
        node.turn += 1
        node.request = node.reflector.next_request(chance())
        heapq.heappush(heap, (now + node.request.wait, number, node.turn))

    for number in range(nodes):
        # a rollout takes its time; a power cut does not
        ask_later(number, 0.0 if scene.start else 600 * chance())
    pending = scene.cuts
    while heap and heap[0][0] < SECONDS:
        if pending and heap[0][0] >= EVENT:
            pending = False
            for number, node in enumerate(fleet):
                if node.request is None:
                    node.reflector.ended(in_time=False)
                    ask_later(number, EVENT)
        now, number, turn = heapq.heappop(heap)
        node = fleet[number]
        if turn != node.turn:
            continue
        request = node.request
        if request is None:
            node.reflector.ended(in_time=True)
            ask_later(number, now)
            continue
        if now >= event:
            every[int(now)] += 1
            lists[int(now)] += not request.is_watch
        if scene.cuts and EVENT <= now < EVENT + scene.down_seconds:
            node.reflector.broken("connection refused")
        elif scene.answer is not None and now >= EVENT and not node.answered:
            node.answered = True
            node.reflector.refused(scene.answer)
        elif request.is_watch:
            node.reflector.opened()
            node.reflector.line(_BOOKMARK)
            node.turn, node.request = node.turn + 1, None
            heapq.heappush(heap, (now + int(request.query["timeoutSeconds"]), number, node.turn))
            # the other watches last until their time is over
            if now >= event and not node.follows and (scene.cuts or scene.start):
                node.follows, settled = True, now - event
            continue
        else:
            node.reflector.page(_PAGE)
        ask_later(number, now)
    worst = max(every, key=lambda second: every[second])
    return Load(every[worst], lists[worst], settled)


def table() -> str:
    """The rows of the documents."""
    rows = [
        "| what happens to 5,000 nodes | requests in the worst second | lists among them | every node follows again after |",
        "|---|---|---|---|",
    ]
    for scene in SCENES:
        found = simulate(scene)
        after = f"{found.settled:.0f} s" if found.settled else "-"
        rows.append(f"| {scene.title} | {found.peak} | {found.lists} | {after} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
