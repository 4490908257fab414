"""One state directory over boots into either hierarchy, on kernels made of values: real journals,
and the pass that uses them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args
from unittest.mock import Mock

import pytest

from qoslet.agent.one_shot import ApplyPlan, perform, prepare
from qoslet.core.node.node import Hierarchy
from qoslet.core.reconcile.journal import Created, Entry, Header, JournalState, Set, read
from qoslet.core.reconcile.restore import TreeState, restore
from qoslet.core.reconcile.steps import Step
from qoslet.errors import CannotDo
from qoslet.host.state.journal_file import JournalFile
from qoslet.host.state.prune import prune
from qoslet.host.state.resume import open_journal, read_journal
from qoslet.sim.kernel import SimKernel
from tests.agent.test_one_shot import Book, Driver, Sight, executor_of
from tests.core.reconcile.trees import plan_of

ROOT = "/q"
FILE: dict[Hierarchy, str] = {"v1": "memory.limit_in_bytes", "v2": "memory.max"}


class Owned:
    """A kernel as claiming sees it."""

    def __init__(self, kernel: SimKernel) -> None:
        self.kernel = kernel
        self.hierarchy: str = kernel.hierarchy

    def identity(self, path: str) -> int | None:
        group = self.kernel.observe(path).cgroups.get(path)
        return group.identity if group is not None else None

    def identifies(self, path: str) -> bool:
        return self.identity(path) is not None

    def below(self, path: str) -> list[str]:
        return sorted(self.kernel.observe(path).cgroups, reverse=True)

    def members(self, path: str) -> set[int]:
        return {*self.kernel.observe(path).cgroups[path].pids}

    def kill(self, path: str) -> bool:
        return not self.members(path)

    def discard(self, path: str) -> str | None:
        return self.kernel.perform([Step("remove", path)])[0].error


class Boot:
    """One boot of a machine whose state directory outlives it."""

    def __init__(self, state: Path, name: str, hierarchy: Hierarchy) -> None:
        self.state, self.name = str(state), name
        self.kernel = SimKernel(hierarchy)
        self.plan = plan_of(hierarchy, {
            "/q/kubepods": {FILE[hierarchy]: "104857600"},
            "/q/kubepods/poda": {FILE[hierarchy]: "8388608", "pids.max": "7"},
        })  # fmt: skip

    @contextmanager
    def journal(self) -> Iterator[JournalFile]:
        journal = open_journal(ROOT, Owned(self.kernel), state=self.state, boot=self.name)
        try:
            yield journal
        finally:
            journal.close(gone=not journal.ledger.cgroups and not journal.ledger.files)

    def apply(self) -> tuple[int, list[str]]:
        """How many steps were done, and what taking the journal up met."""
        with self.journal() as journal:
            executor = executor_of(Driver(self.kernel, _Book(journal)), journal)

            def look() -> ApplyPlan:
                return prepare(self.plan, executor, Sight(self.kernel).read_planned)

            done = perform(look(), look, executor)
            assert not done.remaining
            assert not done.failures
            return len(done.outcomes), journal.notes

    def release(self) -> None:
        with self.journal() as journal:
            now = TreeState(ROOT, self.kernel.observe(ROOT))
            what = restore(journal.ledger, now, hierarchy=self.kernel.hierarchy)
            assert not what.refusals
            steps = list(what.steps)
            assert len(Driver(self.kernel, _Book(journal)).perform(steps)) == len(steps)
        assert not self.kernel.observe(ROOT).cgroups


class _Book(Book):
    """A real journal as the driver of values writes it."""

    def __init__(self, journal: JournalFile) -> None:
        super().__init__()
        self.ledger = journal.ledger
        self._journal = journal

    def record(self, entries: Sequence[Entry]) -> None:
        self._journal.record(entries)


@pytest.mark.parametrize("boots", ["another", "the same"])
@pytest.mark.parametrize("first", get_args(Hierarchy))
def test_a_journal_of_another_boot_or_hierarchy_is_put_aside_and_never_used(
    tmp_path: Path, first: Hierarchy, boots: str
) -> None:
    state, other = tmp_path / "state", "v2" if first == "v1" else "v1"
    order: list[Hierarchy] = [first, "v2" if other == "v2" else "v1", first]
    headers: list[Header] = []
    for number, hierarchy in enumerate(order):
        name = f"boot{number}" if boots == "another" else "boot"
        boot = Boot(state, name, hierarchy)
        assert read_journal(ROOT, Owned(boot.kernel), state=boot.state, boot=name)[0].cgroups == {}
        steps, notes = boot.apply()
        assert steps == 5, "everything is made anew"
        what = "boot" if boots == "another" else "hierarchy"
        assert notes == ([f"{ROOT}: ignoring a journal of another {what}"] if number else [])
        assert boot.apply() == (0, []), "its own journal is taken up"
        header = read((state / "q/journal").read_bytes()).header
        assert header is not None
        assert (header.boot, header.hierarchy) == (name, hierarchy)
        headers.append(header)
        if number:
            aside = state / "q" / f"journal.{headers[-2].boot}"
            assert read(aside.read_bytes()).header == headers[-2]
    boot.release()
    assert not (state / "q/journal").exists()


@pytest.mark.parametrize("hierarchy", get_args(Hierarchy))
def test_groups_that_only_an_old_journal_names_are_somebody_elses(
    tmp_path: Path, hierarchy: Hierarchy
) -> None:
    old = Boot(tmp_path / "state", "boot0", hierarchy)
    old.apply()
    now = Boot(tmp_path / "state", "boot1", hierarchy)
    paths = list(old.kernel.observe(ROOT).cgroups)
    now.kernel.perform([Step("create", path) for path in paths])
    same = [now.kernel.observe(ROOT).cgroups[path].identity for path in paths]
    assert same == [one.identity for one in old.kernel.observe(ROOT).cgroups.values()]
    with pytest.raises(CannotDo, match="no qoslet journal has it"):
        now.apply()
    with pytest.raises(CannotDo, match="no qoslet journal has it"):
        now.release()
    assert list(now.kernel.observe(ROOT).cgroups) == paths
    assert sorted(os.listdir(tmp_path / "state/q")) == ["journal.boot0"]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_cgroup_that_a_runtime_made_anew_for_a_recorded_container_is_ours(
    tmp_path: Path, recorded: bool
) -> None:
    boot = Boot(tmp_path, "one", "v2")
    boot.apply()
    pod = "/q/kubepods/poda"
    boot.kernel.perform([Step("remove", pod), Step("create", pod), Step("create", f"{pod}/app")])
    boot.kernel.spawn(f"{pod}/app")
    made, tree = [f"{pod}/app"] if recorded else [], Owned(boot.kernel)
    journal = open_journal(ROOT, tree, state=boot.state, boot="one", recorded=lambda: made)
    try:
        assert (pod in journal.ledger.cgroups) is recorded
        assert "/q/kubepods" in journal.ledger.cgroups
    finally:
        journal.close(gone=False)
    seen, _ = read_journal(ROOT, tree, state=boot.state, boot="one", recorded=lambda: made)
    assert seen.is_owned(pod, tree.identity(pod) or 0) is recorded
    assert not [key for key in seen.files if key[0] == pod], "its files are new, too"


@pytest.mark.parametrize(("root", "kept"), [(1, ["/q.slice", "/q.slice/q-a.slice"]), (9, [])])
def test_a_slice_that_systemd_made_anew_below_one_of_ours_is_ours(
    root: int, kept: list[str]
) -> None:
    """As after ``systemctl stop`` of one below which a container starts again."""
    ledger = JournalState()
    slice_, other = "/q.slice/q-a.slice", "/q.slice/b"
    ledger.add([Created("/q.slice", 1), Created(slice_, 2), Created(other, 3)])
    ledger.add([Set(slice_, "cpu.weight", None, "5")])
    tree = Mock(spec=Owned)
    tree.identity.side_effect = {"/q.slice": root, slice_: 22, other: 33}.get
    tree.members.return_value = set()
    assert prune(ledger, tree)
    assert list(ledger.cgroups) == kept
    assert not ledger.files
    assert ledger.is_owned(slice_, 22) is bool(kept)
