"""Block I/O: no kubelet writes it, OCI blocks carry it (KEP-2254's table).

Weights are blkio's 10..1000, rates bytes or operations a second.
"""

from __future__ import annotations

from qoslet.core.rules.catalog import rule


def bfq_to_io_weight(weight: int) -> int:
    """An OCI blkio weight (10..1000) on the io.weight scale (1..10000); 0 is "unset".

    Source: opencontainers/cgroups ConvertBlkIOToIOWeightValue; KEP-2254 prints the same
    formula for io.bfq.weight, which both runtimes write unscaled today.
    """
    if weight == 0:
        return 0
    return 1 + (weight - 10) * 9999 // 990


@rule("io.weight.raw", "opencontainers/cgroups fs2/io.go, crun: io.bfq.weight as it is")
def _raw(device: str, weight: int, written: int) -> str:
    return f"{device} weight {weight}, not scaled"


@rule("io.weight.scaled", "KEP-2254: 1 + (x - 10) * 9999 / 990; runtimes do so for io.weight only")
def _scaled(device: str, weight: int, written: int) -> str:
    return f"{device} weight {weight} -> 1 + ({weight} - 10) x 9999 / 990 = {written}"


@rule("io.max", "KEP-2254: rates as they are; opencontainers/cgroups fs2/io.go")
def _max(entries: int) -> str:
    return f"{entries} rates of the block, one line for each device"


@rule("oci.block", "KEP-2254, its y = x rows; opencontainers/cgroups fs2; crun cgroup-resources.c")
def _block() -> str:
    return "as the OCI block says"
