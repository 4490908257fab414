"""The tables of KEP-2254 for block I/O weights and CPU shares: their formulas, and their domains.

The document scales a blkio weight of 10 to 1000 to 1 to 10000 and names io.bfq.weight, which takes
1 to 1000: weights above 108 have no value there. Without BFQ the same value is one of io.weight.
Source: KEP-2254, phase 1; block/bfq-cgroup.c BFQ_MIN_WEIGHT, BFQ_MAX_WEIGHT; block/blk-iocost.c.
"""

from __future__ import annotations

from qoslet.core.cgroup.accepts import RANGE
from qoslet.core.oci.file_writes import FileWrites
from qoslet.core.oci.resources import BlockIo
from qoslet.core.oci.result import Refusal, Stop
from qoslet.core.rules.cpu import MAX_SHARES, MIN_SHARES
from qoslet.core.rules.oci import bfq_to_io_weight

LEAST_WEIGHT, MOST_WEIGHT = 10, 1000
"""The blkio weights that the document converts."""

MOST_BFQ = 1000
"""The largest weight that BFQ takes. Source: block/bfq-iosched.h."""


def check_shares(writes: FileWrites, shares: int) -> None:
    """Stop for shares that the table does not convert; 0 is unset."""
    if shares:
        _within(writes, "cpu.shares", shares, MIN_SHARES, MAX_SHARES)


def _within(writes: FileWrites, field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        message = f"{field} must be {least} to {most}"
        writes.refuse(Refusal(field, message, "refused.table", (field, value, least, most)))


def write_weights(writes: FileWrites, io: BlockIo) -> None:
    """The weight of the cgroup and those of devices, each by the formula."""
    for number, (field, device, weight) in enumerate(_weights(io), 1):
        _within(writes, field, weight, LEAST_WEIGHT, MOST_WEIGHT)
        amount = bfq_to_io_weight(weight)
        _write(writes, field, f"{device} {amount}".lstrip(), weight, amount, number)


def _weights(io: BlockIo) -> list[tuple[str, str, int]]:
    """Field, device and weight of everything that is set."""
    weights = [("blockIO.weight", "", io.weight)] if io.weight else []
    return weights + [
        ("blockIO.weightDevice", f"{one.major}:{one.minor}", one.weight)
        for one in io.weight_device or ()
        if one.weight
    ]


def _write(
    writes: FileWrites, field: str, line: str, weight: int, amount: int, number: int
) -> None:
    features = writes.features
    file = "io.bfq.weight" if features.bfq else "io.weight"
    if not (features.bfq or features.iocost):
        raise writes.absent(file, line, field)
    if features.bfq and amount > MOST_BFQ:
        inputs = (weight, amount, MOST_BFQ)
        raise Stop(Refusal(field, RANGE, "refused.bfq", inputs, file))
    writes.add(file, line, field, "oci.io.weight.scaled", weight, amount, number)
