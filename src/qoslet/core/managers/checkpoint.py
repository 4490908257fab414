"""The assignments of the CPU and memory managers as the kubelet's checkpoint files.

``cpu_manager_state`` and ``memory_manager_state`` are JSON with a checksum over Go's print of the
value. A file that does not fit the node is refused: containers with its CPUs may be running.
Source: kubelet pkg/kubelet/cm/cpumanager/state/checkpoint.go, memorymanager/state/checkpoint.go,
checkpointmanager/checksum (FNV-1a, 32 bits), up to 1.36; policy_static.go validateState.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple, replace

from qoslet.core.managers.container_manager import Assignments, Managers
from qoslet.core.managers.cpu_manager import CpuManager, Holder
from qoslet.core.managers.memory_manager import (
    MemoryBlock,
    MemoryManager,
    NumaNodeState,
    Table,
)
from qoslet.core.managers.state_files import CPU_STATE, MEMORY_STATE
from qoslet.core.node.fields import cpus as cpus_of
from qoslet.core.node.topology import NO_CPUS, Cpus, listed
from qoslet.errors import CannotDo

MOST = 16 << 20
"""The largest file that is read, in bytes."""


class _Cpu(Struct, rename={"policy": "policyName", "pool": "defaultCpuSet"}):
    policy: str
    pool: str
    entries: dict[str, dict[str, str]] = {}
    checksum: int = 0


class _Memory(Struct, rename={"policy": "policyName", "machine": "machineState"}):
    policy: str
    machine: dict[str, NumaNodeState] = field(default_factory=dict)
    entries: dict[str, dict[str, list[MemoryBlock]]] = {}
    checksum: int = 0


Document = TypeVar("Document", _Cpu, _Memory)


def _fnv(text: str) -> int:
    """FNV-1a, 32 bits."""
    digest = 0x811C9DC5
    for byte in text.encode():
        digest = (digest ^ byte) * 0x01000193 & 0xFFFFFFFF
    return digest


def _go_map(parts: Mapping[str, str]) -> str:
    return "map[" + " ".join(f"{key}:{parts[key]}" for key in sorted(parts)) + "]"


def _go_list(numbers: Sequence[int]) -> str:
    return "[" + " ".join(map(str, numbers)) + "]"


def _cpu_sum(checkpoint: _Cpu) -> int:
    entries = {uid: _go_map(containers) for uid, containers in checkpoint.entries.items()}
    return _fnv(
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){checkpoint.policy} "
        f"DefaultCPUSet:(string){checkpoint.pool} "
        f"Entries:(map[string]map[string]string){_go_map(entries)} "
        "Checksum:(checksum.Checksum)0}"
    )


def _memory_sum(checkpoint: _Memory) -> int:
    machine = " ".join(
        f"{number}:<*>{{NumberOfAssignments:(int){node.assignments} "
        "MemoryMap:(map[v1.ResourceName]*state.MemoryTable)"
        + _go_map({name: _go_table(table) for name, table in node.tables.items()})
        + f" Cells:([]int){_go_list(node.cells)}}}"
        for number, node in sorted(checkpoint.machine.items(), key=lambda entry: int(entry[0]))
    )
    entries = {
        uid: _go_map({name: _go_blocks(blocks) for name, blocks in containers.items()})
        for uid, containers in checkpoint.entries.items()
    }
    return _fnv(
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){checkpoint.policy} "
        f"MachineState:(state.NUMANodeMap)map[{machine}] "
        f"Entries:(state.ContainerMemoryAssignments){_go_map(entries)} "
        "Checksum:(checksum.Checksum)0}"
    )


def _go_table(table: Table) -> str:
    return (
        f"<*>{{TotalMemSize:(uint64){table.total} SystemReserved:(uint64){table.system_reserved} "
        f"Allocatable:(uint64){table.allocatable} Reserved:(uint64){table.reserved} "
        f"Free:(uint64){table.free}}}"
    )


def _go_blocks(blocks: Sequence[MemoryBlock]) -> str:
    texts = (
        f"{{NUMAAffinity:([]int){_go_list(block.nodes)} Type:(v1.ResourceName){block.resource} "
        f"Size:(uint64){block.size}}}"
        for block in blocks
    )
    return "[" + " ".join(texts) + "]"


def checkpoint_files(managers: Managers) -> dict[str, bytes]:
    """The checkpoint files of the current assignments, by name; only of static policies."""
    assignments, files = managers.kept(), {}
    if managers.cpu is not None:
        entries: dict[str, dict[str, str]] = {}
        for (uid, name), cpus in sorted(assignments.cpus.items()):
            entries.setdefault(uid, {})[name] = listed(cpus)
        pool = listed(managers.cpu.shared())
        cpu = _Cpu("static", pool, entries)
        cpu.checksum = _cpu_sum(cpu)
        files[CPU_STATE] = _text(cpu, bool(entries))
    if managers.memory is not None:
        memory = _Memory("Static", _machine(managers.memory), _entries(assignments.memory))
        memory.checksum = _memory_sum(memory)
        files[MEMORY_STATE] = _text(memory, bool(memory.entries))
    return files


def _text(checkpoint: _Cpu | _Memory, entries: bool) -> bytes:
    document = msgspec.to_builtins(checkpoint)
    if not entries:
        del document["entries"]
    return msgspec.json.encode(document)


def _machine(memory: MemoryManager) -> dict[str, NumaNodeState]:
    return {str(number): memory.nodes[number] for number in sorted(memory.nodes, key=str)}


def _entries(
    assignments: Mapping[Holder, Sequence[MemoryBlock]],
) -> dict[str, dict[str, list[MemoryBlock]]]:
    entries: dict[str, dict[str, list[MemoryBlock]]] = {}
    for (uid, name), blocks in sorted(assignments.items()):
        entries.setdefault(uid, {})[name] = list(blocks)
    return entries


def restore_managers(managers: Managers | None, files: Mapping[str, bytes], where: str) -> None:
    """Restore the assignments in the checkpoint ``files`` of an earlier run. ``where`` is their
    directory. Raises ``CannotDo`` for a file that is damaged, has another policy or does not fit
    the node, and for a file with assignments whose policy the node no longer has."""
    for name, content in files.items():
        _check_policy(managers, name, content, f"{where}/{name}")
    if managers is None:
        return
    cpu_assignments: dict[Holder, Cpus] = {}
    memory_assignments: dict[Holder, tuple[MemoryBlock, ...]] = {}
    if managers.cpu is not None and CPU_STATE in files:
        cpu_assignments = _cpus(managers.cpu, files[CPU_STATE], f"{where}/{CPU_STATE}")
    if managers.memory is not None and MEMORY_STATE in files:
        memory_assignments = _blocks(
            managers.memory, files[MEMORY_STATE], f"{where}/{MEMORY_STATE}"
        )
    managers.restore(Assignments(cpu_assignments, memory_assignments))


def _check_policy(managers: Managers | None, name: str, content: bytes, where: str) -> None:
    checkpoint: _Cpu | _Memory
    if name == CPU_STATE and (managers is None or managers.cpu is None):
        checkpoint = _decoded(content, _Cpu, where)
    elif name == MEMORY_STATE and (managers is None or managers.memory is None):
        checkpoint = _decoded(content, _Memory, where)
    else:
        return
    if checkpoint.entries:
        raise _refused(where, f"has policy {checkpoint.policy[:40]!r}, the node has none")


def _refused(where: str, message: str) -> CannotDo:
    return CannotDo(
        message, where=where, hint="stop the pods with qoslet release, or remove the file"
    )


def _decoded(content: bytes, kind: type[Document], where: str) -> Document:
    if len(content) > MOST:
        raise _refused(where, f"exceeds {MOST} bytes")
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _refused(where, "is not a manager checkpoint") from error


def _cpus(manager: CpuManager, content: bytes, where: str) -> dict[Holder, Cpus]:
    checkpoint = _decoded(content, _Cpu, where)
    if checkpoint.checksum and checkpoint.checksum != _cpu_sum(checkpoint):
        raise _refused(where, "is damaged: the checksum does not match")
    if checkpoint.policy != "static":
        raise _refused(where, "has another policy, the node has static")
    pool = cpus_of(checkpoint.pool)
    assignments: dict[Holder, Cpus] = {}
    for uid, containers in checkpoint.entries.items():
        for name, text in containers.items():
            numbers = cpus_of(text)
            if not numbers:
                raise _refused(where, "contains an invalid CPU list")
            assignments[uid, name] = frozenset(numbers)
    if pool is None:
        raise _refused(where, "contains an invalid CPU list")
    _check_cpus(manager, frozenset(pool), assignments, where)
    return assignments


def _check_cpus(
    manager: CpuManager, pool: Cpus, assignments: Mapping[Holder, Cpus], where: str
) -> None:
    """The kubelet's checks, and that no CPU has two owners."""
    usable, strict = manager.topology.cpus, manager.options.strict_reservation
    if strict:
        usable -= manager.reserved
    exclusive = NO_CPUS.union(*assignments.values())
    if exclusive & pool:
        raise _refused(where, f"CPU {min(exclusive & pool)} is both exclusive and shared")
    if exclusive & manager.reserved:
        raise _refused(where, f"CPU {min(exclusive & manager.reserved)} is reserved now")
    if exclusive | pool != usable:
        raise _refused(
            where, f"has CPUs {listed(exclusive | pool)}, the node assigns {listed(usable)}"
        )
    owner: dict[int, str] = {}
    for (uid, _), cpus in assignments.items():
        for cpu in cpus:
            if owner.setdefault(cpu, uid) != uid:
                raise _refused(where, f"CPU {cpu} has two owners")


