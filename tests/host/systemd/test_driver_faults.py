"""The systemd driver where jobs, buses and units fail."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from dbus_fast import Variant

from qoslet.core.cgroup.names import root_path
from qoslet.core.reconcile.journal import Created, Entry
from qoslet.core.reconcile.steps import Step
from qoslet.errors import BadInput, CannotDo
from qoslet.host.systemd.bus import JOB_SECONDS, Bus
from qoslet.host.systemd.driver import Systemd
from qoslet.host.systemd.select_driver import fits_runtime, systemd_driver
from qoslet.host.systemd.units import Units, object_path
from tests.host.systemd.test_driver import (
    APP,
    POD,
    ROOT,
    Bench,
    Journal,
    bench,
    end,
    good,
    sets,
    tell,
)

__all__ = ["bench"]


def test_a_value_that_the_kernel_did_not_get_is_an_error(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", POD)]))
    bench.faults(SetUnitProperties=["ignore"])
    steps = [*sets(POD, memory_max="8388608"), *sets(ROOT, memory_max="8388608")]
    outcomes = driver.perform(steps)
    assert len(outcomes) == 1
    assert "systemd accepted '8388608', but the kernel has 'max'" in str(outcomes[0].error)
    good(driver.perform(steps))


def test_a_list_that_systemd_leaves_behind_is_emptied(bench: Bench) -> None:
    driver = bench.driver()
    unset = Step("set", POD, "cpuset.cpus", "")
    good(driver.perform([Step("create", POD), unset]))
    # another process set AllowedCPUs=0: an unset list takes cpuset from what systemd writes
    (bench.folder / "cgroup" / POD[1:] / "cpuset.cpus").write_text("0\n")
    good(driver.perform([unset]))
    assert bench.text(POD, "cpuset.cpus") == ""
    assert ["SetUnitProperties", POD.rpartition("/")[2], "AllowedCPUs"] in bench.calls()


def test_a_slice_that_systemd_made_for_a_runtime_is_ours(bench: Bench) -> None:
    driver, journal = bench.driver(), Journal()
    driver.journal = journal
    good(driver.perform([Step("create", POD)]))
    # stopped by somebody, and started again by the scope of a container
    place = bench.folder / "cgroup" / POD[1:]
    shutil.copytree(place, place.with_name("next"))
    shutil.rmtree(place)
    place.with_name("next").rename(place)
    good(driver.perform([Step("create", POD)]))
    assert journal.ledger.is_owned(POD, place.stat().st_ino)


def test_steps_after_the_first_failure_are_not_done(bench: Bench) -> None:
    driver = bench.driver()
    bench.faults(StartTransientUnit=["", "error org.freedesktop.DBus.Error.AccessDenied no"])
    outcomes = driver.perform([Step("create", POD), Step("create", APP), *sets(POD, pids_max="5")])
    assert [bool(one.error) for one in outcomes] == [True]
    assert "run as root" in str(outcomes[0].error)
    assert outcomes[0].errno_name == "EPERM"
    assert not bench.there(APP)


@pytest.mark.parametrize("result", ["failed", "canceled", "timeout", "dependency", "skipped"])
def test_a_job_that_is_not_done_is_an_error(bench: Bench, result: str) -> None:
    bench.faults(StartTransientUnit=[f"job {result}"])
    (outcome,) = bench.driver().perform([Step("create", ROOT)])
    assert f"the job is {result}" in str(outcome.error)


def test_a_job_whose_signal_was_lost_is_asked_for(bench: Bench) -> None:
    bench.faults(StartTransientUnit=["lost"])
    good(bench.driver().perform([Step("create", ROOT)]))
    assert ["GetJob", 1] in bench.calls()


def test_a_start_behind_other_jobs_is_left_to_systemd(bench: Bench) -> None:
    """As behind the stop of a slice above, which takes 90 s where a process in it ignores SIGTERM."""
    driver = bench.driver()
    bench.faults(StartTransientUnit=["waits"])
    begun = time.monotonic()
    (outcome,) = driver.perform([Step("create", ROOT)])
    assert time.monotonic() - begun < JOB_SECONDS / 2
    assert "others come first, such as the stop of a slice above" in str(outcome.error)
    assert outcome.errno_name == "EAGAIN"
    good(driver.perform([Step("create", ROOT)]))
    assert bench.there(ROOT)


@pytest.mark.parametrize("member", ["StartTransientUnit", "SetUnitProperties", "StopUnit"])
def test_systemd_that_goes_away_in_the_middle_is_waited_for(bench: Bench, member: str) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", ROOT)]))
    bench.faults(**{member: ["away"]})
    good(driver.perform([Step("create", POD)]))
    good(driver.perform(sets(POD, memory_max="8192")))
    assert bench.text(POD, "memory.max") == "8192"
    good(driver.perform([Step("remove", POD)]))
    assert not bench.there(POD)


def test_systemd_that_does_not_come_back_is_said(bench: Bench) -> None:
    driver = bench.driver(back=0.3)
    good(driver.perform([Step("create", ROOT)]))
    end(bench.manager)
    bench.manager = None
    (outcome,) = driver.perform(sets(ROOT, memory_max="8192"))
    assert "systemd does not answer SetUnitProperties for 0.3 s" in str(outcome.error)


def test_a_lost_bus_is_found_again_once(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", ROOT)]))
    end(bench.manager)
    end(bench.daemon)
    bench.begin_bus()
    bench.begin_manager()
    units = {"q.slice": ROOT}
    for unit in units:
        tell(bench, "StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "replace", [], [])
    good(driver.perform(sets(ROOT, memory_max="8192")))
    assert bench.text(ROOT, "memory.max") == "8192"


@pytest.mark.parametrize("who", ["manager", "bus"])
def test_who_is_away_is_waited_for_once(bench: Bench, who: str) -> None:
    driver = bench.driver(back=1.5)
    good(driver.perform([Step("create", ROOT)]))
    end(bench.manager)
    bench.manager = None
    if who == "bus":
        end(bench.daemon)
        bench.daemon = None
    took = []
    for _ in range(3):
        begun = time.monotonic()
        (outcome,) = driver.perform(sets(ROOT, memory_max="8192"))
        took.append(time.monotonic() - begun)
        assert outcome.error
    assert took[0] > 1.5
    assert max(took[1:]) < took[0] / 3, "the loop has pods to look after"
    if who == "bus":
        bench.begin_bus()
    bench.begin_manager()
    tell(bench, "StartTransientUnit", "ssa(sv)a(sa(sv))", "q.slice", "replace", [], [])
    good(driver.perform(sets(ROOT, memory_max="8192")))
    end(bench.manager)
    bench.manager = None
    begun = time.monotonic()
    driver.perform(sets(ROOT, memory_max="16384"))
    assert time.monotonic() - begun > 1.5, "another absence is waited for again"


def test_a_bus_that_stays_away_is_said(bench: Bench) -> None:
    driver = bench.driver(back=0.5)
    good(driver.perform([Step("create", ROOT)]))
    end(bench.manager)
    end(bench.daemon)
    bench.manager = bench.daemon = None
    (outcome,) = driver.perform(sets(ROOT, memory_max="8192"))
    assert "cannot connect to systemd's bus" in str(outcome.error)
    assert "--cgroup-driver cgroupfs" in str(outcome.error)


def test_no_bus_is_said(tmp_path: Path) -> None:
    bus = Bus(f"unix:path={tmp_path}/none")
    with pytest.raises(CannotDo, match="cannot connect"):
        bus.run(bus.ping())
    bus.close()


def test_a_group_that_somebody_stopped_is_noticed_and_made_again(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", POD)]))
    tell(bench, "StopUnit", "ss", "q-pod1.slice", "replace")
    (outcome,) = driver.perform(sets(POD, memory_max="8192"))
    assert outcome.errno_name == "ENODEV"
    good(driver.perform([Step("create", POD), *sets(POD, memory_max="8192")]))
    assert bench.text(POD, "memory.max") == "8192"


@pytest.mark.parametrize("by", ["qoslet", "other"])
def test_a_unit_of_an_earlier_run_is_made_again_whose_group_was_removed(
    bench: Bench, by: str
) -> None:
    good(bench.driver().perform([Step("create", ROOT)]))
    unit = POD.rpartition("/")[2]
    text = [["Description", Variant("s", f"{by}: {unit}")]]
    tell(bench, "StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "replace", text, [])
    shutil.rmtree(bench.folder / "cgroup" / POD[1:])
    driver = bench.driver()
    driver.journal = Journal()
    driver.journal.record([Created(ROOT, (bench.folder / "cgroup" / ROOT[1:]).stat().st_ino)])
    (outcome,) = driver.perform([Step("create", POD)])
    assert outcome.errno_name == ("EAGAIN" if by == "qoslet" else "EEXIST")
    (outcome,) = driver.perform([Step("create", POD)])
    assert bench.there(POD) is (by == "qoslet") is (outcome.error is None)


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (Step("create", POD), "systemctl start q-pod1.slice"),
        (Step("remove", POD), "systemctl stop q-pod1.slice"),
        (
            Step("set", POD, "cpu.max", "11500 100000"),
            "systemctl set-property --runtime q-pod1.slice CPUQuotaPeriodSec=100000us CPUQuota=12%",
        ),
        (
            Step("set", POD, "memory.high", "max"),
            "systemctl set-property --runtime q-pod1.slice MemoryHigh=infinity",
        ),
        (
            Step("create", APP),
            (
                "systemd-run --scope --unit=q-pod1-app.scope --slice=q-pod1.slice -p Delegate=yes "
                "sleep infinity &"
            ),
        ),
    ],
)
def test_shell_lines(tmp_path: Path, step: Step, line: str) -> None:
    bus = Bus(f"unix:path={tmp_path}/none")
    driver = Systemd("v2", str(tmp_path), ROOT, Units(bus, 257))
    assert driver.shell(step) == line
    driver.close()


@pytest.mark.parametrize("path", ["/x.slice", "/q.slice/x.slice", f"{ROOT}/plain", f"{ROOT}/../x"])
def test_nothing_outside_the_root_or_without_a_unit_is_made(bench: Bench, path: str) -> None:
    (outcome,) = bench.driver().perform([Step("create", path)])
    assert outcome.error is not None
    assert bench.calls() == [] if (bench.folder / "calls").exists() else True


def test_object_paths() -> None:
    assert object_path("a-b.slice") == "/org/freedesktop/systemd1/unit/a_2db_2eslice"


def test_roots() -> None:
    assert root_path("/qoslet", "systemd") == "/qoslet.slice"
    assert root_path("/a/b-c", "systemd") == "/a.slice/a-b_c.slice"
    assert root_path("/a_b", "cgroupfs") == "/a_b"
    with pytest.raises(BadInput, match="_"):
        root_path("/a_b", "systemd")
    with pytest.raises(BadInput, match="unit name"):
        root_path("/a.slice", "systemd")


def test_a_runtime_with_the_other_driver_is_refused() -> None:
    fits_runtime("systemd", "containerd", "systemd")
    fits_runtime("systemd", "containerd", None)
    with pytest.raises(CannotDo, match="SystemdCgroup = true"):
        fits_runtime("systemd", "containerd", "cgroupfs")
    with pytest.raises(CannotDo, match=r"crio\.conf"):
        fits_runtime("cgroupfs", "cri-o", "systemd")


def test_without_systemd_the_driver_is_refused() -> None:
    if Path("/proc/1/comm").read_text().strip() == "systemd":
        pytest.skip("PID 1 is systemd here: tests/live opens the driver")
    with pytest.raises(CannotDo, match="needs systemd as PID 1"):
        systemd_driver("v2", {"unified": "/sys/fs/cgroup"}, ROOT)


def test_a_unit_stopped_just_before_a_change_leaves_nothing_for_the_next(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", POD)]))
    bench.faults(SetUnitProperties=["gone"])
    (outcome,) = driver.perform(sets(POD, memory_max="8192"))
    assert outcome.errno_name == "ENODEV"
    assert ["RevertUnitFiles", ["q-pod1.slice"]] in bench.calls()
    assert list((bench.folder / "control").iterdir()) == []


@pytest.mark.parametrize("end", ["remove", "set", "create"])
def test_what_systemd_keeps_since_our_call_goes_with_the_unit(bench: Bench, end: str) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", POD)]))
    bench.faults(SetUnitProperties=["kept"])
    good(driver.perform(sets(POD, memory_max="8388608")))
    assert [one.name for one in (bench.folder / "control").iterdir()] == ["q-pod1.slice.d"]
    if end != "remove":
        tell(bench, "StopUnit", "ss", "q-pod1.slice", "replace")
    steps = {"set": sets(POD, memory_max="8192"), "create": [Step("create", POD)]}
    driver.perform(steps.get(end, [Step("remove", POD)]))
    assert list((bench.folder / "control").iterdir()) == []


def test_what_systemd_kept_before_is_not_ours_to_forget(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", POD)]))
    (bench.folder / "control" / "q-pod1.slice.d").mkdir(parents=True)
    good(driver.perform(sets(POD, memory_max="8192")))
    good(driver.perform([Step("remove", POD)]))
    assert (bench.folder / "control" / "q-pod1.slice.d").exists()


OTHER = "/system.slice"


def test_a_group_of_somebody_else_is_told_by_its_unit(bench: Bench) -> None:
    tell(bench, "StartTransientUnit", "ssa(sv)a(sa(sv))", "system.slice", "replace", [], [])
    driver = bench.driver()
    steps = sets(OTHER, memory_max="8192", cpu_weight="9")
    refused = driver.perform(steps)
    assert "qoslet writes nothing else" in str(refused[0].error)
    driver.others.add(OTHER)
    good(driver.perform(steps))
    assert ["SetUnitProperties", "system.slice", "MemoryMax", "CPUWeight"] in bench.calls()
    assert bench.text(OTHER, "memory.max") == "8192"
    for kind in ("create", "remove"):
        (outcome,) = driver.perform([Step(kind, OTHER)])
        assert "qoslet writes nothing else" in str(outcome.error)


def test_a_group_of_somebody_else_without_a_unit_is_refused(bench: Bench) -> None:
    (bench.folder / "cgroup" / OTHER[1:]).mkdir()
    driver = bench.driver()
    driver.others.add(OTHER)
    (outcome,) = driver.perform(sets(OTHER, memory_max="8192"))
    assert "system.slice is not running" in str(outcome.error)
    assert outcome.errno_name == "ENODEV"


def test_a_limit_below_the_usage_goes_to_its_file_before_systemd_is_told(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", POD), *sets(POD, memory_max="1048576")]))
    place = bench.folder / "cgroup" / POD[1:]
    (place / "memory.current").write_text("90000\n")
    bench.faults(SetUnitProperties=["ignore"])
    steps = sets(POD, cpu_weight="100", memory_max="8192")
    good(driver.perform(steps))
    assert bench.text(POD, "memory.max") == "8192"
    (place / "memory.max").unlink()
    (place / "memory.max").mkdir()
    outcomes = driver.perform(sets(POD, pids_max="7", memory_max="4096", cpu_weight="5"))
    assert [one.step.file for one in outcomes] == ["pids.max", "memory.max"]
    assert [bool(one.error) for one in outcomes] == [False, True]
    assert outcomes[1].errno_name == "EISDIR"
    assert bench.text(POD, "pids.max") == "7"


def entries(journal: Journal) -> list[Entry]:
    return journal.ledger.entries()


def test_the_journal_names_every_unit(bench: Bench) -> None:
    driver, journal = bench.driver(), Journal()
    driver.journal = journal
    good(driver.perform([Step("create", APP)]))
    assert set(journal.ledger.cgroups) == {ROOT, POD, APP}
    assert all(inode for _, inode in journal.ledger.cgroups.values())
    good(driver.perform([Step("remove", path) for path in (APP, POD, ROOT)]))
    assert entries(journal) == []


def test_the_journal_has_the_quota_that_systemd_writes(bench: Bench) -> None:
    driver, journal = bench.driver(), Journal()
    driver.journal = journal
    good(driver.perform([Step("create", POD), *sets(POD, cpu_max="26500 100000", pids_max="7")]))
    written = {file: value for (_, file), (_, value) in journal.ledger.files.items()}
    assert written == {"cpu.max": "27000 100000", "pids.max": "7"}
    assert bench.text(POD, "cpu.max") == "27000 100000"
