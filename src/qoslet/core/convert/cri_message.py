"""LinuxContainerResources of the CRI: decoded, converted to an OCI block and from one.

A zero field means "not set". Names are the protobuf's or those of its JSON form, numbers may be
texts as there. Source: cri-api runtime.v1; containerd pkg/cri; CRI-O container_create_linux.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from qoslet.core.api.input.unknown_fields import literal
from qoslet.core.api.schema import child, nearest
from qoslet.core.convert.cri_fields import number_of, spot, twice
from qoslet.core.oci.resources import NO_CPU, NO_IO, NO_MEMORY, Block, block_of, plain
from qoslet.core.oci.result import BlockResult, Refusal, Unsupported
from qoslet.core.resources.cgroup_writer import oci_block
from qoslet.core.resources.cri_resources import CriResources, UnifiedEntry
from qoslet.core.versions.runtime import Runtime
from qoslet.errors import BadInput

NUMBERS = (
    "cpu_period",
    "cpu_quota",
    "cpu_shares",
    "memory_limit_in_bytes",
    "oom_score_adj",
    "memory_swap_limit_in_bytes",
)
TEXTS = ("cpuset_cpus", "cpuset_mems")
LINUX = (*NUMBERS, *TEXTS, "hugepage_limits", "unified")
_UNSIGNED = ("cpu_period", "cpu_shares")
"""Numbers that are unsigned in an OCI block."""

_WIDEST = 2**63 - 1

_CRIO_LEAST = {"runc": 12 << 20, "crun": 500 << 10}
"""The smallest memory limit that CRI-O accepts, in bytes. Source: CRI-O container_create_linux.go."""


class Message(Struct, frozen=True):
    """A message: the fields that the kubelet sends, and the CPU and node lists."""

    resources: CriResources
    cpus: str = ""
    mems: str = ""


def snake(name: object) -> str:
    """A field in the protobuf's spelling: ``cpuQuota`` is ``cpu_quota``."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in str(name))


def message_of(given: Mapping[str, Any], where: str = "", path: str = "") -> Message:
    """Decodes a message. Raises BadInput for an unknown field or a value of another type. ``path``
    is the message's place in the document ``where``."""
    fields: dict[str, Any] = {}
    for name, value in given.items():
        place = child(path, str(name))
        at = spot(where, place)
        field = snake(name)
        if field not in LINUX:
            raise _none(str(name), "LinuxContainerResources", LINUX, at)
        if value is None:
            continue
        if field in fields:
            raise twice(field, at)
        fields[field] = _read(field, value, where, place)
    resources = CriResources(
        **{name: fields[name] for name in NUMBERS if name in fields},
        hugepage_limits=fields.get("hugepage_limits", ()),
        unified=fields.get("unified", ()),
    )
    return Message(resources, fields.get("cpuset_cpus", ""), fields.get("cpuset_mems", ""))


def _none(name: str, message: str, known: tuple[str, ...], at: str) -> BadInput:
    hint = nearest(name, known) or f"{message} has {', '.join(known)}"
    return BadInput("is not a field of the message", where=at, hint=hint)


def _read(field: str, value: Any, where: str, path: str) -> object:
    at = spot(where, path)
    if field in NUMBERS:
        number = number_of(value, at)
        if number < 0 and field in _UNSIGNED:
            raise BadInput("is negative, which a resource block cannot express", where=at)
        return number
    if field in TEXTS:
        return _text(value, at)
    if field == "unified":
        if not isinstance(value, Mapping):
            raise BadInput(f"expected `object`, got {literal(value)}", where=at)
        return tuple(
            _entry(key, text, spot(where, child(path, str(key)))) for key, text in value.items()
        )
    if not isinstance(value, list):
        raise BadInput(f"expected `array`, got {literal(value)}", where=at)
    return tuple(_hugepages(item, where, f"{path}[{number}]") for number, item in enumerate(value))


def _entry(key: object, text: object, at: str) -> UnifiedEntry:
    name = _text(key, at)
    return UnifiedEntry(name, _text(text, at), ("oci.unified", (name,)))


def _text(value: object, at: str) -> str:
    if not isinstance(value, str):
        raise BadInput(f"expected `str`, got {literal(value)}", where=at)
    return value


_HUGEPAGES = ("page_size", "limit")


def _hugepages(entry: object, where: str, path: str) -> tuple[str, int]:
    if not isinstance(entry, Mapping):
        raise BadInput(f"expected `object`, got {literal(entry)}", where=spot(where, path))
    size, limit, seen = "", 0, set()
    for name, value in entry.items():
        field, at = snake(str(name)), spot(where, child(path, str(name)))
        if field not in _HUGEPAGES:
            raise _none(str(name), "HugepageLimit", _HUGEPAGES, at)
        if value is None:
            continue
        if field in seen:
            raise twice(field, at)
        seen.add(field)
        if field == "page_size":
            size = _text(value, at)
        else:
            limit = number_of(value, at, "uint64")
    return size, limit


