"""A look at declared machines, and what doctor says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.core.node.doctor.checks import can_write, findings
from qoslet.core.node.machine import Machine
from qoslet.host.machine.doctor_facts import look

MOUNT = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "".join(
    f"3{n} 24 0:2{n} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"
    for n, name in enumerate(("cpu", "memory", "pids", "cpuset"))
)


def machine(root: Path, files: dict[str, str]) -> Machine:
    """A declared machine: path to content."""
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return look(str(root))


def states(found: Machine) -> dict[str, str]:
    return {row.topic: row.state for row in findings(found)}


V2 = {
    "proc/self/mountinfo": MOUNT,
    "proc/self/cgroup": "0::/user.slice/me\n",
    "proc/self/status": "CapEff:\t000001ffffffffff\n",
    "proc/sys/kernel/osrelease": "6.12.1\n",
    "proc/meminfo": "MemTotal: 8 kB\n",
    "proc/1/comm": "systemd\n",
    "proc/pressure/memory": "",
    "run/systemd/system/x": "",
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory pids\n",
    "sys/fs/cgroup/cgroup.subtree_control": "cpu memory\n",
    "sys/fs/cgroup/cgroup.procs": "",
    "sys/fs/cgroup/cgroup.stat": "nr_descendants 3\nnr_dying_descendants 5000\n",
    "sys/fs/cgroup/user.slice/memory.max": "max\n",
    "sys/fs/cgroup/user.slice/memory.swap.max": "max\n",
}


def test_a_v2_machine_with_all_that_is_needed(tmp_path: Path) -> None:
    found = machine(tmp_path, V2)
    assert found.layout == "v2"
    assert found.own_cgroup == {"": "/user.slice/me"}
    assert found.capabilities is not None
    assert "CAP_SYS_RESOURCE" in found.capabilities
    got = states(found)
    assert got["controller memory"] == "ok"
    assert got["nsdelegate"] == "ok"
    assert got["memory_recursiveprot"] == "missing"
    assert got["controller hugetlb"] == "missing"
    assert got["PSI"] == "ok"
    assert got["dying groups"] == "missing"
    assert "Memory QoS" not in got
    assert can_write(found)


@pytest.mark.parametrize(
    ("enabled", "state"), [("0x0007\n", "missing"), ("0x0000\n", "ok"), ("", "ok"), ("y\n", "ok")]
)
def test_the_multi_gen_lru_weakens_memory_low(tmp_path: Path, enabled: str, state: str) -> None:
    files = {**V2, "sys/kernel/mm/lru_gen/enabled": enabled}
    assert states(machine(tmp_path, files))["memory.low"] == state


def test_a_hybrid_machine_reads_as_v1_with_v2_beside_it(tmp_path: Path) -> None:
    unified = "40 24 0:40 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    files = {"proc/self/mountinfo": V1 + unified, "proc/self/cgroup": "5:cpu:/\n0::/\n"}
    for name in ("cpu", "memory", "pids", "cpuset", "unified"):
        files[f"sys/fs/cgroup/{name}/cgroup.procs"] = ""
    files["sys/fs/cgroup/unified/cgroup.controllers"] = "hugetlb\n"
    found = machine(tmp_path, files)
    assert found.layout == "hybrid"
    assert found.bound("hugetlb") is not None
    assert states(found)["Memory QoS"] == "missing"
    assert can_write(found)


def test_a_machine_without_cgroups(tmp_path: Path) -> None:
    found = machine(tmp_path, {"proc/self/mountinfo": ""})
    got = states(found)
    assert got["hierarchy"] == "missing"
    assert got["kernel"] == "unknown"
    assert got["CAP_SYS_RESOURCE"] == "unknown"
    assert not can_write(found)


@pytest.mark.parametrize(
    ("release", "missing"),
    [("5.4", {"reclaim at memory.high", "cgroup.kill"}), ("5.10.0-1", {"cgroup.kill"})],
)
def test_old_kernels_say_what_they_lack(tmp_path: Path, release: str, missing: set[str]) -> None:
    found = machine(tmp_path, V2 | {"proc/sys/kernel/osrelease": release})
    assert missing <= {topic for topic, state in states(found).items() if state == "missing"}


def test_what_is_missing_says_its_cost(tmp_path: Path) -> None:
    for row in findings(machine(tmp_path, V2)):
        assert row.state != "missing" or row.cost, row.topic


def test_this_machine_is_looked_at() -> None:
    found = look()
    assert {row.topic for row in findings(found)} >= {"hierarchy", "kernel", "page size"}
    assert found.own_cgroup
