"""Cgroups read for a bundle, from directories that look like a hierarchy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qoslet.core.bundle.allowed import files_v1, files_v2
from qoslet.host.cgroupfs.observe.cgroup_rows import CgroupFilesReader, CgroupsResult

POD = "/kubepods/burstable/poda0"


def put(point: Path, path: str, **files: str) -> None:
    """A cgroup with files; ``_`` stands for a dot."""
    folder = point / path.strip("/")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"cgroup_procs": "", **files}.items():
        (folder / name.replace("_", ".", 1)).write_text(text)


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    own = f"{os.getpid()}\n"
    put(tmp_path, "/", cgroup_controllers="cpu memory\n")
    put(tmp_path, "/kubepods", cpu_weight="79\n", memory_max="max\n", secret_txt="x")
    put(tmp_path, POD, cpu_weight="4\n", memory_pressure="some avg10=0.00\nfull avg10=0.00\n")
    put(
        tmp_path,
        f"{POD}/c",
        cgroup_procs=own + own,
        **{"hugetlb_2MB.max": "0\n", "memory_max": "\n"},
    )
    put(tmp_path, "/system.slice/a.service", cpu_weight="100\n")
    return tmp_path


def read(v2: Path, *single: str) -> CgroupsResult:
    reader = CgroupFilesReader("v2", {"unified": str(v2)}, ["2MB"])
    try:
        return reader.read(["/kubepods", "/nosuch"], single)
    finally:
        reader.close()


def test_trees_are_read_whole_and_their_neighbours_alone(v2: Path) -> None:
    found = read(v2)
    assert [row.path for row in found.rows] == [
        "/", "/kubepods", "/kubepods/burstable", POD, f"{POD}/c", "/system.slice",
    ]  # fmt: skip
    assert (found.unread, found.left_out) == ([], 0)
    assert [row.path for row in read(v2, "/system.slice/a.service").rows][
        -1
    ] == "/system.slice/a.service"


def test_a_row_has_what_the_list_names_and_nothing_else(v2: Path) -> None:
    rows = {row.path: row for row in read(v2).rows}
    assert rows["/kubepods"].files == {"cpu.weight": "79", "memory.max": "max"}
    assert rows[POD].files["memory.pressure"] == "some avg10=0.00\nfull avg10=0.00"
    leaf = rows[f"{POD}/c"]
    assert leaf.files == {"hugetlb.2MB.max": "0", "memory.max": ""}
    assert (leaf.processes, leaf.hierarchy) == (2, "v2")
    assert leaf.inode == (v2 / f"{POD[1:]}/c").stat().st_ino
    assert leaf.oom_score_adj == (int(Path("/proc/self/oom_score_adj").read_text()),)
    assert rows["/system.slice"].oom_score_adj is None


def test_what_cannot_be_read_is_said(v2: Path) -> None:
    (v2 / "kubepods/cpu.weight").unlink()
    (v2 / "kubepods/cpu.weight").mkdir()
    found = read(v2)
    assert [(one.path, one.file) for one in found.unread] == [("/kubepods", "cpu.weight")]
    assert found.unread[0].error


def test_links_are_not_followed(v2: Path) -> None:
    (v2 / "kubepods/link").symlink_to("/")
    (v2 / "kubepods/memory.low").symlink_to("/etc/passwd")
    found = read(v2)
    assert "root:" not in str(found)
    assert "/kubepods/link" not in {row.path for row in found.rows}


def test_v1_has_a_row_for_each_controller(tmp_path: Path) -> None:
    both = tmp_path / "cpu,cpuacct"
    put(both, "/kubepods", cpu_shares="1024\n", cpuacct_usage="7\n")
    put(tmp_path / "memory", "/kubepods", memory_limit_in_bytes="9\n")
    put(tmp_path / "devices", "/kubepods")
    mounts = {
        "cpu": str(both), "cpuacct": str(both), "memory": str(tmp_path / "memory"),
        "devices": str(tmp_path / "devices"),
    }  # fmt: skip
    reader = CgroupFilesReader("v1", mounts)
    rows = [row for row in reader.read(["/kubepods"]).rows if row.path == "/kubepods"]
    reader.close()
    assert {row.hierarchy: dict(row.files) for row in rows} == {
        "cpu": {"cpu.shares": "1024"},
        "cpuacct": {"cpuacct.usage": "7"},
        "memory": {"memory.limit_in_bytes": "9"},
    }


def test_every_file_of_a_plan_is_on_the_list() -> None:
    from qoslet.core.cgroup.interface_files import KNOBS

    of_v1 = {file for name in ("cpu", "cpuset", "memory", "pids") for file in files_v1(name, ())}
    assert {knob.v2 for knob in KNOBS if knob.v2} <= set(files_v2(()))
    assert {knob.v1 for knob in KNOBS if knob.v1} <= of_v1
    assert {"hugetlb.2MB.max", "hugetlb.2MB.rsvd.max"} <= set(files_v2(("2MB",)))
    assert {"hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.rsvd.limit_in_bytes"} <= set(
        files_v1("hugetlb", ("2MB",))
    )
