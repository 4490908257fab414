"""The probe on declared trees, and on the machine that runs the tests."""

from __future__ import annotations

import os

import pytest

from qoslet.core.node.resolve import Flags
from qoslet.core.node.topology import NumaNode
from qoslet.errors import BadInputs
from qoslet.host.files.node import load_node
from qoslet.host.machine.probe import mounts, probe

V1 = "rw,nosuid - cgroup cgroup rw,"


def tree(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir()
        else:
            path.write_text(content)
    return str(root)


def mountinfo(*lines):
    return "".join(f"{at} 1 0:{at} / {line}\n" for at, line in enumerate(lines, 30))


COMMON = {
    "proc/meminfo": "MemTotal:       16384 kB\nSwapTotal:       1024 kB\nHugePages_Total:   3\n",
    "proc/sys/kernel/pid_max": "4194304\n",
    "proc/sys/kernel/threads-max": "1000\n",
    "proc/sys/kernel/osrelease": "6.12.1-x\n",
    "proc/1/comm": "systemd\n",
    "run/systemd/system": None,
    "usr/lib/x86_64-linux-gnu/systemd/libsystemd-core-257.so": "",
    "usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-257.9-1.so": "",
    "sys/devices/system/cpu/online": "0-2,4\n",
    "sys/devices/system/node/node0/cpulist": "0-2,4\n",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       8192 kB\n",
    "sys/devices/system/node/has_cpu": "0\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "5\n",
    "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
    "proc/pressure/memory": "some\n",
}


def test_v2(tmp_path):
    root = tree(
        tmp_path,
        {
            **COMMON,
            "proc/self/mountinfo": mountinfo(
                "/sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,memory_recursiveprot"
            ),
            "proc/self/cgroup": "0::/user.slice\n",
            "sys/fs/cgroup/cgroup.controllers": "cpu memory hugetlb\n",
            "sys/fs/cgroup/user.slice/memory.max": "max\n",
            "sys/fs/cgroup/user.slice/memory.swap.max": "max\n",
            "sys/fs/cgroup/user.slice/hugetlb.2MB.rsvd.max": "max\n",
        },
    )
    found = probe(root, page_size=4096)
    assert found.hierarchy == "v2"
    assert found.controllers == frozenset({"cpu", "memory", "hugetlb"})
    assert found.mounts == {"rw": "", "nosuid": "", "memory_recursiveprot": ""}
    assert found.unified == "/sys/fs/cgroup"
    assert (found.swap_controller, found.hugetlb_rsvd, found.psi) == (True, True, True)
    assert (found.systemd_runs, found.systemd) == (True, 257)
    assert (found.cpu, found.cpus, found.memory, found.swap) == (4, "0-2,4", 2**24, 2**20)
    assert (found.pid, found.kernel, found.page_size) == (1000, "6.12.1-x", 4096)
    assert found.hugepages == {2**21: 5 * 2**21, 2**30: 0}
    assert found.numa == (NumaNode("0-2,4", 2**23),)


def test_v2_without_swap_controller_seen_from_the_root_cgroup(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/self/mountinfo": mountinfo("/sys/fs/cgroup rw - cgroup2 none rw"),
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cgroup.controllers": "memory\n",
            "sys/fs/cgroup/a/memory.max": "max\n",
        },
    )
    found = probe(root)
    assert (found.hierarchy, found.swap_controller, found.hugetlb_rsvd) == ("v2", False, None)


