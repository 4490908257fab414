"""The journals, counters and manager checkpoints of an earlier version, read by this one."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from collections import Counter

import pytest
from msgspec.structs import replace

from qoslet.core.managers.checkpoint import checkpoint_files, restore_managers
from qoslet.core.managers.container_manager import Managers, managers_of
from qoslet.core.memory.counter_store import CounterStore
from qoslet.core.quantity import from_int
from qoslet.core.reconcile import journal
from qoslet.core.reconcile.journal import Adopted, Created, Entry, JournalState, Set
from qoslet.core.resources.node_policy import node_policy
from tests.core.managers.fixtures import node_of
from tests.old_state import BOOT, DATA, Tell, lost, values
from tests.paths import REPO


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("process/journal", {"Making": 18, "Made": 18, "Set": 55, "Removed": 8}),
        ("runc/journal", {"Making": 5, "Made": 5, "Set": 10}),
        ("containerd/journal", {"Making": 6, "Made": 6, "Set": 9}),
        ("apply/journal", {"Met": 1, "Made": 6, "Set": 14}),
        ("apply/journal-left", {"Met": 1, "Made": 5, "Set": 12, "Left": 2}),
        (
            "apply/every-entry",
            dict.fromkeys(("Met", "Making", "Made", "Kept", "Settled", "Left"), 1)
            | {"Set": 3, "Removed": 2},
        ),
    ],
)
def test_a_journal_is_read_and_each_line_written_the_same(
    name: str, kinds: dict[str, int], record_property: Tell
) -> None:
    data = (DATA / name).read_bytes()
    found = journal.read(data)
    assert found.header is not None
    assert found.bad == 0
    assert journal.lines([found.header, *found.entries]) == data
    count = Counter(_word(entry) for entry in found.entries)
    assert count == Counter({kind.lower(): many for kind, many in kinds.items()})
    assert (found.header.boot, found.header.format) == (BOOT, 1)
    record_property("compared", len(found.entries) + 1)


def _word(entry: Entry) -> str:
    """How a line begins."""
    return str(json.loads(journal.lines([entry])[9:])[0])


def test_a_journals_lines_say_what_they_said() -> None:
    found = journal.read((DATA / "apply/every-entry").read_bytes())
    assert found.header == journal.Header(
        BOOT, "v2", "/qoslet-test-state-apply", 25873, 1, "apply", "systemd"
    )
    root = "/qoslet-test-state-apply"
    assert found.entries == (
        Adopted("/others", 443363),
        journal.CreateIntent(root),
        Created(root, 443395),
        Set(root, "memory.max", None, "60000000"),
        Set("/others", "cpu.weight", "100", "17"),
        journal.ReadBack(root, "memory.max", "59998208"),
        journal.Verified(),
        journal.Released("/others", "cpu.weight"),
        journal.Removed(root),
        journal.Removed(root, done=True),
        Set(f'{root}/ü "x"', "cpu.max", "max 100000", "25000 100000"),
    )
    ledger = JournalState()
    ledger.add(journal.read((DATA / "process/journal").read_bytes()).entries)
    names = {path.rpartition("/")[2] for path in ledger.cgroups}
    assert {name for name in names if name.startswith("pod")} == {
        "podhungry-uid",
        "podown-uid",
        "podslow-uid",
        "podweb-uid",
    }


@pytest.mark.parametrize("runtime", ["process", "runc", "containerd"])
def test_counters_of_memory_go_on(runtime: str, record_property: Tell) -> None:
    text = (DATA / runtime / "memory-events").read_bytes()
    tallies = CounterStore()
    assert tallies.load(text)
    assert lost(json.loads(text), json.loads(tallies.dump())) == []
    assert len(tallies.rows(0.0)) == len(json.loads(text)["tallies"]) > 2
    if runtime == "process":
        assert [one.kind for one in tallies.events] == ["max", "oom_kill"]
        event = tallies.events[-1]
        assert (event.pod, event.process, event.pid) == ("shop/hungry", "sh", 24290)
    record_property("compared", values(json.loads(text)))


def test_what_managers_handed_out_is_taken_up() -> None:
    files = {
        name: (DATA / "process" / name).read_bytes()
        for name in ("cpu_manager_state", "memory_manager_state")
    }
    made = _managers(5865955328)
    restore_managers(made, files, "/run")
    assert made.kept().cpus == {("own-uid", "app"): {1}}
    ((holder, blocks),) = made.kept().memory.items()
    assert (holder, [(one.nodes, one.size) for one in blocks]) == (
        ("own-uid", "app"),
        [((0,), 67108864)],
    )
    assert checkpoint_files(made) == files


def _managers(size: int) -> Managers:
    """Of the machine on which the files were written: two CPUs, one NUMA node."""
    node = node_of(
        cpus="0-1",
        numa=("0-1",),
        sizes=(size,),
        memory_manager_policy="Static",
        reserved_system_cpus=None,
        system_reserved={"cpu": from_int(1)},
        reserved_memory={0: {"memory": from_int(300 << 20, "BinarySI")}},
    )
    pages = {f"hugepages-{size}": from_int(0, "BinarySI") for size in ("1Gi", "2Mi")}
    found = managers_of(node_policy(replace(node, capacity={**node.capacity, **pages})))
    assert found is not None
    return found


def test_the_source_is_that_of_the_commit(record_property: Tell) -> None:
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "0f4d162", "src"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("no history with that commit here")
    rows = (line.split(None, 3) for line in listed.stdout.splitlines())
    wanted = {path: blob for _, _, blob, path in rows}
    with tarfile.open(DATA / "source.tar.xz") as archive:
        found = {one.name: _blob(archive, one) for one in archive if one.isfile()}
    assert found == wanted
    record_property("compared", len(found))


def _blob(archive: tarfile.TarFile, one: tarfile.TarInfo) -> str:
    """What git calls a file's content."""
    file = archive.extractfile(one)
    assert file is not None
    data = file.read()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
