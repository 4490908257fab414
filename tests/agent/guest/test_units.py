"""With the systemd driver a guest sets properties of units that another manager made, before any file:
nothing is written behind systemd's back."""

from __future__ import annotations

from qoslet.agent.guest.policy_files import PolicyFiles
from qoslet.agent.state.cgroup_executor import CgroupExecutor
from qoslet.agent.state.ownership import Ownership
from qoslet.core.guest.policy import NAMEABLE
from qoslet.core.reconcile.steps import Step
from qoslet.core.resources.cgroup_tree import Cgroup, Setting
from qoslet.host.cgroupfs.observe.observer import CgroupObserver
from tests.agent.fixtures import Clock
from tests.core.vectors.fixtures import node_of
from tests.host.systemd.fake_systemd import FILES
from tests.host.systemd.test_driver import APP, POD, ROOT, Bench, Journal, good
from tests.host.systemd.test_driver import bench as bench

NODE = node_of(36, host={"hierarchy": "v2"}, driver="systemd")


def planned(path: str, **values: str) -> Cgroup:
    rows = tuple(
        Setting(file.replace("_", ".", 1), value, "memory.low.qoslet", (), "kubelet")
        for file, value in values.items()
    )
    return Cgroup(path, "pod", rows, path=path, unit=path.rpartition("/")[2])


CGROUPS = (
    planned(ROOT, memory_min="0", memory_low="8192"),
    planned(POD, memory_min="4096", memory_low="8192"),
    planned(APP, memory_low="8192", memory_high="16384"),
)


class Guest:
    """What writes beside the units of another driver."""

    def __init__(self, bench: Bench) -> None:
        good(bench.driver().perform([Step("create", POD), Step("create", APP)]))
        self.driver = bench.driver()
        self.journal = Journal()
        self.journal.wants_before = True
        self.driver.journal = self.journal
        self.clock = Clock()
        ledger = self.journal.ledger
        ownership = Ownership(ROOT, ledger.adopted, ledger.cgroups, frozenset(NAMEABLE))
        observer = CgroupObserver("v2", str(bench.folder / "cgroup"))
        executor = CgroupExecutor(
            ownership,
            self.driver,
            observer,
            self.clock.monotonic,
            journal=self.journal,  # type: ignore[arg-type]
        )
        self.files = PolicyFiles(executor, self.clock.monotonic, allow=self.driver.others.update)


def properties(bench: Bench) -> dict[str, list[str]]:
    return {call[1]: call[2:] for call in bench.calls() if call[0] == "SetUnitProperties"}


def values(bench: Bench) -> dict[tuple[str, str], str]:
    rows = [(one.path or "", row.file) for one in CGROUPS for row in one.settings]
    return {key: bench.text(*key) for key in rows}


def test_values_are_properties_and_go_as_properties(bench: Bench) -> None:
    guest = Guest(bench)
    before = values(bench)
    bench.calls()
    done = guest.files.sync(NODE, CGROUPS)
    assert done.errors == []
    assert properties(bench) == {
        "q.slice": ["MemoryLow"],
        "q-pod1.slice": ["MemoryMin", "MemoryLow"],
        "q-pod1-app.scope": ["MemoryLow", "MemoryHigh"],
    }
    assert values(bench) == {
        (one.path, row.file): row.value for one in CGROUPS for row in one.settings
    }
    assert guest.journal.ledger.files[APP, "memory.high"] == ("max", "16384")
    done = guest.files.sync(NODE, ())
    assert done.errors == []
    assert set(properties(bench)) == {"q.slice", "q-pod1.slice", "q-pod1-app.scope"}
    assert values(bench) == before
    assert guest.journal.ledger.files == {}


def test_what_somebody_wrote_into_a_file_is_set_as_a_property_again(bench: Bench) -> None:
    guest = Guest(bench)
    guest.files.sync(NODE, CGROUPS)
    place = bench.folder / "cgroup" / POD[1:] / "memory.low"
    place.write_text("0\n")
    bench.calls()
    done = guest.files.sync(NODE, CGROUPS)
    assert done.resets == {(POD, "memory.low"): "0"}
    assert properties(bench) == {"q-pod1.slice": ["MemoryLow"]}
    assert bench.text(POD, "memory.low") == "8192"


def test_a_unit_that_does_not_run_is_left_alone(bench: Bench) -> None:
    guest = Guest(bench)
    other = bench.folder / "cgroup" / ROOT[1:] / "q-pod2.slice"
    other.mkdir()
    for file, text in FILES.items():
        (other / file).write_text(text + "\n")
    done = guest.files.sync(NODE, (planned(f"{ROOT}/q-pod2.slice", memory_low="8192"),))
    [error] = done.errors
    assert "is not running" in error
    assert (other / "memory.low").read_text() == "0\n"
    guest.clock.now += 1.0
    assert (
        guest.files.sync(NODE, (planned(f"{ROOT}/q-pod2.slice", memory_low="8192"),)).errors == []
    )
    assert guest.files.failures == 1, "it is tried again a minute later"
