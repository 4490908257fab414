"""Units as systemctl shows them; a script stands for it that prints what systemd 257 prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.errors import CannotDo
from qoslet.host.systemd.unit_rows import is_unit, read_units

SHOWN = """\
LoadState=loaded
Slice=-.slice
CPUWeight=79
CPUQuotaPerSecUSec=infinity
MemoryMax=8589934592
AllowedCPUs=
Environment=TOKEN=secret

LoadState=not-found
CPUWeight=[not set]

LoadState=loaded
CPUWeight=4
CPUQuotaPerSecUSec=100ms
Description=has = in it
"""


def systemctl(folder: Path, script: str) -> str:
    path = folder / "systemctl"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_units_are_blocks_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "shown").write_text(SHOWN)
    program = systemctl(tmp_path, f'echo "$@" > {tmp_path}/asked; cat {tmp_path}/shown')
    found = read_units(["kubepods.slice", "a.scope", "gone.service", "kubepods.slice"], program)
    assert {row.unit: dict(row.properties) for row in found} == {
        "a.scope": {
            "LoadState": "loaded", "Slice": "-.slice", "CPUWeight": "79", "AllowedCPUs": "",
            "CPUQuotaPerSecUSec": "infinity", "MemoryMax": "8589934592",
        },
        "kubepods.slice": {"LoadState": "loaded", "CPUWeight": "4", "CPUQuotaPerSecUSec": "100ms"},
    }  # fmt: skip
    asked = (tmp_path / "asked").read_text()
    assert asked.endswith("-- a.scope gone.service kubepods.slice\n")
    assert "Environment" not in asked


def test_very_many_units_are_asked_for_in_parts(tmp_path: Path) -> None:
    script = "for a; do case $a in *.scope) echo CPUWeight=1; echo;; esac; done"
    units = [f"u{at}.scope" for at in range(450)]
    assert [row.unit for row in read_units(units, systemctl(tmp_path, script))] == sorted(units)


@pytest.mark.parametrize("script", ["echo no bus >&2; exit 1", "exit 3", "kill -9 $$"])
def test_a_systemd_that_does_not_answer_is_said(tmp_path: Path, script: str) -> None:
    with pytest.raises(CannotDo, match="systemctl show: "):
        read_units(["a.scope"], systemctl(tmp_path, script))


def test_what_is_a_unit() -> None:
    assert [is_unit(name) for name in ("a.slice", "b.scope", "c.service", "kubepods", "-.slice", "x.mount")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
