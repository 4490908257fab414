"""Every runner of tests/data/rules.json, registered by the modules that hold them."""

from __future__ import annotations

from tests.core import (
    rules_amounts,
    rules_messages,
    rules_names,
    rules_pods,
    rules_resize,
    rules_runtimes,
)
from tests.core.rules_vectors import RUNNERS

AREAS = (
    rules_amounts,
    rules_messages,
    rules_names,
    rules_pods,
    rules_resize,
    rules_runtimes,
)

__all__ = ["AREAS", "RUNNERS"]
