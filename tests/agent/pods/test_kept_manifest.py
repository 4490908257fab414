"""What the next agent does with pods of an earlier one whose manifest cannot be read, or is gone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.agent.ports import DesiredState, FailedManifest
from qoslet.core.node.node import Hierarchy
from tests.agent.fixtures import ROOT, Bench, Manifests, node

TIER = f"{ROOT}/kubepods/burstable"


class Typed(Manifests):
    """A source with files that cannot be read; ``a.yaml`` is in ``/m``."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        super().__init__(node(hierarchy))
        self.unread = FailedManifest()
        self.folder = "/m/"
        self.chosen = ""

    def spoil(self, *files: str) -> None:
        """These files have a fault now, and what they held is not known."""
        self.unread = FailedManifest(frozenset(files), frozenset({"/m"}) if files else frozenset())
        self._version += 1

    def current(self) -> DesiredState:
        found = super().current()
        pods = {
            uid: replace(one, manifest=f"/m/{one.pod.name}.yaml") for uid, one in found.pods.items()
        }
        return replace(
            found,
            pods=pods,
            unread=self.unread,
            follows=lambda file: file.startswith(self.folder),
            chosen=self.chosen,
        )


class Two:
    """Pods of a first agent, and the next one, which cannot read some files."""

    def __init__(self, hierarchy: Hierarchy, *names: str) -> None:
        self.bench = Bench(hierarchy)
        self.source = self.bench.source = Typed(hierarchy)
        for name in names:
            self.bench.put(name)
        self.bench.turn()
        self.pids = {name: self.bench.keeper.kept[name].pids["app"] for name in names}
        self.bench.said.clear()

    def next(self, *wanted: str, faulty: tuple[str, ...] = ()) -> None:
        """Another agent comes, for which these pods are all that its files say."""
        self.source = self.bench.source = Typed(self.bench.source.live.node.hierarchy)
        for name in wanted:
            self.bench.put(name)
        self.source.spoil(*faulty)
        self.bench.begin()
        self.bench.turn()
        self.bench.turn(20.0)

    def same(self, name: str) -> bool:
        return (
            name in self.bench.keeper.kept
            and self.bench.keeper.kept[name].pids["app"] == self.pids[name]
        )


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_pod_stays_while_its_file_has_a_fault_and_counts(hierarchy: Hierarchy) -> None:
    two = Two(hierarchy, "a", "b")
    file = "cpu.shares" if hierarchy == "v1" else "cpu.weight"
    weight = two.bench.value(TIER, file)
    two.next("b", faulty=("/m/a.yaml",))
    assert two.same("a")
    assert two.same("b")
    assert two.bench.value(TIER, file) == weight, "it counts as ever"
    assert two.bench.turn().summary.startswith("2 pods, 2 of 2 containers running")
    row = two.bench.rows["a"]
    assert (row.phase, row.reason, row.manifest) == ("Running", "ManifestUnread", "/m/a.yaml")
    assert any(one.startswith("d/a: /m/a.yaml cannot be read") for one in two.bench.said)
    assert ("stop", "a", 5.0) not in two.bench.keeper.calls
    two.source.spoil()
    two.bench.put("a")
    two.bench.turn(1.0)
    two.bench.turn(1.0)
    assert two.same("a"), "what it was is what is wanted"
    assert two.bench.rows["a"].reason == ""


def test_it_says_by_which_name_its_file_goes_on() -> None:
    two = Two("v1", "a")
    two.next(faulty=("/m/a.yaml",))
    two.source.spoil("/m/b.yaml")
    two.source.unread = replace(two.source.unread, renamed={"/m/a.yaml": "/m/b.yaml"})
    two.bench.turn(1.0)
    assert two.same("a")
    assert two.bench.rows["a"].message.startswith("/m/b.yaml cannot be read: the pod stays")


