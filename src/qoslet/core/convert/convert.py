"""A document's resource blocks into another form: the work behind ``convert``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct, structs

from qoslet.core.cgroup.features import WHOLE, Ground
from qoslet.core.convert.cri_message import (
    Message,
    block_of_message,
    lost_of,
    part_of_block,
    refusal_of,
)
from qoslet.core.convert.inputs import (
    Given,
    Kind,
    Sandbox,
    blocks_of,
    kind_of,
    windows_message,
)
from qoslet.core.convert.options import TARGETS, Target, check_options
from qoslet.core.convert.windows_fields import Fields, as_cri, as_oci
from qoslet.core.convert.windows_fields import lost_of as lost_of_windows
from qoslet.core.convert.windows_job_object import PROCESS, Windows, object_part
from qoslet.core.oci.resources import Block, Cpu, plain
from qoslet.core.oci.result import Hierarchy, Lost, Part, Refusal
from qoslet.core.oci.unit_rows import unit_rows
from qoslet.core.oci.unsupported import ACCOUNTING_V2, SANDBOX
from qoslet.core.oci.write import Update, files
from qoslet.core.problem import Problem
from qoslet.core.resources.cgroup_writer import linux_cri
from qoslet.core.versions.runtime import Runtime, converting_runtime
from qoslet.errors import BadInput

Driver = Literal["cgroupfs", "systemd"]
NEWEST_SYSTEMD = 260

LACKS = ("bfq", "iocost", "rsvd", "swap")
"""What a kernel may lack, by the names of ``Ground``."""


_NOT_WINDOWS = "use --to windows for windows.resources, WindowsContainerResources or a pod"

_PAUSE = Block(cpu=Cpu(shares=2))
"""What a CRI runtime gives the container that holds a sandbox. Source: containerd
pkg/cri/server defaultSandboxCPUshares."""


class Wish(Struct, frozen=True):
    """Into what, and as whom: see ``wish_of``."""

    to: Target
    runtime: Runtime
    hierarchy: Hierarchy
    driver: Driver = "cgroupfs"
    ground: Ground = WHOLE
    systemd: int = NEWEST_SYSTEMD
    update: Update | None = None
    windows: Windows = PROCESS


class Conversion(Struct, frozen=True):
    """The answer: a part for each resource block of the input."""

    source: Kind
    wish: Wish
    parts: tuple[Part, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether no block is refused and no problem is an error."""
        refused = any(part.refusal is not None for part in self.parts)
        return not refused and all(row.severity != "error" for row in self.problems)

    @property
    def stands(self) -> bool:
        """Deprecated name of ``is_valid``."""
        return self.is_valid

    @property
    def accounting(self) -> tuple[Lost, ...]:
        """What the hierarchy does not account for, whatever a block says."""
        files = self.wish.to in ("v2", "systemd") and self.wish.hierarchy == "v2"
        return ACCOUNTING_V2 if files else ()


def wish_of(
    to: str,
    runtime: str,
    *,
    driver: str = "cgroupfs",
    hierarchy: str | None = None,
    update: bool = False,
    before: Block | None = None,
    usage: tuple[int, int] | None = None,
    without: Sequence[str] = (),
    windows: Windows = PROCESS,
) -> Wish:
    """Checked options. ``hierarchy`` is for systemd, v2 by default; ``before`` is the block that an
    updated container has, ``usage`` its memory.current and memory.swap.current in bytes;
    ``without`` names what the kernel lacks (``LACKS``). Raises BadInput."""
    if to not in TARGETS:
        raise BadInput(f"unknown target {to!r}", where="--to", hint=", ".join(TARGETS))
    check_options(runtime, driver, hierarchy, update, usage)
    try:
        named = converting_runtime(runtime)
    except ValueError as error:
        raise BadInput(str(error), where="--runtime") from None
    wrong = [name for name in without if name not in LACKS]
    if wrong:
        hint = f"known are {', '.join(LACKS)}"
        raise BadInput(f"unknown kernel feature {wrong[0]!r}", where="--without", hint=hint)
    if to in ("v1", "v2"):
        if hierarchy not in (None, to):
            raise BadInput(
                f"--to {to} has another hierarchy than {hierarchy}",
                where="--hierarchy",
                hint="leave it out",
            )
        hierarchy = to
    ground = structs.replace(WHOLE, **dict.fromkeys(without, False)) if without else WHOLE
    return Wish(
        to,
        _below_containerd(named),
        "v1" if hierarchy == "v1" else "v2",
        "systemd" if driver == "systemd" or to == "systemd" else "cgroupfs",
        ground,
        update=Update(before or Block(), *(usage or (None, 0))) if update else None,
        windows=windows,
    )


