"""A node that documents describe is not the machine that reads them."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.node.described.operating_systems import OPERATING_SYSTEMS, by_image
from qoslet.core.node.flags import Flags
from qoslet.core.node.lookup import Probed
from qoslet.core.node.node import Node
from qoslet.core.node.resolve import as_written, node_from
from qoslet.core.node.topology import NumaNode
from qoslet.core.problem import Problem
from qoslet.errors import BadInputs

HERE = Probed(
    cpu=2, memory=4 << 30, swap=1 << 30, pid=32768, hugepages={2 << 20: 0}, hierarchy="v1",
    kernel="5.4.0", page_size=65536, swap_controller=False, systemd=None, systemd_runs=False,
    controllers=frozenset({"cpu"}), hugetlb_rsvd=False, psi=False, mounts={"cpu": "/c"},
    numa=(NumaNode("0-1", 4 << 30),), cpus="0-1",
    identity={"name": "laptop", "machineID": "1" * 32, "systemUUID": "AA-1", "bootID": "b-1"},
)  # fmt: skip
INFO: dict[str, Any] = {
    "kubeletVersion": "v1.33.1",
    "kernelVersion": "6.1.141",
    "osImage": "Debian GNU/Linux 12 (bookworm)",
    "operatingSystem": "linux",
    "architecture": "amd64",
    "containerRuntimeVersion": "containerd://1.7.27",
    "machineID": "22222222222222222222222222222222",
}


def api(
    name: str = "worker", cpu: str = "16", memory: str = "64Gi", **info: Any
) -> tuple[str, Any]:
    """An API Node."""
    return "node.json", {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {
            "capacity": {"cpu": cpu, "memory": memory, "hugepages-2Mi": "0"},
            "nodeInfo": {**INFO, **info},
        },
    }


def kubelet(**fields: Any) -> tuple[str, Any]:
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    return "kubelet.yaml", {**head, **fields}


def own(**fields: Any) -> tuple[str, Any]:
    return "own.yaml", {"apiVersion": "qoslet/v1", "kind": "Node", **fields}


def read(*documents: tuple[str, Any], acts: bool = False, **flags: str) -> Node:
    return node_and_problems(*documents, acts=acts, **flags)[0]


def node_and_problems(
    *documents: tuple[str, Any], acts: bool = False, **flags: str
) -> tuple[Node, list[Problem]]:
    return node_from(documents, Flags(**flags), lambda: HERE, acts=acts)


def assumed(node: Node) -> dict[str, str]:
    return {one.field: one.value for one in node.assumed}


def test_nothing_of_this_machine_is_taken_for_another() -> None:
    node, problems = node_and_problems(
        api(), kubelet(cgroupDriver="systemd", reservedSystemCPUs="0,8")
    )
    assert (node.probed, node.hierarchy, node.driver, node.swap) == ((), "v2", "systemd", 0)
    assert (node.host.page_size, node.host.hugepage_sizes) == (4096, (2 << 20,))
    assert (node.host.cpus, node.host.numa, node.host.psi) == (None, (), None)
    assert [row.message for row in problems if row.severity != "info"] == []
    assert assumed(node) == {
        "capacity.pid": "524288",
        "host.hierarchy": "v2",
        "host.pageSize": "4Ki",
        "swap": "0",
    }
    assert all(one.why for one in node.assumed)
    assert node.origin("host.hierarchy") == "assumed"


def test_systemd_that_no_document_names_is_not_missing() -> None:
    _, problems = node_and_problems(
        api(), kubelet(cgroupDriver="systemd"), own(host={"hierarchy": "v2"})
    )
    assert not [row for row in problems if "PID 1" in row.message]
    for value, refused in ((False, True), (True, False), (252, False)):
        node, problems = node_and_problems(
            api(), kubelet(cgroupDriver="systemd"), own(host={"systemd": value})
        )
        assert [row.severity for row in problems if "PID 1" in row.message] == ["error"] * refused
        assert node.host.systemd == (252 if value == 252 else None)


@pytest.mark.parametrize(
    ("name", "ids", "here"),
    [
        ("laptop", {"machineID": ""}, True),
        ("laptop.lan", {"machineID": ""}, True),
        ("laptop.lan", {"machineID": "", "bootID": "b-2"}, True),
        ("other", {"machineID": ""}, False),
        ("laptop", {}, False),
        ("renamed", {"machineID": "1" * 32, "bootID": "B-1"}, True),
        ("renamed", {"machineID": "1" * 32, "systemUUID": "aa-1"}, True),
        ("copy", {"machineID": "1" * 32, "systemUUID": "aa-2"}, False),
        ("copy", {"machineID": "1" * 32}, False),
        ("laptop", {"machineID": "1" * 32, "bootID": "earlier"}, True),
        ("kind-worker", {"bootID": "b-1"}, False),
    ],
)
def test_who_this_machine_is(name: str, ids: dict[str, str], here: bool) -> None:
    node = read(api(name, **ids))
    assert (node.hierarchy == "v1", node.assumed == ()) == (here, here)


def test_a_kubelet_s_configuration_names_no_machine_so_it_is_this_one() -> None:
    node = read(kubelet(failCgroupV1=False))
    assert (node.hierarchy, node.host.page_size, node.assumed) == ("v1", 65536, ())
    assert set(node.probed) >= {"capacity.cpu", "capacity.memory", "capacity.pid", "host.cpus"}
    with pytest.raises(BadInputs, match="those of this machine; describe the node with --node"):
        read(kubelet(reservedSystemCPUs="0,8"))


@pytest.mark.parametrize(
    ("release", "written", "hierarchy"),
    [
        ("v1.36.2", False, "v1"),
        ("v1.36.2", True, "v2"),
        ("v1.36.2", None, "v2"),
        ("v1.34.0", False, "v2"),
    ],
)
def test_a_kubelet_that_is_told_to_take_v1_has_it(
    release: str, written: bool | None, hierarchy: str
) -> None:
    fields = {} if written is None else {"failCgroupV1": written}
    assert read(api(kubeletVersion=release), kubelet(**fields)).hierarchy == hierarchy


@pytest.mark.parametrize("name", ["minikube", "laptop"])
@pytest.mark.parametrize("by_flag", [False, True])
def test_kubeadm_and_a_flag_name_the_machine(name: str, by_flag: bool) -> None:
    arguments = [{"name": "hostname-override", "value": name}]
    registration = {"kubeletExtraArgs": arguments} if by_flag else {"name": name}
    document = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "InitConfiguration",
        "nodeRegistration": registration,
    }
    file = ("kubeadm.yaml", document)
    here = name == "laptop"
    node = read(file, own(capacity={"cpu": "4", "memory": "8Gi"}))
    assert (node.hierarchy, node.name) == ("v1" if here else "v2", name)
    assert bool(node.assumed) is not here
    sized = read(file)
    assert {"capacity.cpu", "capacity.memory"} <= set(sized.probed)
    assert ("capacity.pid" in sized.probed, sized.hierarchy) == (here, node.hierarchy)
    with pytest.raises(BadInputs, match=r"capacity\.cpu"):
        read(file, probe="never")
    assert read(file, probe="always").hierarchy == "v1"


def test_the_reader_says_which_machine_is_meant() -> None:
    node = read(kubelet(), probe="always")
    assert (node.hierarchy, node.assumed, node.host.page_size) == ("v1", (), 65536)
    assert read(api(), probe="always").hierarchy == "v1"
    node = read(api("laptop", machineID=""), probe="never")
    assert (node.hierarchy, node.probed) == ("v2", ())
    with pytest.raises(BadInputs, match=r"capacity\.cpu: is unknown: no document has it"):
        read(kubelet(), probe="never")
    with pytest.raises(BadInputs, match="--probe: is 'sometimes'"):
        read(probe="sometimes")


def test_a_command_that_acts_on_this_machine_looks_at_it() -> None:
    node = read(api(), kubelet(cgroupDriver="systemd"), acts=True)
    assert (node.hierarchy, node.assumed) == ("v1", ())
    with pytest.raises(BadInputs, match="acts on this machine"):
        read(kubelet(), acts=True, probe="never")


@pytest.mark.parametrize(
    ("documented", "acts", "rows"),
    [
        ("/kube", True, ["kubelet.yaml: cgroupRoot"]),
        ("/kube", False, []),
        ("/", True, []),
        ("", True, []),
        ("/qoslet", True, []),
        (None, True, []),
    ],
)
def test_what_acts_says_that_a_kubelets_root_is_not_its_own(
    documented: str | None, acts: bool, rows: list[str]
) -> None:
    fields = {} if documented is None else {"cgroupRoot": documented}
    config = kubelet(cgroupDriver="systemd", **fields)
    node, problems = node_and_problems(api(), config, acts=acts, cgroup_root="/qoslet")
    assert node.kubelet.cgroup_root == "/qoslet"
    found = [row for row in problems if "has no effect: the root is /qoslet" in row.message]
    assert [row.where for row in found] == rows


def test_an_own_node_alone_is_completed_from_this_machine() -> None:
    node = read(own(capacity={"cpu": "4", "memory": "8Gi"}))
    assert (node.hierarchy, node.assumed) == ("v1", ())


def test_a_machine_that_is_declared_without_systemd_has_none() -> None:
    _, problems = node_and_problems(
        own(capacity={"cpu": "4", "memory": "8Gi"}, host={"hierarchy": "v2"}),
        kubelet(cgroupDriver="systemd"),
    )
    assert [row.severity for row in problems if "PID 1" in row.message] == ["error"]


def test_the_hierarchy_as_a_flag() -> None:
    node, problems = node_and_problems(hierarchy="v2", cgroup_driver="systemd")
    assert (node.hierarchy, node.origin("host.hierarchy")) == ("v2", "--hierarchy")
    assert not [row for row in problems if "PID 1" in row.message]
    assert read(own(host={"hierarchy": "hybrid"})).hierarchy == "v1"
    assert read(own(host={"hierarchy": "v1"}), hierarchy="v2").hierarchy == "v2"
    assert read(api(), hierarchy="v1").hierarchy == "v1"
    with pytest.raises(BadInputs, match="--hierarchy: is 'v3'"):
        read(hierarchy="v3")


def test_the_factor_as_a_flag() -> None:
    assert read(memory_throttling_factor="0.5").kubelet.memory_throttling_factor == 0.5
    for text in ("0", "1.1", "half", "1e0", ""):
        with pytest.raises(BadInputs, match="--memory-throttling-factor"):
            read(memory_throttling_factor=text)


V1 = (
    "Amazon Linux 2", "Amazon Linux AMI 2018.03", "Bottlerocket OS 1.12.0 (aws-k8s-1.24)",
    "Debian GNU/Linux 10 (buster)", "Raspbian GNU/Linux 10 (buster)", "Ubuntu 18.04.6 LTS",
    "Ubuntu 20.04.6 LTS", "Ubuntu 21.04", "Fedora 30 (Thirty)", "Fedora CoreOS 33.20210117.3.2",
    "Red Hat Enterprise Linux CoreOS 410.84.202207061638-0 (Ootpa)",
    "Red Hat Enterprise Linux CoreOS 49.84.202110081407-0 (Ootpa)",
    "Red Hat Enterprise Linux CoreOS 413.92.202305231734-0 (Plow)",
    "Red Hat Enterprise Linux 8.9 (Ootpa)", "Red Hat Enterprise Linux Server 7.9 (Maipo)",
    "CentOS Linux 7 (Core)", "CentOS Linux 8", "CentOS Stream 8", "Rocky Linux 8.9 (Green Obsidian)",
    "AlmaLinux 8.9 (Midnight Oncilla)", "Oracle Linux Server 8.9",
    "Flatcar Container Linux by Kinvolk 2905.2.6 (Oklo)",
    "Container Linux by CoreOS 2512.3.0 (Rhyolite)", "SUSE Linux Enterprise Server 12 SP5",
    "SUSE Linux Enterprise Server 15 SP5", "openSUSE Leap 15.5", "Alibaba Cloud Linux 3 (Soaring Falcon)",
)  # fmt: skip
V2 = (
    "Amazon Linux 2023.7.20250623", "Bottlerocket OS 1.20.0 (aws-k8s-1.29)",
    "Debian GNU/Linux 11 (bullseye)", "Debian GNU/Linux 13 (trixie)", "Ubuntu 21.10", "Ubuntu 22.04.4 LTS",
    "Ubuntu 24.04 LTS", "Fedora 31 (Server Edition)", "Fedora Linux 40 (Cloud Edition)",
    "Fedora CoreOS 38.20230709.3.0", "Red Hat Enterprise Linux CoreOS 414.92.202310210434-0 (Plow)",
    "Red Hat Enterprise Linux CoreOS 9.6.20250701-0 (Plow)", "Red Hat Enterprise Linux 9.3 (Plow)",
    "CentOS Stream 9", "Rocky Linux 9.3 (Blue Onyx)", "AlmaLinux 10.0", "Oracle Linux Server 9.3",
    "Flatcar Container Linux by Kinvolk 3510.2.5 (Oklo)", "SUSE Linux Enterprise Server 16.0",
    "openSUSE Tumbleweed", "Arch Linux", "Talos (v1.6.4)", "Docker Desktop",
)  # fmt: skip


@pytest.mark.parametrize(("images", "found"), [(V1, "v1"), (V2, "v2")])
def test_the_hierarchy_of_os_images(images: tuple[str, ...], found: str) -> None:
    assert {image: by_image(image, "") for image in images} == dict.fromkeys(images, found)
    for image in images:
        assert read(api(osImage=image)).hierarchy == found


def test_every_row_has_a_source() -> None:
    assert all(row.source for row in OPERATING_SYSTEMS)


@pytest.mark.parametrize(
    ("info", "found"),
    [
        ({"osImage": "Container-Optimized OS from Google", "kernelVersion": "5.4.144+"}, "v1"),
        ({"osImage": "Container-Optimized OS from Google", "kernelVersion": "5.15.109+"}, "v2"),
        (
            {
                "osImage": "Container-Optimized OS from Google",
                "kernelVersion": "5.15.65+",
                "kubeletVersion": "v1.25.8-gke.500",
            },
            "v1",
        ),
        ({"osImage": "VMware Photon OS/Linux", "kernelVersion": "5.10.175-1.ph4"}, "v1"),
        ({"osImage": "VMware Photon OS/Linux", "kernelVersion": "6.1.10-10.ph5"}, "v2"),
        ({"osImage": "openSUSE Leap Micro 6.0", "kernelVersion": "6.4.0-10-default"}, "v2"),
        ({"osImage": "", "kernelVersion": "5.10.230-223.885.amzn2.x86_64"}, "v1"),
        ({"osImage": "", "kernelVersion": "4.18.0-513.el8.x86_64"}, "v1"),
        ({"osImage": "", "kernelVersion": "5.14.0-362.el9.x86_64"}, "v2"),
        ({"osImage": "Our Own Linux", "kernelVersion": "5.4.0"}, "v1"),
        ({"osImage": "Our Own Linux", "kernelVersion": "5.15.0"}, "v2"),
        ({"osImage": "Ubuntu 22.04", "kubeletVersion": "v1.18.20"}, "v1"),
        ({"osImage": "Amazon Linux 2", "kubeletVersion": "v1.35.0"}, "v1"),
        ({"osImage": "Our Own Linux", "kubeletVersion": "v1.35.0", "kernelVersion": ""}, "v2"),
    ],
)
def test_the_hierarchy_by_kernel_and_release(info: dict[str, str], found: str) -> None:
    assert read(api(**info)).hierarchy == found


def test_an_upgrade_that_is_asked_about_does_not_move_the_node() -> None:
    node, problems = node_and_problems(api(osImage="Ubuntu 20.04.6 LTS"), kubernetes="1.36")
    assert (node.hierarchy, node.profile.kubernetes) == ("v1", "1.36")
    assert any("rejects by default" in row.message for row in problems)
    allowed = kubelet(failCgroupV1=False)
    assert read(api(), allowed, kubernetes="1.36").hierarchy == "v2"
    assert read(api(osImage="Ubuntu 22.04"), kubernetes="1.18").hierarchy == "v2"
    assert read(kubelet(), kubernetes="1.18").hierarchy == "v1"


@pytest.mark.parametrize(
    ("info", "driver"),
    [
        ({}, "systemd"),
        ({"osImage": "Amazon Linux 2"}, "cgroupfs"),
        ({"osImage": "Talos (v1.6.4)"}, "cgroupfs"),
        ({"osImage": "Alpine Linux v3.20"}, "cgroupfs"),
    ],
)
def test_the_driver_of_a_kubelet_that_is_not_given(info: dict[str, str], driver: str) -> None:
    node = read(api(**info))
    assert (node.driver, assumed(node)["driver"]) == (driver, driver)
    written = as_written(node)
    assert written.driver == "cgroupfs"


@pytest.mark.parametrize(
    ("info", "page"),
    [
        ({"architecture": "arm64"}, 4096),
        ({"architecture": "arm64", "kernelVersion": "4.18.0-513.el8.aarch64"}, 65536),
        ({"architecture": "arm64", "kernelVersion": "5.14.0-362.el9.aarch64+64k"}, 65536),
        ({"architecture": "ppc64le"}, 65536),
    ],
)
def test_the_size_of_pages(info: dict[str, str], page: int) -> None:
    assert read(api(**info)).host.page_size == page


@pytest.mark.parametrize(
    ("driver", "cpu", "memory", "most"),
    [
        ("systemd", "64", "2Ti", 1 << 22),
        ("systemd", "2", "8Gi", 65536),
        ("cgroupfs", "2", "24684096Ki", 32768),
        ("cgroupfs", "64", "2Ti", 65536),
        ("cgroupfs", "2", "1Gi", 8192),
    ],
)
def test_processes_by_memory_and_who_sets_the_limit(
    driver: str, cpu: str, memory: str, most: int
) -> None:
    node = read(api(cpu=cpu, memory=memory), kubelet(cgroupDriver=driver))
    assert str(node.capacity["pid"]) == str(most)


def test_a_windows_node_is_assumed_nothing_of_linux() -> None:
    node = read(api(operatingSystem="windows", osImage="Windows Server 2022 Datacenter"))
    assert (node.os, node.assumed, node.probed) == ("windows", (), ())
