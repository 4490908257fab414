"""What a process does that may have few descriptors."""

from __future__ import annotations

import errno
import os
import resource
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.observe import observer
from qoslet.host.linux import descriptors
from qoslet.host.linux.descriptors import LEAST, kept_at_most, polled
from qoslet.host.linux.openat import KEPT, MountedTree, open_retrying


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    descriptors._usual = None


def allow(soft: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def opened() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def trees(tmp_path: Path) -> Iterator[list[MountedTree]]:
    """Four hierarchies with twenty groups each."""
    made = []
    for number in range(4):
        point = tmp_path / str(number)
        for group in range(20):
            (point / f"g{group}").mkdir(parents=True)
            (point / f"g{group}" / "file").write_text("1")
        made.append(MountedTree(str(point)))
    yield made
    for tree in made:
        tree.close()


def look(trees: list[MountedTree]) -> None:
    for group in range(20):
        for tree in trees:
            assert tree.read(f"/g{group}", "file") == "1"


def test_descriptors_are_kept_for_speed_as_far_as_there_are_some(trees: list[MountedTree]) -> None:
    before = opened()
    look(trees)
    assert opened() - before == 4 * 21
    assert KEPT > 20


def test_a_tree_that_nobody_has_any_more_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    before = opened()
    tree = MountedTree(str(tmp_path))
    tree.fd("/g")
    assert opened() == before + 2
    del tree
    assert opened() == before


def test_all_trees_together_keep_few_where_few_are_allowed(trees: list[MountedTree]) -> None:
    before = opened()
    allow(before + 64)
    look(trees)
    assert opened() - before <= kept_at_most() + len(trees)


def test_out_of_descriptors_what_is_only_kept_is_closed(trees: list[MountedTree]) -> None:
    look(trees)
    before = opened()
    allow(before)
    full: list[int] = []

    def fill() -> None:
        while True:
            full.append(os.dup(0))

    with pytest.raises(OSError, match="Too many open files"):
        fill()
    directory = trees[0].directory("/g3")
    assert opened() < before + len(full) - 50
    for descriptor in full:
        os.close(descriptor)
    file = open_retrying("file", os.O_RDONLY, directory)
    look(trees)
    os.close(file)
    os.close(directory)


def test_out_of_descriptors_a_cgroup_is_not_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Absent would be made again, and drift would be seen where there is none."""

    def none_left(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", none_left)
    for look_at in (
        lambda: observer._open_path(MountedTree("/nowhere"), "/a"),
        lambda: observer._open_below(3, "a"),
        lambda: observer._text(3, "a"),
    ):
        with pytest.raises(OSError, match="Too many open files"):
            look_at()


def test_more_are_waited_for_than_are_allowed_now() -> None:
    """As after prlimit(1) on a process that runs: poll(2) says EINVAL."""
    poller = select.poll()
    reader, writer = os.pipe()
    try:
        for descriptor in (reader, writer):
            poller.register(descriptor, select.POLLIN)
        allow(1)
        begun = time.monotonic()
        assert polled(poller, 50) == []
        assert time.monotonic() - begun >= 0.05
        allow(256)
        os.write(writer, b"x")
        assert polled(poller, None) == [(reader, select.POLLIN)]
    finally:
        os.close(reader)
        os.close(writer)


CHILD = """
import resource, subprocess
from qoslet.host.linux.descriptors import are_few, raise_limit, usual_limit
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
assert are_few()
raise_limit()
raise_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
with usual_limit():
    subprocess.run(["sh", "-c", "ulimit -Sn"], check=True)
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
"""


def test_the_limit_is_raised_and_children_get_the_usual_one() -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=False, env=environ
    )
    assert (done.returncode, done.stdout) == (0, "100\n"), done.stderr


def test_too_few_are_refused_with_what_to_do() -> None:
    code = (
        "import resource; from qoslet.host.linux.descriptors import raise_limit\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({LEAST - 1}, {LEAST - 1}))\nraise_limit()"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environ
    )
    assert CannotDo.__name__ in done.stderr
    assert "raise it: ulimit -n 1024, or LimitNOFILE= of the unit" in done.stderr
