"""How CPUs and memory lie, from declared sysfs trees and from the machine that runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qoslet.core.node.fields import cpus
from qoslet.core.node.topology import Layout, NumaNode
from qoslet.errors import CannotDo
from qoslet.host.machine.topology import layout, numa
from qoslet.host.state.manager_checkpoint import ManagerFiles

CPU, NODE = "sys/devices/system/cpu", "sys/devices/system/node"


def tree(root: Path, files: dict[str, str]) -> str:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return str(root)


def machine(root: Path) -> str:
    """Two sockets of two cores with two threads, a cache each; CPU 5 is offline."""
    files: dict[str, str] = {}
    for cpu in (0, 1, 2, 3, 4, 6, 7):
        core = cpu % 4
        socket = "0-1,4-5" if core < 2 else "2-3,6-7"
        files |= {
            f"{CPU}/cpu{cpu}/topology/core_cpus_list": f"{core},{core + 4}\n",
            f"{CPU}/cpu{cpu}/topology/package_cpus_list": f"{socket}\n",
            f"{CPU}/cpu{cpu}/cache/index0/level": "1\n",
            f"{CPU}/cpu{cpu}/cache/index0/shared_cpu_list": f"{core},{core + 4}\n",
            f"{CPU}/cpu{cpu}/cache/index3/level": "3\n",
            f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list": f"{socket}\n",
        }
    files |= {
        f"{NODE}/node0/cpulist": "0-1,4\n",
        f"{NODE}/node0/meminfo": "Node 0 MemTotal: 1024 kB\n",
        f"{NODE}/node0/hugepages/hugepages-2048kB/nr_hugepages": "3\n",
        f"{NODE}/node0/distance": "10 20 30\n",
        f"{NODE}/node8/cpulist": "\n",
        f"{NODE}/node8/meminfo": "Node 8 MemTotal: 2048 kB\n",
        f"{NODE}/node99/meminfo": "Node 99 MemTotal: 1 kB\n",
        f"{NODE}/possible": "0,8\n",
    }
    return tree(root, files)


def test_cores_sockets_and_caches(tmp_path: Path) -> None:
    found = layout(machine(tmp_path), {0, 1, 2, 3, 4, 6, 7})
    sockets = ("0-1,4-5", "2-3,6-7")
    assert found == Layout(sockets, ("0,4", "1,5", "2,6", "3,7"), sockets)


def test_nodes_keep_their_numbers(tmp_path: Path) -> None:
    assert numa(machine(tmp_path)) == (
        NumaNode("0-1,4", 1 << 20, 0, {1 << 21: 3 << 21}, (10, 20, 30)),
        NumaNode("", 2 << 20, 8),
    )


def test_nothing_there_is_not_known(tmp_path: Path) -> None:
    assert layout(str(tmp_path), {0, 1}) is None
    assert numa(str(tmp_path)) is None


@pytest.mark.parametrize("told", ["", "x", "1", "0-", "5-3", "0-99999999"])
def test_nonsense_is_not_known(tmp_path: Path, told: str) -> None:
    root = tree(tmp_path, {f"{CPU}/cpu0/topology/core_cpus_list": told})
    assert layout(root, {0}) is None


def test_this_machine_has_each_cpu_once() -> None:
    online = cpus(Path(f"/{CPU}/online").read_text().strip()) or set()
    found = layout("", online)
    assert found is not None
    for lists in (found.cores, found.sockets, found.caches):
        members = [cpu for text in lists for cpu in (cpus(text) or set()) & online]
        assert not lists or sorted(members) == sorted(online)


def test_state_files_are_whole_and_written_when_they_change(tmp_path: Path) -> None:
    files = ManagerFiles(str(tmp_path))
    assert files.read() == {}
    state = {"cpu_manager_state": b"{}"}
    assert files.write(state)
    assert not files.write(state)
    assert ManagerFiles(str(tmp_path)).read() == state
    assert os.stat(tmp_path / "cpu_manager_state").st_mode & 0o777 == 0o600
    assert files.write({})
    assert os.listdir(tmp_path) == []


def test_a_link_and_a_pipe_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("{}")
    path = tmp_path / "cpu_manager_state"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotDo, match="cannot be read"):
        ManagerFiles(str(tmp_path)).read()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CannotDo, match="not a regular file"):
        ManagerFiles(str(tmp_path)).read()
