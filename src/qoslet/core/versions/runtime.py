"""Runtimes: the programs that write container cgroups, and the differences between versions.

Text such as ``containerd-1.7.24+crun-1.21`` names the CRI runtime and the OCI runtime below it.
Source: CHANGELOG of runc and NEWS of crun; the sources of runc 1.1.5, 1.1.15, 1.3.6, crun 1.8.1,
1.21 and opencontainers/cgroups 0.0.5.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from msgspec import Struct, structs

from qoslet.core.rules.cpu import MAX_SHARES, MIN_SHARES, weight_linear, weight_quadratic

WeightCurve = Literal["linear", "quadratic"]
Cri = Literal["containerd", "cri-o", "docker"]
Oci = Literal["runc", "crun", "youki", "process"]
Family = Literal["runc", "crun"]


class Runtime(Struct, frozen=True):
    """How container cgroups are written.

    ``cri`` is the program that the kubelet calls, None where only an OCI runtime is named.
    ``hugetlb``: container hugepage limits reach the kernel; ``rsvd``: reservations are limited
    with them; ``swap_from_limit``: OCI swap := memory limit where the CRI sends none. ``bundles``:
    it is called by qoslet itself, which then names the containers.

    ``idle``, ``burst``, ``check``: the field is known; ``swap_alone``: memory -1 with a swap amount
    is taken; ``swap_missing``: no error where the kernel has no swap limit; ``pids_zero``: 0 is 1;
    ``merges``: an update keeps what it does not name; ``io_updates``: it knows devices;
    ``tables``: KEP-2254's tables instead of a runtime.

    ``rounds_quota``: with the systemd driver it writes a quota as systemd keeps it, in whole
    percents of a CPU. Others write it as it is, beside what they tell systemd, whose own value
    comes when it writes the unit again. Source: opencontainers/cgroups 0.0.2, its pull request 4;
    runc issue 4622; containers through runc 1.1.15 under systemd 257.

    ``unified``: the unified map reaches the kernel; dockershim has no field for it.

    Of crun: ``swap_zero``: 0 is no swap; ``any_negative``: every negative limit is none;
    ``period_retry``: a period is tried again after the quota; ``quota_signed``: -1 is written as
    that; ``bfq_v1``: BFQ's file on v1.

    ``is_versioned``: a version is named, not taken as the newest.
    """

    name: str
    oci: Oci
    oci_version: tuple[int, ...]
    curve: WeightCurve
    curve_evidence: str
    cri: Cri | None = None
    cri_version: tuple[int, ...] = ()
    hugetlb: bool = True
    rsvd: bool = True
    swap_from_limit: bool = False
    bundles: bool = False
    idle: bool = True
    burst: bool = True
    check: bool = True
    swap_alone: bool = True
    swap_missing: bool = True
    pids_zero: bool = False
    merges: bool = True
    io_updates: bool = True
    tables: bool = False
    rounds_quota: bool = True
    swap_zero: bool = True
    any_negative: bool = True
    period_retry: bool = True
    quota_signed: bool = True
    unified: bool = True
    bfq_v1: bool = True
    is_versioned: bool = True

    @property
    def family(self) -> Family:
        """Whose code writes the files: what is not crun does as runc."""
        return "crun" if self.oci == "crun" and not self.tables else "runc"

    @property
    def is_own(self) -> bool:
        """Whether qoslet itself starts the containers, as processes or through an OCI runtime."""
        return self.oci == "process" or self.bundles

    def weight(self, shares: int) -> int:
        """cpu.weight as this version computes it, beyond its bounds, too; 0 is "not written"."""
        if self.curve == "quadratic":
            return weight_quadratic(shares)
        if MIN_SHARES <= shares <= MAX_SHARES:
            return weight_linear(shares)
        # 64-bit unsigned arithmetic without a clamp
        return (1 + ((shares - 2) % 2**64 * 9999 % 2**64) // 262142) if shares else 0


CRUN_TELLS_ALL = (1, 16)
_CRUN_TELLS: dict[str, tuple[int, ...]] = {
    "cpu.weight": (0,),
    "cpu.shares": (0,),
    "memory.max": (1, 8, 5),
    "memory.limit_in_bytes": (1, 8, 5),
    "cpu.max": (1, 11),
    "cpu.cfs_quota_us": (1, 11),
    "cpu.cfs_period_us": (1, 11),
}


def crun_tells(file: str, version: tuple[int, ...]) -> bool:
    """Whether that crun tells systemd of a file's value; all others it does since 1.16. What it does
    not tell stands in the file until systemd writes its own there. Source: crun NEWS, and
    cgroup-systemd.c of 1.8.1 and 1.21."""
    return version >= _CRUN_TELLS.get(file, CRUN_TELLS_ALL)


_AMOUNTS = ("memory.high", "memory.low", "memory.min", "memory.swap.max", "pids.max")


def untold(runtime: Runtime) -> tuple[str, ...]:
    """The files with amounts that are a unit's properties, too, of which a runtime does not tell
    systemd."""
    if runtime.oci != "crun":
        return ()
    files = (*_CRUN_TELLS, *_AMOUNTS)
    return tuple(file for file in files if not crun_tells(file, runtime.oci_version))


_NEWEST = (9999,)
_OCI: tuple[Oci, ...] = ("runc", "crun", "youki", "process")
_CRI: dict[str, Cri] = {"containerd": "containerd", "cri-o": "cri-o", "crio": "cri-o",
    "docker": "docker", "dockershim": "docker",
}  # fmt: skip

BUNDLED: tuple[tuple[Cri, tuple[int, ...], tuple[int, ...]], ...] = (
    ("containerd", (0,), (1, 0)),
    ("containerd", (1, 6), (1, 1, 0)),
    ("containerd", (1, 7), (1, 1, 5)),
    ("containerd", (1, 7, 14), (1, 1, 12)),
    ("containerd", (1, 7, 24), (1, 2, 2)),
    ("containerd", (2, 0), (1, 2, 0)),
    ("containerd", (2, 1), (1, 3, 0)),
    ("containerd", (2, 2), (1, 3, 3)),
    ("containerd", (2, 3), (1, 4, 0)),
    ("docker", (0,), (1, 0, 0)),
    ("cri-o", (0,), (1, 1, 0)),
    ("cri-o", (1, 31), (1, 2, 0)),
    ("cri-o", (1, 34), (1, 3, 3)),
)
"""CRI runtime, since which version, the runc that its releases bring along. Distributions ship
others, so a CRI runtime given without its OCI runtime is a guess that the plan mentions."""


def _version(text: str) -> tuple[int, ...]:
    """Leading numbers of a version; ValueError where there is none."""
    numbers = []
    for part in text.removeprefix("v").split("-")[0].split("+")[0].split("~")[0].split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part[:9]))
    if not numbers:
        raise ValueError(f"{text!r} is not a version such as 1.4.0")
    return tuple(numbers)


Named = tuple[str, tuple[int, ...]]


def _split(text: str) -> Named:
    name, dash, version = text.partition("-")
    if name == "cri":
        name, dash, version = text[:5], text[5:6], text[6:]
    if name not in _OCI and name not in _CRI:
        known = ", ".join(("containerd", "cri-o", "docker", *_OCI))
        raise ValueError(f"{text!r} is not a known runtime: known are {known}")
    return name, _version(version) if dash else _NEWEST


def curve_of(oci: str, version: tuple[int, ...]) -> tuple[WeightCurve, str]:
    """The cpu.weight curve of an OCI runtime, and how that is known."""
    if oci == "runc":
        new = version >= (1, 4) or (1, 3, 2) <= version < (1, 4)
        return ("quadratic" if new else "linear"), "read: runc >= 1.3.2 and >= 1.4.0 are quadratic"
    if oci == "crun":
        new = version >= (1, 23)
        return ("quadratic" if new else "linear"), "read: crun >= 1.23 is quadratic"
    if oci == "youki":
        return "linear", "read: youki libcgroups 2024-12 is linear"
    return "quadratic", "qoslet's process runtime follows the newest runc"


def _behaviour(oci: Oci, version: tuple[int, ...]) -> dict[str, bool]:
    """The differences of that version from the newest."""
    if oci == "crun":
        return {
            "idle": version >= (1, 5),
            "check": version >= (1, 7),
            "bfq_v1": version >= (1, 8, 2),
            "period_retry": version >= (1, 8, 4),
            "quota_signed": version >= (1, 8, 4),
            "swap_zero": version >= (1, 8, 6),
            "burst": version >= (1, 11),
            "any_negative": version >= (1, 13),
            "rsvd": False,
            "rounds_quota": False,
        }
    if oci != "runc":
        return {"rsvd": oci == "process", "pids_zero": True}
    main = version >= (1, 2)
    return {
        **dict.fromkeys(("idle", "burst", "check", "swap_missing", "merges"), main),
        "rsvd": version >= (1, 1, 10),
        "swap_alone": version >= (1, 2, 1),
        "io_updates": version >= (1, 3, 3),
        "pids_zero": version >= (1, 4),
        "rounds_quota": version >= (1, 4),
    }


def has_unified(oci: str, version: tuple[int, ...], text: str) -> bool:
    """Whether an OCI runtime writes the unified map; ``text`` tells release candidates apart.
    Source: runc CHANGELOG 1.0.0-rc93; crun NEWS 0.15."""
    if oci == "crun":
        return version >= (0, 15)
    if oci != "runc" or version > (1, 0, 0):
        return True
    candidate = text.rpartition("runc-")[2].partition("rc")[2]
    number = "".join(char for char in candidate[:4] if char.isdecimal())
    return version >= (1, 0) and (not number or int(number) >= 93)


@lru_cache(maxsize=256)
def runtime_of(text: str) -> Runtime:
    """The runtime that ``NAME-VERSION[+NAME-VERSION]`` names; ValueError says what is wrong.

    A CRI runtime alone means the runc that its releases ship; no version means the newest.
    ``kep-2254`` are the tables of the document instead of a runtime.
    """
    if text == KEP_2254:
        return _KEP
    parts = [_split(part) for part in _parts(text)]
    cri = next((part for part in parts if part[0] in _CRI), None)
    named = next(((oci, part[1]) for part in parts for oci in _OCI if oci == part[0]), None)
    if len(parts) != (cri is not None) + (named is not None):
        raise ValueError(f"{text!r} names two runtimes of the same kind")
    oci, version = named or ("runc", bundled_runc(cri or parts[0]))
    curve, known = curve_of(oci, version)
    return Runtime(
        name=text,
        oci=oci,
        oci_version=version,
        curve=curve,
        curve_evidence=known,
        cri=_CRI[cri[0]] if cri else None,
        cri_version=cri[1] if cri else (),
        hugetlb=cri is None or _CRI[cri[0]] == "cri-o",
        unified=(cri is None or _CRI[cri[0]] != "docker") and has_unified(oci, version, text),
        swap_from_limit=cri is not None,
        is_versioned=(named or cri or parts[0])[1] != _NEWEST,
        **_behaviour(oci, version),
    )


KEP_2254 = "kep-2254"
"""The tables of the document, by the name that ``runtime_of`` takes."""

_KEP = Runtime(KEP_2254, "runc", (1, 1), "linear", "KEP-2254's own tables", rsvd=False, tables=True)


def by_tables(runtime: Runtime) -> Runtime:
    """The runtime as the design documents have it: it converts by the tables of KEP-2254."""
    if runtime.tables:
        return runtime
    source = "documented: KEP-2254 has only the linear curve"
    return structs.replace(runtime, curve="linear", curve_evidence=source, tables=True)


def converting_runtime(text: str) -> Runtime:
    """The runtime of that name, as ``runtime_of``. Raises ValueError for one whose conversions are
    not known."""
    runtime = runtime_of(text)
    if runtime.oci == "youki":
        raise ValueError("qoslet does not know youki's conversions, only those of runc and crun")
    return runtime


def _parts(text: str) -> list[str]:
    """Split at the plus signs that begin a runtime's name (versions may hold one, too)."""
    parts: list[str] = []
    for piece in text.split("+"):
        if parts and not piece.startswith((*_OCI, *_CRI)):
            parts[-1] += "+" + piece
        else:
            parts.append(piece)
    return parts


def bundled_runc(runtime: Named) -> tuple[int, ...]:
    """The runc version that a CRI runtime's release brings along: the last row that is not newer."""
    name, version = _CRI[runtime[0]], runtime[1]
    return [runc for cri, since, runc in BUNDLED if cri == name and since <= version][-1]
