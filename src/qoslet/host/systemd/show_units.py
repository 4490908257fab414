"""The properties of units, as ``systemctl show`` prints them.

One call for all of them: over D-Bus from here, hundreds of units take half a second.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence

from qoslet.errors import CannotDo
from qoslet.host.linux.programs import find_program

SECONDS = 30.0
_AT_ONCE = 500


def show_units(names: Sequence[str], properties: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """The properties of loaded units by their names. Raises CannotDo where systemd does not
    answer."""
    program = find_program("systemctl")
    if program is None:
        raise CannotDo("systemctl is not installed", hint="install systemd's programs")
    wanted = ",".join(["Id", "LoadState", *properties])
    found: dict[str, Mapping[str, str]] = {}
    for start in range(0, len(names), _AT_ONCE):
        command = [program, "show", f"--property={wanted}", "--", *names[start : start + _AT_ONCE]]
        for unit in _blocks(_run(command)):
            name, state = unit.pop("Id", ""), unit.pop("LoadState", "")
            if name and state == "loaded":
                found[name] = unit
    return found


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotDo(f"systemd does not answer: {error}", where="systemctl show") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise CannotDo(f"systemd does not answer: {lines[-1]}", where="systemctl show")
    return done.stdout


def _blocks(text: str) -> Iterable[dict[str, str]]:
    """The properties of each unit; an empty line stands between two."""
    for block in text.split("\n\n"):
        pairs = (line.partition("=") for line in block.splitlines())
        unit = {name: value for name, _, value in pairs if name}
        if unit:
            yield unit
