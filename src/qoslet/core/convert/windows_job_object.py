"""The job object of a Windows container.

A container's job object (process isolation) or VM (Hyper-V) has one CPU control. The design and
Docker use the first of count, shares and maximum; containerd's shim refuses more than one.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from qoslet.core.convert.windows_fields import WindowsFields
from qoslet.core.oci.result import BlockResult, Refusal, Row, Unsupported

_MIB = 1 << 20
_MOST = 10_000


class Windows(Struct, frozen=True):
    """The Windows machine: isolation, processors (None: unknown), and whether the precedence of the
    design and Docker chooses between CPU controls.

    ``machine``: processors of a container's VM without a count; None if it has all of the
    machine's. ``percent``: the maximum is in whole percents, as dockershim passed it to Docker.
    """

    isolation: str = "process"
    processors: int | None = None
    precedence: bool = False
    machine: int | None = None
    percent: bool = False

    @property
    def isolated(self) -> bool:
        """Whether the container runs in a VM."""
        return self.isolation == "hyperv"

    def within(self, count: int) -> int | None:
        """The processors that a maximum is a share of; ``count`` is the job object's, 0 if unset."""
        return (count or self.machine or self.processors) if self.isolated else self.processors


OWN_MACHINE = 2
"""The default number of processors of a Hyper-V container's VM. Source: hcsshim internal/uvm
defaultProcessorCount."""

BY_POD = "by pod"
"""The isolation of a conversion whose pods differ."""

PROCESS = Windows()
"""Process isolation on a machine of unknown size."""

_LABEL = "containerd.io/snapshot/windows/rootfs.sizebytes"


def _elsewhere(fields: WindowsFields, windows: Windows) -> list[Unsupported]:
    """The settings that the job object has no field for."""
    unsupported = []
    if fields.rootfs_size_in_bytes and fields.oci:
        why, instead = "the shim does not read it", f"the snapshot's label {_LABEL}"
        unsupported.append(
            Unsupported("storage.sandboxSize", why, instead, field="storage.sandboxSize")
        )
    elif fields.rootfs_size_in_bytes:
        why = "a job object has no disk size"
        instead = f"containerd labels the container's snapshot {_LABEL}"
        unsupported.append(
            Unsupported("rootfs_size_in_bytes", why, instead, "elsewhere", "rootfs_size_in_bytes")
        )
    if fields.affinity_cpus and windows.isolated:
        why = "the shim supports it only with process isolation"
        unsupported.append(
            Unsupported("affinity_cpus", why, "process isolation", field="affinity_cpus")
        )
    elif fields.affinity_cpus:
        why = "a job object's Processor has a count, a maximum and a weight"
        instead = (
            "the shim gives the job object these groups and masks, if it supports cpu.affinity"
        )
        unsupported.append(Unsupported("affinity_cpus", why, instead, "elsewhere", "affinity_cpus"))
    limit = fields.memory_limit_in_bytes
    if 0 < limit < _MIB:
        why = f"{limit} bytes are 0 whole MiB, which the shim treats as no limit"
        unsupported.append(
            Unsupported(
                "memory_limit_in_bytes", why, "1 MiB or more", field="memory_limit_in_bytes"
            )
        )
    return unsupported


def _refusal(
    count: int, weight: int, maximum: int, fields: WindowsFields, windows: Windows
) -> Refusal | None:
    """Why the shim or Windows refuses the settings; None if they do not."""
    if not windows.precedence and sum(map(bool, (count, weight, maximum))) > 1:
        words = (
            f"invalid spec - Windows Container CPU Count: '{count}', Limit: '{maximum}', and "
            f"Weight: '{weight}' are mutually exclusive"
        )
        return Refusal("cpu", words, "refused.windows", (count, maximum, weight))
    if windows.percent and maximum > 100:
        words = "range of CPUPercent is from 1 to 100"
        return Refusal("cpu_maximum", words, "refused.windows.percent", (maximum,))
    for name, amount in (("cpu_shares", weight), ("cpu_maximum", maximum)):
        if amount > _MOST:
            words = "is beyond its range"
            return Refusal(name, words, "refused.windows.range", (name, amount))
    for number, (_, mask) in enumerate(fields.affinity_cpus):
        if not mask and not windows.isolated:
            words = f"cpu affinity mask must be non-zero: entry {number} has zero mask"
            return Refusal("affinity_cpus", words, "refused.windows.affinity", (number,))
    return None


def object_part(fields: WindowsFields, windows: Windows) -> BlockResult:
    """The settings of the container's job object."""
    if fields.host_process and windows.isolated:
        words = "HostProcess containers run on the host, not in a VM"
        return BlockResult(refusal=Refusal("host_process", words, "refused.windows.host_process"))
    count, weight, maximum = fields.cpu_count, fields.cpu_shares, fields.cpu_maximum
    lost = _elsewhere(fields, windows)
    if windows.precedence and not windows.isolated:
        count, weight, maximum, after = _first(count, weight, maximum, windows)
        lost = [*after, *lost]
    refusal = _refusal(count, weight, maximum, fields, windows)
    if refusal is not None:
        return BlockResult(refusal=refusal)
    rows = []
    kept = count if windows.processors is None else min(count, windows.processors)
    if count:
        inputs = (count, windows.processors)
        rows.append(Row("Processor.Count", str(kept), "cpu_count", "windows.object.count", inputs))
    if maximum:
        value = maximum * 100 if windows.percent else maximum
        cap = (value, windows.within(kept), windows.isolated)
        name = "Processor.Maximum"
        rows.append(Row(name, str(value), "cpu_maximum", "windows.object.maximum", cap))
    if weight:
        name = "Processor.Weight"
        rows.append(Row(name, str(weight), "cpu_shares", "windows.object.weight", (weight,)))
    return BlockResult((*rows, *_memory(fields), *_storage(fields)), lost=tuple(lost))


def _memory(fields: WindowsFields) -> Iterator[Row]:
    limit, name = fields.memory_limit_in_bytes, "memory_limit_in_bytes"
    if limit >= _MIB:
        yield Row("Memory.SizeInMB", str(limit // _MIB), name, "windows.object.memory", (limit,))


def _storage(fields: WindowsFields) -> Iterator[Row]:
    rates = (
        ("IopsMaximum", fields.storage_iops, "storage.iops", "operations"),
        ("BandwidthMaximum", fields.storage_bps, "storage.bps", "bytes"),
    )
    for name, rate, field, what in rates:
        if rate:
            file, inputs = f"Storage.QoS.{name}", (rate, what)
            yield Row(file, str(rate), field, "windows.object.storage", inputs)


def _first(
    count: int, weight: int, maximum: int, windows: Windows
) -> tuple[int, int, int, list[Unsupported]]:
    """The precedence under process isolation: count, then shares, then maximum."""
    named = (("cpu_count", count), ("cpu_shares", weight), ("cpu_maximum", maximum))
    present = [name for name, amount in named if amount]
    instead = "use Hyper-V isolation, which has all three"
    if windows.percent:
        instead = "use Kubernetes 1.18 or later, which sends only the maximum"
    lost = [
        Unsupported(name, f"a job object has one CPU control, and {present[0]} takes precedence", instead,
             field=name)
        for name in present[1:]
    ]  # fmt: skip
    amounts = [amount if name in present[:1] else 0 for name, amount in named]
    return amounts[0], amounts[1], amounts[2], lost
