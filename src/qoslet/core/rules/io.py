"""Block I/O weights: no kubelet writes them, OCI blocks carry them."""

from __future__ import annotations


def bfq_to_io_weight(weight: int) -> int:
    """An OCI blkio weight (10..1000) on the io.weight scale (1..10000); 0 is "unset".

    Source: opencontainers/cgroups ConvertBlkIOToIOWeightValue; KEP-2254 prints the same
    formula for io.bfq.weight, which both runtimes write unscaled today.
    """
    if weight == 0:
        return 0
    return 1 + (weight - 10) * 9999 // 990
