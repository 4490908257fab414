"""Every errno of a control group has a meaning and a next step, on both hierarchies."""

from __future__ import annotations

import errno
import os
from typing import get_args

import pytest

from qoslet.core.cgroup.interface_files import KNOBS
from qoslet.host.cgroupfs.write_errors import Deed, cgroup_error

NAMES = (
    "EBUSY",
    "EINVAL",
    "ENOENT",
    "ENODEV",
    "EPERM",
    "EACCES",
    "ENOSPC",
    "EROFS",
    "EOPNOTSUPP",
    "ETIMEDOUT",
)
DEEDS: tuple[Deed, ...] = get_args(Deed)
HUGE = ("hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max")
FILES = sorted({file for row in KNOBS for file in (row.v1, row.v2) if file} | {*HUGE})

MEANS = [
    # (deed, file, errno, a word of what it means, a word of what to do)
    ("create", "", "EAGAIN", "max.descendants or cgroup.max.depth", "raise it there"),
    ("create", "", "ENOSPC", "65535", "removed ones count"),
    ("create", "", "ENOENT", "parent cgroup does not exist", "create it first"),
    ("create", "", "EROFS", "read-only", "mount it read-write"),
    ("create", "", "EACCES", "permission denied", "delegate"),
    ("create", "", "ENAMETOOLONG", "255 bytes", "shorter"),
    ("remove", "", "EBUSY", "processes or child cgroups", "cgroup.procs"),
    ("attach", "cgroup.procs", "EBUSY", "takes no processes", "leaf"),
    ("attach", "cgroup.procs", "ENOSPC", "is empty", "write both"),
    ("attach", "cgroup.procs", "EOPNOTSUPP", "threaded", "all domains"),
    ("attach", "cgroup.procs", "ESRCH", "ended", "nothing"),
    ("enable", "cgroup.subtree_control", "EBUSY", "cgroup with processes", "sibling"),
    (
        "enable",
        "cgroup.subtree_control",
        "ENOENT",
        "controller is not available",
        "ancestors first",
    ),
    ("enable", "cgroup.subtree_control", "EOPNOTSUPP", "threaded", "all domains"),
    ("enable", "cgroup.subtree_control", "ENODEV", "bound to a v1", "unmount"),
    ("set", "cpuset.cpus", "EACCES", "parent cgroup", "add them"),
    ("set", "cpuset.cpus", "EBUSY", "child cgroup", "reduce"),
    ("set", "cpuset.cpus", "ENOSPC", "without a CPU", "move them"),
    ("set", "memory.limit_in_bytes", "EBUSY", "uses more", "wait until usage"),
    ("set", "memory.limit_in_bytes", "EINVAL", "memsw", "raise memsw first"),
    ("set", "memory.max", "EBUSY", "uses more", "wait until usage"),
    ("set", "memory.max", "EINVAL", "bytes, or max", "explain"),
    ("set", "memory.max", "ETIMEDOUT", "reclaim", "above its usage"),
    ("set", "hugetlb.2MB.max", "EBUSY", "huge pages", "freed"),
    ("set", "cpu.cfs_quota_us", "EINVAL", "parent cgroup has less", "raise the parent"),
    ("set", "cpu.max", "EINVAL", "below 1 ms", "explain"),
    ("set", "cpu.weight", "EINVAL", "idle", "cpu.idle first"),
    ("set", "cpu.weight", "ERANGE", "out of range", "explain"),
    ("set", "pids.max", "EINVAL", "4194304", "explain"),
    ("set", "memory.max", "ENOENT", "does not exist", "cgroup.controllers"),
    ("set", "memory.max", "ENODEV", "disabled its controller", "next sync"),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("deed", DEEDS)
def test_every_refusal_is_one_line_with_a_meaning_and_a_next_step(deed: Deed, name: str) -> None:
    number = getattr(errno, name)
    files = FILES if deed == "set" else [""]
    for file in files:
        said = cgroup_error(deed, "/mount/q", number, file, "1")
        text = str(said)
        place = f"/mount/q/{file}" if file else "/mount/q"
        assert text.startswith(f"{place} refuses '1' with {name}: ")
        meaning, _, advice = text.partition(f"{name}: ")[2].partition("; ")
        assert meaning, text
        assert advice, text
        assert meaning != os.strerror(number), text
        assert "\n" not in text
        assert said.number == number


@pytest.mark.parametrize(("deed", "file", "name", "meaning", "advice"), MEANS)
def test_what_it_means_here(deed: Deed, file: str, name: str, meaning: str, advice: str) -> None:
    text = str(cgroup_error(deed, "/mount/q", getattr(errno, name), file, "1"))
    before, _, after = text.rpartition("; ")
    assert meaning in before, text
    assert advice in after or advice in text, text


def test_an_errno_that_nobody_foresaw_is_still_said() -> None:
    text = str(cgroup_error("set", "/mount/q", errno.EXDEV, "pids.max", "1"))
    assert "EXDEV" in text
    assert "kernel's log" in text
