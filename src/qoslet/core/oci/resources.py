"""``linux.resources`` of an OCI config, as a value.

Absent and null are None: a runtime distinguishes them from zero. Numbers have the widths of the
specification: values that no runtime can decode are errors. Names that the specification lacks are
problems, and not read. Source: OCI runtime-spec config-linux.md,
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
    """A field of these classes in the specification's spelling."""
    if name in _SPELLED:
        return _SPELLED[name]
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class _Spec(
    Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True, forbid_unknown_fields=True
):
    """An object of the specification."""


class Memory(_Spec, frozen=True):
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


class Cpu(_Spec, frozen=True):
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


class Pids(_Spec, frozen=True):
    """``pids``."""

    limit: Signed | None = None


class Weight(_Spec, frozen=True):
    """An entry of ``weightDevice``."""

    major: Signed
    minor: Signed
    weight: Small | None = None
    leaf_weight: Small | None = None


class Rate(_Spec, frozen=True, omit_defaults=False):
    """An entry of the throttles: bytes or operations a second."""

    major: Signed
    minor: Signed
    rate: Unsigned = 0


class BlockIo(_Spec, frozen=True):
    """``blockIO``."""

    weight: Small | None = None
    leaf_weight: Small | None = None
    weight_device: list[Weight] | None = None
    throttle_read_bps_device: list[Rate] | None = None
    throttle_write_bps_device: list[Rate] | None = None
    throttle_read_iops_device: list[Rate] | None = None
    throttle_write_iops_device: list[Rate] | None = None


class Hugepages(_Spec, frozen=True, omit_defaults=False):
    """An entry of ``hugepageLimits``."""

    page_size: str
    limit: Unsigned = 0


class Priority(_Spec, frozen=True, omit_defaults=False):
    """An entry of ``network.priorities``."""

    name: str
    priority: Class = 0


class Network(_Spec, frozen=True):
    """``network``."""

    class_id: Class | None = None
    priorities: list[Priority] | None = None


class Device(_Spec, frozen=True):
    """An entry of ``devices``."""

    allow: bool | None = None
    type: str | None = None
    major: Signed | None = None
    minor: Signed | None = None
    access: str | None = None


class Rdma(_Spec, frozen=True):
    """A device of ``rdma``."""

    hca_handles: Class | None = None
    hca_objects: Class | None = None


class Block(_Spec, frozen=True):
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
        """Whether there is ``cpu`` with neither ``cpus`` nor ``mems``: on v1 crun returns then
        before it checks ``unified``."""
        return self.cpu is not None and self.cpu.cpus is None and self.cpu.mems is None


NO_MEMORY, NO_CPU, NO_PIDS, NO_IO = Memory(), Cpu(), Pids(), BlockIo()

_WIDEST = 2**64 - 1
_WIDE = (("memory", ("swappiness",)), ("cpu", ("shares", "burst", "period", "realtime_period")))
_THROTTLES = [name for name in BlockIo.__struct_fields__ if name.startswith("throttle")]


def block_of(
    given: Mapping[str, Any], where: str = "", problems: list[Problem] | None = None
) -> Block:
    """Decodes a block. Raises BadInput for a field that no runtime can decode. Adds a row to
    ``problems`` for each name that the specification lacks."""
    try:
        block = msgspec.convert(given, Block)
    except msgspec.ValidationError:
        # the decoder stops at the first unknown name; imported here, as few blocks have one
        from qoslet.core.api.input.unknown_fields import complaint, without_unknown

        known, unknown = without_unknown(given, Block, where)
        try:
            block = msgspec.convert(known, Block)
        except msgspec.ValidationError as error:
            message, field = complaint(error, known, Block)
            raise BadInput(message, where=_joined(where, field) or "text") from None
        if problems is not None:
            problems += unknown
    _bounded(block, where)
    return block


def _bounded(block: Block, where: str) -> None:
    """Raises BadInput for an unsigned number beyond 64 bits, which the decoder does not check."""
    for name, fields in _WIDE:
        part = getattr(block, name)
        if part is None:
            continue
        for field in fields:
            amount = getattr(part, field)
            if amount is not None and amount > _WIDEST:
                raise _too_wide(where, f"{name}.{spelled(field)}")
    for number, hugepages in enumerate(block.hugepage_limits or ()):
        if hugepages.limit > _WIDEST:
            raise _too_wide(where, f"hugepageLimits[{number}].limit")
    if block.block_io is not None:
        _bounded_io(block.block_io, where)


def _bounded_io(io: BlockIo, where: str) -> None:
    for name in _THROTTLES:
        for number, entry in enumerate(getattr(io, name) or ()):
            if entry.rate > _WIDEST:
                raise _too_wide(where, f"blockIO.{spelled(name)}[{number}].rate")


def _too_wide(where: str, field: str) -> BadInput:
    return BadInput("does not fit 64 bits", where=_joined(where, field))


def _joined(where: str, field: str) -> str:
    return ": ".join(filter(None, (where, field)))


def plain(block: Block) -> dict[str, Any]:
    """The block as JSON values, without what is unset."""
    fields: dict[str, Any] = msgspec.to_builtins(block)
    return {name: value for name, value in fields.items() if value not in (None, {}, [])}
