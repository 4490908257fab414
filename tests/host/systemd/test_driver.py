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

from qoslet.core.reconcile.journal import JournalState
from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from qoslet.host.systemd.bus import Bus
from qoslet.host.systemd.driver import Systemd
from qoslet.host.systemd.scope_holders import ScopeFilter
from qoslet.host.systemd.units import Units
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


@pytest.mark.parametrize("name", ["theirs", "theirs.service", "theirs.scope"])
def test_what_somebody_made_inside_a_slice_goes_with_it(bench: Bench, name: str) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", POD)]))
    theirs = f"{POD}/{name}"
    place = bench.folder / "cgroup" / theirs[1:]
    place.mkdir()
    bench.calls()
    step = Step("remove", theirs)
    assert driver.shell(step).startswith("rmdir " if name != "theirs.scope" else "systemctl stop ")
    good(driver.perform([step]))
    assert not place.exists()


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


def test_a_scope_that_failed_does_not_outlive_its_slice(bench: Bench) -> None:
    driver = bench.driver()
    beside = f"{ROOT}/q-pod2.slice/q-pod2-app.scope"
    good(driver.perform([Step("create", APP), Step("create", beside)]))
    tell(bench, "End", "ss", "q-pod1-app.scope", "oom-kill")
    tell(bench, "End", "ss", "q-pod2-app.scope", "oom-kill")
    bench.calls()
    good(driver.perform([Step("remove", POD)]))
    cleared = [call for call in bench.calls() if call[0] == "ResetFailedUnit"]
    assert cleared == [["ResetFailedUnit", "q-pod1-app.scope"]], "the other one has its pod"
    good(driver.perform([Step("remove", f"{ROOT}/q-pod2.slice"), Step("remove", ROOT)]))
    good(bench.driver().perform([Step("create", POD)]))
    assert bench.there(POD)


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


def test_a_scope_that_is_being_ended_is_waited_for(bench: Bench) -> None:
    driver = bench.driver()
    steps = [Step("create", APP), *sets(APP, memory_max="8192")]
    good(driver.perform(steps))
    driver.units.stop_seconds = 60.0
    tell(bench, "Stopping", "sd", "q-pod1-app.scope", 0.1)
    good(driver.perform(steps))
    assert bench.text(APP, "memory.max") == "8192"


def test_a_scope_that_is_not_ended_is_tried_again_later(bench: Bench) -> None:
    driver = bench.driver()
    driver.units.stop_seconds = 0.05
    good(driver.perform([Step("create", APP)]))
    tell(bench, "Stopping", "sd", "q-pod1-app.scope", 60.0)
    (outcome,) = driver.perform([Step("create", APP)])
    assert outcome.errno_name == "EAGAIN"
    assert "still stopping" in str(outcome.error)


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


def test_a_unit_that_somebody_froze_is_thawed_to_be_stopped(bench: Bench) -> None:
    """Source: systemd 257: the stop job of a frozen unit ends as frozen, also where its cgroup was
    thawed by way of cgroup.freeze."""
    driver = bench.driver()
    good(driver.perform([Step("create", ROOT), Step("create", POD)]))
    bench.faults(StopUnit=["job frozen"])
    good(driver.perform([Step("remove", POD)]))
    assert not bench.there(POD)


def test_a_slice_above_that_somebody_froze_is_named(bench: Bench) -> None:
    driver = bench.driver()
    good(driver.perform([Step("create", ROOT), Step("create", POD)]))
    frozen = "org.freedesktop.systemd1.FrozenByParent"
    bench.faults(StopUnit=["job frozen"], ThawUnit=[f"error {frozen} no"])
    (outcome,) = driver.perform([Step("remove", POD)])
    assert "a slice above it is frozen (no); systemctl thaw that slice" in str(outcome.error)
    tell(bench, "FreezeUnit", "s", "q.slice")
    bench.faults(StopUnit=["job frozen"], ThawUnit=[f"error {frozen} no"])
    (outcome,) = driver.perform([Step("remove", POD)])
    assert "above it q.slice is frozen; systemctl thaw q.slice" in str(outcome.error)
