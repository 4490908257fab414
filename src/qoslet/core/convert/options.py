"""The options of a conversion and their checks. Errors name the option; ``argument`` renames it to
the library's argument."""

from __future__ import annotations

from typing import Literal

from qoslet.core.api.schema import shown
from qoslet.core.convert.windows_job_object import Windows
from qoslet.core.node.host_facts import kernel_version
from qoslet.core.versions.kubernetes import NEWEST, OLDEST, minor_of
from qoslet.errors import BadInput

Target = Literal["v1", "v2", "systemd", "oci", "cri", "windows", "docker"]

TARGETS: tuple[Target, ...] = ("v1", "v2", "systemd", "oci", "cri", "windows", "docker")
WINDOWS_ONLY: tuple[Target, ...] = ("windows", "docker")
"""Targets that a pod reaches only as one of Windows."""

KINDS = ("oci", "cri", "pod")
DRIVERS = ("cgroupfs", "systemd")
PROCESSORS_MAX = 2048
"""The most logical processors that Windows Server 2025 supports."""

_ARGUMENTS = {"--from": "source", "--cgroup-driver": "driver"}


def argument(fault: BadInput) -> BadInput:
    """The fault of an option as that of the library's argument."""
    name = _ARGUMENTS.get(fault.where, fault.where.removeprefix("--"))
    return BadInput(fault.message, where=name, hint=fault.hint)


def one_of(value: object, known: tuple[str | None, ...], option: str) -> None:
    """Raise BadInput for a value that is not in ``known``."""
    if value not in known:
        names = [name for name in known if name is not None]
        expected = f"{', '.join(names[:-1])} or {names[-1]}"
        raise BadInput(f"is {shown(repr(value))}, must be {expected}", where=option)


def check_options(
    runtime: str, driver: str, hierarchy: str | None, update: bool, usage: tuple[int, int] | None
) -> None:
    """Raise BadInput for an invalid option."""
    if not isinstance(runtime, str):
        raise BadInput(f"is {shown(repr(runtime))}, must be text as in runc-1.4", where="--runtime")
    one_of(driver, DRIVERS, "--cgroup-driver")
    one_of(hierarchy, (None, "v1", "v2"), "--hierarchy")
    if usage is None:
        return
    if not update:
        hint = "add --update"
        raise BadInput("applies only to an update", where="--usage", hint=hint)
    for amount in usage:
        if not whole(amount, 0, 2**63 - 1):
            text = shown(repr(amount))
            raise BadInput(f"is {text}, must be bytes, 0 to {2**63 - 1}", where="--usage")


def check_release(kubernetes: str | None) -> None:
    """Raise BadInput for text that is neither a release nor ``design``."""
    try:
        minor_of(kubernetes or "design")
    except ValueError as error:
        hint = f"give 1.{OLDEST} to 1.{NEWEST}, or design"
        raise BadInput(str(error), where="--kubernetes", hint=hint) from None


def kernel_of(text: str) -> tuple[int, int]:
    """``6.12.107-cloud`` to (6, 12). Raises BadInput."""
    found = kernel_version(text) if isinstance(text, str) else None
    if found is None:
        message = f"is {shown(repr(text))}, must be a version such as 6.12"
        raise BadInput(message, where="--kernel")
    return found


def whole(value: object, least: int, most: int) -> bool:
    """Whether the value is an int within the bounds."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def windows_of(isolation: str, processors: int | None, precedence: bool) -> Windows:
    """The Windows machine of these options. Raises BadInput."""
    one_of(isolation, ("process", "hyperv"), "--isolation")
    if processors is not None and not whole(processors, 1, PROCESSORS_MAX):
        text = shown(repr(processors))
        raise BadInput(f"is {text}, must be 1 to {PROCESSORS_MAX}", where="--processors")
    return Windows(isolation, processors, precedence)
