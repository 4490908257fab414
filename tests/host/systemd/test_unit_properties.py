"""Which values of steps systemd writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.layout import layout_of
from qoslet.host.systemd.unit_properties import UnitProperties


@pytest.mark.parametrize(
    ("path", "file", "is_written"),
    [
        ("/q.slice", "memory.max", True),
        ("/q.slice/a.scope", "memory.max", True),
        ("/q.slice/a.scope", "memory.oom.group", False),
        ("/q.slice/a.scope/container", "memory.max", False),
    ],
)
def test_it_writes_what_units_have_properties_of(
    tmp_path: Path, path: str, file: str, is_written: bool
) -> None:
    """A cgroup below a scope is no unit, such as the one that crun makes for a container."""
    values = UnitProperties(layout_of("v2", str(tmp_path)), 257)
    assert values.by_property(Step("set", path, file, "1")) == is_written
