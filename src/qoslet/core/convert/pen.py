"""Collects the rows of one block in the order in which a runtime writes, until it is refused."""

from __future__ import annotations

from qoslet.core.convert.answer import Ground, Refusal, Row, Stop
from qoslet.core.convert.kernel import MISSING, NO_DEVICE, complaint, kept


class Pen:
    """Writes rows. A file that is written again keeps its place and takes the new value."""

    __slots__ = ("ground", "rows")

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.rows: dict[str, Row] = {}

    def put(self, file: str, value: str, field: str, rule: str, *inputs: object) -> None:
        """One write; Stop where the kernel refuses it."""
        ground = self.ground
        found = complaint(file, value, ground)
        if found is not None:
            raise Stop(refused(field, file, value, *found))
        stands = kept(file, value, ground.page_size)
        self.rows[file] = Row(file, value, field, rule, inputs, None if stands == value else stands)

    def add(self, file: str, line: str, field: str, rule: str, *inputs: object) -> None:
        """A further line of a file that takes one entry at a time."""
        device, there = line.partition(" ")[0], self.ground.devices
        if there is not None and ":" in device and device not in there:
            raise Stop(refused(field, file, line, NO_DEVICE, "a disk that the machine has"))
        before = self.rows.get(file)
        value = line if before is None else f"{before.value}\n{line}"
        stands = kept(file, value, self.ground.page_size)
        self.rows[file] = Row(file, value, field, rule, inputs, None if stands == value else stands)

    def absent(self, file: str, value: str, field: str) -> Stop:
        """The refusal of a file that the kernel does not have."""
        return Stop(refused(field, file, value, MISSING, "no value: this kernel does not have it"))


def refused(field: str, file: str, value: str, error: str, takes: str) -> Refusal:
    """The kernel's refusal of a write."""
    return Refusal(field, error, "refused.kernel", (file, value, error, takes), file)


def same(pen: Pen, file: str, field: str, value: int | str) -> None:
    """A value that is written as it stands."""
    pen.put(file, str(value), field, "oci.same", field, value)


_RATES = (
    ("throttle_read_bps_device", "throttleReadBpsDevice", "rbps", "read_bps"),
    ("throttle_write_bps_device", "throttleWriteBpsDevice", "wbps", "write_bps"),
    ("throttle_read_iops_device", "throttleReadIOPSDevice", "riops", "read_iops"),
    ("throttle_write_iops_device", "throttleWriteIOPSDevice", "wiops", "write_iops"),
)
RATES = _RATES
"""Field of ours, the specification's, key of io.max, part of the v1 file's name."""
