"""Disk images of Debian suites, made once from packages and kept in the cache."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.vm import packages
from tests.vm.cache import HERE, Unavailable, VmError, cache, drop, locked, workplace
from tests.vm.commands import answer, run, say
from tests.vm.systems import DAYS, DAYS_OF_RELEASES, PACKAGES
from tests.vm.tools import mirror, mmdebstrap

_RECIPE = ("image.py", "packages.py", "guest/prepare.sh", "guest/finish.sh")
_MIB = 1 << 20
# What apt and dpkg say of an archive whose packages do not fit together, as in sid now and then.
_UNFIT = re.compile(
    r"unmet dependencies|Unable to satisfy dependencies|dependency problems|no installation candidate"
)


@dataclass(frozen=True)
class Facts:
    """What an image holds, as its packages say."""

    suite: str
    python: str
    systemd: int
    kernel: str


@dataclass(frozen=True)
class Image:
    """A disk, the kernel to boot it with, and what it holds."""

    directory: Path
    facts: Facts

    @property
    def disk(self) -> Path:
        return self.directory / "disk"

    @property
    def kernel(self) -> Path:
        return self.directory / "vmlinuz"

    @property
    def python(self) -> Path:
        """Runs the guest's Python on this machine."""
        return self.directory / "python"

    @property
    def initrd(self) -> Path:
        return self.directory / "initrd"


@contextmanager
def image(suite: str) -> Iterator[Image]:
    """The suite's image, built if the cache has none; nobody removes it within the block."""
    place = cache() / "images" / f"{suite}-{_key(suite)}"
    with locked(cache() / f"image-{suite}.lock"):
        if not (place / "facts.json").exists():
            _build(suite, place)
        holder = locked(place.with_name(place.name + ".lock"), shared=True)
        holder.__enter__()
        _drop_others(suite, place)
    try:
        yield Image(place, Facts(**json.loads((place / "facts.json").read_text())))
    finally:
        holder.__exit__(None, None, None)


def _key(suite: str) -> str:
    """Changes with everything that an image is made of, and with time."""
    bucket = int(time.time() // 86400) // DAYS.get(suite, DAYS_OF_RELEASES)
    parts = [suite, str(bucket), *PACKAGES, packages.pinned()]
    parts += [(HERE / name).read_text() for name in _RECIPE]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _drop_others(suite: str, kept: Path) -> None:
    for other in kept.parent.glob(f"{suite}-*"):
        if other.is_dir() and other != kept:
            drop(other)


def _build(suite: str, place: Path) -> None:
    if os.geteuid() != 0:
        raise VmError(f"the image of {suite} must be built once, by root: call the same with sudo")
    if not shutil.which("mke2fs"):
        raise VmError("mke2fs is needed: apt-get install -y e2fsprogs")
    say(f"Building the image of {suite} (about a minute; kept in {place.parent})")
    log = cache() / "logs" / f"image-{suite}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    with workplace(suite) as work:
        tree = work / "tree"
        _debian(suite, tree, log)
        packages.install(tree, log)
        run(["sh", HERE / "guest/finish.sh", tree], log)
        made = work / "image"
        made.mkdir()
        packages.keep_python(tree, made / "python")
        facts = _take_kernel(suite, tree, made)
        _disk(tree, made / "disk", log)
        (made / "facts.json").write_text(json.dumps(asdict(facts)))
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(exist_ok=True)
        made.rename(place)


def _debian(suite: str, tree: Path, log: Path) -> None:
    tool = mmdebstrap()
    options = [
        "--mode=root",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        # a mirror of sid can be past its date
        '--aptopt=Acquire::Check-Valid-Until "false"',
        '--aptopt=Acquire::Retries "3"',
        f"--essential-hook=sh '{HERE / 'guest/prepare.sh'}' \"$1\"",
    ]
    # What it mounts in the tree is seen by nobody else and ends with it, so that whatever
    # happens the tree can be removed without reaching into this machine's /sys or /dev.
    alone = ["unshare", "--mount", "--propagation", "private"]
    source = f"deb {mirror()} {suite} main"
    try:
        run([*alone, *tool.words, *options, suite, tree, source], log, tool.environment)
    except VmError:
        found = unfit(log.read_text(errors="replace")) if suite in DAYS else None
        if found is None:
            raise
        raise Unavailable(f"the archive of {suite} does not fit together: {found}") from None


def unfit(log: str) -> str | None:
    """The line that says so, if a log tells of packages that do not fit together."""
    return next((line.strip() for line in log.splitlines() if _UNFIT.search(line)), None)


def _take_kernel(suite: str, tree: Path, made: Path) -> Facts:
    kernel = _only(tree / "boot", "vmlinuz-*")
    shutil.copyfile(kernel, made / "vmlinuz")
    shutil.copyfile(_only(tree / "boot", "initrd.img-*"), made / "initrd")
    shutil.rmtree(tree / "boot")
    status = ["dpkg-query", f"--admindir={tree}/var/lib/dpkg", "-W", "-f", "${Version}", "systemd"]
    version = re.match(r"\d+", answer(status))
    if version is None:
        raise VmError(f"{suite}: the tree has no systemd")
    name = kernel.name.removeprefix("vmlinuz-")
    return Facts(suite, packages.python_of(tree), int(version.group()), name)


def _only(directory: Path, pattern: str) -> Path:
    found = sorted(path for path in directory.glob(pattern) if not path.is_symlink())
    if len(found) != 1:
        raise VmError(f"{directory} has {len(found)} of {pattern}, not one")
    return found[0]


def _disk(tree: Path, disk: Path, log: Path) -> None:
    used = sum(path.lstat().st_blocks * 512 for path in tree.rglob("*"))
    make_disk(tree, disk, used // _MIB * 5 // 4 + 512, log)


def make_disk(tree: Path, disk: Path, mebibytes: int, log: Path) -> None:
    """An ext4 disk with what the tree holds; what is free takes no space in the cache."""
    with disk.open("wb") as empty:
        empty.truncate(mebibytes * _MIB)
    options = ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-E", "lazy_itable_init=1"]
    run([shutil.which("mke2fs") or "/usr/sbin/mke2fs", *options, "-d", tree, disk], log)
