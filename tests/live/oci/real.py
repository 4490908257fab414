"""Containers of the real OCI runtimes, created and never started: their groups can be read."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from qoslet.core.cgroup.controllers import hugepage_sizes
from qoslet.core.cgroup.features import NEWEST_KERNEL, KernelFeatures
from qoslet.core.cgroup.interface_files import cpu_numbers
from qoslet.core.node.host_facts import kernel_version
from qoslet.host.machine.probe import probe
from tests.contract.drivers import mounts_of
from tests.live.kernel.kernel_writes import memory_nodes

PRISTINE_V1 = {
    "memory.memsw.limit_in_bytes": "-1",
    "memory.limit_in_bytes": "-1",
    "memory.soft_limit_in_bytes": "-1",
    "memory.swappiness": "60",
    "cpu.idle": "0",
    "cpu.shares": "1024",
    "cpu.cfs_burst_us": "0",
    "cpu.cfs_quota_us": "-1",
    "cpu.cfs_period_us": "100000",
    "pids.max": "max",
    "blkio.bfq.weight": "100",
}
PRISTINE_V2 = {
    "memory.swap.max": "max",
    "memory.max": "max",
    "memory.high": "max",
    "memory.low": "0",
    "memory.min": "0",
    "memory.oom.group": "0",
    "cpu.idle": "0",
    "cpu.weight": "100",
    "cpu.max.burst": "0",
    "cpu.max": "max 100000",
    "pids.max": "max",
    "cpuset.cpus": "\n",
    "cpuset.mems": "\n",
    "io.weight": "default 100",
    "io.bfq.weight": "default 100",
}
READ_V1 = (*PRISTINE_V1, "cpuset.cpus", "cpuset.mems", "memory.oom_control")
READ_V1_LINES = tuple(
    f"blkio.throttle.{way}_{what}_device" for way in ("read", "write") for what in ("bps", "iops")
)
READ_V2 = (*PRISTINE_V2, "io.max")


def found(name: str) -> str:
    """A runtime's program; where one must be, its absence is a failure."""
    program = shutil.which(name)
    assert program, f"{name} is not installed: apt-get install -y {name}"
    return program


