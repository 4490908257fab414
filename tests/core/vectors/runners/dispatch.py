"""Every runner of tests/data/rules.json, registered by the modules that hold them."""

from __future__ import annotations

from tests.core.vectors.runners import amounts, messages, names, pods, resize, runtimes
from tests.core.vectors.vectors import RUNNERS

AREAS = (
    amounts,
    messages,
    names,
    pods,
    resize,
    runtimes,
)

__all__ = ["AREAS", "RUNNERS"]
