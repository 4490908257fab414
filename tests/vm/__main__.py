"""`python -m tests.vm run|shell|build|test|full|zoo`: what the targets of the Makefile call."""

from __future__ import annotations

import os
import shutil
import sys

from tests.vm.cache import VmError
from tests.vm.commands import say, seen
from tests.vm.guest import Job, boot
from tests.vm.image import image
from tests.vm.matrix import chosen, matrix, report, write_page
from tests.vm.systems import ALL, LONG, SHORT, System
from tests.vm.zoo import play

_USAGE = (
    "usage: python -m tests.vm"
    " run SYSTEM COMMAND | shell SYSTEM | build SYSTEM... | test [SYSTEM...] | full [SYSTEM...]"
    " | zoo [TIMES] [SYSTEM[:SCENE]...]"
)
# A guest that needs longer hangs. The long matrix asks the tests for their long forms as well.
_SHORT_SECONDS = 3300.0
_LONG_SECONDS = 3600.0


def _system(name: str) -> System:
    found = ALL.get(name)
    if found is None:
        raise VmError(f"no SYSTEM={name}; there are {', '.join(ALL)}")
    return found


def _run(name: str, command: str) -> int:
    """Runs a command in a guest, with its output here; ends with the command's code."""
    system = _system(name)
    with image(system.suite) as disk:
        say(f"Booting {name}: Linux {disk.facts.kernel}, systemd {disk.facts.systemd}")
        limit = float(os.environ.get("QOSLET_VM_SECONDS") or 900)
        left = boot(system, disk, Job("run", {"QOSLET_COMMAND": command}, limit))
    if left.code is None:
        raise VmError(left.why())
    say(f"{name}: ended with {left.code} after {left.seconds:.0f} s; logs: {left.logs}")
    return left.code


def _shell(name: str) -> int:
    """A root shell in a guest, on this terminal; leaving it ends the guest."""
    system = _system(name)
    size = shutil.get_terminal_size()
    settings = {
        "QOSLET_COLUMNS": str(size.columns),
        "QOSLET_ROWS": str(size.lines),
        "QOSLET_TERM": os.environ.get("TERM") or "vt100",
    }
    with image(system.suite) as disk:
        say(f"Booting {name} (20 to 45 s without KVM); `exit` ends it")
        left = boot(system, disk, Job("shell", settings, None))
    if left.code is None:
        raise VmError(left.why())
    return left.code


def _full(names: list[str]) -> int:
    """The long matrix; on the page, the rows of the systems that ran are written anew."""
    systems = chosen(names, (*SHORT, *LONG))
    when = seen()
    results = matrix(systems, {"QOSLET_LONG": "1"}, _LONG_SECONDS)
    write_page(results, when, whole=not names)
    return 0 if report(results) else 1


def main(words: list[str]) -> int:
    """Does what the words say; returns the exit code."""
    match words:
        case ["run", name, command]:
            return _run(name, command)
        case ["shell", name]:
            return _shell(name)
        case ["build", *names]:
            for name in names:
                with image(_system(name).suite) as disk:
                    say(f"{name}: {disk.directory}")
            return 0
        case ["test", *names]:
            seconds = _LONG_SECONDS if names else _SHORT_SECONDS
            return 0 if report(matrix(chosen(names, SHORT), {}, seconds)) else 1
        case ["full", *names]:
            return _full(names)
        case ["zoo", *names]:
            return play(names)
    say(_USAGE)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except VmError as error:
        say(f"test-vm: {error}")
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
