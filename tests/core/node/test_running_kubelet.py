"""A kubelet's flags and files to the configuration in force.

Source: cmd/kubelet/app/server.go and options.go of 1.36.2.
"""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.node.command_line.flag_fields import FLAG_FIELDS
from qoslet.core.node.command_line.parse import command_line, flags
from qoslet.core.node.documents.kubelet_field_names import SINCE
from qoslet.core.node.documents.merge_patch import merge
from qoslet.core.node.flags import Flags
from qoslet.core.node.lookup import Probed
from qoslet.core.node.resolve import node_from
from qoslet.core.node.running_kubelet.effective import Effective, Source, effective
from qoslet.core.node.running_kubelet.release import oldest_release, release_of_metrics
from qoslet.errors import BadInput

DEFAULT_THRESHOLDS = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}


def made(
    arguments: str = "", file: dict[str, Any] | None = None, *drop_ins: dict[str, Any]
) -> Effective:
    command = command_line(arguments.split())
    return effective(
        Source("flags", command.fields),
        None if file is None else Source("file", file),
        [Source(f"{at}.conf", one) for at, one in enumerate(drop_ins)],
    )


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("--config=/a --cgroup-root /b", [("config", "/a"), ("cgroup-root", "/b")]),
        ("--fail-swap-on --config /a", [("fail-swap-on", "true"), ("config", "/a")]),
        ("--fail-swap-on=false", [("fail-swap-on", "false")]),
        ("--cgroup_driver=systemd", [("cgroup-driver", "systemd")]),
        ("--pod-max-pids -1", [("pod-max-pids", "-1")]),
        ("-v 2 -v=4 --max-pods 9", [("max-pods", "9")]),
        ("--unheard-of x --max-pods=9", [("unheard-of", "x"), ("max-pods", "9")]),
        ("--unheard-of --max-pods=9", [("unheard-of", ""), ("max-pods", "9")]),
        ("--kube-reserved cpu=1 -- --max-pods=9", [("kube-reserved", "cpu=1")]),
    ],
)
def test_flags_are_read_as_pflag_does(arguments: str, found: list[tuple[str, str]]) -> None:
    assert flags(arguments.split()) == found


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (
            "--feature-gates=A=true,B=0 --feature-gates=B=T",
            {"featureGates": {"A": True, "B": True}},
        ),
        ("--eviction-hard=memory.available<1Gi", {"evictionHard": {"memory.available": "1Gi"}}),
        ("--eviction-hard=", {"evictionHard": {}}),
        (
            "--enforce-node-allocatable=pods,kube-reserved",
            {"enforceNodeAllocatable": ["pods", "kube-reserved"]},
        ),
        ("--anonymous-auth=false", {"authentication": {"anonymous": {"enabled": False}}}),
        (
            "--reserved-memory=0:memory=1Gi --reserved-memory 1:memory=2Gi,hugepages-2Mi=4Mi",
            {
                "reservedMemory": [
                    {"numaNode": 0, "limits": {"memory": "1Gi"}},
                    {"numaNode": 1, "limits": {"memory": "2Gi", "hugepages-2Mi": "4Mi"}},
                ]
            },
        ),
    ],
)
def test_flags_are_fields(arguments: str, fields: dict[str, Any]) -> None:
    assert command_line(arguments.split()).fields == fields


@pytest.mark.parametrize(
    "argument",
    [
        "--max-pods=x",
        "--fail-swap-on=yes",
        "--feature-gates=A=maybe",
        "--kube-reserved=cpu",
        "--reserved-memory=a:b",
    ],
)
def test_a_value_that_no_kubelet_takes_is_left_out(argument: str) -> None:
    command = command_line([argument])
    assert not command.fields
    assert command.unread == (argument.partition("=")[0],)


def test_every_flag_is_of_a_field_that_there_is() -> None:
    assert not {row.field.partition(".")[0] for row in FLAG_FIELDS.values()} - set(SINCE)


