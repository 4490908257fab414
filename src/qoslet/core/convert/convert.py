"""Converts the resource blocks of a document: the work behind ``convert``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct, structs

from qoslet.core.cgroup.features import ALL_FEATURES, KernelFeatures
from qoslet.core.cgroup.names import DriverName
from qoslet.core.convert.cri_message import (
    Message,
    block_of_message,
    lost_of,
    part_of_block,
    refusal_of,
)
from qoslet.core.convert.inputs import (
    CriSandbox,
    Kind,
    ResourceBlock,
    blocks_of,
    kind_of,
    windows_message,
)
from qoslet.core.convert.options import TARGETS, WINDOWS_ONLY, Target, check_options, kernel_of
from qoslet.core.convert.windows_fields import WindowsFields, as_cri, as_oci
from qoslet.core.convert.windows_fields import lost_of as lost_of_windows
from qoslet.core.convert.windows_job_object import PROCESS, Windows, object_part
from qoslet.core.oci.resources import Block, Cpu, plain
from qoslet.core.oci.result import BlockResult, Hierarchy, Refusal, Unsupported
from qoslet.core.oci.unit_rows import unit_rows
from qoslet.core.oci.unsupported import ACCOUNTING_V2, SANDBOX
from qoslet.core.oci.write import Update, files
from qoslet.core.problem import Problem
from qoslet.core.resources.cgroup_writer import linux_cri
from qoslet.core.versions.runtime import Runtime, converting_runtime
from qoslet.errors import BadInput

NEWEST_SYSTEMD = 260

LACKS = ("bfq", "iocost", "rsvd", "swap")
"""Features that a kernel may lack, by the names in ``KernelFeatures``."""


_NOT_WINDOWS = "use --to windows for windows.resources, WindowsContainerResources or a pod"

_PAUSE = Block(cpu=Cpu(shares=2))
"""The block of a sandbox's pause container. Source: containerd
pkg/cri/server defaultSandboxCPUshares."""


class ConversionRequest(Struct, frozen=True):
    """The target of a conversion, and the runtime to imitate: see ``conversion_request``."""

    to: Target
    runtime: Runtime
    hierarchy: Hierarchy
    driver: DriverName = "cgroupfs"
    features: KernelFeatures = ALL_FEATURES
    systemd: int = NEWEST_SYSTEMD
    update: Update | None = None
    windows: Windows = PROCESS
    dockershim: int = 0
    """The minor of dockershim, for its HostConfig."""
    kernel: str | None = None
    """The version of the Linux that takes the files; None: the newest, of a pod the node's."""