@lru_cache(maxsize=64)
def _below_containerd(runtime: Runtime) -> Runtime:
    """An OCI runtime alone is called by containerd."""
    if runtime.cri is not None:
        return runtime
    return structs.replace(runtime, cri="containerd", hugetlb=False, swap_from_limit=True)


def convert_document(
    given: Mapping[str, Any], wish: Wish, source: Kind | None = None, where: str = "text"
) -> Conversion:
    """A decoded document that is no pod. Raises BadInput."""
    kind = source or kind_of(given, where)
    if kind == "pod":
        raise BadInput("is a pod", where=where, hint="it takes a node")
    if wish.to == "windows" and kind == "cri":
        bare = windows_message(given, where)
        if bare is not None:
            return Conversion(kind, wish, (part_of(bare, wish),))
    problems: list[Problem] = []
    found = blocks_of(given, kind, where, problems)
    parts = tuple([part_of(one, wish) for one in found])
    return Conversion(kind, wish, parts, tuple(problems))


def part_of(given: Given, wish: Wish) -> Part:
    """One resource block, converted."""
    convert = _CONVERTED.get((type(given.resources), wish.to))
    if convert is None:
        raise _misfit(given)
    part = convert(given.resources, wish)
    return structs.replace(part, name=given.name) if given.name else part


def _misfit(given: Given) -> BadInput:
    if isinstance(given.resources, Fields):
        hint = "--to windows, cri or oci"
        return BadInput("is of a Windows container", where=given.where, hint=hint)
    return BadInput("is of a Linux container", where=given.where, hint=_NOT_WINDOWS)


def _block_as_files(block: Block, wish: Wish) -> Part:
    systemd = wish.driver == "systemd"
    return files(block, wish.hierarchy, wish.runtime, wish.ground, wish.update, systemd)


def _block_as_unit(block: Block, wish: Wish) -> Part:
    part = _block_as_files(block, wish)
    try:
        rows = unit_rows(part.rows, block, wish.hierarchy, wish.runtime, wish.systemd)
    except ValueError as error:
        refusal = Refusal("unified", str(error), "refused.unified", ("", str(error)))
        return structs.replace(part, rows=(), refusal=refusal)
    return structs.replace(part, rows=rows)


def _message_as_cri(message: Message, wish: Wish) -> Part:
    fields = linux_cri(message.resources)
    lists = {"cpuset_cpus": message.cpus, "cpuset_mems": message.mems}
    return Part(message=fields | {name: text for name, text in lists.items() if text})


def _message_by_runtime(message: Message, wish: Wish) -> Part:
    """What becomes of the block that the CRI runtime makes of a message."""
    refusal = refusal_of(message, wish.runtime)
    if refusal is not None:
        return Part(refusal=refusal)
    block = block_of_message(message, wish.runtime, wish.ground.swap)
    part = _CONVERTED[Block, wish.to](block, wish)
    return structs.replace(part, lost=(*lost_of(message, wish.runtime), *part.lost))


def _sandbox_as_files(sandbox: Sandbox, wish: Wish) -> Part:
    part = _CONVERTED[Block, wish.to](_PAUSE, wish)
    return Part(part.rows, None, (SANDBOX,))


_FILES: tuple[Target, ...] = ("v1", "v2", "systemd")
_CONVERTED: dict[tuple[type, Target], Callable[[Any, Wish], Part]] = {
    (Block, "v1"): _block_as_files,
    (Block, "v2"): _block_as_files,
    (Block, "systemd"): _block_as_unit,
    (Block, "oci"): lambda block, wish: Part(message=plain(block)),
    (Block, "cri"): lambda block, wish: part_of_block(block),
    **dict.fromkeys(((Message, to) for to in _FILES), _message_by_runtime),
    (Message, "oci"): _message_by_runtime,
    (Message, "cri"): _message_as_cri,
    **dict.fromkeys(((Sandbox, to) for to in _FILES), _sandbox_as_files),
    (Sandbox, "oci"): lambda sandbox, wish: _message_by_runtime(sandbox.message, wish),
    (Sandbox, "cri"): lambda sandbox, wish: _message_as_cri(sandbox.message, wish),
    (Fields, "windows"): lambda fields, wish: object_part(fields, wish.windows),
    (Fields, "cri"): lambda fields, wish: Part(
        message=as_cri(fields), lost=lost_of_windows(fields, "cri")
    ),
    (Fields, "oci"): lambda fields, wish: Part(
        message=as_oci(fields), lost=lost_of_windows(fields, "oci")
    ),
}
"""What becomes of each kind of resource block in each form that there is for it."""
