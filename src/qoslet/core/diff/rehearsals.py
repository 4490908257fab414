"""Named changes of a node: the options of both sides of a ``diff``.

A name is ``A-to-B`` of releases, runtimes, hierarchies or drivers, or one of ``NAMED``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from qoslet.errors import BadInput

Options = Mapping[str, str]
"""Long options of ``plan`` without their dashes, and their values."""


class Rehearsal(Struct, frozen=True):
    """``about`` is a line for people; ``before`` and ``after`` are what the sides have. ``gates``
    are feature gates of the second side, beside those that are given."""

    name: str
    about: str
    before: Options = {}
    after: Options = {}
    gates: Mapping[str, bool] = {}


NAMED: tuple[Rehearsal, ...] = (
    Rehearsal(
        "memory-qos",
        "the gate MemoryQoS on instead of off",
        after={},
        gates={"MemoryQoS": True},
    ),
    Rehearsal(
        "memory-qos-qoslet",
        "Memory QoS as qoslet does it instead of the kubelet's",
        after={"memory-qos": "qoslet"},
    ),
    Rehearsal(
        "no-memory-qos",
        "no Memory QoS",
        after={"memory-qos": "off"},
    ),
    Rehearsal(
        "limited-swap",
        "memorySwap.swapBehavior: LimitedSwap instead of NoSwap",
        before={"memory-swap-behavior": "NoSwap"},
        after={"memory-swap-behavior": "LimitedSwap"},
    ),
    Rehearsal(
        "no-cpu-quota",
        "cpuCFSQuota: false instead of true",
        before={"cpu-cfs-quota": "true"},
        after={"cpu-cfs-quota": "false"},
    ),
    Rehearsal(
        "static-cpus",
        "cpuManagerPolicy: static instead of none",
        before={"cpu-manager-policy": "none"},
        after={"cpu-manager-policy": "static"},
    ),
)

_RELEASE = r"[0-9][0-9.]*(?:-rc[.0-9]*)?"
_RUNTIME = rf"[a-z][a-z-]*-{_RELEASE}"

PATTERNS: tuple[tuple[str, str, str], ...] = (
    (r"v[12]", "hierarchy", "v1-to-v2"),
    (r"cgroupfs|systemd", "cgroup-driver", "cgroupfs-to-systemd"),
    (r"v?1\.\d+(?:\.\d+)?", "kubernetes", "1.36-to-1.37"),
    (rf"{_RUNTIME}(?:\+{_RUNTIME})?", "runtime", "runc-1.3.1-to-runc-1.3.2"),
)
"""How a side is written, the option that it is a value of, and an example."""


def names() -> str:
    """What a name may be, for messages and help."""
    return ", ".join([*(example for _, _, example in PATTERNS), *(one.name for one in NAMED)])


def rehearsal(name: str) -> Rehearsal:
    """The rehearsal of a name. Raises BadInput for an unknown one."""
    for known in NAMED:
        if known.name == name:
            return known
    before, between, after = name.rpartition("-to-")
    if between and (found := _of_sides(name, before, after)):
        return found
    from difflib import get_close_matches

    parts = name[:80].split("-")
    cuts = [("-".join(parts[:at]), "-".join(parts[at:])) for at in range(1, len(parts))]
    near = [f"{first}-to-{last}" for first, last in cuts if _of_sides(name, first, last)]
    near = near or get_close_matches(name, [one.name for one in NAMED], 1, 0.6)
    hint = f"did you mean {near[0]}?" if near else f"such as {names()}"
    raise BadInput(f"unknown rehearsal {name!r}", where="--rehearse", hint=hint)


def _of_sides(name: str, before: str, after: str) -> Rehearsal | None:
    """The rehearsal of two values of one option; None where they are not."""
    for pattern, option, _ in PATTERNS:
        if re.fullmatch(pattern, before):
            if option == "runtime" and "+" not in before and re.fullmatch(_RELEASE, after):
                # runc-1.3.1-to-1.3.2
                after = f"{re.split(r'-(?=[0-9])', before)[0]}-{after}"
            if re.fullmatch(pattern, after):
                about = f"--{option} {after} instead of {before}"
                return Rehearsal(name, about, {option: before}, {option: after})
    return None
