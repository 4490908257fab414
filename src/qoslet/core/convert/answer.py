"""What a conversion says: rows, a refusal, what is lost; and what it converts for."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.rules.catalog import Reasoned

Hierarchy = Literal["v1", "v2"]
Fate = Literal["ignored", "refused", "elsewhere"]
Verdict = Literal["enforced", "approximated", "absent"]


class Row(Struct, Reasoned, frozen=True, gc=False):
    """One file (or unit property) and what is written there.

    ``field`` is where the value stands in the input; ``effective`` what the kernel makes of it,
    None where it stands as written; ``rule`` and ``inputs`` as in ``tree.Setting``.
    """

    file: str
    value: str
    field: str
    rule: str
    inputs: tuple[object, ...] = ()
    effective: str | None = None

    @property
    def applied(self) -> str:
        """The value that is read back."""
        return self.value if self.effective is None else self.effective


class Refusal(Struct, Reasoned, frozen=True, gc=False):
    """Why a runtime stops: the rows before it were written, those after it are not.

    ``message`` holds the runtime's own words, or the kernel's with ``file``.
    """

    field: str
    message: str
    rule: str
    inputs: tuple[object, ...] = ()
    file: str | None = None

    @property
    def by(self) -> Literal["runtime", "kernel"]:
        """Who refuses."""
        return "kernel" if self.rule == "refused.kernel" else "runtime"


class Lost(Struct, frozen=True, gc=False):
    """What the other side cannot express: why, what does it instead, and what becomes of it.

    ``field`` is None for what no field asks for, such as accounting.
    """

    what: str
    why: str
    instead: str
    fate: Fate = "ignored"
    field: str | None = None


class Parity(Struct, frozen=True, gc=False):
    """One thing that a pod asks of Windows: what becomes of it, how, and what helps instead."""

    what: str
    asked: str
    verdict: Verdict
    how: str
    instead: str = ""


CONTROLLERS = frozenset(
    ("cpu", "cpuset", "dmem", "hugetlb", "io", "memory", "misc", "pids", "rdma")
)
"""What a v2 group can have in its cgroup.controllers, up to Linux 7.2."""


class Ground(Struct, frozen=True):
    """What a conversion assumes of the kernel.

    None means unknown: then nothing is refused for it. ``swap``, ``bfq``, ``rsvd``, ``iocost``:
    whether the kernel has memory.swap.max or memsw, BFQ weights, hugetlb reservations and
    io.weight. ``leaf``, ``realtime``: files of few kernels.
    ``sizes`` are hugepage sizes as files spell them, ``devices`` disks as ``MAJOR:MINOR``.
    """

    page_size: int = 4096
    swap: bool = True
    bfq: bool = True
    rsvd: bool = True
    iocost: bool = True
    leaf: bool = False
    realtime: bool = False
    sizes: tuple[str, ...] | None = None
    cpus: frozenset[int] | None = None
    mems: frozenset[int] | None = None
    controllers: frozenset[str] | None = CONTROLLERS
    devices: frozenset[str] | None = None


WHOLE = Ground()
"""A kernel that has everything runtimes use, with pages of 4 KiB."""


class Part(Struct, frozen=True):
    """One resource block's answer. ``message`` is the other spelling where one was asked for."""

    rows: tuple[Row, ...] = ()
    refusal: Refusal | None = None
    lost: tuple[Lost, ...] = ()
    message: dict[str, object] | None = None
    name: str = ""
    parity: tuple[Parity, ...] = ()


class Stop(Exception):
    """Ends the writing of a block with its refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
