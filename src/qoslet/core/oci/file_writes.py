"""Collects the rows of one block in the order in which a runtime writes, until it is refused."""

from __future__ import annotations

from qoslet.core.api.schema import shown
from qoslet.core.cgroup.accepts import INVALID, KEYED, MISSING, NO_DEVICE, Complaint, written
from qoslet.core.cgroup.features import Ground
from qoslet.core.oci.result import Refusal, Row, Stop

_SHOWN = 120
_BESIDE = frozenset(("cpu.max", "cpu.max.burst", "cpu.weight"))
"""Files of which another file bounds what the kernel takes."""


class Pen:
    """Writes rows. A file that is written again keeps its place and takes the new value, or the
    new line beside those before. ``stood``: what files hold that no row has written yet. Without
    ``judges`` a value that the kernel or the runtime refuses stands as it is."""

    __slots__ = ("ground", "judges", "rows", "stood")

    def __init__(
        self, ground: Ground, stood: dict[str, str] | None = None, judges: bool = True
    ) -> None:
        self.ground = ground
        self.judges = judges
        self.rows: dict[str, Row] = {}
        self.stood = stood or {}

    def _stands(self, file: str) -> str | None:
        row = self.rows.get(file)
        return self.stood.get(file) if row is None else row.applied

    def put(self, file: str, value: str, field: str, rule: str, *inputs: object) -> None:
        """One write; Stop where the kernel refuses it."""
        before = self.rows.get(file)
        stood = self.stood.get(file) if before is None else before.applied
        stands = written(file, value, stood, self.ground)
        if isinstance(stands, tuple):
            self.refuse(refused(field, file, value, *stands))
            stands = value
        elif self.judges and file in _BESIDE:
            found = self._beside(file, stands)
            if found is not None:
                raise Stop(refused(field, file, value, *found))
        value = value.removesuffix("\n") or value
        if before is not None and file in KEYED:
            value = f"{before.value}\n{value}"
        self.rows[file] = Row(file, value, field, rule, inputs, None if stands == value else stands)

    def _beside(self, file: str, stands: str) -> Complaint | None:
        """What the kernel refuses for what stands in another file."""
        if file != "cpu.weight":
            other = self._stands("cpu.max.burst" if file == "cpu.max" else "cpu.max")
            if other is not None:
                quota, burst = (stands, other) if file == "cpu.max" else (other, stands)
                amount = quota.partition(" ")[0]
                if amount != "max" and int(burst) > int(amount):
                    return INVALID, f"a burst of at most the quota {amount}"
        elif self._stands("cpu.idle") == "1":
            return INVALID, "no weight while cpu.idle is 1"
        return None

    def add(
        self, file: str, line: str, field: str, rule: str, *inputs: object, judged: bool = True
    ) -> None:
        """A further line of a file that takes one entry at a time; Stop where the kernel refuses
        it. Without ``judged`` it takes what it would not."""
        device, there = line.partition(" ")[0], self.ground.devices
        if there is not None and ":" in device and device not in there:
            raise Stop(refused(field, file, line, NO_DEVICE, "a disk that the machine has"))
        before = self.rows.get(file)
        value = line if before is None else f"{before.value}\n{line}"
        stands = value
        if file in KEYED:
            found = written(file, line, self._stands(file), self.ground)
            if isinstance(found, str):
                stands = found
            elif judged:
                raise Stop(refused(field, file, line, *found))
        self.rows[file] = Row(file, value, field, rule, inputs, None if stands == value else stands)

    def refuse(self, refusal: Refusal) -> None:
        """Stop with the refusal, where this judges."""
        if self.judges:
            raise Stop(refusal)

    def absent(self, file: str, value: str, field: str) -> Stop:
        """The refusal of a file that the kernel does not have."""
        return Stop(
            refused(field, file, value, MISSING, "no value: this kernel does not have the file")
        )


def refused(field: str, file: str, value: str, error: str, takes: str) -> Refusal:
    """The kernel's refusal of a write."""
    inputs = (file, shown(value) if len(value) > _SHOWN else value, error, takes)
    return Refusal(field, error, "refused.kernel", inputs, file)


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
