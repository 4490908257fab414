"""The systemd driver against a manager of our own on a private bus: every fault can be made.

``fake_systemd`` is another process that speaks D-Bus as systemd does; nothing is patched.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qoslet.core.cgroup.names import root_path
from qoslet.core.reconcile.journal import Entry, JournalState
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.errors import BadInput, CannotDo
from qoslet.host.cgroupfs.observer import CgroupObserver
from qoslet.host.systemd.bus import Bus
from qoslet.host.systemd.driver import Systemd
from qoslet.host.systemd.scope_holders import ScopeFilter
from qoslet.host.systemd.select_driver import fits_runtime, open_driver
from qoslet.host.systemd.units import Units, object_path
from tests.host.systemd.fake_systemd import FILES
from tests.paths import REPO

ROOT = "/q.slice"
POD = f"{ROOT}/q-pod1.slice"
APP = f"{POD}/q-pod1-app.scope"

CONFIG = """<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>
<allow own="*"/></policy></busconfig>"""


class Journal:
    """Remembers what is recorded."""

    wants_before = False

    def __init__(self) -> None:
        self.ledger = JournalState()

    def record(self, entries: Any) -> None:
        self.ledger.add(entries)

    record_later = record


class Bench:
    """A bus, a manager on it, and a driver that talks to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"unix:path={folder}/bus"
        self.daemon: subprocess.Popen[str] | None = None
        self.manager: subprocess.Popen[str] | None = None
        self.drivers: list[Systemd] = []
        (folder / "cgroup").mkdir()
        for file, text in FILES.items():
            (folder / "cgroup" / file).write_text(text + "\n")

    def begin_bus(self) -> None:
        config = self.folder / "bus.conf"
        config.write_text(CONFIG.format(path=self.folder / "bus"))
        (self.folder / "bus").unlink(missing_ok=True)
        daemon = shutil.which("dbus-daemon") or ""
        words = [daemon, f"--config-file={config}", "--nofork", "--print-address"]
        self.daemon = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self.daemon.stdout is not None
        assert self.daemon.stdout.readline()

    def begin_manager(self) -> None:
        words = [
            sys.executable,
            "-m",
            "tests.host.systemd.fake_systemd",
            self.address,
            str(self.folder),
        ]
        self.manager = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=REPO)
        assert self.manager.stdout is not None
        assert self.manager.stdout.readline() == "ready\n"

    def driver(self, version: int = 257, back: float = 5.0) -> Systemd:
        bus = Bus(self.address, back_seconds=back)
        units = Units(bus, version, str(self.folder / "control"))
        made = Systemd("v2", str(self.folder / "cgroup"), ROOT, units)
        self.drivers.append(made)
        return made

    def faults(self, **faults: list[str]) -> None:
        (self.folder / "faults").write_text(json.dumps(faults))

    def calls(self) -> list[list[str]]:
        """The calls since the last time."""
        place = self.folder / "calls"
        found = [json.loads(line) for line in place.read_text().splitlines()]
        place.write_text("")
        return found

    def text(self, path: str, file: str) -> str:
        return (self.folder / "cgroup" / path.lstrip("/") / file).read_text().strip()

    def there(self, path: str) -> bool:
        return (self.folder / "cgroup" / path.lstrip("/")).exists()

    def close(self) -> None:
        for driver in self.drivers:
            driver.close()
        for process in (self.manager, self.daemon):
            end(process)


def end(process: subprocess.Popen[str] | None) -> None:
    if process is not None:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    if shutil.which("dbus-daemon") is None:
        pytest.skip("dbus-daemon is not installed: apt-get install -y dbus")
    made = Bench(tmp_path)
    try:
        made.begin_bus()
        made.begin_manager()
        yield made
    finally:
        made.close()


def good(outcomes: list[Outcome]) -> None:
    assert [one.error for one in outcomes if one.error] == []


def sets(path: str, **values: str) -> list[Step]:
    return [Step("set", path, file.replace("_", ".", 1), value) for file, value in values.items()]


