"""What the CPU and memory managers handed out, as text that outlives a run: the kubelet's files.

``cpu_manager_state`` and ``memory_manager_state`` are JSON with a checksum over how Go prints the
value. A file that does not fit the node is refused: whoever has CPUs by it may be running.
Source: kubelet pkg/kubelet/cm/cpumanager/state/checkpoint.go, memorymanager/state/checkpoint.go,
checkpointmanager/checksum (FNV-1a, 32 bits), up to 1.36; policy_static.go validateState.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from qoslet.core.managers.container_manager import Kept, Managers
from qoslet.core.managers.cpu_manager import CpuManager, Holder
from qoslet.core.managers.memory_manager import Block, MemoryManager
from qoslet.core.managers.state_files import CPU_STATE, MEMORY_STATE
from qoslet.core.node.fields import cpus as cpus_of
from qoslet.core.node.topology import NO_CPUS, Cpus, listed
from qoslet.errors import CannotDo

MOST = 16 << 20
"""Bytes of a file that are read."""


class _Cpu(Struct, rename={"policy": "policyName", "pool": "defaultCpuSet"}):
    policy: str
    pool: str
    entries: dict[str, dict[str, str]] = {}
    checksum: int = 0


class _Block(Struct, rename={"nodes": "numaAffinity"}):
    nodes: list[int]
    type: str
    size: int


class _Table(Struct, rename={"held": "systemReserved"}):
    total: int
    held: int
    allocatable: int
    reserved: int
    free: int


class _Books(Struct, rename={"assignments": "numberOfAssignments", "tables": "memoryMap"}):
    assignments: int
    tables: dict[str, _Table]
    cells: list[int]


class _Memory(Struct, rename={"policy": "policyName", "machine": "machineState"}):
    policy: str
    machine: dict[str, _Books] = field(default_factory=dict)
    entries: dict[str, dict[str, list[_Block]]] = {}
    checksum: int = 0


Document = TypeVar("Document", _Cpu, _Memory)


def _fnv(text: str) -> int:
    """FNV-1a, 32 bits."""
    found = 0x811C9DC5
    for byte in text.encode():
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return found


def _go_map(parts: Mapping[str, str]) -> str:
    return "map[" + " ".join(f"{key}:{parts[key]}" for key in sorted(parts)) + "]"


def _go_list(numbers: Sequence[int]) -> str:
    return "[" + " ".join(map(str, numbers)) + "]"


def _cpu_sum(made: _Cpu) -> int:
    entries = {uid: _go_map(own) for uid, own in made.entries.items()}
    return _fnv(
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){made.policy} "
        f"DefaultCPUSet:(string){made.pool} "
        f"Entries:(map[string]map[string]string){_go_map(entries)} "
        "Checksum:(checksum.Checksum)0}"
    )


def _memory_sum(made: _Memory) -> int:
    machine = " ".join(
        f"{number}:<*>{{NumberOfAssignments:(int){books.assignments} "
        "MemoryMap:(map[v1.ResourceName]*state.MemoryTable)"
        + _go_map({name: _go_table(table) for name, table in books.tables.items()})
        + f" Cells:([]int){_go_list(books.cells)}}}"
        for number, books in sorted(made.machine.items(), key=lambda one: int(one[0]))
    )
    entries = {
        uid: _go_map({name: _go_blocks(blocks) for name, blocks in own.items()})
        for uid, own in made.entries.items()
    }
    return _fnv(
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){made.policy} "
        f"MachineState:(state.NUMANodeMap)map[{machine}] "
        f"Entries:(state.ContainerMemoryAssignments){_go_map(entries)} "
        "Checksum:(checksum.Checksum)0}"
    )


def _go_table(table: _Table) -> str:
    return (
        f"<*>{{TotalMemSize:(uint64){table.total} SystemReserved:(uint64){table.held} "
        f"Allocatable:(uint64){table.allocatable} Reserved:(uint64){table.reserved} "
        f"Free:(uint64){table.free}}}"
    )


def _go_blocks(blocks: Sequence[_Block]) -> str:
    rows = (
        f"{{NUMAAffinity:([]int){_go_list(block.nodes)} Type:(v1.ResourceName){block.type} "
        f"Size:(uint64){block.size}}}"
        for block in blocks
    )
    return "[" + " ".join(rows) + "]"


def written(managers: Managers) -> dict[str, bytes]:
    """The files that hold what is handed out now, by name; of managers that hand out only."""
    kept, found = managers.kept(), {}
    if managers.cpu is not None:
        entries: dict[str, dict[str, str]] = {}
        for (uid, name), cpus in sorted(kept.cpus.items()):
            entries.setdefault(uid, {})[name] = listed(cpus)
        pool = listed(managers.cpu.shared())
        cpu = _Cpu("static", pool, entries)
        cpu.checksum = _cpu_sum(cpu)
        found[CPU_STATE] = _text(cpu, bool(entries))
    if managers.memory is not None:
        memory = _Memory("Static", _machine(managers.memory), _entries(kept.memory))
        memory.checksum = _memory_sum(memory)
        found[MEMORY_STATE] = _text(memory, bool(memory.entries))
    return found


def _text(made: _Cpu | _Memory, entries: bool) -> bytes:
    document = msgspec.to_builtins(made)
    if not entries:
        del document["entries"]
    return msgspec.json.encode(document)


def _machine(memory: MemoryManager) -> dict[str, _Books]:
    return {
        str(number): _Books(
            books.assignments,
            {
                name: _Table(
                    table.total,
                    table.system_reserved,
                    table.allocatable,
                    table.reserved,
                    table.free,
                )
                for name, table in sorted(books.tables.items())
            },
            list(books.cells),
        )
        for number, books in sorted(memory.books.items(), key=lambda one: str(one[0]))
    }


def _entries(kept: Mapping[Holder, Sequence[Block]]) -> dict[str, dict[str, list[_Block]]]:
    found: dict[str, dict[str, list[_Block]]] = {}
    for (uid, name), blocks in sorted(kept.items()):
        rows = [_Block(list(block.nodes), block.resource, block.size) for block in blocks]
        found.setdefault(uid, {})[name] = rows
    return found


def taken_up(managers: Managers | None, files: Mapping[str, bytes], where: str) -> None:
    """Take up what the ``files`` of an earlier run say, those that are absent saying nothing.
    ``where`` is their directory. Raises ``CannotDo`` where one is damaged, of another policy, or
    does not fit the node; one of a policy that the node has no more, if anybody has anything by
    it."""
    for name, content in files.items():
        _check_policy(managers, name, content, f"{where}/{name}")
    if managers is None:
        return
    cpus: dict[Holder, Cpus] = {}
    memory: dict[Holder, tuple[Block, ...]] = {}
    if managers.cpu is not None and CPU_STATE in files:
        cpus = _cpus(managers.cpu, files[CPU_STATE], f"{where}/{CPU_STATE}")
    if managers.memory is not None and MEMORY_STATE in files:
        memory = _blocks(managers.memory, files[MEMORY_STATE], f"{where}/{MEMORY_STATE}")
    managers.restore(Kept(cpus, memory))


def _check_policy(managers: Managers | None, name: str, content: bytes, where: str) -> None:
    found: _Cpu | _Memory
    if name == CPU_STATE and (managers is None or managers.cpu is None):
        found = _decoded(content, _Cpu, where)
    elif name == MEMORY_STATE and (managers is None or managers.memory is None):
        found = _decoded(content, _Memory, where)
    else:
        return
    if found.entries:
        raise _refused(where, f"has policy {found.policy[:40]!r}, the node has none")


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
    found = _decoded(content, _Cpu, where)
    if found.checksum and found.checksum != _cpu_sum(found):
        raise _refused(where, "is damaged: the checksum does not match")
    if found.policy != "static":
        raise _refused(where, "has another policy, the node has static")
    pool = cpus_of(found.pool)
    kept: dict[Holder, Cpus] = {}
    for uid, own in found.entries.items():
        for name, text in own.items():
            numbers = cpus_of(text)
            if not numbers:
                raise _refused(where, "contains an invalid CPU list")
            kept[uid, name] = frozenset(numbers)
    if pool is None:
        raise _refused(where, "contains an invalid CPU list")
    _check_cpus(manager, frozenset(pool), kept, where)
    return kept


def _check_cpus(manager: CpuManager, pool: Cpus, kept: Mapping[Holder, Cpus], where: str) -> None:
    """What the kubelet checks, and that no CPU has two owners."""
    usable, strict = manager.topology.cpus, manager.options.strict_reservation
    if strict:
        usable -= manager.reserved
    given = NO_CPUS.union(*kept.values())
    if given & pool:
        raise _refused(where, f"CPU {min(given & pool)} is both exclusive and shared")
    if given & manager.reserved:
        raise _refused(where, f"CPU {min(given & manager.reserved)} is reserved now")
    if given | pool != usable:
        raise _refused(where, f"has CPUs {listed(given | pool)}, the node assigns {listed(usable)}")
    owner: dict[int, str] = {}
    for (uid, _), cpus in kept.items():
        for cpu in cpus:
            if owner.setdefault(cpu, uid) != uid:
                raise _refused(where, f"CPU {cpu} has two owners")


def _blocks(manager: MemoryManager, content: bytes, where: str) -> dict[Holder, tuple[Block, ...]]:
    found = _decoded(content, _Memory, where)
    numbers = [number for number in found.machine if not number.isdecimal() or len(number) > 5]
    if numbers or found.checksum != _memory_sum(found):
        raise _refused(where, "is damaged: the checksum does not match")
    if found.policy != "Static":
        raise _refused(where, "has another policy, the node has Static")
    kept = {
        (uid, name): tuple(Block(tuple(sorted(b.nodes)), b.type, b.size) for b in blocks)
        for uid, own in found.entries.items()
        for name, blocks in own.items()
    }
    before = manager.kept()
    try:
        manager.restore(kept)
        fits = _same_books(_machine(manager), found.machine)
    except KeyError:
        fits = False
    finally:
        manager.restore(before)
    if not fits:
        message = "does not match the node: its NUMA nodes, their memory or reservedMemory changed"
        raise _refused(where, message)
    return kept


def _same_books(ours: Mapping[str, _Books], theirs: Mapping[str, _Books]) -> bool:
    """Whether the machine is the same, and as much of it is in use; what is reserved and free is
    compared over the nodes of a group, as the kubelet does."""
    if ours.keys() != theirs.keys():
        return False
    for number, mine in ours.items():
        other = theirs[number]
        if (mine.assignments, sorted(mine.cells)) != (other.assignments, sorted(other.cells)):
            return False
        if mine.tables.keys() != other.tables.keys():
            return False
        for name, table in mine.tables.items():
            one = other.tables[name]
            if (table.total, table.held, table.allocatable) != (
                one.total,
                one.held,
                one.allocatable,
            ):
                return False
            if _in_group(ours, mine, name) != _in_group(theirs, mine, name):
                return False
    return True


def _in_group(machine: Mapping[str, _Books], books: _Books, name: str) -> tuple[int, int]:
    tables = [machine[str(node)].tables[name] for node in books.cells]
    return sum(table.reserved for table in tables), sum(table.free for table in tables)
