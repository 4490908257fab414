"""A file that is replaced, whatever replaces it, ends no pod; one that is removed does."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from qoslet.agent.desired_state import ManifestSource
from qoslet.agent.ports import DesiredState
from qoslet.agent.removals import REMOVAL_SECONDS
from qoslet.core.api.manifest import Options
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.host.files.watched_manifests import ManifestFiles
from tests.agent.test_desired_state import ROOT, here, uid

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec: {containers: [{name: c, command: [sleep, inf], resources: {requests: {cpu: %s}}}]}
---
"""
SHORT = REMOVAL_SECONDS / 2


class Nothing:
    """A store in which nothing is."""

    def read(self) -> dict[str, bytes]:
        return {}

    def write(self, contents: Mapping[str, bytes]) -> bool:
        return bool(contents)


class Followed:
    """A directory with a file of two pods, and a source that follows it."""

    def __init__(self, above: Path) -> None:
        self.folder = above / "manifests"
        self.folder.mkdir(mode=0o755)
        self.file = self.folder / "a.yaml"
        self.text = POD % ("one", "1m") + POD % ("two", "2m")
        self.file.write_text(self.text)
        self.copy = above / "copy"
        self.copy.write_text(self.text)
        self.now = 100.0
        self.restart()

    def restart(self) -> None:
        self.files = ManifestFiles([str(self.folder)], lambda: self.now)
        self.source = ManifestSource(
            self.files,
            Options(),
            here(),
            ROOT,
            monotonic=lambda: self.now,
            removal_seconds=REMOVAL_SECONDS,
        )

    def next_agent(self, **manifests: str) -> None:
        """Another agent comes; an earlier one started these pods from these files."""
        self.files.close()
        self.restart()
        pods = {
            uid(name): RuntimePod(uid(name), f"default/{name}", "", 1.0, {}, manifest=file)
            for name, file in manifests.items()
        }
        self.source.take_up(Nothing(), "", pods)
        self.turn(2 * REMOVAL_SECONDS)

    def kept_by(self, file: Path, seconds: float = 0.0) -> str:
        """Which path with a fault keeps a pod that an earlier agent started from a file."""
        unread = self.turn(seconds).unread
        return "settling" if unread.settling else unread.fault_of(str(file)).rpartition("/")[2]

    def turn(self, seconds: float = 0.0) -> DesiredState:
        self.now += seconds
        return self.source.current()

    def pods(self, seconds: float = 0.0) -> set[str]:
        return {pod.pod.name for pod in self.turn(seconds).pods.values()}


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    made = Followed(tmp_path)
    made.turn()
    made.turn(2 * REMOVAL_SECONDS)
    yield made
    made.files.close()


def unlinked(at: Followed, look: Callable[[], None]) -> None:
    at.file.unlink()
    look()
    at.file.touch()
    look()
    at.file.write_text(at.text[:150])
    look()
    at.file.write_text(at.text)


def truncated(at: Followed, look: Callable[[], None]) -> None:
    at.file.write_text("")
    look()
    at.file.write_text(at.text)


def in_parts(at: Followed, look: Callable[[], None]) -> None:
    """Each part is closed, and valid: only time tells that it is not all."""
    first = POD % ("one", "1m")
    at.file.write_text("# pods\n")
    look()
    at.file.write_text(first)
    look()
    with at.file.open("a") as file:
        file.write(at.text.removeprefix(first))


def moved_away(at: Followed, look: Callable[[], None]) -> None:
    backup = at.file.with_name("a.yaml~")
    at.file.rename(backup)
    look()
    shutil.copy(backup, at.file)
    look()
    backup.unlink()


def by(*command: str) -> Callable[[Followed, Callable[[], None]], None]:
    def run(at: Followed, look: Callable[[], None]) -> None:
        places = {"FILE": str(at.file), "COPY": str(at.copy), "DIR": str(at.folder)}
        if command[0] == "tar":
            subprocess.run(["tar", "cf", "a.tar", "a.yaml"], cwd=at.folder, check=True)
        subprocess.run([places.get(word, word) for word in command], cwd=at.folder, check=True)

    return run


