"""What a kernel does with steps: the same cases for every driver.

A case is done in a group of its own. ``{cpus}`` and ``{mems}`` stand for the machine's lists,
``{most}`` for the largest limit that v1 prints. Source: Documentation/admin-guide/cgroup-v1 and
cgroup-v2.rst, kernel/sched/core.c, mm/memcontrol-v1.c; the v1 cases run on a real kernel too.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.steps import Step

MiB = 1 << 20


class Case(Struct, frozen=True):
    """Steps with paths below the case's group, the refusal of the last one (the others work),
    and what files hold afterwards, by ``path/file``. ``using`` is bytes that a process in
    ``a`` holds; None: no process."""

    name: str
    steps: tuple[Step, ...]
    refused: str | None = None
    reads: Mapping[str, str] = {}
    using: int | None = None


def new(*paths: str) -> tuple[Step, ...]:
    return tuple(Step("create", path) for path in paths)


def put(path: str, file: str, value: str) -> tuple[Step, ...]:
    return (Step("set", path, file, value),)


def gone(path: str) -> tuple[Step, ...]:
    return (Step("remove", path),)


def _kept(file: str, *pairs: tuple[str, str]) -> list[Case]:
    """A written value and what it reads back as."""
    return [
        Case(f"{file} {text!r} is kept as {kept!r}", new("a") + put("a", file, text),
             reads={f"a/{file}": kept})
        for text, kept in pairs
    ]  # fmt: skip


def _refused(file: str, before: str, *pairs: tuple[str, str]) -> list[Case]:
    """A value that is refused, and the old one stays."""
    return [
        Case(f"{file} refuses {text!r}", new("a") + put("a", file, text), code,
             {f"a/{file}": before})
        for text, code in pairs
    ]  # fmt: skip


LIMIT, SWAP = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
QUOTA, PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us"

EITHER: tuple[Case, ...] = (
    Case("groups above are made", new("a/b/c"), reads={"a/pids.max": "max"}),
    Case("a group that is there is no fault", new("a", "a")),
    Case("a group with a group below stays", new("a", "a/b") + gone("a"), "EBUSY"),
    Case("a group goes", new("a") + gone("a")),
    Case("a group that is gone is removed", gone("a")),
    Case("children first", new("a", "a/b") + gone("a/b") + gone("a")),
    Case("a group with a process stays", new("a") + gone("a"), "EBUSY", using=0),
    Case("a name of more than 255 bytes", new("a" * 256)),
    Case("a value of no group", put("a", "pids.max", "5"), "ENOENT"),
    Case("a process that is not", (*new("a"), Step("attach", "a", pid=4_194_301)), "ESRCH"),
    Case("a value over a value", new("a") + put("a", "pids.max", "5") + put("a", "pids.max", "max"),
         reads={"a/pids.max": "max"}),
    Case("a child's value is its own", new("a", "a/b") + put("a", "pids.max", "5"),
         reads={"a/pids.max": "5", "a/b/pids.max": "max"}),
    *_kept("pids.max", ("0", "0"), ("1", "1"), ("4194304", "4194304"), ("0x10", "16"),
           ("010", "8")),
    *_refused("pids.max", "max", ("-1", "EINVAL"), ("4194305", "EINVAL"), ("x", "EINVAL"),
              ("1 2", "EINVAL")),
)  # fmt: skip

V1: tuple[Case, ...] = (
    Case("a new group", new("a"), reads={
        "a/cpu.shares": "1024", f"a/{QUOTA}": "-1", f"a/{PERIOD}": "100000",
        f"a/{LIMIT}": "{most}", f"a/{SWAP}": "{most}", "a/cpuset.cpus": "{cpus}",
        "a/cpuset.mems": "{mems}"}),
    *_kept("cpu.shares", ("0", "2"), ("1", "2"), ("3", "3"), ("262145", "262144"),
           ("18446744073709551615", "262144")),
    *_refused("cpu.shares", "1024", ("-1", "EINVAL"), ("x", "EINVAL"), ("1.5", "EINVAL"),
              ("18446744073709551616", "ERANGE")),
    *_kept(QUOTA, ("1000", "1000"), ("-7", "-1"), ("400000", "400000"),
           ("17592186044415", "17592186044415")),
    *_refused(QUOTA, "-1", ("999", "EINVAL"), ("0", "EINVAL"), ("x", "EINVAL"),
              ("17592186044416", "EINVAL"), ("max", "EINVAL")),
    *_kept(PERIOD, ("1000", "1000"), ("1000000", "1000000")),
    *_refused(PERIOD, "100000", ("999", "EINVAL"), ("1000001", "EINVAL"), ("0", "EINVAL"),
              ("-1", "EINVAL")),
    Case("a child may have its parent's share", new("a", "a/b") + put("a", QUOTA, "50000")
         + put("a/b", QUOTA, "50000"), reads={f"a/b/{QUOTA}": "50000"}),
    Case("a child may not have more", new("a", "a/b") + put("a", QUOTA, "50000")
         + put("a/b", QUOTA, "50001"), "EINVAL", {f"a/b/{QUOTA}": "-1"}),
    Case("shares of periods are compared", new("a", "a/b") + put("a", QUOTA, "50000")
         + put("a/b", PERIOD, "10000") + put("a/b", QUOTA, "5001"), "EINVAL"),
    Case("the same share of another period", new("a", "a/b") + put("a", QUOTA, "50000")
         + put("a/b", PERIOD, "10000") + put("a/b", QUOTA, "5000"),
         reads={f"a/b/{QUOTA}": "5000", f"a/b/{PERIOD}": "10000"}),
    Case("a group without a quota hands its parent's on", new("a", "a/b", "a/b/c")
         + put("a", QUOTA, "50000") + put("a/b/c", QUOTA, "60000"), "EINVAL"),
    Case("a parent is not lowered below a child", new("a", "a/b") + put("a", QUOTA, "90000")
         + put("a/b", QUOTA, "80000") + put("a", QUOTA, "70000"), "EINVAL",
         {f"a/{QUOTA}": "90000"}),
    Case("a longer period lowers the share", new("a", "a/b") + put("a", QUOTA, "90000")
         + put("a/b", QUOTA, "80000") + put("a", PERIOD, "200000"), "EINVAL",
         {f"a/{PERIOD}": "100000"}),
    Case("a shorter period raises the share", new("a", "a/b") + put("a", QUOTA, "90000")
         + put("a/b", QUOTA, "80000") + put("a/b", PERIOD, "50000"), "EINVAL",
         {f"a/b/{PERIOD}": "100000"}),
    Case("no quota is always taken", new("a", "a/b") + put("a", QUOTA, "50000")
         + put("a/b", QUOTA, "50000") + put("a/b", QUOTA, "-1"), reads={f"a/b/{QUOTA}": "-1"}),
    *_kept(LIMIT, ("4097", "4096"), ("64M", str(64 * MiB)), ("-1", "{most}"),
           ("9223372036854775807", "{most}"), ("4k", "4096"), ("4095", "0")),
    *_refused(LIMIT, "{most}", ("x", "EINVAL"), ("max", "EINVAL"), ("-2", "EINVAL"),
              ("1Ki", "EINVAL"), ("5.5", "EINVAL")),
    Case("memory+swap below memory", new("a") + put("a", LIMIT, "8M") + put("a", SWAP, "7M"),
         "EINVAL", {f"a/{SWAP}": "{most}"}),
    Case("memory above memory+swap", new("a") + put("a", LIMIT, "8M") + put("a", SWAP, "8M")
         + put("a", LIMIT, "9M"), "EINVAL", {f"a/{LIMIT}": str(8 * MiB)}),
    Case("memory+swap first, then memory", new("a") + put("a", LIMIT, "8M")
         + put("a", SWAP, "8M") + put("a", SWAP, "9M") + put("a", LIMIT, "9M"),
         reads={f"a/{LIMIT}": str(9 * MiB), f"a/{SWAP}": str(9 * MiB)}),
    Case("a child's memory limit may be the larger", new("a", "a/b") + put("a", LIMIT, "8M")
         + put("a/b", LIMIT, "9M"), reads={f"a/b/{LIMIT}": str(9 * MiB)}),
    Case("a limit below what is in use", new("a") + put("a", LIMIT, "8M"), "EBUSY",
         {f"a/{LIMIT}": "{most}"}, using=32 * MiB),
    Case("a parent's limit below what is in use", new("a") + put("", LIMIT, "8M"), "EBUSY",
         {"/" + LIMIT: "{most}"}, using=32 * MiB),
    Case("a limit above what is in use", new("a") + put("a", LIMIT, "256M"),
         reads={f"a/{LIMIT}": str(256 * MiB)}, using=32 * MiB),
    *_kept("cpuset.cpus", ("0", "0"), ("0,0", "0"), ("0-0", "0")),
    *_refused("cpuset.cpus", "{cpus}", ("8191", "ERANGE"), ("x", "EINVAL"), ("1-0", "EINVAL"), ("-1", "EINVAL")),
    *_refused("cpuset.mems", "{mems}", ("x", "EINVAL")),
    Case("a new group copies its parent's CPUs", new("a") + put("a", "cpuset.cpus", "0")
         + new("a/b"), reads={"a/b/cpuset.cpus": "0", "a/b/cpuset.mems": "{mems}"}),
    Case("a parent keeps its child's CPUs", new("a", "a/b") + put("a", "cpuset.cpus", "0"),
         "EBUSY", {"a/cpuset.cpus": "{cpus}"}),
    Case("a child has its parent's CPUs only", new("a") + put("a", "cpuset.cpus", "0")
         + new("a/b") + put("a/b", "cpuset.cpus", "1"), "EACCES", {"a/b/cpuset.cpus": "0"}),
)  # fmt: skip

V2: tuple[Case, ...] = (
    Case("a new group", new("a"), reads={
        "a/cpu.weight": "100", "a/cpu.max": "max 100000", "a/memory.max": "max",
        "a/memory.high": "max", "a/memory.low": "0", "a/memory.min": "0",
        "a/memory.swap.max": "max", "a/memory.oom.group": "0", "a/cpuset.cpus": "",
        "a/hugetlb.2MB.max": "max", "a/cpu.idle": "0"}),
    *_kept("cpu.weight", ("1", "1"), ("10000", "10000")),
    *_refused("cpu.weight", "100", ("0", "ERANGE"), ("10001", "ERANGE"), ("x", "EINVAL"),
              ("-1", "EINVAL")),
    *_kept("cpu.max", ("1000", "1000 100000"), ("5000 10000", "5000 10000"),
           ("max", "max 100000"), ("max 50000", "max 50000"),
           ("1000 1000000", "1000 1000000")),
    *_refused("cpu.max", "max 100000", ("999", "EINVAL"), ("1000 999", "EINVAL"),
              ("1000 1000001", "EINVAL"), ("x", "EINVAL"), ("-1", "EINVAL"),
              ("17592186044416", "EINVAL")),
    Case("a period stays", new("a") + put("a", "cpu.max", "5000 10000")
         + put("a", "cpu.max", "6000"), reads={"a/cpu.max": "6000 10000"}),
    Case("a child's quota may be the larger", new("a", "a/b") + put("a", "cpu.max", "5000")
         + put("a/b", "cpu.max", "50000"), reads={"a/b/cpu.max": "50000 100000"}),
    *_kept("memory.max", ("4097", "4096"), ("64M", str(64 * MiB)), ("max", "max"), ("0", "0")),
    *_refused("memory.max", "max", ("-1", "EINVAL"), ("x", "EINVAL"), ("1Ki", "EINVAL")),
    *_kept("memory.high", ("8191", "4096")),
    *_kept("memory.min", ("8193", "8192"), ("max", "max")),
    *_kept("memory.swap.max", ("0", "0")),
    *_kept("memory.oom.group", ("1", "1")),
    *_refused("memory.oom.group", "0", ("2", "EINVAL"), ("x", "EINVAL")),
    *_kept("cpu.idle", ("1", "1")),
    *_refused("cpu.idle", "0", ("2", "EINVAL")),
    Case("an idle group takes no weight", new("a") + put("a", "cpu.idle", "1")
         + put("a", "cpu.weight", "7"), "EINVAL", {"a/cpu.idle": "1"}),
    Case("a group that is idle no more has the default weight", new("a")
         + put("a", "cpu.weight", "7") + put("a", "cpu.idle", "1") + put("a", "cpu.idle", "0"),
         reads={"a/cpu.weight": "100"}),
    *_kept("hugetlb.2MB.max", ("3145728", "2097152"), ("0", "0")),
    *_kept("cpuset.cpus", ("1,0", "0-1"), ("", "")),
    *_refused("cpuset.cpus", "", ("8191", "ERANGE"), ("x", "EINVAL"), ("1-0", "EINVAL")),
    Case("a parent may have fewer CPUs than its child", new("a", "a/b")
         + put("a/b", "cpuset.cpus", "0-1") + put("a", "cpuset.cpus", "0"),
         reads={"a/b/cpuset.cpus": "0-1", "a/cpuset.cpus": "0"}),
    Case("no group below a process", new("a", "a/b"), "EBUSY", using=0),
    Case("a limit below what is in use kills", new("a") + put("a", "memory.max", "8M"),
         reads={"a/memory.max": str(8 * MiB), "a/pids": "", "a/oom_kills": "1"},
         using=32 * MiB),
    Case("a limit above what is in use", new("a") + put("a", "memory.max", "256M"),
         reads={"a/memory.max": str(256 * MiB), "a/oom_kills": "0"}, using=32 * MiB),
)  # fmt: skip

CASES: Mapping[Hierarchy, tuple[Case, ...]] = {"v1": EITHER + V1, "v2": EITHER + V2}