def test_a_tree_is_one_call_for_each_unit(bench: Bench) -> None:
    steps = [Step("create", POD), Step("create", APP)]
    steps += sets(APP, memory_max="8192", cpu_weight="7")
    steps += [Step("set", APP, "memory.oom.group", "1")]
    steps += sets(POD, memory_min="4096", cpu_max="11500 100000", pids_max="max")
    driver = bench.driver()
    outcomes = driver.perform(steps)
    good(outcomes)
    assert [one.step for one in outcomes] == steps
    units = ["q.slice", "q-pod1.slice", "q-pod1-app.scope"]
    assert bench.calls() == [["StartTransientUnit", unit] for unit in units]
    assert bench.text(POD, "cpu.max") == "12000 100000"
    assert bench.text(POD, "memory.min") == "4096"
    assert [bench.text(APP, f) for f in ("memory.max", "cpu.weight")] == ["8192", "7"]
    assert bench.text(APP, "memory.oom.group") == "1"


def test_an_update_is_one_call_and_nothing_unchanged_is_sent(bench: Bench) -> None:
    driver = bench.driver()
    first = sets(POD, memory_max="8192", memory_low="4096", cpu_weight="5")
    good(driver.perform([Step("create", POD), *first]))
    bench.calls()
    good(driver.perform(first))
    assert bench.calls() == []
    good(driver.perform(sets(POD, memory_max="12288", memory_low="4096")))
    called = [call for call in bench.calls() if call[0] != "Ping"]
    assert called == [["SetUnitProperties", "q-pod1.slice", "MemoryMax"]]
    assert bench.text(POD, "memory.low") == "4096"


def test_what_somebody_wrote_over_is_sent_again(bench: Bench) -> None:
    driver = bench.driver()
    steps = sets(POD, memory_max="8388608")
    good(driver.perform([Step("create", POD), *steps]))
    (bench.folder / "cgroup" / POD[1:] / "memory.max").write_text("max\n")
    bench.calls()
    good(driver.perform(steps))
    assert bench.calls()[0] == ["SetUnitProperties", "q-pod1.slice", "MemoryMax"]
    assert bench.text(POD, "memory.max") == "8388608"


def test_a_qos_update_is_a_constant_number_of_calls(bench: Bench) -> None:
    driver = bench.driver()
    tiers = [f"{ROOT}/q-a.slice", f"{ROOT}/q-b.slice"]
    pods = [f"{tiers[n % 2]}/q-{'ab'[n % 2]}-pod{n}.slice" for n in range(24)]
    good(driver.perform([Step("create", path) for path in (*tiers, *pods)]))
    bench.calls()
    update = [s for tier in tiers for s in sets(tier, memory_min="4096", cpu_weight="9")]
    good(driver.perform(update))
    counted = [call[0] for call in bench.calls()]
    assert counted.count("SetUnitProperties") == 2
    assert len(counted) <= 3


def test_a_file_without_a_property_is_written_and_its_controller_given(bench: Bench) -> None:
    driver = bench.driver()
    steps = [Step("set", POD, "hugetlb.2MB.max", "0"), *sets(POD, cpu_weight="3")]
    good(driver.perform([Step("create", POD), *steps]))
    assert bench.text(POD, "hugetlb.2MB.max") == "0"
    assert bench.text(ROOT, "cgroup.subtree_control") == "+hugetlb"


def test_memory_oom_group_is_a_files_before_253_and_written_again(bench: Bench) -> None:
    driver = bench.driver(version=252)
    group = Step("set", APP, "memory.oom.group", "1")
    good(driver.perform([Step("create", APP), group]))
    good(driver.perform(sets(APP, memory_max="8192")))
    assert bench.text(APP, "memory.oom.group") == "1"


