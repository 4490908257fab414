"""Which rules a Kubernetes release and a runtime use. (Being written.)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

MemoryQosForm = Literal["1.22", "1.27", "1.36", "1.37", "design", "qoslet", "off"]
WeightCurve = Literal["linear", "quadratic"]


class Runtime(Struct, frozen=True):
    """How the program that writes container cgroups does it. ``name`` is the text as given."""

    name: str
    curve: WeightCurve
    cri: str | None
    oci: str
    hugetlb: bool
    rsvd: bool


class Profile(Struct, frozen=True):
    """The choices of one Kubernetes release (or of the design documents) and its runtime."""

    kubernetes: str
    minor: int
    runtime: Runtime
    memory_qos: MemoryQosForm
    gates: Mapping[str, bool]
