"""What a runtime's version does differently: one row for each change, and how it is known.

Source: CHANGELOG of runc and NEWS of crun; the sources of runc 1.1.5, 1.1.15, 1.3.6, crun 1.8.1,
1.21 and opencontainers/cgroups 0.0.5.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.rules.cpu import weight_linear, weight_quadratic
from qoslet.core.versions.runtime import Runtime, runtime_of

Family = Literal["runc", "crun"]


class Traits(Struct, frozen=True):
    """``linear``: the old curve; ``idle``, ``burst``, ``check``: the field is known;
    ``rsvd``: hugetlb reservations, too; ``swap_alone``: memory -1 with a swap amount is taken;
    ``swap_missing``: no error where the kernel has no swap limit; ``pids_zero``: 0 is 1;
    ``merges``: an update keeps what it does not name; ``io_updates``: it knows devices;
    ``tables``: KEP-2254's tables instead of a runtime; ``rounds``: as
    ``runtimes.Runtime.rounds_quota``.

    Of crun: ``swap_zero``: 0 is no swap; ``any_negative``: every negative limit is none;
    ``period_retry``: a period is tried again after the quota; ``quota_signed``: -1 is written as
    that; ``bfq_v1``: BFQ's file on v1."""

    name: str
    family: Family
    linear: bool
    idle: bool = True
    burst: bool = True
    check: bool = True
    rsvd: bool = True
    swap_alone: bool = True
    swap_missing: bool = True
    pids_zero: bool = False
    swap_zero: bool = True
    any_negative: bool = True
    period_retry: bool = True
    quota_signed: bool = True
    bfq_v1: bool = True
    merges: bool = True
    io_updates: bool = True
    tables: bool = False
    rounds: bool = True
    version: tuple[int, ...] = ()

    def weight(self, shares: int) -> int:
        """cpu.weight as this version computes it, beyond its bounds, too."""
        if not self.linear:
            return weight_quadratic(shares)
        if 2 <= shares <= 262144:
            return weight_linear(shares)
        # 64-bit unsigned arithmetic without a clamp
        return (1 + ((shares - 2) % 2**64 * 9999 % 2**64) // 262142) if shares else 0


def _runc(runtime: Runtime) -> Traits:
    version = runtime.oci_version
    main = version >= (1, 2)
    return Traits(
        runtime.name,
        "runc",
        runtime.curve == "linear",
        idle=main,
        burst=main,
        check=main,
        rsvd=version >= (1, 1, 10),
        swap_alone=version >= (1, 2, 1),
        swap_missing=main,
        pids_zero=version >= (1, 4),
        merges=main,
        io_updates=version >= (1, 3, 3),
        rounds=runtime.rounds_quota,
        version=version,
    )


def _crun(runtime: Runtime) -> Traits:
    version = runtime.oci_version
    return Traits(
        runtime.name,
        "crun",
        runtime.curve == "linear",
        idle=version >= (1, 5),
        burst=version >= (1, 11),
        check=version >= (1, 7),
        rsvd=False,
        swap_zero=version >= (1, 8, 6),
        any_negative=version >= (1, 13),
        version=version,
        period_retry=version >= (1, 8, 4),
        quota_signed=version >= (1, 8, 4),
        bfq_v1=version >= (1, 8, 2),
        rounds=runtime.rounds_quota,
    )


_KEP = Traits("kep-2254", "runc", True, rsvd=False, tables=True)
_KNOWN: dict[str, Traits] = {"kep-2254": _KEP}
_MOST = 256


def traits_of(text: str) -> Traits:
    """The traits of ``NAME-VERSION`` (a CRI runtime stands for the runc that it brings), or of
    ``kep-2254``, the document's own tables; ValueError says what is wrong."""
    found = _KNOWN.get(text)
    if found is not None:
        return found
    runtime = runtime_of(text)
    if runtime.oci == "youki":
        raise ValueError("youki's conversions are not known: runc and crun are")
    made = _crun(runtime) if runtime.oci == "crun" else _runc(runtime)
    if len(_KNOWN) < _MOST:
        _KNOWN[text] = made
    return made
