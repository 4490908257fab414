"""The moments at which a test kills what it watches."""

from __future__ import annotations

import os
from collections.abc import Sequence


def thirds() -> Sequence[int]:
    """The firsts of three series, which together are every moment. ``QOSLET_THIRD`` names the one
    that a guest of the short matrix takes, the others are of other systems; ``QOSLET_LONG`` takes
    all."""
    one = os.environ.get("QOSLET_THIRD", "")
    return range(3) if not one or os.environ.get("QOSLET_LONG") else [int(one)]