def version(program: str) -> str:
    """What it calls itself, as ``runc-1.1.5``."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"(runc|crun) version (\d+(?:\.\d+)*)", said)
    assert match, said
    return f"{match[1]}-{match[2]}"


def disk() -> str | None:
    """A real disk as MAJOR:MINOR."""
    for block in sorted(Path("/sys/block").iterdir()):
        if not block.name.startswith(("loop", "ram", "zram", "dm-")):
            return (block / "dev").read_text().strip()
    return None


class Container:
    """One container in a group of the test's own."""

    options: tuple[str, ...] = ()

    def __init__(self, program: str, folder: Path) -> None:
        here = probe()
        if here.hierarchy is None:
            pytest.fail("this machine has no cgroups")
        self.program, self.hierarchy = program, here.hierarchy
        self.mounts = mounts_of(here.hierarchy)
        self.root = f"/qoslet-test-{secrets.token_hex(4)}"
        self.name = self.root.strip("/")
        self.state = folder / f"state-{self.name}"
        self.bundle = folder / f"bundle-{self.name}"
        for name in ("proc", "dev"):
            (self.bundle / "rootfs" / name).mkdir(parents=True)
        never = self.bundle / "rootfs" / "never"
        never.write_text("#!/never\n")
        never.chmod(0o755)
        self._present: frozenset[str] = frozenset()

    def create(self, block: dict[str, Any]) -> str:
        """Create it with a block; what the runtime said when it refused, "" where it did not."""
        self._present = frozenset()
        spaces = [{"type": kind} for kind in ("pid", "mount")]
        config = {
            "ociVersion": "1.0.2",
            "process": {"user": {"uid": 0, "gid": 0}, "args": ["/never"], "cwd": "/", "env": []},
            "root": {"path": "rootfs"},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            ],
            "linux": {
                "cgroupsPath": self.place(),
                "namespaces": spaces,
                "resources": block,
            },
        }
        (self.bundle / "config.json").write_text(json.dumps(config))
        return self._call("create", "--bundle", str(self.bundle), self.name)

    def place(self) -> str:
        """``cgroupsPath``."""
        return f"{self.root}/c"

    def update(self, block: dict[str, Any]) -> str:
        """The same for an update."""
        file = self.bundle / "update.json"
        file.write_text(json.dumps(block))
        return self._call("update", "--resources", str(file), self.name)

    def _call(self, *words: str) -> str:
        # an init that lives on would hold pipes open, so output goes to a file
        output = self.bundle / "output"
        with output.open("w") as file:
            command = [self.program, "--root", str(self.state), *self.options, *words]
            # with a timeout Python looks for the end every 50 ms; pytest has one
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
            )
        said = output.read_text(errors="replace")
        return (said or "no word") if done.returncode else ""

    def delete(self) -> None:
        """End it and take its groups away."""
        self._call("delete", "--force", self.name)
        for path in self._places():
            for group in (path, path.parent):
                if group.name.startswith(("qoslet-test-", "c")) and group.exists():
                    _remove(group)

    def _places(self) -> list[Path]:
        tops = {"/sys/fs/cgroup"} if self.hierarchy == "v2" else set(_v1_mounts())
        return [Path(top) / self.root.strip("/") / "c" for top in sorted(tops)]

    def path(self, file: str) -> Path:
        """Where a file of its group is."""
        top = self.mounts if isinstance(self.mounts, str) else self.mounts[file.partition(".")[0]]
        return Path(f"{top}{self.root}/c/{file}")

    def has(self, file: str) -> bool:
        """Whether its group has the file."""
        # read once for each group: an emulated CPU takes a millisecond for each look
        self._present = self._present or frozenset(self._files())
        return file in self._present

    def _files(self) -> Iterator[str]:
        """The files of its group, of each controller where that is."""
        if isinstance(self.mounts, str):
            yield from _listed(self.path("cgroup.procs").parent)
            return
        for controller in self.mounts:
            for name in _listed(self.path(f"{controller}.x").parent):
                if name.partition(".")[0] == controller:
                    yield name

    def read(self) -> dict[str, str]:
        """Every setting of the group that a runtime may write."""
        names = [*(READ_V2 if self.hierarchy == "v2" else (*READ_V1, *READ_V1_LINES))]
        names += [
            f"hugetlb.{size}.{part}{'max' if self.hierarchy == 'v2' else 'limit_in_bytes'}"
            for size in self.sizes()
            for part in ("", "rsvd.")
        ]
        seen = {}
        for name in names:
            if self.has(name):
                seen[name] = self.path(name).read_text().rstrip("\n")
        return seen

    def sizes(self) -> tuple[str, ...]:
        """Hugepage sizes of the machine, where the group has the controller."""
        try:
            every = hugepage_sizes(os.listdir("/sys/kernel/mm/hugepages")).sizes
        except OSError:
            return ()
        suffix = "max" if self.hierarchy == "v2" else "limit_in_bytes"
        return tuple(size for size in every if self.has(f"hugetlb.{size}.{suffix}"))

    def pristine(self) -> None:
        """Give every setting the value of a new group."""
        values = PRISTINE_V2 if self.hierarchy == "v2" else PRISTINE_V1
        for file, value in values.items():
            if self.has(file):
                # Linux 6.1 takes no list from a group with processes; what stands is compared
                full = suppress(OSError) if file.startswith("cpuset.") else nullcontext()
                with full:
                    self.path(file).write_text(value)
        for file in READ_V1_LINES if self.hierarchy == "v1" else ("io.max",):
            if self.has(file):
                for line in self.path(file).read_text().splitlines():
                    device = line.partition(" ")[0]
                    none = "rbps=max wbps=max riops=max wiops=max"
                    none = none if self.hierarchy == "v2" else "0"
                    self.path(file).write_text(f"{device} {none}")

    def number(self, file: str) -> int:
        """A number of the group; 0 without the file."""
        return int(self.path(file).read_text()) if self.has(file) else 0

    def ground(self) -> KernelFeatures:
        """What convert is told of this kernel."""
        v2 = self.hierarchy == "v2"
        one = disk()
        controllers = None
        if v2:
            controllers = frozenset(self.path("cgroup.controllers").read_text().split())
        sizes = self.sizes()
        return KernelFeatures(
            page_size=os.sysconf("SC_PAGE_SIZE"),
            swap=self.has("memory.swap.max" if v2 else "memory.memsw.limit_in_bytes"),
            bfq=self.has("io.bfq.weight" if v2 else "blkio.bfq.weight"),
            rsvd=any(
                self.has(f"hugetlb.{size}.rsvd.{'max' if v2 else 'limit_in_bytes'}")
                for size in sizes
            ),
            iocost=self.has("io.weight"),
            sizes=sizes,
            cpus=cpu_numbers(Path("/sys/devices/system/cpu/possible").read_text().strip()),
            mems=cpu_numbers(memory_nodes()),
            controllers=controllers,
            devices=frozenset({one} if one else ()),
            kernel=kernel_version(os.uname().release) or NEWEST_KERNEL,
        )


def _listed(folder: Path) -> list[str]:
    """The names in a directory; none where it is absent."""
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _v1_mounts() -> list[str]:
    lines = Path("/proc/mounts").read_text().splitlines()
    # runc makes its group in the hybrid hierarchy, too
    return [words[1] for words in map(str.split, lines) if words[2] in ("cgroup", "cgroup2")]


class Scoped(Container):
    """The same by the systemd driver: a scope, and its properties."""

    options = ("--systemd-cgroup",)

    def place(self) -> str:
        return f"system.slice:qoslet:{self.name}"

    @property
    def unit(self) -> str:
        """The scope's name."""
        return f"qoslet-{self.name}.scope"

    def path(self, file: str) -> Path:
        return Path(f"/sys/fs/cgroup/system.slice/{self.unit}/{file}")

    def delete(self) -> None:
        self._call("delete", "--force", self.name)

    def properties(self) -> dict[str, str]:
        """What systemd says of the scope, durations in microseconds."""
        command = ["systemctl", "show", self.unit]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return dict(line.split("=", 1) for line in said.splitlines() if "=" in line)


_UNITS = {"us": 1, "ms": 1000, "s": 1_000_000, "min": 60_000_000}


def microseconds(text: str) -> int | None:
    """A duration as ``systemctl show`` prints it; None for infinity."""
    if text == "infinity":
        return None
    found = re.findall(r"([0-9.]+)([a-z]+)", text)
    assert found, text
    return round(sum(float(number) * _UNITS[unit] for number, unit in found))


def _remove(group: Path) -> None:
    """Remove a group; its last process may be on its way out still."""
    end = time.monotonic() + 30.0
    while True:
        try:
            group.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return
