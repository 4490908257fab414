"""The recorder on this machine's kernel: its numbers, and cgroups that are made again."""

from __future__ import annotations

import pytest

from qoslet.core.reconcile.steps import Step
from qoslet.core.recording.moment import NODE, RecordedRow
from qoslet.core.status.node_top import PlannedRow
from qoslet.host.memory.moment_reader import MomentReader
from tests.live.machine import Machine

pytestmark = pytest.mark.live


def test_limits_are_read_and_a_recreated_cgroup_is_another_series(machine: Machine) -> None:
    assert machine.run("apply").code == 0
    paths = sorted(machine.driver.below(machine.root))
    (container,) = [path for path in paths if path.endswith("c0ffee")]
    pod = container.rpartition("/")[0]
    rows = [
        RecordedRow(PlannedRow(path, path, level, path, "", 0), uid="a0")  # type: ignore[arg-type]
        for path, level in ((pod, "pod"), (container, "container"))
    ]
    reader = MomentReader(machine.driver.hierarchy, machine.mounts)
    first = reader.read(rows)
    assert set(first.series) == {NODE, pod, container}
    assert first.series[container].values["memory.max"] == 64 << 20
    assert first.series[container].values["memory.current"] >= 0
    assert first.series[NODE].values["available"] > 0
    (removed,) = machine.driver.perform([Step("remove", container)])
    (created,) = machine.driver.perform([Step("create", container)])
    assert (removed.error, created.error) == (None, None)
    other = MomentReader(machine.driver.hierarchy, machine.mounts)
    again = other.read(rows)
    assert again.series[container].identity != first.series[container].identity
    reader.close()
    other.close()
    machine.driver.perform([Step("remove", container)])
    machine.run("release")
