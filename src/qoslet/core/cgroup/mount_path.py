"""Paths as a shell has them, ``/sys/fs/cgroup/...``, to the cgroup that they are of."""

from __future__ import annotations

from qoslet.core.cgroup.names import DEFAULT_POINT, is_at_or_below


def is_mounted_path(text: str) -> bool:
    """Whether a path lies below the usual mount."""
    return is_at_or_below(text, DEFAULT_POINT)


def cgroup_of(text: str, hierarchy: str) -> tuple[str, str]:
    """The cgroup of a path below the mount, and the file where the path is one; any other path
    stays. On v1 the first component is a hierarchy."""
    if not is_mounted_path(text):
        return text, ""
    parts = [part for part in text.removeprefix(DEFAULT_POINT).split("/") if part]
    if hierarchy == "v1":
        parts = parts[1:]
    file = parts[-1] if parts and _is_file(parts[-1]) else ""
    return "/" + "/".join(parts[:-1] if file else parts), file


def _is_file(name: str) -> bool:
    """Whether a name is that of a cgroup file."""
    first, dot, rest = name.partition(".")
    known = ("cgroup", "cpu", "cpuset", "hugetlb", "io", "memory", "misc", "pids", "rdma")
    return bool(dot) and first in known and not rest.endswith(("slice", "scope", "service"))