def test_the_file_without_its_fault_decides() -> None:
    two = Two("v1", "a", "b", "c")
    two.next(faulty=("/m/a.yaml", "/m/b.yaml", "/m/c.yaml"))
    two.source.spoil()
    two.bench.put("a", "cpu=1 memory=64Mi")
    two.bench.put("b", command="another")
    two.bench.turn(1.0)
    two.bench.turn(1.0)
    assert two.same("a"), "resized in place"
    assert two.bench.value(f"{TIER}/poda/app", "cpu.shares") == "1024"
    assert not two.same("b"), "other processes: restarted"
    assert "b" in two.bench.keeper.kept
    assert "c" not in two.bench.keeper.kept
    assert "d/c: /m/c.yaml no longer has it: stopping it" in two.bench.said


def test_what_ends_is_logged_with_its_name_and_the_reason() -> None:
    two = Two("v1", "a", "b")
    two.next("b", faulty=("/m/b2.yaml",))
    assert "a" not in two.bench.keeper.kept, "its own file can be read and is without it"
    assert "d/a: /m/a.yaml no longer has it: stopping it" in two.bench.said


@pytest.mark.parametrize(
    ("folder", "chosen", "reason"),
    [
        ("/other/", "", "/m/a.yaml is not among this agent's manifests"),
        ("/m/", " with -n shop", "/m/a.yaml no longer has it with -n shop"),
    ],
)
def test_an_agent_of_other_manifests_does_not_say_that_a_file_changed(
    folder: str, chosen: str, reason: str
) -> None:
    two = Two("v1", "a", "b")
    two.source = two.bench.source = Typed("v1")
    two.source.folder, two.source.chosen = folder, chosen
    two.bench.put("b")
    two.bench.begin()
    two.bench.turn()
    two.bench.turn(20.0)
    assert "a" not in two.bench.keeper.kept
    assert f"d/a: {reason}: stopping it" in two.bench.said


def test_a_pod_of_an_unknown_file_stays_while_any_has_a_fault() -> None:
    two = Two("v1", "a", "b")
    for name in "ab":
        kept = two.bench.keeper.kept[name]
        kept.spec = replace(kept.spec, manifest="" if name == "a" else "/elsewhere/b.yaml")
    two.next(faulty=("/m/x.yaml",))
    assert two.same("a")
    assert two.same("b")
    two.source.spoil()
    two.bench.turn(1.0)
    two.bench.turn(1.0)
    assert not two.bench.keeper.kept
    assert "d/a: no manifest has it: stopping it" in two.bench.said


def test_a_directory_that_cannot_be_read_keeps_its_pods() -> None:
    two = Two("v1", "a")
    two.next(faulty=("/m",))
    assert two.same("a")


def test_another_pod_of_the_same_name_takes_its_place() -> None:
    two = Two("v1", "a")
    kept = two.bench.keeper.kept["a"]
    kept.spec = replace(kept.spec, key="d/b")
    two.next("b", faulty=("/m/a.yaml",))
    assert two.bench.keeper.running == {"b"}
    assert "d/b: /m/b.yaml has another pod of this name: stopping it" in two.bench.said


@pytest.mark.parametrize("code", [0, 1])
def test_a_pod_that_ended_stays_ended(code: int) -> None:
    two = Two("v1", "a")
    two.bench.keeper.end("a", "app", code)
    two.next(faulty=("/m/a.yaml",))
    assert two.bench.rows["a"].phase == ("Failed" if code else "Succeeded")
    two.source.spoil()
    two.bench.put("a")
    two.bench.turn(1.0)
    assert two.bench.keeper.running == set(), "it is not started again"


def test_it_ends_by_itself_meanwhile_and_is_not_started_again() -> None:
    two = Two("v1", "a")
    two.next(faulty=("/m/a.yaml",))
    two.bench.keeper.end("a")
    two.bench.turn(1.0)
    two.bench.turn(1.0)
    assert two.bench.groups("a") == []
    two.source.spoil()
    two.bench.put("a")
    two.bench.turn(1.0)
    assert two.bench.keeper.running == set()
    two.source.drop("a")
    two.bench.turn(1.0)
    assert not two.bench.keeper.kept


