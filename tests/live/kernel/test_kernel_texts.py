"""What the kernel makes of random texts in real files, against what `convert` says of each.

A failure names the file, the text, what stood before and both answers.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qoslet.core.cgroup.accepts import written
from tests.live.oci.real import Container, found

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SEED, TEXTS = 20215, 400

V1 = ("pids.max", "memory.limit_in_bytes", "memory.soft_limit_in_bytes", "memory.swappiness",
      "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "blkio.bfq.weight", "cpuset.cpus")  # fmt: skip
V2 = ("pids.max", "memory.max", "memory.high", "memory.low", "memory.min", "memory.swap.max",
      "memory.oom.group", "cpu.weight", "cpu.max", "cpu.max.burst", "cpuset.cpus", "io.max",
      "io.weight", "io.bfq.weight", "hugetlb.2MB.max", "cgroup.max.depth")  # fmt: skip

WORDS = (
    *("max", "-1", "0", "1", "100", "1000", "5000", "99999", "1000000", "4194304", "4194305"),
    *("0x10", "0X1f", "010", "08", "+5", "10M", "1g", "2k", "K", "5.5G", "1e", "8E", "abc", ""),
    *("9223372036854775807", "18446744073709551616", "9" * 30, "9" * 4096, "9" * 4097, "-5"),
    *("default", "rbps=", "wbps=", "riops=", "=", "0-1", "0-1:1/2", "3-1", "DISK", "all", "N"),
)
BETWEEN = ("", " ", "\n", "\t", ",", "  ", ":")


class Group:
    """A group without processes, beside a container's; what stood is written again in between."""

    def __init__(self, container: Container) -> None:
        self._container = container
        files = V2 if container.hierarchy == "v2" else V1
        self.ground = container.ground()
        self.files = [file for file in files if container.has(file)]
        for folder in {self.path(file).parent for file in self.files}:
            folder.mkdir()

    def path(self, file: str) -> Path:
        """Where a file is."""
        return self._container.path(file).parent.parent / "texts" / file

    def write(self, file: str, text: str) -> str:
        """The error in strerror's words, or an empty text."""
        try:
            handle = os.open(self.path(file), os.O_WRONLY)
            try:
                os.write(handle, text.encode())
            finally:
                os.close(handle)
        except OSError as error:
            return str(error.strerror).lower()
        return ""

    def read(self, file: str) -> str:
        """What stands, without the last end of line."""
        return self.path(file).read_text().rstrip("\n")

    def remove(self) -> None:
        """Take it away."""
        for folder in {self.path(file).parent for file in self.files}:
            folder.rmdir()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    container = Container(found("runc"), tmp_path)
    said = container.create({})
    assert not said, said
    made = Group(container)
    yield made
    made.remove()
    container.delete()


def texts(rng: random.Random, disk: str, file: str) -> Iterator[str]:
    """Random texts for a file, without those that kernels and machines take differently."""
    while True:
        parts = [rng.choice(WORDS) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        text = rng.choice(("", "", " ", "\n")) + rng.choice(BETWEEN).join(parts)
        if rng.random() < 0.1:
            text = "".join(
                rng.choice("0123456789xKMe+-= :\nma") for _ in range(rng.randrange(1, 9))
            )
        text = text.replace("DISK", f"{disk} ") + rng.choice(("", "", "\n", " "))
        if not _differs(file, text):
            yield text


def _differs(file: str, text: str) -> bool:
    """An empty text is no write; how long a list may be is said by how many CPUs a kernel is built
    for; a disk has a weight only under BFQ or with a cost model."""
    if file.startswith("cpuset."):
        return not text or len(text) > 100
    return not text or ("weight" in file and ":" in text)


def odd(group: Group, file: str, text: str, stood: str) -> str:
    """What is said otherwise than it is; empty where both agree."""
    said = written(file, text, stood, group.ground)
    error = group.write(file, text)
    stands = group.read(file)
    wanted = (said[0], stood) if isinstance(said, tuple) else ("", said)
    if wanted == (error, stands):
        return ""
    return f"{file} {text[:80]!r} after {stood!r}: {wanted}, is {error!r} {stands!r}"


def test_convert_reads_texts_as_the_kernel_does(
    group: Group, record_property: Callable[[str, object], None]
) -> None:
    rng, wrong, compared, taken = random.Random(SEED), [], 0, 0
    disk = next(iter(group.ground.devices or ()), "8:0")
    for file in group.files:
        stood, source = group.read(file), texts(rng, disk, file)
        for _ in range(TEXTS):
            found_odd = odd(group, file, next(source), stood)
            wrong += [found_odd] if found_odd else []
            now = group.read(file)
            compared, taken, stood = compared + 1, taken + (now != stood), now
        if file == "cpu.max":
            # a burst is bounded by the quota
            assert not group.write(file, "max 100000")
    assert not wrong, f"{len(wrong)} of {compared} wrong: " + "\n".join(wrong[:20])
    assert taken > compared // 20, "too little was taken to prove anything"
    record_property("compared", compared)
    record_property("of", f"texts in {len(group.files)} files, {taken} times another value stood")
