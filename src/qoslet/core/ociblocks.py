"""``linux.resources`` of an OCI config to the v2 files that a runtime writes, in its order.

The block is what stands in a bundle's config.json (runtime-spec config-linux). Source:
opencontainers/cgroups fs2; crun cgroup-resources.c; KEP-2254's tables under profile ``design``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qoslet.core.basis import Basis
from qoslet.core.containers import Why
from qoslet.core.oci import Files, swap_max
from qoslet.core.rules.cpu import milli_of_quota, milli_of_shares
from qoslet.core.rules.io import bfq_to_io_weight
from qoslet.core.tree import Setting

Block = Mapping[str, Any]

_BLOCK: Why = ("oci.block", ())

_RATES = (
    ("throttleReadBpsDevice", "rbps"),
    ("throttleWriteBpsDevice", "wbps"),
    ("throttleReadIOPSDevice", "riops"),
    ("throttleWriteIOPSDevice", "wiops"),
)


def block_settings(basis: Basis, block: Block) -> tuple[Setting, ...]:
    """The files of a v2 group for a block; ValueError where the runtime refuses it.

    Absent and null fields are not written. What v2 does not have (kernel memory, swappiness,
    real time) is left out, as runc does.
    """
    files = Files(basis, "qoslet" if basis.runtime.oci == "process" else "runtime")
    crun = basis.runtime.oci == "crun"
    limit = (block.get("pids") or {}).get("limit")
    if limit is not None and not (crun and limit == 0):
        files.pids(limit, _BLOCK)
    _memory(files, block.get("memory") or {}, basis, crun)
    _io(files, block.get("blockIO") or {}, basis.choices.bfq_weight)
    _cpu(files, block.get("cpu") or {}, basis.runtime.curve)
    sizes = {entry["pageSize"]: entry["limit"] for entry in block.get("hugepageLimits") or ()}
    for text in sorted(sizes):
        files.put(f"hugetlb.{text}.max", str(sizes[text]), _BLOCK)
        if basis.runtime.rsvd and basis.node.host.hugetlb_rsvd:
            files.put(f"hugetlb.{text}.rsvd.max", str(sizes[text]), _BLOCK)
    for file, value in (block.get("unified") or {}).items():
        if "/" in file:
            raise ValueError(f"unified resource {file!r} must be a file name (no slashes)")
        files.put(file, value, _BLOCK)
    return files.settings()


def _memory(files: Files, memory: Block, basis: Basis, crun: bool) -> None:
    limit, swap = memory.get("limit") or 0, memory.get("swap") or 0
    unlimited = crun and limit == -1 and swap == 0
    text = None if unlimited else swap_max(limit, swap, basis.choices.swap_conversion)
    if text is not None:
        files.put("memory.swap.max", text, _BLOCK)
    files.memory_limit(limit, _BLOCK)
    if memory.get("reservation"):
        files.put("memory.low", str(memory["reservation"]), _BLOCK)


def _io(files: Files, io: Block, form: str) -> None:
    devices = [("", io.get("weight") or 0)] + [
        (f"{one['major']}:{one['minor']} ", one.get("weight") or 0)
        for one in io.get("weightDevice") or ()
    ]
    lines: list[str] = []
    why: Why = ("io.weight.raw", ())
    for device, weight in devices:
        if weight:
            written = bfq_to_io_weight(weight) if form == "scaled" else weight
            lines.append(f"{device}{written}")
            why = (f"io.weight.{form}", (device.strip() or "the group's", weight, written))
    if lines:
        files.put("io.bfq.weight", "\n".join(lines), why)
    rates = [
        f"{one['major']}:{one['minor']} {key}={one['rate']}"
        for field, key in _RATES
        for one in io.get(field) or ()
    ]
    if rates:
        files.put("io.max", "\n".join(rates), ("io.max", (len(rates),)))


def _cpu(files: Files, cpu: Block, curve: str) -> None:
    shares, quota, period = (cpu.get(name) or 0 for name in ("shares", "quota", "period"))
    if cpu.get("idle") is not None:
        files.put("cpu.idle", str(cpu["idle"]), _BLOCK)
    if shares:
        files.weight(shares, "cpu shares for", milli_of_shares(shares), curve)
    files.bandwidth(quota, period, "cpu quota for", milli_of_quota(quota, period or 100_000))
    if cpu.get("burst") is not None:
        files.put("cpu.max.burst", str(cpu["burst"]), _BLOCK)
    for name in ("cpus", "mems"):
        if cpu.get(name):
            files.put(f"cpuset.{name}", cpu[name], _BLOCK)
