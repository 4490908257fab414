"""Properties of units, as ``systemctl show`` prints them: it is asked, and changes nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence

from qoslet.core.bundle.allowed import PROPERTIES
from qoslet.core.bundle.rows import UnitRow
from qoslet.errors import CannotDo
from qoslet.host.linux.programs import find_program

_AT_ONCE = 200
ASK_SECONDS = 20.0
_ENDINGS = (".slice", ".scope", ".service")


def is_unit(name: str) -> bool:
    """Whether a cgroup's name is a unit's that has properties of resources."""
    return name.endswith(_ENDINGS) and not name.startswith(("-", "."))


def read_units(names: Iterable[str], program: str | None = None) -> list[UnitRow]:
    """The units by name; those that systemd does not know are left out. Raises CannotDo."""
    systemctl = program or find_program("systemctl")
    if systemctl is None:
        raise CannotDo("systemctl is not installed")
    wanted = sorted(set(names))
    found: list[UnitRow] = []
    for begin in range(0, len(wanted), _AT_ONCE):
        some = wanted[begin : begin + _AT_ONCE]
        found += _parsed(some, _shown(systemctl, some))
    return found


def _shown(systemctl: str, units: Sequence[str]) -> str:
    """What ``systemctl show`` prints of some units. Raises CannotDo."""
    command = [systemctl, "show", "--no-pager", f"--property={','.join(PROPERTIES)}", "--", *units]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=ASK_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotDo(f"systemctl show: {error}") from error
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise CannotDo(f"systemctl show: {words[0] if words else done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def _parsed(units: Sequence[str], text: str) -> Iterator[UnitRow]:
    """A block of lines ``NAME=VALUE`` for each unit, in their order, an empty line between."""
    blocks = text.strip("\n").split("\n\n")
    for unit, block in zip(units, blocks, strict=False):
        pairs = (line.partition("=") for line in block.splitlines())
        properties = {name: value for name, mark, value in pairs if mark and name in PROPERTIES}
        if properties and properties.get("LoadState") != "not-found":
            yield UnitRow(unit, properties)
