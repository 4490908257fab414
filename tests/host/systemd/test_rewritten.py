"""What systemd writes with each property of scopes that are another manager's: memory.oom.group, and quotas."""

from __future__ import annotations

import asyncio

import pytest
from dbus_fast import Variant

from qoslet.core.reconcile.steps import Step
from qoslet.host.systemd.bus import Bus
from qoslet.host.systemd.unit_driver import UnitDriver
from tests.host.systemd.test_driver import Bench, bench, good, sets, tell

__all__ = ["bench"]

OTHER = "/system.slice"


@pytest.mark.parametrize("had", ["1", "0"])
def test_memory_oom_group_of_somebody_else_stays_as_it_was(bench: Bench, had: str) -> None:
    # seen in containers of a kubelet: systemd writes 0 with every property of a scope
    tell(bench, "StartTransientUnit", "ssa(sv)a(sa(sv))", "system.slice", "replace", [], [])
    driver = bench.driver()
    driver.others.add(OTHER)
    (bench.folder / "cgroup" / OTHER[1:] / "memory.oom.group").write_text(f"{had}\n")
    for value in ("8192", "16384"):
        good(driver.perform(sets(OTHER, memory_max=value)))
        assert bench.text(OTHER, "memory.max") == value
        assert bench.text(OTHER, "memory.oom.group") == had


def test_memory_oom_group_of_somebody_elses_scope_is_written_to_its_file(bench: Bench) -> None:
    # runtimes of a kubelet write the file; systemd 253 and newer set it only at creation
    given = [["Slice", Variant("s", "system.slice")]]
    call = ("StartTransientUnit", "ssa(sv)a(sa(sv))")
    tell(bench, *call, "system.slice", "replace", [], [])
    tell(bench, *call, "cri-1.scope", "replace", given, [])
    scope = f"{OTHER}/cri-1.scope"
    driver = bench.driver()
    driver.others.add(scope)
    for value, limit in (("1", "8192"), ("0", "12288")):
        group = Step("set", scope, "memory.oom.group", value)
        good(driver.perform([*sets(scope, memory_max=limit), group]))
        assert bench.text(scope, "memory.oom.group") == value
    good(driver.perform(sets(scope, memory_max="16384")))
    assert bench.text(scope, "memory.oom.group") == "0"


def test_memory_oom_group_of_scopes_beside_stays_as_it_was(bench: Bench) -> None:
    # seen beside a kubelet: a release after a daemon-reload, which set a property of one container
    call = ("StartTransientUnit", "ssa(sv)a(sa(sv))")
    tell(bench, *call, "system.slice", "replace", [], [])
    had = {"cri-1.scope": "1", "cri-2.scope": "1", "cri-3.scope": "0"}
    for name, value in had.items():
        tell(bench, *call, name, "replace", [["Slice", Variant("s", "system.slice")]], [])
        (bench.folder / "cgroup" / OTHER[1:] / name / "memory.oom.group").write_text(f"{value}\n")
    driver = bench.driver()
    driver.others.add(f"{OTHER}/cri-1.scope")
    bench.faults(SetUnitProperties=["reloaded"])
    good(driver.perform(sets(f"{OTHER}/cri-1.scope", memory_max="8192")))
    assert bench.text(f"{OTHER}/cri-1.scope", "memory.max") == "8192"
    found = {name: bench.text(f"{OTHER}/{name}", "memory.oom.group") for name in had}
    assert found == had


@pytest.mark.parametrize("late", ["cri-1.scope", "cri-2.scope"])
def test_memory_oom_group_is_that_of_before_all_scopes_that_are_set(
    bench: Bench, late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # seen beside a kubelet: two containers of a pod are repaired at once on a busy machine
    names = ("cri-1.scope", "cri-2.scope")
    call = ("StartTransientUnit", "ssa(sv)a(sa(sv))")
    tell(bench, *call, "system.slice", "replace", [], [])
    driver, need, ping = bench.driver(), UnitDriver._need_unit, Bus.ping
    for name in names:
        tell(bench, *call, name, "replace", [["Slice", Variant("s", "system.slice")]], [])
        (bench.folder / "cgroup" / OTHER[1:] / name / "memory.oom.group").write_text("1\n")
        driver.others.add(f"{OTHER}/{name}")

    async def needed(self: UnitDriver, path: str, step: Step) -> None:
        await need(self, path, step)
        await asyncio.sleep(0.1 * path.endswith(late))

    async def answered(self: Bus) -> None:
        await ping(self)
        await asyncio.sleep(0.2)

    monkeypatch.setattr(UnitDriver, "_need_unit", needed)
    monkeypatch.setattr(Bus, "ping", answered)
    (bench.folder / "cgroup" / OTHER[1:] / "cri-2.scope/memory.oom.group").write_text("0\n")
    steps = [one for name in names for one in sets(f"{OTHER}/{name}", memory_max="8192")]
    good(driver.perform([*steps, Step("set", f"{OTHER}/cri-2.scope", "memory.oom.group", "1")]))
    assert [bench.text(f"{OTHER}/{name}", "memory.oom.group") for name in names] == ["1", "1"]


def test_a_quota_of_somebody_elses_scope_stays_more_exact_than_its_property(bench: Bench) -> None:
    # of a container of a kubelet with a limit of 43m, whose memory.min was put back: 4300 became 5000
    given = [["Slice", Variant("s", "system.slice")], ["CPUQuotaPerSecUSec", Variant("t", 50_000)]]
    call = ("StartTransientUnit", "ssa(sv)a(sa(sv))")
    tell(bench, *call, "system.slice", "replace", [], [])
    tell(bench, *call, "cri-1.scope", "replace", given, [])
    scope = f"{OTHER}/cri-1.scope"
    (bench.folder / "cgroup" / scope[1:] / "cpu.max").write_text("4300 100000\n")
    driver = bench.driver()
    driver.others.add(scope)
    good(driver.perform(sets(scope, memory_max="8192")))
    assert bench.text(scope, "memory.max") == "8192"
    assert bench.text(scope, "cpu.max") == "4300 100000"
    good(driver.perform(sets(scope, cpu_max="12000 100000")))
    good(driver.perform(sets(scope, memory_max="4096")))
    assert bench.text(scope, "cpu.max") == "12000 100000"
