"""Protection as this machine's kernel hands it down a tree, beside what the plan says it is worth;
and why ``memory.min`` stays below ``memory.max`` in form qoslet."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from qoslet.core.memory.effective_protection import effective_memory, protection_of
from qoslet.core.plan.plan import plan
from qoslet.host.linux.mountinfo import mounts
from qoslet.host.memory.reader import MemoryFiles
from tests.contract.drivers import mounts_of
from tests.core.resources.test_memory_qos import pod, under
from tests.core.vectors.fixtures import files
from tests.live.agent.test_run import PATIENCE
from tests.live.memory.cgroups import MIB, Ground, ground

__all__ = ["ground"]
pytestmark = [pytest.mark.live, pytest.mark.timeout(4 * PATIENCE)]

CACHE = 48
"""MiB of page cache of each group."""
PYTHON = 12
"""MiB that the interpreter of a program may need beside what it holds."""

READS = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
while os.read(file, 1 << 20): pass
print("read", flush=True)
time.sleep(float(sys.argv[2]))
"""
HOLDS = """
import contextlib, mmap, sys, time
held = mmap.mmap(-1, int(sys.argv[1]) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
with contextlib.suppress(OSError): held.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, len(held), 4096): held[at] = 1
print("holds", flush=True)
time.sleep(float(sys.argv[2]))
"""


class Tree:
    """Groups with values of memory, programs in them, and files to read."""

    def __init__(self, ground: Ground, folder: Path) -> None:
        if ground.hierarchy != "v2":
            pytest.skip("this machine has cgroup v1")
        ground.need_memory()
        self.ground, self.folder = ground, folder
        self.reader = MemoryFiles("v2", mounts_of("v2"))
        for name, text in (("reads", READS), ("holds", HOLDS)):
            (folder / f"{name}.py").write_text(text)

    def file(self, mib: int) -> str:
        """A file on a disk of which nothing is in memory."""
        path = str(self.folder / f"{time.monotonic_ns()}")
        with open(path, "wb") as new:
            new.writelines(os.urandom(MIB) for _ in range(mib))
            os.fsync(new.fileno())
            os.posix_fadvise(new.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return path

    def group(self, path: str, **values: int) -> str:
        """A group with ``memory.*`` in bytes."""
        made = self.ground.make(path)
        tree = self.ground.groups.layout.tree_of("memory")
        assert tree is not None
        for name, value in values.items():
            tree.write(made, f"memory.{name}", str(value))
        return made

    def begin(self, group: str, name: str, *words: object) -> None:
        """A program in a group, until it says that it has what it wants."""
        line = " ".join(map(str, (sys.executable, "-ISs", self.folder / f"{name}.py", *words)))
        self.shell(group, f"exec {line}")

    def shell(self, group: str, line: str) -> None:
        """The same for a line of a shell, which itself is small."""
        before = self.ground.output.read_text().count("\n") if self.ground.output.exists() else 0
        self.ground.begin(group, line)
        self.ground.until(
            lambda: self.ground.output.read_text().count("\n") > before, line, PATIENCE
        )


@pytest.fixture
def tree(ground: Ground) -> Iterator[Tree]:
    with TemporaryDirectory(dir="/var/tmp") as folder:
        yield Tree(ground, Path(folder))


def test_the_kernel_leaves_what_the_solver_says(
    tree: Tree, record_property: Callable[[str, object], None]
) -> None:
    """The tree of the kernel's own test, test_memcg_min, at nearly its size: B holds less than C
    and D claim."""
    top = tree.group("A", max=4 * CACHE * MIB)
    tree.group("A/B", min=CACHE * MIB)
    held = {"C": 3 * CACHE // 2, "D": CACHE // 2, "E": 0}
    for name, amount in held.items():
        tree.group(f"A/B/{name}", min=amount * MIB)
        tree.shell(
            f"{top}/B/{name}", f"cat {tree.file(CACHE)} > /dev/null; echo read; exec sleep 600"
        )
    tree.group("A/G")
    tree.begin(f"{top}/G", "holds", 3 * CACHE - PYTHON, 600)
    found = [tree.reader.sample(path) for path in (f"{top}/B", *(f"{top}/B/{n}" for n in held))]
    claims = [protection_of(sample) for sample in found if sample is not None]
    assert len(claims) == 4
    handed_down = any(
        mount.type == "cgroup2" and "memory_recursiveprot" in mount.options for mount in mounts()
    )
    worth = effective_memory(claims, recursive=handed_down, root=top)
    used = {claim.path.rpartition("/")[2]: round(claim.usage / MIB, 1) for claim in claims}
    kept = {path.rpartition("/")[2]: round(one.hard / MIB, 1) for path, one in worth.items()}
    record_property("used", used)
    record_property("kept", kept)
    assert min(used["C"], used["D"]) > used["E"]
    assert -1 <= used["B"] - CACHE <= PYTHON + 2, (used, kept)
    for name in ("C", "D"):
        assert kept[name] - 1 <= used[name] <= kept[name] + CACHE / 6, (used, kept)
    assert used["E"] <= PYTHON + 2, (used, kept)


@pytest.mark.parametrize(("form", "killed"), [("1.37", True), ("qoslet", False)])
def test_a_reader_of_files_at_its_pod_s_limit(
    tree: Tree, form: str, killed: bool, record_property: Callable[[str, object], None]
) -> None:
    """A Guaranteed pod of 48Mi whose sandbox holds 2 MiB: the pod is at its limit before its
    container is, so the container's protection counts."""
    made = plan(
        [pod("p", ("48Mi", "48Mi"), cpu="1")],
        under(form, memory_reservation_policy="TieredReservation"),
    )
    planned = {
        group.name.removeprefix("/kubepods/"): files(group.settings) for group in made.cgroups
    }
    values = {
        path: {
            file.removeprefix("memory."): int(text)
            for file, text in planned[path].items()
            if file in ("memory.min", "memory.low", "memory.max")
        }
        for path in ("podp", "podp/c0")
    }
    assert (values["podp/c0"]["min"] == values["podp/c0"]["max"]) == killed
    above = tree.group("podp", **values["podp"])
    tree.group("podp/POD")
    tree.begin(f"{above}/POD", "holds", 2, 600)
    group = tree.group("podp/c0", **values["podp/c0"])
    path = tree.file(160)
    line = f"exec {sys.executable} -ISs {tree.folder / 'reads.py'} {path} 0"
    code = tree.ground.ended(tree.ground.begin(group, line))
    sample = tree.reader.sample(above)
    assert sample is not None
    record_property("oom_kill", sample.events["oom_kill"])
    record_property("current", sample.current)
    assert (sample.events["oom_kill"] > 0) == killed, (code, sample)
    assert (code == 0) == (not killed)