def block_of_message(message: Message, runtime: Runtime, swap: bool = True) -> Block:
    """The OCI block that a CRI runtime makes; without a named one, containerd.

    ``swap``: whether the kernel limits swap.
    """
    given = plain(oci_block(runtime, swap, message.resources))
    lists = {"cpus": message.cpus, "mems": message.mems}
    lists = {name: text for name, text in lists.items() if text}
    if lists:
        given["cpu"] = given.get("cpu", {}) | lists
    return block_of(given)


def refusal_of(message: Message, runtime: Runtime) -> Refusal | None:
    """Why the CRI runtime itself refuses a message; None if it passes it on."""
    if runtime.cri != "cri-o":
        return None
    limit, least = message.resources.memory_limit_in_bytes, _CRIO_LEAST.get(runtime.oci, 0)
    if 0 < limit < least:
        words = f"set memory limit {limit} too low; should be at least {least} bytes"
        return Refusal("memory_limit_in_bytes", words, "refused.cri-o", (limit, least))
    swap = message.resources.memory_swap_limit_in_bytes
    if 0 < swap < limit:
        words = f"container {swap} memory+swap is below the memory limit {limit}"
        return Refusal("memory_swap_limit_in_bytes", words, "refused.swap", (swap, limit))
    return None


def lost_of(message: Message, runtime: Runtime) -> tuple[Unsupported, ...]:
    """The fields of a message that no resource block has."""
    resources, rows = message.resources, []
    if resources.oom_score_adj:
        why = "it belongs to the process, not to a cgroup"
        instead = "process.oomScoreAdj of the config; /proc/PID/oom_score_adj"
        rows.append(Unsupported("oom_score_adj", why, instead, "elsewhere", "oom_score_adj"))
    if not runtime.hugetlb and any(amount for _, amount in resources.hugepage_limits):
        why = f"{runtime.cri} drops it if disable_hugetlb_controller is true (the default)"
        if runtime.cri == "docker":
            why = "HostConfig, which dockershim passes to Docker, has no such field"
        instead = "the pod's cgroup, where the kubelet limits them"
        rows.append(Unsupported("hugepage_limits", why, instead, field="hugepage_limits"))
    return tuple(rows)


def part_of_block(block: Block) -> BlockResult:
    """A block as a message, and the settings that the CRI has no field for."""
    cpu, memory = block.cpu or NO_CPU, block.memory or NO_MEMORY
    huge = [
        {"page_size": pages.page_size, "limit": pages.limit}
        for pages in block.hugepage_limits or ()
    ]
    wide = {"cpu_period": cpu.period or 0, "cpu_shares": cpu.shares or 0}
    lost = [_too_wide(name) for name, amount in wide.items() if amount > _WIDEST]
    fields: dict[str, object] = {
        "cpu_period": wide["cpu_period"],
        "cpu_quota": cpu.quota,
        "cpu_shares": wide["cpu_shares"],
        "memory_limit_in_bytes": memory.limit,
        "cpuset_cpus": cpu.cpus,
        "cpuset_mems": cpu.mems,
        "hugepage_limits": huge,
        "unified": block.unified,
        "memory_swap_limit_in_bytes": memory.swap,
    }
    for row in lost:
        del fields[row.what]
    message = {name: value for name, value in fields.items() if value}
    return BlockResult(message=message, lost=(*lost, *_lost(block)))


def _too_wide(name: str) -> Unsupported:
    why = f"the CRI's int64 ends at {_WIDEST}"
    return Unsupported(
        name, why, "use an amount that the kernel accepts", field=name.replace("_", ".")
    )


_NO_FIELD = "the CRI has no field for it"
_NRI = "an NRI plugin of the runtime, or the unified map"


def _lost(block: Block) -> tuple[Unsupported, ...]:
    cpu, memory, io = block.cpu or NO_CPU, block.memory or NO_MEMORY, block.block_io or NO_IO
    fields = (
        ("memory.reservation", memory.reservation, "unified memory.low"),
        ("memory.swappiness", memory.swappiness, _NRI),
        ("memory.kernel", memory.kernel, "memory_limit_in_bytes counts it"),
        ("memory.kernelTCP", memory.kernel_tcp, "memory_limit_in_bytes counts it"),
        ("memory.disableOOMKiller", memory.disable_oom_killer or None, "unified memory.high"),
        ("cpu.idle", cpu.idle, "unified cpu.idle"),
        ("cpu.burst", cpu.burst, "unified cpu.max.burst"),
        ("cpu.realtimeRuntime", cpu.realtime_runtime, "nothing in Kubernetes"),
        ("cpu.realtimePeriod", cpu.realtime_period, "nothing in Kubernetes"),
        ("pids", block.pids, "the kubelet's podPidsLimit on the pod's cgroup, unified pids.max"),
        ("blockIO", io if io != NO_IO else None, "containerd's blockio classes, unified io.max"),
        ("network", block.network, "eBPF, or the pod's network plugin"),
        ("devices", block.devices or None, "devices of ContainerConfig, or CDI"),
        ("rdma", block.rdma or None, _NRI),
    )
    return tuple(
        Unsupported(field, _NO_FIELD, instead, field=field)
        for field, given, instead in fields
        if given is not None
    )