def test_flags_stand_over_drop_ins_over_the_file() -> None:
    found = made(
        "--max-pods=3 --feature-gates=A=true",
        {
            "maxPods": 1,
            "podPidsLimit": 1,
            "cgroupRoot": "/file",
            "featureGates": {"A": False, "B": True},
        },
        {"maxPods": 2, "podPidsLimit": 2},
        {"featureGates": {"C": False}},
    )
    assert found.document["maxPods"] == 3
    assert found.document["podPidsLimit"] == 2
    assert found.document["featureGates"] == {"A": True, "B": True, "C": False}
    wanted = {
        "maxPods": "flags",
        "podPidsLimit": "0.conf",
        "cgroupRoot": "file",
        "featureGates": "flags",
    }
    assert wanted.items() <= found.origins.items()


def test_thresholds_are_read_as_they_are_in_force() -> None:
    """Documents of a kubelet are read again: nothing is added to what it has already."""
    found = made(
        "", {"evictionHard": {"memory.available": "1Gi"}, "maxPods": 9}, {"evictionHard": {}}
    )
    first = found.sources()[0].document
    assert first["evictionHard"] == {"memory.available": "1Gi"}


def test_a_drop_in_merges_maps_and_replaces_lists() -> None:
    found = made(
        "",
        {
            "kubeReserved": {"cpu": "1", "memory": "1Gi"},
            "enforceNodeAllocatable": ["pods", "kube-reserved"],
        },
        {"kubeReserved": {"memory": "2Gi", "pid": "9"}, "enforceNodeAllocatable": ["pods"]},
        {"kubeReserved": {"pid": None}},
    )
    assert found.document["kubeReserved"] == {"cpu": "1", "memory": "2Gi"}
    assert found.document["enforceNodeAllocatable"] == ["pods"]


def test_a_flag_replaces_a_map_as_a_whole() -> None:
    found = made("--kube-reserved=cpu=2", {"kubeReserved": {"cpu": "1", "memory": "1Gi"}})
    assert found.document["kubeReserved"] == {"cpu": "2"}


@pytest.mark.parametrize(
    ("file", "drop_ins", "thresholds"),
    [
        ({}, (), DEFAULT_THRESHOLDS),
        (
            {},
            ({"evictionHard": {"memory.available": "1Gi"}},),
            {**DEFAULT_THRESHOLDS, "memory.available": "1Gi"},
        ),
        ({"evictionHard": {"memory.available": "1Gi"}}, (), {"memory.available": "1Gi"}),
        ({}, ({"evictionHard": None},), {}),
        (
            {"evictionHard": {"memory.available": "1Gi"}, "mergeDefaultEvictionSettings": True},
            (),
            {**DEFAULT_THRESHOLDS, "memory.available": "1Gi"},
        ),
        # only reading --config merges: a drop-in asks for it in vain
        (
            {"evictionHard": {"memory.available": "1Gi"}},
            ({"mergeDefaultEvictionSettings": True},),
            {"memory.available": "1Gi"},
        ),
        (None, (), {}),
        (None, ({"evictionHard": {"memory.available": "1Gi"}},), {"memory.available": "1Gi"}),
    ],
)
def test_the_default_thresholds_come_with_the_file(
    file: dict[str, Any] | None, drop_ins: tuple[dict[str, Any], ...], thresholds: dict[str, str]
) -> None:
    found = made("", file, *drop_ins)
    assert found.document["evictionHard"] == thresholds
    assert "mergeDefaultEvictionSettings" not in found.document


def test_a_flag_of_thresholds_has_no_default_beside_it() -> None:
    file = {"mergeDefaultEvictionSettings": True}
    found = made("--eviction-hard=memory.available<2Gi", file)
    assert found.document["evictionHard"] == {"memory.available": "2Gi"}


def test_without_a_file_the_read_only_port_is_on() -> None:
    assert made().document["readOnlyPort"] == 10255
    assert "readOnlyPort" not in made("", {}).document
    assert made("--read-only-port=0").document["readOnlyPort"] == 0


