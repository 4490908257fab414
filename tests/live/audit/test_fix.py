"""``audit --fix`` in this kernel: it writes what the plan says beside a kubelet, ends and removes
nothing, and ``release`` gives every byte back, wherever a crash was."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from qoslet.app import tree as owned_tree
from qoslet.app.audit.machine import Audited, LiveMachine, audit_source
from qoslet.app.audit.repair import Repaired, repair
from qoslet.core.audit.live import SUBTREE
from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.journal import GUEST
from qoslet.core.reconcile.restore import restore
from qoslet.host.cgroupfs.observe.audit_reader import CgroupReader
from qoslet.host.state.folder import JOURNAL, STATE, escaped
from qoslet.host.state.resume import open_journal
from tests.cli.fixtures import answer, run
from tests.contract.drivers import real
from tests.live.audit.kubelet_tree import KubeletTree

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


SHORT = "QOSLET_SYSTEM" in os.environ and "QOSLET_LONG" not in os.environ
"""On an emulated CPU every third boundary is tried."""


class Node(KubeletTree):
    """The tree with the options that name it, the texts of its files, and values that are off."""

    def options(self, folder: Path) -> list[str]:
        return [
            *("-f", str(folder / "pods.json"), "--kubernetes", "1.36"),
            *("--runtime", "containerd-2.2.0+runc-1.4.0", "--cgroup-driver", "cgroupfs"),
            *("--cgroup-root", self.bench.root),
        ]

    @property
    def root(self) -> str:
        return f"{self.bench.root}/kubepods"

    @property
    def journal(self) -> Path:
        return Path(STATE, escaped(self.root), JOURNAL)

    def texts(self) -> dict[str, str]:
        found = {}
        for cgroup in self.plan.cgroups:
            if cgroup.path is None:
                continue
            for setting in cgroup.settings:
                file = self.directory(cgroup.path, setting.file.partition(".")[0]) / setting.file
                found[str(file)] = file.read_text()
        return found

    def groups(self) -> set[str]:
        return set(self.bench.observer.observe(self.bench.root, values=False).cgroups)

    def spoil(self, pods: int = 4) -> dict[str, str]:
        share = "cpu.shares" if self.bench.hierarchy == "v1" else "cpu.weight"
        for number in range(pods):
            self.write(self.pod(number), share, str(40 + number))
        self.write(self.root, "pids.max", "4000")
        return self.texts()

    def audited(self) -> Audited:
        source = LiveMachine(CgroupReader(self.bench.hierarchy, self.mounts), systemd=False)
        return audit_source(
            self.plan, source, self.mounts, lambda: self.plan, pause=lambda _seconds: None
        )

    def fix(self, *, dry_run: bool = False) -> Repaired:
        return repair(self.audited, lambda one: one.report, dry_run=dry_run)

    def release(self) -> None:
        """What ``qoslet release`` does, in this process."""
        place = owned_tree.place_of(self.root, None, "cgroupfs")
        with owned_tree.tree(place, write=True, verb=None) as tree:
            what = restore(tree.ledger, tree.standing(), hierarchy=place.hierarchy)
            assert what.refusals == ()
            outcomes = tree.driver.perform(what.steps)
            assert [one.error for one in outcomes if one.error is not None] == []
            tree.finish()


@contextmanager
def node(hierarchy: Hierarchy, folder: Path) -> Iterator[Node]:
    with real(hierarchy) as bench:
        tree = Node(bench, folder)
        try:
            yield tree
        finally:
            tree.end()
            shutil.rmtree(tree.journal.parent, ignore_errors=True)


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_it_repairs_beside_a_kubelet_and_release_undoes_it(
    hierarchy: Hierarchy, tmp_path: Path
) -> None:
    with node(hierarchy, tmp_path) as tree:
        planned = tree.texts()
        spoiled = tree.spoil()
        assert spoiled != planned
        foreign = [place / "x1" for place in tree.directories(tree.root)]
        for place in foreign:
            place.mkdir()
        audit = ["audit", *tree.options(tmp_path), "-o", "json"]
        dry = answer(*audit, "--fix", "--dry-run")
        document = json.loads(dry.stdout)
        assert (dry.returncode, tree.texts()) == (1, spoiled), "a dry run changes nothing"
        assert (len(document["repair"]["commands"]), document["repair"]["steps"]) == (5, [])
        assert not tree.journal.exists()
        done = answer(*audit, "--fix")
        document = json.loads(done.stdout)
        repaired = document["repair"]
        assert tree.texts() == planned, done.stderr
        assert len(repaired["steps"]) == 5
        assert [one["error"] for one in repaired["steps"] if one["error"]] == []
        left = {one["verdict"] for one in document["findings"] if one["severity"] != "info"}
        assert (done.returncode, left) == (1, {"foreign"}), "what is another's stays"
        assert [one["verdict"] for one in repaired["left"]] == ["foreign"]
        assert all(place.is_dir() for place in foreign)
        assert tree.journal.stat().st_mode & 0o777 == 0o600
        other = answer("apply", *tree.options(tmp_path)[:-1], tree.root)
        assert other.returncode == 3, "no other command takes a kubelet's tree by that journal"
        undone = answer("release", "--cgroup-root", tree.root)
        assert (undone.returncode, tree.texts()) == (0, spoiled), undone.stderr
        assert not tree.journal.exists()
        assert all(place.is_dir() for place in foreign)
        for place in foreign:
            place.rmdir()


@pytest.mark.parametrize(
    ("hierarchy", "files"),
    [
        ("v1", {"cpu.cfs_burst_us": "1000"}),
        ("v2", {"cpu.max.burst": "1000", "cgroup.max.descendants": "30", "cgroup.max.depth": "9"}),
    ],
)
def test_what_nobody_plans_is_put_back_and_given_back(
    hierarchy: Hierarchy, files: dict[str, str], tmp_path: Path
) -> None:
    with node(hierarchy, tmp_path) as tree:
        pod = tree.pod(0)
        places = {file: tree.directory(pod, file.partition(".")[0]) / file for file in files}
        fresh = {file: place.read_text() for file, place in places.items()}
        for file, value in files.items():
            places[file].write_text(value)
        written = {file: place.read_text() for file, place in places.items()}
        done = tree.fix()
        assert [one.error for one in done.outcomes] == [None] * len(files)
        assert {file: place.read_text() for file, place in places.items()} == fresh
        tree.release()
        assert {file: place.read_text() for file, place in places.items()} == written


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_values_that_another_process_wrote_since_are_its_own(
    hierarchy: Hierarchy, tmp_path: Path
) -> None:
    with node(hierarchy, tmp_path) as tree:
        tree.spoil()
        tree.fix()
        tree.write(tree.root, "pids.max", "777")
        left = answer("release", "--cgroup-root", tree.root)
        assert left.returncode == 1
        assert "777" in left.stdout + left.stderr
        assert not tree.journal.exists(), "nothing of ours is left"
        assert tree.write(tree.root, "pids.max", "max") == "777"


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_damaged_journal_fails_each_release_until_it_is_removed(
    hierarchy: Hierarchy, tmp_path: Path
) -> None:
    with node(hierarchy, tmp_path) as tree:
        planned, spoiled = tree.texts(), tree.spoil()
        tree.fix()
        lines = tree.journal.read_bytes().splitlines(keepends=True)
        number = next(at for at, line in enumerate(lines) if b'"set"' in line)
        lines[number] = b"x" + lines[number][1:]
        tree.journal.write_bytes(b"".join(lines))
        release = ["release", "--cgroup-root", tree.root]
        dry = answer(*release, "--dry-run")
        assert (dry.returncode, f"{tree.journal}: this journal was damaged" in dry.stderr) == (3, 1)
        kept = tree.journal.with_name("journal.damaged")
        done = answer(*release)
        assert (done.returncode, f"{kept}: this journal was damaged" in done.stderr) == (3, True)
        after = tree.texts()
        restored = [name for name in spoiled if planned[name] != spoiled[name] == after[name]]
        remaining = [name for name in spoiled if after[name] != spoiled[name]]
        assert (len(restored), len(remaining)) == (4, 1), "all but the file of the damaged line"
        assert (kept.exists(), tree.journal.exists()) == (True, False)


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_a_crash_at_any_boundary_is_recovered(hierarchy: Hierarchy, tmp_path: Path) -> None:
    with node(hierarchy, tmp_path) as tree:
        planned, spoiled = tree.texts(), tree.spoil(pods=2)
        groups = tree.groups()
        tree.fix()
        lines = tree.journal.read_bytes().splitlines(keepends=True)
        changes = [name for name in planned if planned[name] != spoiled[name]]
        # a journal that ends anywhere, also within a line: nothing was written yet
        cuts = [(b"".join(lines[:count]), 0) for count in range(2, len(lines))]
        cuts += [(text + lines[2][:20], 0) for text, _ in cuts[:2]]
        # one without its header, and one that is damaged altogether
        cuts += [(b"".join(lines[2:]), 0), (b"x" * 40 + b"\n", 0)]
        # all is in the journal, and some was written
        cuts += [(b"".join(lines), count) for count in range(len(changes) + 1)]
        for again in (False, True):
            for text, written in cuts[::3] if SHORT else cuts:
                for number, name in enumerate(changes):
                    Path(name).write_text((planned if number < written else spoiled)[name])
                tree.journal.parent.mkdir(mode=0o700, exist_ok=True)
                tree.journal.write_bytes(text)
                tree.journal.chmod(0o600)
                if again:
                    tree.fix()
                    assert tree.groups() == groups
                    assert tree.texts() == planned, (len(text), written)
                    if written:
                        continue
                tree.release()
                assert tree.groups() == groups, "a kubelet's cgroups stay"
                assert tree.texts() == spoiled, (again, len(text), written)
                assert not tree.journal.exists()


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_two_at_once_and_nothing_to_do(hierarchy: Hierarchy, tmp_path: Path) -> None:
    with node(hierarchy, tmp_path) as tree:
        fix = ["audit", *tree.options(tmp_path), "--fix"]
        clean = answer(*fix)
        assert clean.returncode == 0, clean.stdout + clean.stderr
        assert not tree.journal.parent.exists(), "nothing is locked or journalled for nothing"
        spoiled = tree.spoil()
        driver: Any = tree.bench.driver
        holder = open_journal(tree.root, driver, state=STATE, verb=GUEST)
        try:
            second = run(*fix)
            assert (second.returncode, tree.texts()) == (3, spoiled)
            assert str(os.getpid()) in second.stderr or "another" in second.stderr
        finally:
            holder.close(gone=True)


def test_a_controller_comes_back_with_its_values(tmp_path: Path) -> None:
    with node("v2", tmp_path) as tree:
        planned = tree.texts()
        pod = tree.directory(tree.pod(0))
        enabled = set((pod / SUBTREE).read_text().split())
        (pod / SUBTREE).write_text("-cpu")
        done = tree.fix()
        assert [one.error for one in done.outcomes if one.error is not None] == []
        assert [one.verdict for one in done.report.findings if one.counts] == []
        assert tree.texts() == planned
        tree.release()
        assert set((pod / SUBTREE).read_text().split()) == enabled - {"cpu"}