def _blocks(
    manager: MemoryManager, content: bytes, where: str
) -> dict[Holder, tuple[MemoryBlock, ...]]:
    checkpoint = _decoded(content, _Memory, where)
    numbers = [number for number in checkpoint.machine if not number.isdecimal() or len(number) > 5]
    if numbers or checkpoint.checksum != _memory_sum(checkpoint):
        raise _refused(where, "is damaged: the checksum does not match")
    if checkpoint.policy != "Static":
        raise _refused(where, "has another policy, the node has Static")
    assignments = {
        (uid, name): tuple(replace(b, nodes=tuple(sorted(b.nodes))) for b in blocks)
        for uid, containers in checkpoint.entries.items()
        for name, blocks in containers.items()
    }
    before = manager.kept()
    try:
        manager.restore(assignments)
        fits = _same_machine(_machine(manager), checkpoint.machine)
    except KeyError:
        fits = False
    finally:
        manager.restore(before)
    if not fits:
        message = "does not match the node: its NUMA nodes, their memory or reservedMemory changed"
        raise _refused(where, message)
    return assignments


def _same_machine(ours: Mapping[str, NumaNodeState], theirs: Mapping[str, NumaNodeState]) -> bool:
    """Whether two states have the same nodes and usage. As in the kubelet, reserved and free memory
    is compared as a sum over the nodes of a group, other amounts of a table one by one."""
    if ours.keys() != theirs.keys():
        return False
    for number, node in ours.items():
        other = theirs[number]
        if (node.assignments, sorted(node.cells)) != (other.assignments, sorted(other.cells)):
            return False
        if node.tables.keys() != other.tables.keys():
            return False
        for name, table in node.tables.items():
            if astuple(table)[:3] != astuple(other.tables[name])[:3]:
                return False
            if _group_totals(ours, node, name) != _group_totals(theirs, node, name):
                return False
    return True


def _group_totals(
    machine: Mapping[str, NumaNodeState], state: NumaNodeState, name: str
) -> tuple[int, int]:
    tables = [machine[str(node)].tables[name] for node in state.cells]
    return sum(table.reserved for table in tables), sum(table.free for table in tables)
