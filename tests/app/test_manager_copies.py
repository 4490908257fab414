"""Assignments of CPUs that are damaged or missing while pods run by them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qoslet.app.runtimes.managers import take_up_managers
from qoslet.core.reconcile.journal import JournalState
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.errors import CannotDo
from qoslet.host.state.manager_checkpoint import ManagerFiles
from tests.agent.test_desired_state import Given, made
from tests.app.test_cpu_sets import cpus, static, whole

NAME = "cpu_manager_state"


def tree() -> Any:
    return SimpleNamespace(ledger=JournalState(), notes=[], driver=None)


def flipped(path: Path) -> None:
    path.write_text(path.read_text().replace("1-2", "1-3"))


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = Given()
    files.say("b.yaml", whole("b", "2"))
    source = made(files, static())
    source.take_up(ManagerFiles(str(tmp_path)), str(tmp_path), {})
    assert cpus(source.current().pods["b"]) == "1-2"
    return tmp_path


def next_agent(folder: Path, *standing: str) -> tuple[str, list[str]]:
    """The CPUs that pod b has under the next agent, before which pod a comes; its notes."""
    files, around = Given(), tree()
    files.say("a.yaml", whole("a", "3"))
    files.say("b.yaml", whole("b", "2"))
    source = made(files, static())
    take_up_managers(
        source,
        around,
        str(folder),
        {pod: RuntimePod(pod, f"default/{pod}", "", 1.0, {}) for pod in standing},
    )
    return cpus(source.current().pods["b"]), around.notes


@pytest.mark.parametrize("damage", [flipped, torn, Path.unlink])
def test_a_damaged_or_absent_state_is_read_from_its_copy_and_restored(
    folder: Path, damage: Callable[[Path], None]
) -> None:
    before = (folder / NAME).read_bytes()
    damage(folder / NAME)
    found, notes = next_agent(folder, "b")
    assert found == "1-2"
    assert [("its copy counts" in note) for note in notes] == (
        [] if damage is Path.unlink else [True]
    )
    assert (folder / NAME).read_bytes() != before, "pod a is in it"
    assert (folder / NAME).read_bytes() == (folder / f"{NAME}.copy").read_bytes()


def test_both_damaged_is_refused_while_a_pod_runs(folder: Path) -> None:
    for name in (NAME, f"{NAME}.copy"):
        flipped(folder / name)
    with pytest.raises(CannotDo, match="checksum"):
        next_agent(folder, "b")


def test_what_nobody_runs_by_is_dropped(folder: Path) -> None:
    for name in (NAME, f"{NAME}.copy"):
        flipped(folder / name)
    found, notes = next_agent(folder)
    assert found == "4-5"
    assert "removed, since no pod runs" in notes[0]


def test_a_refused_state_that_was_removed_by_hand_counts_no_more(folder: Path) -> None:
    flipped(folder / f"{NAME}.copy")
    (folder / NAME).unlink()
    found, _ = next_agent(folder, "b")
    assert found == "4-5"