def test_v1_with_joined_and_doubled_controllers(tmp_path):
    root = tree(
        tmp_path,
        {
            **COMMON,
            "proc/1/comm": "init\n",
            "proc/self/mountinfo": mountinfo(
                "/sys/fs/cgroup rw - tmpfs tmpfs ro,mode=755",
                "/var/lib/another/memory rw - cgroup cgroup rw,memory",
                f"/sys/fs/cgroup/memory {V1}memory",
                f"/sys/fs/cgroup/cpu,cpuacct {V1}cpu,cpuacct",
                f"/sys/fs/cgroup/systemd {V1}xattr,name=systemd",
                f"/sys/fs/cgroup/hugetlb {V1}hugetlb",
                "/sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
                "/with\\040space rw - ext4 /dev/vda rw",
            ),
            "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": "1\n",
            "sys/fs/cgroup/hugetlb/hugetlb.2MB.limit_in_bytes": "1\n",
        },
    )
    found = probe(root)
    assert found.hierarchy == "v1"
    assert found.controllers == frozenset({"memory", "cpu", "cpuacct", "hugetlb"})
    assert found.mounts == {
        "cpu": "/sys/fs/cgroup/cpu,cpuacct",
        "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
        "hugetlb": "/sys/fs/cgroup/hugetlb",
        "memory": "/sys/fs/cgroup/memory",
    }
    assert (found.swap_controller, found.hugetlb_rsvd) == (True, False)
    assert (found.systemd_runs, found.systemd) == (False, None)
    assert mounts(root)[-1].point == "/with space"


def test_a_machine_without_anything(tmp_path):
    found = probe(str(tmp_path))
    assert found.page_size == os.sysconf("SC_PAGE_SIZE")
    assert found.identity == {}
    unknown = [n for n in found.__struct_fields__ if n not in ("page_size", "identity")]
    assert {getattr(found, name) for name in unknown} == {None}


def test_broken_files_are_unknown(tmp_path):
    root = tree(
        tmp_path,
        {
            "proc/self/mountinfo": "nonsense\n1 2 3 - \n\\\\ \\9 - -\n",
            "proc/meminfo": "MemTotal:\nx\n:\n",
            "proc/sys/kernel/pid_max": "many\n",
            "sys/devices/system/cpu/online": "all\n",
            "sys/kernel/mm/hugepages/hugepages-xkB/nr_hugepages": "1\n",
        },
    )
    found = probe(root)
    assert (found.hierarchy, found.memory, found.pid, found.cpu) == (None, None, None, None)
    assert found.hugepages == {}


def test_this_machine():
    found = probe()
    assert found.memory
    assert found.cpu
    assert found.pid
    assert found.kernel == os.uname().release


YAML = """
apiVersion: qoslet/v1
kind: Node
metadata: {name: n1}
capacity: {cpu: 8, memory: 32Gi, pid: "32768"}
host: {hierarchy: v2, kernel: "6.12", pageSize: 4Ki, hugepageSizes: [2Mi], swapController: true}
kubernetes: 1.36
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
kubeReserved: {cpu: 500m}
"""


def test_files(tmp_path):
    file = tmp_path / "node.yaml"
    file.write_text(YAML)
    node, problems = load_node([str(file)], Flags(runtime="crun-1.23"))
    assert (node.name, node.probed, problems) == ("n1", (), [])
    assert node.origins["kubeReserved"] == f"{file}: document 2: kubeReserved"


def test_a_list_with_pods_keeps_the_place_of_its_node(tmp_path):
    file = tmp_path / "all.json"
    node = (
        '{"kind":"Node","metadata":{"name":"n1"},"status":{"capacity":{"cpu":"2","memory":"1Gi"}}}'
    )
    file.write_text(f'{{"apiVersion":"v1","kind":"List","items":[{{"kind":"Pod"}},3,{node}]}}')
    found, _ = load_node([str(file)], Flags())
    assert found.origins["capacity.cpu"] == f"{file}: items[2].status.capacity.cpu"


def test_faults_of_all_files(tmp_path):
    broken, wrong, empty = (tmp_path / name for name in ("a.json", "b.yaml", "c.yaml"))
    broken.write_text("{")
    wrong.write_text("apiVersion: qoslet/v1\nkind: Node\nswap: [1]\ncolour: red\n")
    empty.write_text("---\n")
    with pytest.raises(BadInputs) as caught:
        load_node([str(broken), str(wrong), str(empty), str(tmp_path / "none")], Flags())
    places = [fault.where for fault in caught.value.faults]
    assert places[0].startswith(str(broken))
    assert {f"{wrong}: swap", f"{wrong}: colour", str(empty), str(tmp_path / "none")} <= set(places)
