"""Files that describe a node, followed on this machine's file systems."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.host.files.watched_node import NodeFiles
from qoslet.host.linux.inotify import PollingWatch


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "kubelet.conf"
    made.write_text("kind: KubeletConfiguration\n")
    return made


@pytest.fixture
def files(file: Path) -> Iterator[NodeFiles]:
    made = NodeFiles([str(file), "-"], time.monotonic)
    yield made
    made.close()


def told(files: NodeFiles, seconds: float = 20.0) -> bool:
    """Whether the descriptors tell of a change."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready = select.select(files.descriptors(), [], [], deadline - time.monotonic())[0]
        if files.changed():
            return bool(ready)
    return False


def test_a_file_that_stays_as_it_is_has_not_changed(files: NodeFiles, file: Path) -> None:
    assert not files.changed()
    file.read_text()
    (file.parent / "another.yaml").write_text("kind: Pod\n")
    assert not files.changed()


def test_a_replaced_file_and_one_that_was_written_have_changed(
    files: NodeFiles, file: Path
) -> None:
    new = file.parent / ".new"
    new.write_text("kind: Node\n")
    os.rename(new, file)
    assert told(files)
    assert not files.changed()
    file.write_text("kind: KubeletConfiguration\nmaxPods: 5\n")
    assert told(files)
    assert not files.changed()


def test_a_file_that_is_being_written_has_not_changed_yet(files: NodeFiles, file: Path) -> None:
    with file.open("w") as writer:
        writer.write("kind: ")
        writer.flush()
        assert not files.changed()
        writer.write("Node\n")
    assert told(files)


def test_a_file_that_goes_and_comes_has_changed_twice(files: NodeFiles, file: Path) -> None:
    text = file.read_text()
    file.unlink()
    assert told(files)
    file.write_text(text)
    assert told(files)


def test_a_link_that_leads_elsewhere_has_changed(tmp_path: Path) -> None:
    """As a mounted ConfigMap: ``..data`` is replaced by a rename."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "node.yaml").write_text(f"# {name}\nkind: Node\n")
    data = tmp_path / "..data"
    data.symlink_to("one")
    (tmp_path / "node.yaml").symlink_to("..data/node.yaml")
    files = NodeFiles([str(tmp_path / "node.yaml")], time.monotonic)
    try:
        other = tmp_path / "..new"
        other.symlink_to("two")
        os.rename(other, data)
        assert told(files, 40.0)
    finally:
        files.close()


def test_without_inotify_files_are_looked_at_now_and_then(file: Path) -> None:
    files = NodeFiles([str(file)], time.monotonic, watch=lambda: PollingWatch(0.05))
    try:
        file.write_text("kind: Node\n")
        assert told(files)
    finally:
        files.close()


def test_what_can_be_read_once_is_not_followed() -> None:
    files = NodeFiles(["-", "/dev/stdin"], time.monotonic)
    assert (files.descriptors(), files.changed()) == ([], False)
    files.close()


def test_the_drop_ins_of_a_directory_are_followed(file: Path) -> None:
    made = NodeFiles([str(file.parent)], time.monotonic)
    file.write_text("kind: KubeletConfiguration\nmaxPods: 5\n")
    assert told(made)
    made.close()
