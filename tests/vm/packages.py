"""The packages of a guest: Python's, for the guest's own Python, and Debian's that only a few guests have.
None is fetched in a guest."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.vm.cache import REPO, VmError, cache, locked, workplace
from tests.vm.commands import answer, run, say
from tests.vm.tools import apt_options, mirror

# Of the tools of development, what the tests in a guest need.
TOOLS = (
    "grpcio",
    "hypothesis",
    "iniconfig",
    "packaging",
    "pluggy",
    "protobuf",
    "pygments",
    "pytest",
    "pytest-timeout",
    "sortedcontainers",
    "typing-extensions",
)
LOADER = "ld-linux-x86-64.so.2"
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def pinned() -> str:
    """The part of the lock files that a guest gets: what users have, and pytest."""
    blocks = _blocks(REPO / "requirements.lock")
    tools = _blocks(REPO / "requirements-dev.lock")
    blocks.update({name: tools[name] for name in TOOLS if name in tools})
    return "".join(blocks[name] for name in sorted(blocks))


def _blocks(lock: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in lock.read_text().splitlines(keepends=True):
        if line[0].isalnum():
            start = _NAME.match(line)
            assert start is not None
            name = start.group()
        if name and not line.lstrip().startswith("#"):
            found[name] = found.get(name, "") + line
    return found


def python_of(tree: Path) -> str:
    """The version of a tree's Python, as in 3.13."""
    for found in sorted((tree / "usr/bin").glob("python3.*")):
        if re.fullmatch(r"python3\.\d+", found.name):
            return found.name.removeprefix("python")
    raise VmError(f"no Python in {tree}")


def install(tree: Path, log: Path) -> None:
    """Puts the packages into the tree's /opt/qoslet, compiled by the tree's own Python."""
    wanted = tree / "opt" / "wanted.txt"
    wanted.write_text(pinned())
    version = python_of(tree)
    options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-deps", "--no-compile"]
    options += ["--require-hashes", "--only-binary", ":all:", "--python-version", version]
    target = ["--target", str(tree / "opt" / "qoslet"), "-r", str(wanted)]
    run([sys.executable, "-m", "pip", "install", *options, *target], log)
    wanted.unlink()
    # Found by every Python of the guest, whatever PYTHONPATH says; so is the checkout.
    local = tree / f"usr/local/lib/python{version}/dist-packages"
    local.mkdir(parents=True, exist_ok=True)
    (local / "qoslet.pth").write_text("/opt/qoslet\n/job/repo/src\n")
    places = ("/opt/qoslet", f"/usr/lib/python{version}")
    run(["chroot", tree, "/usr/bin/python3", "-m", "compileall", "-q", *places], log)


def keep_python(tree: Path, place: Path) -> None:
    """Copies what runs the tree's Python on this machine, without its tests."""
    version = python_of(tree)
    libraries = place / "lib"
    less = shutil.ignore_patterns("__pycache__", "config-*", "idlelib", "sitecustomize.py", "test")
    shutil.copytree(tree / f"usr/lib/python{version}", libraries / f"python{version}", ignore=less)
    program = f"usr/bin/python{version}"
    for path in re.findall(r"=> /(\S+)", answer(["chroot", tree, "ldd", f"/{program}"])):
        shutil.copy(tree / path, libraries)
    shutil.copy(tree / "usr/lib/x86_64-linux-gnu" / LOADER, libraries)
    shutil.copy(tree / program, place / "python")


def debs(suite: str, names: Sequence[str]) -> Path:
    """A directory with these packages of a suite, without what they need: fetched into the cache, and
    installed when such a guest has booted."""
    kept = cache() / "debs" / f"{suite}-{'-'.join(sorted(names))}"
    with locked(cache() / "debs.lock"):
        if not kept.exists():
            say(f"Fetching {', '.join(names)} of {suite} (once)")
            with workplace("debs") as place:
                words = apt_options(place)
                (place / "sources.list").write_text(f"deb {mirror()} {suite} main\n")
                log = cache() / "logs" / "debs.log"
                log.parent.mkdir(parents=True, exist_ok=True)
                run(["apt-get", *words, "-q", "update"], log)
                made = place / "made"
                made.mkdir()
                fetch = ["sh", "-c", 'cd "$0" && exec "$@"', str(made)]
                run([*fetch, "apt-get", *words, "-q", "download", *names], log)
                kept.parent.mkdir(exist_ok=True)
                made.rename(kept)
    return kept
