"""Seccomp profiles: which one a container gets, and the distribution's as an OCI runtime takes it.

A distribution's profile has conditions (capabilities, architectures, kernel versions) and the
architectures of every machine; ``linux.seccomp`` has neither. A Localhost profile is one already.

Source: containers/common pkg/seccomp seccomp_linux.go setupSeccomp, moby profiles/seccomp
(minKernel); kubelet security_context.go getSeccompProfile; core/v1 SeccompProfile.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Mapping
from posixpath import isabs
from typing import Any

from msgspec import Struct

RUNTIME_DEFAULT = "RuntimeDefault"
LOCALHOST = "Localhost/"

KUBELET_PROFILES = "/var/lib/kubelet/seccomp"
"""The folder of Localhost profiles, as a kubelet has it unless told otherwise."""

PACKAGE_HINT = (
    "install containers-common (Debian, Ubuntu: apt install golang-github-containers-common)"
)
"""What brings the distribution's profile."""

_ARCHITECTURES = {
    "amd64": "SCMP_ARCH_X86_64",
    "386": "SCMP_ARCH_X86",
    "arm64": "SCMP_ARCH_AARCH64",
    "arm": "SCMP_ARCH_ARM",
    "mips64le": "SCMP_ARCH_MIPSEL64",
    "ppc64le": "SCMP_ARCH_PPC64LE",
    "riscv64": "SCMP_ARCH_RISCV64",
    "s390x": "SCMP_ARCH_S390X",
    "loong64": "SCMP_ARCH_LOONGARCH64",
}
"""Architecture as images name it to libseccomp's. Source: libseccomp seccomp.h."""

_NATIVE = {"386": "x86", "mips64le": "mipsel64"}
"""Where a profile's conditions name the architecture in another way (libseccomp-golang)."""

_FILTER_FIELDS = (
    "defaultAction defaultErrnoRet architectures flags listenerPath listenerMetadata syscalls"
)


class SeccompHost(Struct, frozen=True):
    """What a profile's conditions look at: the architecture as images name it, the kernel's
    version, and the container's bounding set, each name with ``CAP_``."""

    architecture: str
    kernel: str
    bounding: frozenset[str] = frozenset()


def profile_of(
    above: Mapping[str, Any], own: Mapping[str, Any], name: str = "seccompProfile"
) -> str:
    """The profile of a container as one word: its own field, else the pod's; ``RuntimeDefault``,
    ``Unconfined``, ``Localhost/PROFILE``, or empty where nothing is asked."""
    for context in (own, above):
        chosen = context.get(name)
        if isinstance(chosen, Mapping) and chosen.get("type"):
            kind = str(chosen["type"])
            local = f"{kind}/{chosen.get('localhostProfile') or ''}"
            return local if kind == "Localhost" else kind
    return ""


def path_fault(profile: str) -> str:
    """Why a ``Localhost/PROFILE`` names no file below the root of profiles; empty where it does.
    Source: core validation.go validateLocalDescendingPath."""
    path = profile.removeprefix(LOCALHOST)
    if not path:
        return "no localhostProfile"
    if isabs(path):
        return f"{path!r} is not a relative path"
    return f"{path!r} contains '..'" if ".." in path.split("/") else ""


def localhost_filter(document: object) -> dict[str, Any]:
    """A Localhost profile as ``linux.seccomp``: its own words. Raises ValueError."""
    found = _object(document, "the profile")
    if not isinstance(found.get("defaultAction"), str):
        raise ValueError("defaultAction is missing")
    return {name: found[name] for name in _FILTER_FIELDS.split() if found.get(name) is not None}


def runtime_filter(document: object, machine: SeccompHost) -> dict[str, Any] | None:
    """A distribution's profile as ``linux.seccomp`` of a container on ``machine``; None where it
    says nothing. Raises ValueError."""
    found = _object(document, "the profile")
    if not found.get("defaultAction") and not found.get("syscalls"):
        return None
    made: dict[str, Any] = {"defaultAction": str(found.get("defaultAction") or "")}
    number = _errno(found.get("defaultErrno"), found.get("defaultErrnoRet"))
    if number is not None:
        made["defaultErrnoRet"] = number
    if architectures := _architectures(found, machine.architecture):
        made["architectures"] = architectures
    if found.get("flags"):
        made["flags"] = list(found["flags"])
    made["syscalls"] = [
        rule
        for entry in _objects(found.get("syscalls"), "syscalls")
        if _applies(entry, machine)
        for rule in _rules(entry)
    ]
    return made


def _architectures(document: Mapping[str, Any], architecture: str) -> list[str]:
    """Those that the filter is for; empty: libseccomp takes the machine's own."""
    given = document.get("architectures") or []
    table = _objects(document.get("archMap"), "archMap")
    if given and table:
        raise ValueError("it has both architectures and archMap")
    for entry in table:
        if entry.get("architecture") == _ARCHITECTURES.get(architecture):
            return [entry["architecture"], *(entry.get("subArchitectures") or ())]
    return [str(one) for one in given]


def _applies(entry: Mapping[str, Any], machine: SeccompHost) -> bool:
    """Whether an entry's conditions hold: every included capability, no excluded one."""
    native = _NATIVE.get(machine.architecture, machine.architecture)
    without = _object(entry.get("excludes") or {}, "excludes")
    needs = _object(entry.get("includes") or {}, "includes")
    if native in _strings(without.get("arches")):
        return False
    if machine.bounding & set(_strings(without.get("caps"))):
        return False
    if without.get("minKernel") and _at_least(machine.kernel, str(without["minKernel"])):
        return False
    if needs.get("arches") and native not in _strings(needs["arches"]):
        return False
    if needs.get("minKernel") and not _at_least(machine.kernel, str(needs["minKernel"])):
        return False
    return set(_strings(needs.get("caps"))) <= machine.bounding


def _rules(entry: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """An entry without its conditions."""
    name, names = entry.get("name"), entry.get("names") or []
    if name and names:
        raise ValueError("an entry has both name and names")
    words = [str(name)] if name else _strings(names)
    if not words:
        return
    made: dict[str, Any] = {"names": words, "action": str(entry.get("action") or "")}
    number = _errno(entry.get("errno"), entry.get("errnoRet"))
    if number is not None:
        made["errnoRet"] = number
    if entry.get("args"):
        made["args"] = [dict(one) for one in _objects(entry["args"], "args")]
    yield made


def _errno(name: object, number: object) -> int | None:
    """The error number of an action: its name or number in text comes before ``errnoRet``."""
    if isinstance(name, str) and name:
        if name.isdecimal():
            return int(name)
        found: int | None = getattr(errno, name, None) if name.startswith("E") else None
        if found is None:
            raise ValueError(f"unknown errno {name[:40]!r}")
        return found
    return number if isinstance(number, int) else None


def _at_least(kernel: str, wanted: str) -> bool:
    """Whether a kernel has this version or a newer one."""
    return _version(kernel) >= _version(wanted)


def _version(words: str) -> tuple[int, int]:
    parts = [*words.split(".")[:2], "0"]
    numbers = ["".join(c for c in part.partition("-")[0] if c.isdecimal()) for part in parts]
    return int(numbers[0] or 0), int(numbers[1] or 0)


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is not an object")
    return value


def _objects(value: object, what: str) -> list[Mapping[str, Any]]:
    if value is not None and not isinstance(value, list):
        raise ValueError(f"{what} is not a list")
    return [_object(one, f"an entry of {what}") for one in value or ()]


def _strings(value: object) -> Collection[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