WAYS = {
    "unlink": unlinked,
    "truncate": truncated,
    "parts": in_parts,
    "backup": moved_away,
    "install": by("install", "-m", "644", "COPY", "FILE"),
    "cp": by("cp", "COPY", "FILE"),
    "cp-f": by("cp", "--remove-destination", "COPY", "FILE"),
    "tar": by("tar", "xf", "a.tar"),
    "tar-u": by("tar", "x", "-U", "-f", "a.tar"),
    "mv": by("mv", "COPY", "FILE"),
    "ln": by("ln", "-sf", "COPY", "FILE"),
    "touch": by("touch", "FILE"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_is_replaced_unchanged_changes_no_pod(followed: Followed, way: str) -> None:
    seen: list[DesiredState] = []
    WAYS[way](followed, lambda: seen.append(followed.turn(SHORT / 4)))
    seen += [followed.turn(0.1) for _ in range(3)]
    seen.append(followed.turn(5 * REMOVAL_SECONDS))
    assert not any(state.removed or state.changed for state in seen)
    assert set(seen[-1].pods) == {uid("one"), uid("two")}
    assert not [row for row in seen[-1].problems if row.severity == "error"]


def test_a_file_that_is_removed_ends_its_pods_a_moment_later(followed: Followed) -> None:
    followed.file.unlink()
    assert followed.pods() == followed.pods(SHORT) == {"one", "two"}
    state = followed.turn(SHORT + 0.1)
    assert state.pods == {}
    assert state.removed == {uid("one"), uid("two")}
    assert followed.source.document(uid("one")) == {}


def test_a_directory_that_was_emptied_and_comes_again_is_filled_file_by_file(
    followed: Followed,
) -> None:
    """``rm -r`` was seen file by file, and the directory was away for long."""
    followed.file.unlink()
    assert followed.pods() == {"one", "two"}
    followed.folder.rmdir()
    assert followed.pods(SHORT / 2) == {"one", "two"}
    assert followed.pods(5 * REMOVAL_SECONDS) == {"one", "two"}
    followed.folder.mkdir(mode=0o755)
    (followed.folder / "b.yaml").write_text(POD % ("three", "1m"))
    assert followed.pods() == followed.pods(SHORT) == {"one", "two", "three"}
    followed.file.write_text(POD % ("one", "1m"))
    assert followed.pods() == {"one", "two", "three"}
    assert followed.pods(REMOVAL_SECONDS) == {"one", "three"}


def test_after_a_fault_an_agent_settles_again(followed: Followed) -> None:
    """Pods that only records name may be of a file that is not copied back yet."""
    followed.folder.rename(followed.folder.with_name("old"))
    assert followed.turn(5 * REMOVAL_SECONDS).unread.faulty
    followed.folder.mkdir(mode=0o755)
    (followed.folder / "b.yaml").write_text(POD % ("three", "1m"))
    assert followed.turn().unread.settling
    assert followed.turn(SHORT).unread.settling
    assert not followed.turn(SHORT + 0.1).unread.settling


def test_an_empty_directory_in_the_place_of_a_file_ends_no_pod(followed: Followed) -> None:
    followed.file.unlink()
    followed.file.mkdir()
    followed.turn()
    state = followed.turn(5 * REMOVAL_SECONDS)
    assert set(state.pods) == {uid("one"), uid("two")}
    (row,) = [row for row in state.problems if row.severity == "error"]
    assert row.message == "is an empty directory"
    followed.restart()
    state = followed.turn(5 * REMOVAL_SECONDS)
    assert str(followed.file) in state.unread.faulty, "the next agent keeps what its records name"
    (followed.file / "note").touch()
    followed.file.touch()
    assert not followed.turn(20).unread.faulty, "with something in it, it is one of somebody's"


def test_it_wakes_for_a_pod_that_leaves(followed: Followed) -> None:
    import select

    followed.file.unlink()
    followed.turn()
    ready, _, _ = select.select(followed.source.descriptors(), [], [], 2 * REMOVAL_SECONDS)
    assert ready
    followed.turn(REMOVAL_SECONDS)
    assert select.select(followed.source.descriptors(), [], [], 0.1)[0] == []


def test_a_file_that_says_nothing_keeps_its_pods_and_is_told(followed: Followed) -> None:
    followed.file.write_text("# later\n")
    state = followed.turn(5 * REMOVAL_SECONDS)
    assert set(state.pods) == {uid("one"), uid("two")}
    (row,) = [row for row in state.problems if row.severity == "error"]
    assert (row.where, row.message) == (str(followed.file), "is empty")
    assert "its pods keep running unchanged" in row.hint
    followed.file.write_text("apiVersion: v1\nkind: List\nitems: []\n")
    followed.turn()
    assert followed.pods(REMOVAL_SECONDS) == set(), "this says that there are none"


def test_a_pod_that_leaves_is_still_planned_on_another_node(followed: Followed) -> None:
    followed.file.unlink()
    followed.turn()
    followed.source.configure(here())
    state = followed.turn(SHORT)
    assert set(state.pods) == set(followed.source.live.uids) == {uid("one"), uid("two")}
    assert followed.pods(REMOVAL_SECONDS) == set()


@pytest.mark.parametrize("only", [False, True], ids=["edited", "same"])
def test_a_pod_that_moves_to_another_file_is_taken_from_there_at_once(
    followed: Followed, only: bool
) -> None:
    followed.file.unlink()
    followed.turn()
    other = followed.folder / "b.yaml"
    other.write_text(followed.text if only else followed.text.replace("1m", "3m"))
    state = followed.turn()
    assert set(state.pods) == {uid("one"), uid("two")}
    assert state.pods[uid("one")].manifest == str(other)
    assert not [row for row in state.problems if row.severity == "error"]
    assert set(followed.turn(2 * REMOVAL_SECONDS).pods) == {uid("one"), uid("two")}


def test_another_pod_of_the_name_comes_at_once(followed: Followed) -> None:
    followed.file.write_text((POD % ("one", "1m")).replace("name: one", "name: one, uid: other"))
    state = followed.turn()
    assert "other" in state.pods
    assert uid("one") in state.removed
    assert uid("two") in state.pods


def test_a_directory_that_goes_while_its_files_are_removed_keeps_them(followed: Followed) -> None:
    """As ``rm -r`` does, or a volume that is taken down."""
    followed.file.unlink()
    followed.turn()
    followed.folder.rmdir()
    assert followed.pods(10 * REMOVAL_SECONDS) == {"one", "two"}
    followed.folder.mkdir(mode=0o755)
    assert followed.pods(10 * REMOVAL_SECONDS) == {"one", "two"}, "an empty one in its place"
    os.rename(followed.copy, followed.file)
    assert followed.pods(0.1) == {"one", "two"}
    followed.file.unlink()
    followed.turn()
    assert followed.pods(REMOVAL_SECONDS) == set()


def test_an_agent_that_begins_while_a_file_is_absent_waits_for_it(followed: Followed) -> None:
    followed.files.close()
    followed.file.unlink()
    followed.restart()
    assert followed.turn().unread.settling
    assert followed.turn(SHORT).unread.settling
    state = followed.turn(SHORT)
    assert not state.unread.settling
    assert state.version == followed.turn().version


def test_a_file_with_a_fault_that_is_renamed_keeps_its_pods_until_it_is_mended(
    followed: Followed,
) -> None:
    followed.file.write_text(followed.text.replace("cpu: 1m", "cpu: 1Zi"))
    assert followed.pods() == followed.pods(5 * REMOVAL_SECONDS) == {"one", "two"}
    for name in ("b.yaml", "c.yaml"):
        followed.file = followed.file.rename(followed.file.with_name(name))
        state = followed.turn()
        assert state.changed == {uid("one"), uid("two")}, "the runtime is told"
        assert {pod.manifest for pod in state.pods.values()} == {str(followed.file)}
        assert followed.pods(5 * REMOVAL_SECONDS) == {"one", "two"}
    followed.file.write_text(POD % ("one", "1m"))
    assert followed.pods() == {"one", "two"}
    assert followed.pods(2 * REMOVAL_SECONDS) == {"one"}


def test_a_file_with_a_fault_that_is_removed_ends_its_pods_beside_an_older_fault(
    followed: Followed,
) -> None:
    followed.file.with_name("other.yaml").write_text("kind: [")
    followed.file.write_text(followed.text.replace("cpu: 1m", "cpu: 1Zi"))
    assert followed.pods() == followed.pods(5 * REMOVAL_SECONDS) == {"one", "two"}
    followed.file.unlink()
    assert followed.pods() == followed.pods(SHORT) == {"one", "two"}
    assert followed.pods(SHORT + 0.1) == set()


def test_the_next_agent_follows_a_file_with_a_fault_that_is_renamed(followed: Followed) -> None:
    first, other = followed.file, followed.file.with_name("other.yaml")
    first.write_text("kind: [")
    other.write_text("kind: [")
    followed.next_agent(one=str(first), two=str(other))
    assert (followed.kept_by(first), followed.kept_by(other)) == ("a.yaml", "other.yaml")
    for name in ("b.yaml", "a.yaml", "c.yaml"):
        followed.file = followed.file.rename(followed.file.with_name(name))
        assert followed.kept_by(first) == "settling"
        assert followed.kept_by(first, 5 * REMOVAL_SECONDS) == name
    first.write_text(POD % ("new", "1m"))
    assert followed.kept_by(first) == "c.yaml", "another file of the name"
    followed.file.unlink()
    followed.turn()
    assert followed.kept_by(first, 2 * REMOVAL_SECONDS) == "", "beside an older fault"
    assert followed.kept_by(other) == "other.yaml"


def test_a_file_with_a_fault_that_was_renamed_while_no_agent_ran_is_found(
    followed: Followed,
) -> None:
    renamed, removed = followed.file, followed.file.with_name("removed.yaml")
    renamed.rename(renamed.with_name("b.yaml")).write_text("kind: [")
    followed.next_agent(one=str(renamed))
    assert followed.kept_by(renamed) == "b.yaml"
    followed.next_agent(one=str(renamed.with_name("b.yaml")), two=str(removed))
    assert followed.kept_by(removed) == "", "what has the fault is known"


def test_a_working_directory_that_is_removed_ends_no_pod(
    followed: Followed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    followed.files.close()
    followed.folder = Path("../manifests")
    followed.restart()
    assert followed.pods() == {"one", "two"}
    inside.rmdir()
    followed.file.write_text(followed.text.replace("cpu: 1m", "cpu: 3m"))
    assert followed.pods() == followed.pods(5 * REMOVAL_SECONDS) == {"one", "two"}
    assert list(followed.files.directories) == [str(tmp_path / "manifests")]
