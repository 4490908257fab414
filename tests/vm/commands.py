"""Other programs, run with their output in a log."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.vm.cache import REPO, VmError

# In front of a program: it ends with this process, however that ends.
ENDS_WITH_US = ("setpriv", "--pdeathsig")


def say(text: str) -> None:
    """One line for whoever waits."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def tail(log: Path, lines: int = 15) -> str:
    """The end of a log, for a message."""
    text = log.read_text(errors="replace") if log.exists() else ""
    kept = [line.rstrip() for line in text.replace("\r", "").splitlines() if line.strip()]
    return "\n".join("    " + line for line in kept[-lines:])


def run(
    words: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> None:
    """Runs a program to its end; a failure names the log and shows its last lines."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        code = subprocess.run(
            [*ENDS_WITH_US, "TERM", *(str(word) for word in words)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            check=False,
        ).returncode
    if code:
        raise VmError(f"{words[0]} ended with {code}; {log} ends with:\n{tail(log)}")


def answer(words: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> str:
    """What a program prints, or nothing if it cannot be run."""
    try:
        done = subprocess.run(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def seen() -> str:
    """The day and the commit of this checkout; `+` stands for changes of the code that were not
    committed."""
    commit = answer(["git", "-C", REPO, "log", "-1", "--format=%h"]).strip()
    code = ("src", "tests", "bench", "examples")
    changed = answer(["git", "-C", REPO, "status", "--porcelain", "--", *code]).strip()
    return f"{time.strftime('%Y-%m-%d')} {commit}{'+' if changed else ''}"
