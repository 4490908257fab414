"""QEMU and mmdebstrap: the installed ones, else unpacked into the cache and never installed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.vm.cache import VmError, cache, locked, workplace
from tests.vm.commands import answer, run, say

# Older ones corrupt guests at random when they emulate the processor.
OLDEST_QEMU = 9
_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib")


@dataclass(frozen=True)
class Tool:
    """How a program is called, and the environment it needs."""

    words: tuple[str, ...]
    environment: Mapping[str, str]


def mirror() -> str:
    """The Debian mirror this machine uses, or $QOSLET_DEBIAN_MIRROR."""
    named = os.environ.get("QOSLET_DEBIAN_MIRROR")
    if named:
        return named
    listed = answer(["apt-get", "update", "--print-uris"])
    found = re.search(rf"^'(\S+)/dists/{_codename()}/", listed, re.MULTILINE)
    if found and _release("ID") == "debian":
        return found.group(1)
    raise VmError(
        "no Debian mirror among this machine's apt sources;"
        " name one: make QOSLET_DEBIAN_MIRROR=http://.../debian ..."
    )


def apt_options(place: Path) -> list[str]:
    """Words for apt, so that it fetches below ``place`` from the suites of its ``sources.list``,
    with its own keys."""
    for part in ("lists/partial", "archives/partial"):
        (place / part).mkdir(parents=True)
    return [
        f"-oDir::Etc::SourceList={place}/sources.list",
        "-oDir::Etc::SourceParts=/dev/null",
        f"-oDir::State::Lists={place}/lists",
        f"-oDir::Cache::Archives={place}/archives",
        "-oDir::Cache::pkgcache=",
        "-oDir::Cache::srcpkgcache=",
        "-oAPT::Sandbox::User=root",
        "-oAcquire::Retries=3",
    ]


def qemu() -> Tool:
    """A QEMU that emulates correctly."""
    for words in (("qemu-system-x86_64",), None):
        tool = Tool(words, os.environ) if words else _unpacked_qemu()
        if _version_of(tool) >= OLDEST_QEMU:
            return tool
    raise VmError(
        f"qemu-system-x86_64 {OLDEST_QEMU} or newer is needed, and neither this machine"
        f" nor its mirror has it; install one and call again"
    )


def mmdebstrap() -> Tool:
    """What makes a tree of packages."""
    found = shutil.which("mmdebstrap")
    if found:
        return Tool((found,), os.environ)
    root = _unpacked()
    # A machine that has but the core of Perl gets its modules from the cache as well.
    modules = [*root.glob("usr/share/perl*/*"), *root.glob("usr/lib/*/perl/*")]
    library = ":".join(str(path) for path in (root / "usr/share/perl5", *sorted(modules)))
    words = ("perl", str(root / "usr/bin/mmdebstrap"))
    return Tool(words, {**os.environ, "PERL5LIB": library})


def _version_of(tool: Tool) -> int:
    found = re.search(r"version (\d+)", answer([*tool.words, "--version"], tool.environment))
    return int(found.group(1)) if found else 0


def _unpacked_qemu() -> Tool:
    root = _unpacked()
    libraries = ":".join(str(root / part) for part in _LIBRARIES)
    return Tool(
        (
            str(root / "usr/bin/qemu-system-x86_64"),
            *("-L", str(root / "usr/share/qemu")),
            *("-L", str(root / "usr/share/seabios")),
        ),
        {**os.environ, "LD_LIBRARY_PATH": libraries},
    )


def _codename() -> str:
    return _release("VERSION_CODENAME")


def _release(field: str) -> str:
    text = Path("/etc/os-release").read_text()
    found = re.search(rf'^{field}="?(\w+)', text, re.MULTILINE)
    return found.group(1) if found else ""


def _unpacked() -> Path:
    """Both tools and the libraries that this machine lacks, from its own mirror."""
    root = cache() / f"tools-{_codename()}"
    with locked(cache() / "tools.lock"):
        if not root.exists():
            mirror()
            say(f"Unpacking QEMU and mmdebstrap into {root} (once)")
            with workplace("tools") as place:
                _download(place, cache() / "logs" / "tools.log")
                for package in sorted((place / "archives").glob("*.deb")):
                    run(["dpkg-deb", "-x", package, place / "root"], place / "unpack.log")
                (place / "root").rename(root)
    return root


def _download(place: Path, log: Path) -> None:
    """The packages with what they need and this machine has not, fetched with apt's own keys."""
    log.unlink(missing_ok=True)
    suites = [_codename()]
    if suites == ["bookworm"]:
        suites.append("bookworm-backports")
    (place / "sources.list").write_text(
        "".join(f"deb {mirror()} {suite} main\n" for suite in suites)
    )
    options = apt_options(place)
    run(["apt-get", *options, "-q", "update"], log)
    wanted = ["--download-only", "--no-install-recommends", "-y", "-q", "-t", suites[-1]]
    run(["apt-get", *options, *wanted, "install", "qemu-system-x86", "mmdebstrap"], log)
