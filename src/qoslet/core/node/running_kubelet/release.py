"""Which release a kubelet is, by what it answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_BUILD = re.compile(
    rb'^kubernetes_build_info\{[^}\n]*git_version="(v?1\.\d{1,3}[^"\n]{0,60})"', re.MULTILINE
)

_ALWAYS: tuple[tuple[int, str], ...] = (
    (36, "memoryReservationPolicy"),
    (33, "mergeDefaultEvictionSettings"),
    (32, "crashLoopBackOff"),
    (31, "failCgroupV1"),
    (30, "podLogsDir"),
    (29, "imageMaximumGCAge"),
    (27, "containerRuntimeEndpoint"),
    (25, "localStorageCapacityIsolation"),
    (23, "registerNode"),
    (22, "memorySwap"),
    (21, "enableProfilingHandler"),
    (20, "shutdownGracePeriod"),
)
"""Fields that /configz has since a minor, whatever was configured. Source: types.go (fields without
``omitempty``) and defaults.go of the releases; ``core.node.documents.kubelet_field_names``."""


def release_of_metrics(metrics: bytes) -> str | None:
    """The release that a kubelet's /metrics names (``v1.36.2``)."""
    found = _BUILD.search(metrics)
    return None if found is None else found[1].decode("ascii", "replace")


def oldest_release(configz: Mapping[str, Any]) -> int | None:
    """The minor that a configuration of /configz is at least of; None where no field tells."""
    return next((minor for minor, field in _ALWAYS if field in configz), None)
