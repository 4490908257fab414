"""``linux.resources`` of an OCI config, as a value.

Absent and null are None: a runtime tells them from zero. Numbers have the widths of the
specification, so what no runtime could decode is a fault of the document; a name that the
specification lacks is not read, and told. Source: OCI runtime-spec config-linux.md,
specs-go/config.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from qoslet.core.problem import Problem
from qoslet.errors import BadInput

Signed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Unsigned = Annotated[int, Meta(ge=0)]
Small = Annotated[int, Meta(ge=0, le=65535)]
Class = Annotated[int, Meta(ge=0, le=2**32 - 1)]

_SPELLED = {
    "block_io": "blockIO",
    "class_id": "classID",
    "disable_oom_killer": "disableOOMKiller",
    "kernel_tcp": "kernelTCP",
    "throttle_read_iops_device": "throttleReadIOPSDevice",
    "throttle_write_iops_device": "throttleWriteIOPSDevice",
}


def spelled(name: str) -> str:
    """A field of ours in the specification's spelling."""
    if name in _SPELLED:
        return _SPELLED[name]
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class Memory(
    Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True, forbid_unknown_fields=True
):
    """``memory``; bytes. ``swap`` is memory and swap together."""

    limit: Signed | None = None
    reservation: Signed | None = None
    swap: Signed | None = None
    kernel: Signed | None = None
    kernel_tcp: Signed | None = None
    swappiness: Unsigned | None = None
    disable_oom_killer: bool | None = None
    use_hierarchy: bool | None = None
    check_before_update: bool | None = None


class Cpu(
    Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True, forbid_unknown_fields=True
):
    """``cpu``; times in microseconds."""

    shares: Unsigned | None = None
    quota: Signed | None = None
    burst: Unsigned | None = None
    period: Unsigned | None = None
    realtime_runtime: Signed | None = None
    realtime_period: Unsigned | None = None
    cpus: str | None = None
    mems: str | None = None
    idle: Signed | None = None


class Pids(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """``pids``."""

    limit: Signed | None = None


class Weight(
    Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True, forbid_unknown_fields=True
):
    """An entry of ``weightDevice``."""

    major: Signed
    minor: Signed
    weight: Small | None = None
    leaf_weight: Small | None = None


class Rate(Struct, frozen=True, gc=False, omit_defaults=False, forbid_unknown_fields=True):
    """An entry of the throttles: bytes or operations a second."""

    major: Signed
    minor: Signed
    rate: Unsigned = 0


class BlockIo(
    Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True, forbid_unknown_fields=True
):
    """``blockIO``."""

    weight: Small | None = None
    leaf_weight: Small | None = None
    weight_device: list[Weight] | None = None
    throttle_read_bps_device: list[Rate] | None = None
    throttle_write_bps_device: list[Rate] | None = None
    throttle_read_iops_device: list[Rate] | None = None
    throttle_write_iops_device: list[Rate] | None = None


class Hugepages(
    Struct, frozen=True, gc=False, rename=spelled, omit_defaults=False, forbid_unknown_fields=True
):
    """An entry of ``hugepageLimits``."""

    page_size: str
    limit: Unsigned = 0


class Priority(Struct, frozen=True, gc=False, omit_defaults=False, forbid_unknown_fields=True):
    """An entry of ``network.priorities``."""

    name: str
    priority: Class = 0


class Network(
    Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True, forbid_unknown_fields=True
):
    """``network``."""

    class_id: Class | None = None
    priorities: list[Priority] | None = None


class Device(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """An entry of ``devices``."""

    allow: bool | None = None
    type: str | None = None
    major: Signed | None = None
    minor: Signed | None = None
    access: str | None = None


class Rdma(
    Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True, forbid_unknown_fields=True
):
    """A device of ``rdma``."""

    hca_handles: Class | None = None
    hca_objects: Class | None = None


class Block(
    Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True, forbid_unknown_fields=True
):
    """``linux.resources``. Device rules and RDMA are carried, not converted."""

    memory: Memory | None = None
    cpu: Cpu | None = None
    pids: Pids | None = None
    block_io: BlockIo | None = None
    hugepage_limits: list[Hugepages] | None = None
    network: Network | None = None
    devices: list[Device] | None = None
    rdma: dict[str, Rdma] | None = None
    unified: dict[str, str] | None = None

    @property
    def cpu_without_lists(self) -> bool:
        """Whether there is ``cpu`` with neither ``cpus`` nor ``mems``: on v1 crun is done then
        before it looks at ``unified``."""
        return self.cpu is not None and self.cpu.cpus is None and self.cpu.mems is None


NO_MEMORY, NO_CPU, NO_PIDS, NO_IO = Memory(), Cpu(), Pids(), BlockIo()

_WIDEST = 2**64 - 1
_WIDE = (("memory", ("swappiness",)), ("cpu", ("shares", "burst", "period", "realtime_period")))
_THROTTLES = (
    "throttle_read_bps_device",
    "throttle_write_bps_device",
    "throttle_read_iops_device",
    "throttle_write_iops_device",
)


def block_of(
    given: Mapping[str, Any], where: str = "", problems: list[Problem] | None = None
) -> Block:
    """A decoded block; BadInput names the field that no runtime could decode. A name that the
    specification lacks is a row more of ``problems``."""
    try:
        block = msgspec.convert(given, Block)
    except msgspec.ValidationError:
        # names are looked at apart, since the decoder stops at the first; imported where a block
        # is refused, as it needs all about types
        from qoslet.core.api.unknown_fields import complaint, without_unknown

        known, found = without_unknown(given, Block, where)
        try:
            block = msgspec.convert(known, Block)
        except msgspec.ValidationError as error:
            message, field = complaint(error, known, Block)
            raise BadInput(message, where=_joined(where, field) or "text") from None
        if problems is not None:
            problems += found
    _bounded(block, where)
    return block


def _bounded(block: Block, where: str) -> None:
    """BadInput for an unsigned number beyond 64 bits, which the decoder cannot tell."""
    for name, fields in _WIDE:
        part = getattr(block, name)
        if part is None:
            continue
        for field in fields:
            amount = getattr(part, field)
            if amount is not None and amount > _WIDEST:
                raise _too_wide(where, f"{name}.{spelled(field)}")
    for number, one in enumerate(block.hugepage_limits or ()):
        if one.limit > _WIDEST:
            raise _too_wide(where, f"hugepageLimits[{number}].limit")
    if block.block_io is not None:
        _bounded_io(block.block_io, where)


def _bounded_io(io: BlockIo, where: str) -> None:
    for name in _THROTTLES:
        for number, one in enumerate(getattr(io, name) or ()):
            if one.rate > _WIDEST:
                raise _too_wide(where, f"blockIO.{spelled(name)}[{number}].rate")


def _too_wide(where: str, field: str) -> BadInput:
    return BadInput("does not fit 64 bits", where=_joined(where, field))


def _joined(where: str, field: str) -> str:
    return ": ".join(filter(None, (where, field)))


def plain(block: Block) -> dict[str, Any]:
    """The block as JSON values, without what is unset."""
    found: dict[str, Any] = msgspec.to_builtins(block)
    return {name: value for name, value in found.items() if value not in (None, {}, [])}
