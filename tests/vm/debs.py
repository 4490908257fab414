"""Debian packages that only a few guests have: fetched into the cache, installed when such a guest has
booted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.vm.cache import cache, locked, workplace
from tests.vm.commands import run, say
from tests.vm.tools import apt_options, mirror


def debs(suite: str, names: Sequence[str]) -> Path:
    """A directory with these packages of a suite, without what they need."""
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