def test_a_kept_pod_that_the_runtime_loses_is_forgotten() -> None:
    two = Two("v1", "a")
    two.next(faulty=("/m/a.yaml",))
    pid = two.bench.keeper.kept.pop("a").pids["app"]
    assert pid is not None
    two.bench.kernel.end(pid, 0)
    two.bench.turn(1.0)
    two.bench.turn(1.0)
    assert "a" not in two.bench.rows
    two.source.spoil()
    two.bench.put("a")
    two.bench.turn(1.0)
    assert two.bench.keeper.running == {"a"}


def test_processes_without_a_record_stay_while_a_file_has_a_fault() -> None:
    two = Two("v1", "a")
    pid = two.bench.keeper.kept.pop("a").pids["app"]
    two.next(faulty=("/m/a.yaml",))
    two.bench.turn(60.0)
    what = f"{TIER}/poda belongs to no pod (process {pid})"
    told = [line for line in two.bench.said if line.startswith(what)]
    assert told == [f"{what}: leaving it while /m/a.yaml cannot be read"]
    assert two.bench.groups("a")
    two.source.spoil()
    two.bench.turn(600.0)
    assert f"{what}: removing it" in two.bench.said
    assert not two.bench.groups("a")


def test_a_node_that_is_planned_anew_ends_no_kept_pod() -> None:
    two = Two("v1", "a", "b")
    two.next("b", faulty=("/m/a.yaml",))
    two.source.again(node("v1", cpu_cfs_quota=False))
    two.bench.turn(1.0)
    assert two.same("a")
    assert two.same("b")


def test_an_end_that_is_asked_for_ends_kept_pods_too() -> None:
    two = Two("v1", "a")
    two.next(faulty=("/m/a.yaml",))
    for _ in range(4):
        two.bench.reconciler.drain()
    assert not two.bench.keeper.kept


def test_a_pod_whose_file_is_absent_when_the_agent_begins_stays_for_a_moment() -> None:
    """Its file may be one that is being replaced."""
    two = Two("v1", "a", "b", "c")
    two.source = two.bench.source = Typed("v1")
    two.bench.put("a")
    two.source.unread = FailedManifest(settling=True)
    two.bench.begin()
    two.bench.turn()
    two.bench.turn(0.5)
    assert all(two.same(name) for name in "abc")
    stays = "/m/b.yaml no longer has it: the pod stays for a moment"
    assert any(line.startswith(f"d/b: {stays}") for line in two.bench.said)
    two.bench.put("b")
    two.source.spoil()
    two.bench.turn(0.5)
    two.bench.turn(20.0)
    assert two.same("a")
    assert two.same("b"), "it came back"
    assert "c" not in two.bench.keeper.kept
    assert "d/c: /m/c.yaml no longer has it: stopping it" in two.bench.said


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_cgroup_that_is_gone_is_made_again_and_others_stay_as_they_are(
    hierarchy: Hierarchy,
) -> None:
    """Where its runtime makes it, the pod has no limits; where that waits for it, the pod never runs again."""
    two = Two(hierarchy, "a", "b")
    file = "cpu.shares" if hierarchy == "v1" else "cpu.weight"
    had = two.bench.value(f"{TIER}/poda", file)
    two.next(faulty=("/m/a.yaml", "/m/b.yaml"))
    two.bench.kernel.end(two.pids["a"] or 0, 137)
    two.bench.kernel.rmdir(f"{TIER}/poda/app")
    two.bench.kernel.rmdir(f"{TIER}/poda")
    two.bench.kernel.write(f"{TIER}/podb", file, "77")
    two.bench.turn(20.0, whole=True)
    assert two.bench.value(f"{TIER}/poda", file) == had
    assert two.bench.value(f"{TIER}/podb", file) == "77"
    assert {one.reason for one in two.bench.rows.values()} == {"ManifestUnread"}
