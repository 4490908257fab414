"""Cgroups and their processes as they are read for an audit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from qoslet.core.audit.live import ReadRequest
from qoslet.host.cgroupfs.observe.audit_reader import CgroupReader
from tests.host.cgroupfs.test_below import nest

NAMES = ("cpu", "memory", "pids")


def made(folder: Path, children: dict[str, tuple[str, ...]]) -> CgroupReader:
    """Directories that look like hierarchies, with these cgroups below ``/kubepods``."""
    for name, below in children.items():
        for path in ("", "kubepods", *(f"kubepods/{child}" for child in below)):
            place = folder / name / path
            place.mkdir(parents=True, exist_ok=True)
            (place / "cgroup.procs").write_text("")
    return CgroupReader("v1", {name: str(folder / name) for name in children})


@pytest.mark.parametrize(
    ("children", "missing"),
    [
        ((("a", "b"), ("a", "b"), ("a", "b")), {"a": (), "b": ()}),
        ((("a",), ("a",), ("b",)), {"a": ("pids",), "b": ("cpu", "memory")}),
        ((("a",), ("b",), ("a",)), {"a": ("memory",), "b": ("cpu", "pids")}),
        ((("a", "b"), ("b", "c"), ("d", "a")),
         {"a": ("memory",), "b": ("pids",), "c": ("cpu", "pids"), "d": ("cpu", "memory")}),
        (((), ("a",), ("a",)), {"a": ("cpu",)}),
        ((("a",), (), ()), {"a": ("memory", "pids")}),
    ],
)  # fmt: skip
def test_each_cgroup_is_found_with_the_hierarchies_that_lack_it(
    tmp_path: Path, children: tuple[tuple[str, ...], ...], missing: dict[str, tuple[str, ...]]
) -> None:
    reader = made(tmp_path, dict(zip(NAMES, children, strict=True)))
    live = reader.read(ReadRequest(("/kubepods",), (), {}, (), frozenset()))
    found = {path.rpartition("/")[2]: one.missing for path, one in live.cgroups.items()}
    assert found.pop("kubepods") == ()
    assert found == missing


def test_the_freezer_is_read_for_its_file_alone(tmp_path: Path) -> None:
    below: dict[str, tuple[str, ...]] = dict.fromkeys(NAMES, ("a", "b"))
    reader = made(tmp_path, below | {"freezer": ("a", "c")})
    (tmp_path / "freezer/kubepods/a/freezer.self_freezing").write_text("1\n")
    files = ("freezer.self_freezing",)
    live = reader.read(ReadRequest(("/kubepods",), (), {}, files, frozenset()))
    assert {path: dict(one.values) for path, one in live.cgroups.items()} == {
        "/kubepods": {},
        "/kubepods/a": {"freezer.self_freezing": "1"},
        "/kubepods/b": {},
    }
    assert all(one.missing == () for one in live.cgroups.values())


@pytest.mark.parametrize(
    ("above", "pids", "found"), [("0", "1\n", "0"), ("0-1", "1\n", "own"), ("0", "", "own")]
)
def test_processes_below_a_single_memory_node_have_no_other(
    tmp_path: Path, above: str, pids: str, found: str
) -> None:
    reader = made(tmp_path, {"cpuset": ("a",)})
    folder = tmp_path / "cpuset/kubepods"
    (folder / "cpuset.mems").write_text(above)
    (folder / "a/cpuset.mems").write_text("own")
    (folder / "a/cgroup.procs").write_text(pids)
    files = ("cpuset.mems",)
    tree = reader.read(ReadRequest(("/kubepods",), (), {"/kubepods": files}, files, frozenset()))
    assert tree.cgroups["/kubepods/a"].values == {"cpuset.mems": found}


@pytest.mark.parametrize(
    ("leaf", "count"), [("p-poda-app.scope", 1), (f"cri-containerd-{'0' * 64}.scope", 2)]
)
def test_who_keeps_a_scope_is_no_process_of_its_container(
    tmp_path: Path, leaf: str, count: int
) -> None:
    reader = made(tmp_path, {"memory": ()})
    place = tmp_path / "memory/kubepods/p-poda.slice" / leaf
    place.mkdir(parents=True)
    (place.parent / "cgroup.procs").write_text("")
    words = ["sh", "-c", "echo; read _ # keeps a scope of qoslet"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeps:
        assert keeps.stdout is not None
        # until then it may be on its way into the shell, without a command line
        assert keeps.stdout.readline() == b"\n"
        (place / "cgroup.procs").write_text(f"{keeps.pid}\n{os.getpid()}\n")
        tree = reader.read(ReadRequest(("/kubepods",), (), {}, (), frozenset()))
        keeps.kill()
    live = tree.cgroups[f"/kubepods/p-poda.slice/{leaf}"]
    assert (live.processes, os.getpid() in live.pids) == (count, True)
    assert (keeps.pid in live.pids) == (count == 2)


def test_cgroups_that_are_nested_without_end_are_told(tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    nest(tmp_path / "q", "d", 1200)
    live = CgroupReader("v2", {"unified": str(tmp_path)}).read(
        ReadRequest(("/q",), (), {}, (), frozenset())
    )
    subprocess.run(["rm", "-r", tmp_path / "q"], check=True)
    (told,) = live.unread
    assert told.error == "100 levels deep: nothing below it is read"
    assert told.path.count("/") == len(live.cgroups) == 100