def test_each_field_is_in_the_document_that_it_comes_from() -> None:
    found = made("--max-pods=3", {"cgroupRoot": "/a", "maxPods": 1}, {"podPidsLimit": 2})
    fields = {one.where: set(one.document) - {"kind", "apiVersion"} for one in found.sources()}
    assert fields == {
        "file": {"cgroupRoot", "evictionHard"},
        "flags": {"maxPods"},
        "0.conf": {"podPidsLimit"},
    }


def test_merge_patch_of_rfc_7396() -> None:
    """Cases of its appendix A."""
    assert merge({"a": "b"}, {"a": "c"}) == {"a": "c"}
    assert merge({"a": "b"}, {"a": None}) == {}
    assert merge({"a": [{"b": "c"}]}, {"a": [1]}) == {"a": [1]}
    assert merge({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}) == {"a": {"b": "d"}}
    assert merge({}, {"a": {"bb": {"ccc": None}}}) == {"a": {"bb": {}}}
    assert merge({"a": "foo"}, {"a": {"b": 1}}) == {"a": {"b": 1}}


def test_a_release_is_in_the_metrics() -> None:
    text = b'x 1\nkubernetes_build_info{build_date="",git_version="v1.36.2+k3s1",major="1"} 1\n'
    assert release_of_metrics(text) == "v1.36.2+k3s1"
    assert release_of_metrics(b"kubernetes_build_info 1\n") is None
    assert release_of_metrics(b'other{git_version="v1.2.3"} 1\n') is None


@pytest.mark.parametrize(
    ("fields", "minor"),
    [
        (["memoryReservationPolicy", "registerNode"], 36),
        (["crashLoopBackOff"], 32),
        (["maxPods"], None),
    ],
)
def test_configz_tells_the_oldest_release(fields: list[str], minor: int | None) -> None:
    assert oldest_release(dict.fromkeys(fields, "")) == minor


CONFIGZ = {"syncFrequency": "1m0s", "nodeStatusUpdateFrequency": "10s"}
_OWN = {
    "apiVersion": "qoslet/v1",
    "kind": "Node",
    "capacity": {"cpu": "4", "memory": "8Gi", "pid": 99},
    "host": {"hierarchy": "v2"},
}


def _told(configz: dict[str, Any]) -> list[tuple[str, Any]]:
    """What a kubelet's page and a document say of a node."""
    return [("configz", {"kubeletconfig": configz}), ("node", _OWN)]


@pytest.mark.parametrize(
    ("given", "thresholds", "enforced"),
    [
        (CONFIGZ, {}, set()),
        ({**CONFIGZ, "enforceNodeAllocatable": ["pods"]}, {}, {"pods"}),
        ({}, DEFAULT_THRESHOLDS, {"pods"}),
        (
            {
                **CONFIGZ,
                "evictionHard": {"memory.available": "1Gi"},
                "mergeDefaultEvictionSettings": True,
            },
            {"memory.available": "1Gi"},
            set(),
        ),
    ],
)
def test_what_configz_leaves_out_is_empty(
    given: dict[str, Any], thresholds: dict[str, str], enforced: set[str]
) -> None:
    node, _ = node_from(_told(given), Flags(), Probed)
    assert set(node.kubelet.eviction_hard) == set(thresholds)
    assert set(node.kubelet.enforce_node_allocatable) == enforced


def test_a_kubelet_that_runs_with_gates_that_nobody_knows_is_read() -> None:
    """An OpenShift kubelet warns of them, and newer ones have more; a file with one is a mistake."""
    gates = {"AdminNetworkPolicy": True, "MemoryQoS": True}
    given = {**CONFIGZ, "featureGates": gates}
    node, problems = node_from(_told(given), Flags(), Probed)
    assert node.kubelet.feature_gates == {"MemoryQoS": True}
    assert "AdminNetworkPolicy" not in str(problems)
    head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    with pytest.raises(BadInput, match="'AdminNetworkPolicy' is not a feature gate"):
        node_from([("file", {**head, "featureGates": gates}), ("node", _OWN)], Flags(), Probed)