class Conversion(Struct, frozen=True):
    """The result: a part for each resource block of the input."""

    source: Kind
    request: ConversionRequest
    parts: tuple[BlockResult, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether no block or file is refused and no problem is an error."""
        refused = any(part.is_refused for part in self.parts)
        return not refused and all(row.severity != "error" for row in self.problems)

    @property
    def stands(self) -> bool:
        """Deprecated name of ``is_valid``."""
        return self.is_valid

    def __repr__(self) -> str:
        """The conversion in one short line."""
        rows = sum(len(part.rows) for part in self.parts)
        parts = f"parts={len(self.parts)}, rows={rows}, problems={len(self.problems)}"
        return (
            f"Conversion({self.source!r} to {self.request.to!r}, {parts}, is_valid={self.is_valid})"
        )

    @property
    def accounting(self) -> tuple[Unsupported, ...]:
        """Accounting that the hierarchy lacks, whatever a block asks for."""
        files = self.request.to in ("v2", "systemd") and self.request.hierarchy == "v2"
        return ACCOUNTING_V2 if files else ()


def conversion_request(
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
    kernel: str | None = None,
    kubernetes: str | None = None,
) -> ConversionRequest:
    """Checked options. ``hierarchy`` is for systemd, v2 by default; ``before`` is the block that an
    updated container has, ``usage`` its memory.current and memory.swap.current in bytes;
    ``without`` names what the kernel lacks (``LACKS``); ``kernel`` is its version, the newest by
    default. Raises BadInput."""
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
                f"--to {to} contradicts hierarchy {hierarchy}",
                where="--hierarchy",
                hint="leave it out",
            )
        hierarchy = to
    features = _features(without, kernel, "v1" if hierarchy == "v1" else "v2")
    windows, minor = _dockershim(to, named, kubernetes, windows)
    return ConversionRequest(
        to,
        _below_containerd(named),
        "v1" if hierarchy == "v1" else "v2",
        "systemd" if driver == "systemd" or to == "systemd" else "cgroupfs",
        features,
        update=Update(before or Block(), *(usage or (None, 0))) if update else None,
        windows=windows,
        dockershim=minor,
        kernel=kernel,
    )


def _features(without: Sequence[str], kernel: str | None, hierarchy: Hierarchy) -> KernelFeatures:
    """The newest kernel's, or those of the version, less what it lacks."""
    features = ALL_FEATURES
    if without:
        features = structs.replace(features, **dict.fromkeys(without, False))
    if kernel is not None:
        features = structs.replace(features, kernel=kernel_of(kernel))
        # imported where a kernel is named
        from qoslet.core.convert.kernel_gaps import has_reservations

        if not has_reservations(kernel, hierarchy):
            features = structs.replace(features, rsvd=False)
    return features


def _dockershim(
    to: str, runtime: Runtime, kubernetes: str | None, windows: Windows
) -> tuple[Windows, int]:
    """The Windows machine as Docker sees it, and the minor of dockershim; 0 without Docker."""
    if to != "docker" and runtime.cri != "docker":
        return windows, 0
    # imported where Docker is asked for
    from qoslet.core.convert.docker_host_config import LAST_PERCENT, dockershim_release

    minor = dockershim_release(runtime, kubernetes)
    return structs.replace(windows, precedence=True, percent=minor <= LAST_PERCENT), minor


@lru_cache(maxsize=64)
def _below_containerd(runtime: Runtime) -> Runtime:
    """A runtime without a named CRI runtime is taken as called by containerd."""
    if runtime.cri is not None:
        return runtime
    return structs.replace(runtime, cri="containerd", hugetlb=False, swap_from_limit=True)


def convert_document(
    given: Mapping[str, Any],
    request: ConversionRequest,
    source: Kind | None = None,
    where: str = "text",
) -> Conversion:
    """Converts a decoded document that is not a pod. Raises BadInput."""
    kind = source or kind_of(given, where)
    if request.to == "docker" and kind == "oci":
        raise BadInput("is an OCI block", where=where, hint="dockershim takes messages of the CRI")
    if kind == "pod":
        raise BadInput("is a pod", where=where, hint="it takes a node")
    if request.to in WINDOWS_ONLY and kind == "cri":
        bare = windows_message(given, where)
        if bare is not None:
            return Conversion(kind, request, (part_of(bare, request),))
    problems: list[Problem] = []
    blocks = blocks_of(given, kind, where, problems)
    parts = tuple([part_of(block, request) for block in blocks])
    return Conversion(kind, request, parts, tuple(problems))


def part_of(block: ResourceBlock, request: ConversionRequest) -> BlockResult:
    """One resource block, converted."""
    convert = _CONVERTED.get((type(block.resources), request.to))
    if convert is None:
        raise _misfit(block)
    part = convert(block.resources, request)
    return structs.replace(part, name=block.name) if block.name else part


def _misfit(block: ResourceBlock) -> BadInput:
    if isinstance(block.resources, WindowsFields):
        hint = "--to windows, cri or oci"
        return BadInput("is of a Windows container", where=block.where, hint=hint)
    return BadInput("is of a Linux container", where=block.where, hint=_NOT_WINDOWS)


def _block_as_files(block: Block, request: ConversionRequest) -> BlockResult:
    systemd = request.driver == "systemd"
    part = files(
        block, request.hierarchy, request.runtime, request.features, request.update, systemd
    )
    if request.kernel is None:
        return part
    from qoslet.core.convert.kernel_gaps import without_gaps

    return without_gaps(part, request.kernel, request.hierarchy, request.runtime.family)


def _block_as_unit(block: Block, request: ConversionRequest) -> BlockResult:
    part = _block_as_files(block, request)
    try:
        rows = unit_rows(part.rows, block, request.hierarchy, request.runtime, request.systemd)
    except ValueError as error:
        refusal = Refusal("unified", str(error), "refused.unified", ("", str(error)))
        return structs.replace(part, rows=(), refusal=refusal)
    return structs.replace(part, rows=rows)


def _message_as_cri(message: Message, request: ConversionRequest) -> BlockResult:
    fields = linux_cri(message.resources)
    lists = {"cpuset_cpus": message.cpus, "cpuset_mems": message.mems}
    return BlockResult(message=fields | {name: text for name, text in lists.items() if text})


def _message_by_runtime(message: Message, request: ConversionRequest) -> BlockResult:
    """Converts the block that the CRI runtime makes of a message."""
    refusal = refusal_of(message, request.runtime)
    if refusal is not None:
        return BlockResult(refusal=refusal)
    block = block_of_message(message, request.runtime, request.features.swap)
    part = _CONVERTED[Block, request.to](block, request)
    return structs.replace(part, lost=(*lost_of(message, request.runtime), *part.lost))


def _sandbox_as_files(sandbox: CriSandbox, request: ConversionRequest) -> BlockResult:
    part = _CONVERTED[Block, request.to](_PAUSE, request)
    return BlockResult(part.rows, None, (SANDBOX,))


def _message_as_host_config(message: Message, request: ConversionRequest) -> BlockResult:
    from qoslet.core.convert.docker_host_config import linux_host_config

    return linux_host_config(message)


def _windows_as_host_config(fields: WindowsFields, request: ConversionRequest) -> BlockResult:
    from qoslet.core.convert.docker_host_config import windows_host_config

    return windows_host_config(fields, request.dockershim, request.windows.processors)


_FILES: tuple[Target, ...] = ("v1", "v2", "systemd")
_CONVERTED: dict[tuple[type, Target], Callable[[Any, ConversionRequest], BlockResult]] = {
    (Block, "v1"): _block_as_files,
    (Block, "v2"): _block_as_files,
    (Block, "systemd"): _block_as_unit,
    (Block, "oci"): lambda block, request: BlockResult(message=plain(block)),
    (Block, "cri"): lambda block, request: part_of_block(block),
    **dict.fromkeys(((Message, to) for to in _FILES), _message_by_runtime),
    (Message, "oci"): _message_by_runtime,
    (Message, "cri"): _message_as_cri,
    **dict.fromkeys(((CriSandbox, to) for to in _FILES), _sandbox_as_files),
    (CriSandbox, "oci"): lambda sandbox, request: _message_by_runtime(sandbox.message, request),
    (CriSandbox, "cri"): lambda sandbox, request: _message_as_cri(sandbox.message, request),
    (Message, "docker"): _message_as_host_config,
    (WindowsFields, "docker"): _windows_as_host_config,
    (WindowsFields, "windows"): lambda fields, request: object_part(fields, request.windows),
    (WindowsFields, "cri"): lambda fields, request: BlockResult(
        message=as_cri(fields), lost=lost_of_windows(fields, "cri")
    ),
    (WindowsFields, "oci"): lambda fields, request: BlockResult(
        message=as_oci(fields), lost=lost_of_windows(fields, "oci")
    ),
}
"""The conversion of each kind of resource block to each target."""
