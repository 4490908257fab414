"""The diagram of a pod's phases, from the table that the agent follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from qoslet.agent.state.pod_phases import TRANSITIONS, WorkerPhase


def diagram() -> Iterator[str]:
    """The phases as a Mermaid state diagram."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {WorkerPhase.PENDING.value}"
    for one in TRANSITIONS:
        yield f"    {one.source.value} --> {one.target.value}: {one.when}"
    yield f"    {WorkerPhase.CLEANING_UP.value} --> [*]: no longer desired"
    yield "```"


PARTS: dict[str, Callable[[], Iterator[str]]] = {"pod phases": diagram}
