"""How the memory of a pod went over time, as ``bench/results/memory-qos.json`` keeps it."""

from __future__ import annotations

from msgspec import Struct


class Sample(Struct, frozen=True, array_like=True):
    """The cgroup after ``at`` seconds: MiB in use, and its memory.high (None: max)."""

    at: float
    used: float
    high: float | None


class Curve(Struct, frozen=True):
    """A case as it went: the samples at which something changed, and what the guard logged.

    ``ended``: seconds until the process was gone (None: still there when the sampling ended);
    ``killed``: by the kernel at its limit.
    """

    name: str
    limit: int
    samples: list[Sample]
    ended: float | None
    killed: bool
    log: list[str]


class Results(Struct, frozen=True):
    """What was measured, where and when."""

    kernel: str
    machine: str
    date: str
    curves: list[Curve]
