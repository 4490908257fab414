"""Redaction: no name survives, the same name becomes the same, and the tree keeps its shape."""

from __future__ import annotations

import json
import string
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.bundle.fields import pod_fields
from qoslet.core.bundle.redaction import (
    Pseudonyms,
    redacted_kubelet,
    redacted_machine,
    redacted_units,
)
from qoslet.core.bundle.rows import UnitRow

NAME = st.text(string.ascii_lowercase, min_size=4, max_size=12).map(lambda text: f"zq{text}zq")
UUIDS = st.uuids().map(str)
IDS = st.text("0123456789abcdef", min_size=64, max_size=64)


@st.composite
def pods(draw: st.DrawFn) -> tuple[dict[str, Any], set[str]]:
    """A pod and the names in it."""
    names = {
        kind: draw(NAME)
        for kind in (
            "pod",
            "ns",
            "c",
            "node",
            "owner",
            "class",
            "image",
            "resource",
            "kind",
            "init",
        )
    }
    uid, identity, static = draw(UUIDS), draw(IDS), draw(IDS)
    pod = {
        "metadata": {
            "name": names["pod"], "namespace": names["ns"], "uid": uid,
            "annotations": {f"qoslet.dev/memory-high.{names['c']}": "64Mi", "kubernetes.io/config.hash": static},
            "ownerReferences": [{"kind": names["kind"], "name": names["owner"], "uid": uid}],
        },
        "spec": {
            "nodeName": names["node"], "runtimeClassName": names["class"], "priorityClassName": names["class"],
            "containers": [
                {"name": names["c"], "image": f"r.io/{names['image']}:1", "resources": {"limits": {f"{names['resource']}.com/x": "1", "cpu": "2"}}}
            ],
            "initContainers": [{"name": names["init"]}],
        },
        "status": {"containerStatuses": [{"name": names["c"], "containerID": f"containerd://{identity}"}]},
    }  # fmt: skip
    return pod, {*names.values(), uid, identity, static}


@given(pods())
def test_no_name_survives(drawn: tuple[dict[str, Any], set[str]]) -> None:
    pod, names = drawn
    text = json.dumps(pod_fields(pod, Pseudonyms()))
    assert not [name for name in names if name in text]


@given(pods())
def test_the_same_name_becomes_the_same(drawn: tuple[dict[str, Any], set[str]]) -> None:
    pod, _ = drawn
    names = Pseudonyms()
    once, again = pod_fields(pod, names), pod_fields(pod, names)
    assert once == again
    container = once["spec"]["containers"][0]["name"]
    assert once["status"]["containerStatuses"][0]["name"] == container
    assert f"qoslet.dev/memory-high.{container}" in once["metadata"]["annotations"]
    UUID(once["metadata"]["uid"])
    assert len(once["status"]["containerStatuses"][0]["containerID"].rpartition("://")[2]) == 64


UID = "0a1b2c3d-0000-4000-8000-000000000001"
OTHER = "0a1b2c3d-0000-4000-8000-00000000000f"
ID = "ab" * 32
FRESH = "00000001-0000-4000-8000-000000000001"
SECOND = "00000002-0000-4000-8000-000000000002"
FRESH_ID = f"{1:064x}"


@pytest.fixture
def names() -> Pseudonyms:
    """Those of one pod ``web`` with the container ``my-app``."""
    made = Pseudonyms()
    made("uid", UID)
    made("container", "my-app")
    made("container ID", ID)
    return made


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/", "/"),
        ("/kubepods", "/kubepods"),
        (f"/kubepods/burstable/pod{UID}/{ID}", f"/kubepods/burstable/pod{FRESH}/{FRESH_ID}"),
        (f"/kubepods/pod{OTHER}", f"/kubepods/pod{SECOND}"),
        (f"/kubepods/pod{UID}/{'cd' * 32}", f"/kubepods/pod{FRESH}/{2:064x}"),
        (f"/qoslet/kubepods/pod{UID}/my-app", f"/qoslet/kubepods/pod{FRESH}/container-1"),
        (f"/acme/kubepods/besteffort/pod{UID}", f"/cgroup1/kubepods/besteffort/pod{FRESH}"),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope",
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{FRESH.replace('-', '_')}.slice/cri-containerd-{FRESH_ID}.scope",
        ),
        (
            f"/acme.slice/acme-kubepods.slice/acme-kubepods-pod{UID.replace('-', '_')}.slice/acme-kubepods-pod{UID.replace('-', '_')}-my-app.scope",
            f"/cgroup1.slice/cgroup1-kubepods.slice/cgroup1-kubepods-pod{FRESH.replace('-', '_')}.slice/cgroup1-kubepods-pod{FRESH.replace('-', '_')}-container-1.scope",
        ),
        (
            f"/system.slice/kubepods-pod{UID.replace('-', '_')}.slice:cri-containerd:{ID}",
            f"/system.slice/kubepods-pod{FRESH.replace('-', '_')}.slice:cri-containerd:{FRESH_ID}",
        ),
        ("/system.slice/a.slice:crio-b:c", "/system.slice/cgroup1"),
        ("/system.slice/acme.service", "/system.slice/cgroup1.service"),
        ("/user.slice/user-1000.slice", "/user.slice/user-cgroup1.slice"),
        ("/init.scope", "/init.scope"),
        ("/my-root", "/cgroup1"),
        ("/my_root.slice", "/cgroup1.slice"),
    ],
)  # fmt: skip
def test_paths_keep_their_shape(names: Pseudonyms, path: str, wanted: str) -> None:
    assert names.path(path) == wanted
    assert names.path(path) == wanted


def test_a_cgroup_root_is_the_same_for_both_drivers(names: Pseudonyms) -> None:
    given = {"cgroupRoot": "/my-root", "kubeReservedCgroup": "/acme.slice", "podPidsLimit": 7}
    found = redacted_kubelet(given, names)
    assert found == {
        "cgroupRoot": "/cgroup1",
        "kubeReservedCgroup": "/cgroup2.slice",
        "podPidsLimit": 7,
    }
    assert (
        names.path("/my_root.slice/my_root-kubepods.slice")
        == "/cgroup1.slice/cgroup1-kubepods.slice"
    )


def test_units_are_named_as_their_cgroups(names: Pseudonyms) -> None:
    unit = f"kubepods-pod{UID.replace('-', '_')}.slice"
    row = UnitRow(
        unit,
        {"ControlGroup": f"/kubepods.slice/{unit}", "Slice": "kubepods.slice", "CPUWeight": "4"},
    )
    found = redacted_units([row], names)[0]
    assert found.unit == f"kubepods-pod{FRESH.replace('-', '_')}.slice"
    assert found.properties == {
        "ControlGroup": f"/kubepods.slice/{found.unit}", "Slice": "kubepods.slice", "CPUWeight": "4",
    }  # fmt: skip


def test_a_machine_is_unnamed(names: Pseudonyms) -> None:
    given = {
        "metadata": {"name": "acme-7"}, "capacity": {"cpu": "4", "acme.com/gpu": "1", "hugepages-2Mi": "0"},
        "host": {"mounts": {"cpu": "/sys/fs/cgroup/cpu", "memory": "/acme/memory"}, "kernel": "6.12"},
    }  # fmt: skip
    assert redacted_machine(given, names) == {
        "metadata": {"name": "node-1"},
        "capacity": {"cpu": "4", "example.com/resource-1": "1", "hugepages-2Mi": "0"},
        "host": {"mounts": {"cpu": "/sys/fs/cgroup/cpu", "memory": "/cgroup1/cgroup2"}, "kernel": "6.12"},
    }  # fmt: skip
