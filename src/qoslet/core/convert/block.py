"""``linux.resources`` of an OCI config, as a value.

Absent and null are None: a runtime tells them from zero. Numbers have the widths of the
specification, so what no runtime could decode is a fault of the document. Source: OCI
runtime-spec config-linux.md, specs-go/config.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

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


class Memory(Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True):
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


class Cpu(Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True):
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


class Pids(Struct, frozen=True, gc=False, omit_defaults=True):
    """``pids``."""

    limit: Signed | None = None


class Weight(Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True):
    """An entry of ``weightDevice``."""

    major: Signed
    minor: Signed
    weight: Small | None = None
    leaf_weight: Small | None = None


class Rate(Struct, frozen=True, gc=False, omit_defaults=False):
    """An entry of the throttles: bytes or operations a second."""

    major: Signed
    minor: Signed
    rate: Unsigned = 0


class BlockIo(Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True):
    """``blockIO``."""

    weight: Small | None = None
    leaf_weight: Small | None = None
    weight_device: list[Weight] | None = None
    throttle_read_bps_device: list[Rate] | None = None
    throttle_write_bps_device: list[Rate] | None = None
    throttle_read_iops_device: list[Rate] | None = None
    throttle_write_iops_device: list[Rate] | None = None


class Hugepages(Struct, frozen=True, gc=False, rename=spelled, omit_defaults=False):
    """An entry of ``hugepageLimits``."""

    page_size: str
    limit: Unsigned = 0


class Priority(Struct, frozen=True, gc=False, omit_defaults=False):
    """An entry of ``network.priorities``."""

    name: str
    priority: Class = 0


class Network(Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True):
    """``network``."""

    class_id: Class | None = None
    priorities: list[Priority] | None = None


class Block(Struct, frozen=True, gc=False, rename=spelled, omit_defaults=True):
    """``linux.resources``. Device rules are carried, not read."""

    memory: Memory | None = None
    cpu: Cpu | None = None
    pids: Pids | None = None
    block_io: BlockIo | None = None
    hugepage_limits: list[Hugepages] | None = None
    network: Network | None = None
    devices: list[dict[str, Any]] | None = None
    rdma: dict[str, Any] | None = None
    unified: dict[str, str] | None = None

    @property
    def cpu_without_lists(self) -> bool:
        """Whether there is ``cpu`` with neither ``cpus`` nor ``mems``: on v1 crun is done then
        before it looks at ``unified``."""
        return self.cpu is not None and self.cpu.cpus is None and self.cpu.mems is None


NO_MEMORY, NO_CPU, NO_PIDS, NO_IO = Memory(), Cpu(), Pids(), BlockIo()

_DECODER = msgspec.json.Decoder(Block)
_WIDEST = 2**64 - 1


def block_of(given: Mapping[str, Any], where: str = "") -> Block:
    """A decoded block; BadInput names the field that no runtime could decode."""
    try:
        return _bounded(msgspec.convert(given, Block), where)
    except msgspec.ValidationError as error:
        raise fault(error, where) from None


def block_from_json(text: bytes | str, where: str = "") -> Block:
    """A block from JSON text; BadInput for text that is none, or a field that is none."""
    try:
        return _bounded(_DECODER.decode(text), where)
    except msgspec.ValidationError as error:
        raise fault(error, where) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"broken JSON: {error}", where=where or "text") from None


def _bounded(block: Block, where: str) -> Block:
    """The block, if its unsigned numbers fit 64 bits, which the decoder cannot tell."""
    cpu = block.cpu
    if cpu is None:
        return block
    for name in ("shares", "burst", "period"):
        amount = getattr(cpu, name)
        if amount is not None and amount > _WIDEST:
            raise BadInput("does not fit 64 bits", where=_joined(where, f"cpu.{name}"))
    return block


def _joined(where: str, field: str) -> str:
    return f"{where}: {field}" if where else field


def fault(error: msgspec.ValidationError, where: str) -> BadInput:
    """The decoder's complaint with the field in the document's spelling."""
    message, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").removeprefix(".")
    text = message[:1].lower() + message[1:]
    return BadInput(text, where=_joined(where, field) if field else where or "text")


def plain(block: Block) -> dict[str, Any]:
    """The block as JSON values, without what is unset."""
    found: dict[str, Any] = msgspec.to_builtins(block)
    return {name: value for name, value in found.items() if value not in (None, {}, [])}
