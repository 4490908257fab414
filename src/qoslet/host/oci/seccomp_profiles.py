"""The seccomp profiles on this machine: the distribution's, and those of a kubelet's folder.

Source: containers.conf(5) seccomp_profile (its default path and the one that overrides it);
kubelet --root-dir, whose folder seccomp has the Localhost profiles.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Any

import msgspec

from qoslet.core.cgroup.names import is_below
from qoslet.core.workload.oci.image import architecture_of
from qoslet.core.workload.security.seccomp import (
    LOCALHOST,
    RUNTIME_DEFAULT,
    SeccompHost,
    localhost_filter,
    path_fault,
    runtime_filter,
)

DISTRIBUTION = ("/etc/containers/seccomp.json", "/usr/share/containers/seccomp.json")
"""The first that exists is the profile of ``RuntimeDefault``."""

MAX_BYTES = 4 * 1024 * 1024


def distribution_profile(paths: Iterable[str] = DISTRIBUTION) -> str:
    """The file of ``RuntimeDefault``; empty where this machine has none."""
    return next((path for path in paths if os.path.isfile(path)), "")


def profile_fault(profile: str, distribution: str, root: str) -> str:
    """Why a profile cannot be loaded; empty where it can."""
    if profile == RUNTIME_DEFAULT and not distribution:
        return f"no seccomp profile is on this machine ({' or '.join(DISTRIBUTION)})"
    try:
        load_filter(profile, distribution, root, frozenset())
    except ValueError as error:
        return f"the seccomp profile {error}"
    except OSError as error:
        return f"the seccomp profile {error.filename}: {error.strerror}"
    return ""


def load_filter(
    profile: str, distribution: str, root: str, bounding: frozenset[str]
) -> dict[str, Any] | None:
    """``linux.seccomp`` for a profile on this machine; None for no filter. ``bounding`` are the
    container's capabilities, with ``CAP_``. Raises ValueError, OSError."""
    if profile == RUNTIME_DEFAULT:
        system = os.uname()
        machine = SeccompHost(architecture_of(system.machine), system.release, bounding)
        try:
            return runtime_filter(_document(distribution), machine)
        except ValueError as error:
            raise ValueError(f"{distribution}: {error}") from error
    if not profile.startswith(LOCALHOST):
        return None
    if wrong := path_fault(profile):
        raise ValueError(wrong)
    path = f"{root}/{profile.removeprefix(LOCALHOST)}"
    if not is_below(os.path.realpath(path), os.path.realpath(root)):
        raise ValueError(f"{path}: leads out of {root}")
    try:
        return localhost_filter(_document(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _document(path: str) -> Any:
    """The JSON of a regular file. Raises ValueError, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