def test_memory_oom_group_of_a_running_scope_is_refused(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", APP)]))
    (outcome,) = driver.perform([Step("set", APP, "memory.oom.group", "1")])
    assert "only when the scope is created" in str(outcome.error)


def test_a_foreign_unit_is_not_adopted(bench: Bench) -> None:
    good(bench.driver().perform([Step("create", POD)]))
    other = bench.driver()
    (outcome,) = other.perform([Step("create", POD)])
    assert "no qoslet journal has it" in str(outcome.error)
    assert outcome.errno_name == "EEXIST"


def test_a_unit_that_the_journal_names_is_adopted_with_its_values(bench: Bench) -> None:
    first, journal = bench.driver(), Journal()
    first.journal = journal
    good(first.perform([Step("create", POD), *sets(POD, memory_max="8192")]))
    again = bench.driver()
    again.journal = journal
    good(again.perform([Step("create", POD), *sets(POD, memory_max="12288")]))
    assert bench.text(POD, "memory.max") == "12288"


def test_a_group_made_by_hand_is_not_taken_over(bench: Bench) -> None:
    (bench.folder / "cgroup" / ROOT[1:]).mkdir()
    outcomes = bench.driver().perform([Step("create", POD)])
    assert "the cgroup exists" in str(outcomes[0].error)
    assert not bench.there(POD)


def test_a_unit_that_failed_is_made_anew(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", APP)]))
    tell(bench, "End", "ss", "q-pod1-app.scope", "exit-code")
    bench.calls()
    good(driver.perform([Step("create", APP)]))
    called = [call[0] for call in bench.calls()]
    assert called == ["StartTransientUnit", "Get", "ResetFailedUnit", "StartTransientUnit"]
    assert bench.there(APP)


def test_a_unit_of_ours_that_systemd_remembers_is_started(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", POD)]))
    tell(bench, "End", "ss", "q-pod1.slice", "kept")
    good(driver.perform([Step("create", POD), *sets(POD, memory_max="8192")]))
    assert ["StartUnit", "q-pod1.slice"] in bench.calls()
    assert bench.text(POD, "memory.max") == "8192"


def tell(bench: Bench, member: str, signature: str, *body: object) -> None:
    bus = Bus(bench.address)
    bus.run(bus.call(member, signature, *body))
    bus.close()


def test_a_scope_that_was_ended_for_memory_is_made_again_as_it_was(bench: Bench) -> None:
    driver = bench.driver()
    steps = [Step("create", APP), *sets(APP, memory_max="8192")]
    steps += [Step("set", APP, "memory.oom.group", "1")]
    good(driver.perform(steps))
    holder = driver.holders.of(APP)
    tell(bench, "End", "ss", "q-pod1-app.scope", "oom-kill")
    assert driver.identity(APP) is None
    good(driver.perform(steps))
    assert bench.text(APP, "memory.max") == "8192"
    assert bench.text(APP, "memory.oom.group") == "1"
    assert bench.text(APP, "cgroup.procs") == str(driver.holders.of(APP)) != str(holder)


def test_the_process_that_keeps_a_scope_is_nobody(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", APP)]))
    holder = driver.holders.of(APP)
    assert bench.text(APP, "cgroup.procs") == str(holder)
    assert driver.members(APP) == set()
    where = str(bench.folder / "cgroup")
    assert CgroupObserver("v2", where).observe(ROOT).cgroups[APP].pids == (holder,)
    assert (
        ScopeFilter(CgroupObserver("v2", where), driver.holders).observe(ROOT).cgroups[APP].pids
        == ()
    )
    good(driver.perform([Step("remove", APP), Step("remove", POD), Step("remove", ROOT)]))
    assert not bench.there(ROOT)
    assert not driver.holders.alive(APP)


def test_nothing_is_stopped_that_holds_anything(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", APP)]))
    bench.calls()
    (outcome,) = driver.perform([Step("remove", POD)])
    assert outcome.errno_name == "EBUSY"
    (bench.folder / "cgroup" / APP[1:] / "cgroup.procs").write_text("99999999\n")
    (outcome,) = driver.perform([Step("remove", APP)])
    assert outcome.errno_name == "EBUSY"
    assert bench.calls() == []


def test_what_is_gone_already_is_removed(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", POD)]))
    tell(bench, "StopUnit", "ss", "q-pod1.slice", "replace")
    good(driver.perform([Step("remove", POD)]))


def test_a_value_that_the_kernel_did_not_get_is_an_error(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", POD)]))
    bench.faults(SetUnitProperties=["ignore"])
    steps = [*sets(POD, memory_max="8388608"), *sets(ROOT, memory_max="8388608")]
    outcomes = driver.perform(steps)
    assert len(outcomes) == 1
    assert "systemd accepted '8388608', but the kernel has 'max'" in str(outcomes[0].error)
    good(driver.perform(steps))


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


def test_a_bus_that_stays_away_is_said(bench: Bench) -> None:
    driver = bench.driver()
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
        open_driver("systemd", "v2", "/sys/fs/cgroup", ROOT)


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
