"""Directories, files and host paths that pods mount, as read from a pod document."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from qoslet.core.api.config.objects import ConfigObjects
from qoslet.core.api.pod import Container, Pod, Resources
from qoslet.core.quantity import parse
from qoslet.core.workload.env import PodEnvironment
from qoslet.core.workload.folders.projected import format_map
from qoslet.core.workload.folders.types import DiskVolume, FilesVolume, HostVolume, VolumeFile
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.core.workload.pod_reader import read
from qoslet.core.workload.process_spec import PodSpec, VolumeMount
from qoslet.core.workload.security.context import ProcessRights
from tests.core.workload.test_config_variables import config, objects, secret

NOTHING: ConfigObjects = {}


def spec_of(
    volume: dict[str, Any],
    found: ConfigObjects = NOTHING,
    *,
    images: bool = False,
    mount: dict[str, Any] | None = None,
    powers: ProcessRights | None = None,
    metadata: dict[str, Any] | None = None,
    kind: str = "Pod",
    **spec: Any,
) -> PodSpec:
    """A pod whose only container mounts this volume as ``v``."""
    mounted = {"name": "v", "mountPath": "/v", **(mount or {})}
    app = {"name": "app", "image": "i", "command": ["true"], "volumeMounts": [mounted]}
    volumes = [{"name": "v", **volume}]
    document = {
        "kind": kind,
        "metadata": {"name": "p", **(metadata or {})},
        "spec": {"containers": [app], "volumes": volumes, **spec},
    }
    asked = Resources(requests={"cpu": parse("250m")}, limits={"memory": parse("64Mi")})
    shape = Container("app", "regular", "spec.containers[0]", asked)
    pod = Pod("default", "p", "u-1", "p.yaml: Pod default/p", (shape,))
    around = PodEnvironment("n1", {"cpu": parse("4")}, config=found)
    if images:
        return read_images(pod, document, around=around)
    return read(pod, document, around=around, powers=powers)


def files(spec: PodSpec) -> dict[str, tuple[int, bytes]]:
    """The files of its only volume."""
    (volume,) = spec.folders
    assert isinstance(volume, FilesVolume)
    return {one.path: (one.mode, one.data) for one in volume.files}


def errors(spec: PodSpec) -> list[str]:
    return [
        f"{row.where.removeprefix('p.yaml: Pod default/p: ')}: {row.message}"
        for row in spec.problems
        if row.severity == "error"
    ]


@pytest.mark.parametrize("images", [False, True])
def test_disk_volumes_are_made_and_one_that_nobody_mounts_is_not(images: bool) -> None:
    made = spec_of({"emptyDir": {}}, images=images, securityContext={"fsGroup": 7})
    assert made.folders == (DiskVolume("v", 7),)
    assert made.launches[0].mounts == (VolumeMount("v", "/v", kind="disk"),)
    assert spec_of({"emptyDir": None}, images=images).folders == (DiskVolume("v"),)
    other = spec_of({"emptyDir": {"medium": "Memory"}}, images=images)
    assert other.folders == ()
    extra = [{"name": "v", "emptyDir": {}}, {"name": "w", "secret": {"secretName": "none"}}]
    unused = spec_of({}, images=images, volumes=extra)
    assert (unused.folders, unused.unmet) == ((DiskVolume("v"),), ())


def test_config_maps_and_secrets_become_files() -> None:
    binary = {"kind": "ConfigMap", "metadata": {"name": "b"}, "binaryData": {"k": "/w=="}}
    found = objects(config(a="1", b="2"), secret(pw="x"), binary)
    assert files(spec_of({"configMap": {"name": "c"}}, found)) == {
        "a": (0o644, b"1"),
        "b": (0o644, b"2"),
    }
    assert files(spec_of({"configMap": {"name": "b"}}, found)) == {"k": (0o644, b"\xff")}
    items = [{"key": "a", "path": "x/./y"}, {"key": "b", "path": "z", "mode": 0o400}]
    chosen = spec_of({"configMap": {"name": "c", "items": items, "defaultMode": 0o600}}, found)
    assert files(chosen) == {"x/y": (0o600, b"1"), "z": (0o400, b"2")}
    one = spec_of({"secret": {"secretName": "s", "defaultMode": 0o440}}, found)
    assert files(one) == {"pw": (0o440, b"x")}
    assert one.folders == (FilesVolume("v", files=(VolumeFile("pw", 0o440, b"x"),), secret=True),)
    assert one.launches[0].mounts == (VolumeMount("v", "/v", read_only=True, kind="files"),)
    assert "hunter" not in repr(FilesVolume("v", files=(VolumeFile("pw", 0o440, b"hunter"),)))


MISSING = [
    ({"configMap": {"name": "x"}}, 'configmap "x" not found'),
    ({"secret": {"secretName": "x"}}, 'secret "x" not found'),
    ({"configMap": {"name": "c", "items": [{"key": "x", "path": "p"}]}}, "configmap references non-existent config key: x"),
    ({"secret": {"secretName": "s", "items": [{"key": "x", "path": "p"}]}}, "references non-existent secret key: x"),
    ({"projected": {"sources": [{"configMap": {"name": "x"}}]}}, 'configmap "x" not found'),
    ({"projected": {"sources": [{"secret": {"name": "x"}}]}}, 'secret "x" not found'),
]  # fmt: skip


@pytest.mark.parametrize(("volume", "message"), MISSING)
def test_what_is_missing_is_waited_for_in_a_kubelets_words(
    volume: dict[str, Any], message: str
) -> None:
    found = objects(config(k="v"), secret(k="v"), config("x", "elsewhere"), secret("x", "other"))
    spec = spec_of(volume, found)
    (lacks,) = spec.unmet
    text = f'MountVolume.SetUp failed for volume "v" : {message}'
    assert (lacks.reason, lacks.message) == ("FailedMount", text)
    assert spec.runnable
    optional = msgspec.json.encode(volume).replace(b'"name":', b'"optional":true,"name":')
    optional = optional.replace(b'"secretName":', b'"optional":true,"secretName":')
    left_out = spec_of(msgspec.json.decode(optional), found)
    assert (left_out.unmet, files(left_out), left_out.runnable) == ((), {}, True)


def test_projected_volumes_join_and_say_what_no_one_issues() -> None:
    sources = [
        {"configMap": {"name": "c", "items": [{"key": "k", "path": "dir/k"}]}},
        {"secret": {"name": "s"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"serviceAccountToken": {"path": "token"}},
    ]
    volume = {"projected": {"sources": sources, "defaultMode": 0o600}}
    spec = spec_of(volume, objects(config(k="1"), secret(pw="2")))
    assert files(spec) == {"dir/k": (0o600, b"1"), "pw": (0o600, b"2"), "name": (0o600, b"p")}
    assert spec.runnable
    assert "sources[3].serviceAccountToken (v)" in f"{spec.problems}"


def test_the_volume_that_an_api_server_adds_is_left_out() -> None:
    sources = [{"serviceAccountToken": {}}, {"configMap": {"name": "kube-root-ca.crt"}}]
    volumes = [{"name": "kube-api-access-x7x2b", "projected": {"sources": sources}}]
    mount = {"name": "kube-api-access-x7x2b"}
    spec = spec_of({}, mount=mount, volumes=volumes)
    assert (spec.runnable, spec.unmet, spec.folders, spec.launches[0].mounts) == (True, (), (), ())
    assert "kube-api-access-x7x2b" in f"{spec.problems}"


def test_the_downward_api_as_files() -> None:
    def resource(name: str, **more: str) -> dict[str, Any]:
        return {"containerName": "app", "resource": name, **more}

    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "notes", "fieldRef": {"fieldPath": "metadata.annotations"}, "mode": 0o400},
        {"path": "one", "fieldRef": {"fieldPath": "metadata.labels['b']"}},
        {"path": "cpu", "resourceFieldRef": resource("requests.cpu", divisor="1m")},
        {"path": "mem", "resourceFieldRef": resource("limits.memory", divisor="1Mi")},
        {"path": "all", "resourceFieldRef": resource("limits.cpu")},
        {"path": "ip", "fieldRef": {"fieldPath": "status.podIP"}},
    ]
    labels = {"b": "x y", "a": 'q"\n'}
    spec = spec_of({"downwardAPI": {"items": items}}, metadata={"labels": labels})
    assert files(spec) == {
        "labels": (0o644, b'a="q\\"\\n"\nb="x y"'),
        "notes": (0o400, b""),
        "one": (0o644, b"x y"),
        "cpu": (0o644, b"250"),
        "mem": (0o644, b"64"),
        "all": (0o644, b"4"),
    }
    assert "items[6] (ip)" in f"{spec.problems}"


def test_maps_are_printed_as_go_prints_them() -> None:
    """Source: pkg/fieldpath FormatMap, strconv.Quote."""
    assert format_map({"k": "ä\x01\u2028\U000e0001\\"}) == 'k="ä\\x01\\u2028\\U000e0001\\\\"'
    assert format_map({}) == ""


def with_path(path: object) -> dict[str, Any]:
    return {"configMap": {"name": "c", "items": [{"key": "k", "path": path}]}}


@pytest.mark.parametrize(
    ("volume", "where"),
    [
        *((with_path(path), "configMap.items[0].path") for path in ("/etc/x", "../x", "a/../b", "..data", "", ".", 1, "a\nb", "a" * 256)),
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": "a"}, {"key": "k", "path": "a/b"}]}}, "configMap"),
        ({"configMap": {"name": "c", "defaultMode": 0o1777}}, "configMap.defaultMode"),
        ({"configMap": {"name": "c", "defaultMode": "0644"}}, "configMap.defaultMode"),
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": "a", "mode": -1}]}}, "configMap.items[0].mode"),
        ({"configMap": {}}, "configMap.name"),
        ({"hostPath": {"path": "/a/../b"}}, "hostPath.path"),
        ({"hostPath": {"path": "a"}}, "hostPath.path"),
        ({"hostPath": {}}, "hostPath.path"),
        ({"hostPath": {"path": "/a", "type": "Pipe"}}, "hostPath.type"),
        ({"emptyDir": {}, "hostPath": {"path": "/a"}}, ""),
    ],
)  # fmt: skip
def test_what_the_api_server_refuses_is_refused(volume: dict[str, Any], where: str) -> None:
    spec = spec_of(volume, objects(config(k="v")))
    assert not spec.runnable
    at = ".".join(filter(None, ("spec.volumes[0]", where)))
    assert any(line.startswith(f"{at}: ") for line in errors(spec)), errors(spec)


@pytest.mark.parametrize("images", [False, True])
def test_host_paths_are_mounted_where_the_manifest_says(images: bool) -> None:
    made = spec_of({"hostPath": {"path": "/var//log/.", "type": "Directory"}}, images=images)
    assert made.folders == (HostVolume("v", "/var/log", "Directory"),)
    assert made.launches[0].mounts == (VolumeMount("v", "/v", kind="host"),)
    assert spec_of({"hostPath": {"path": "/dev"}}, mount={"mountPath": "/dev"}).runnable
    assert not spec_of({"emptyDir": {}}, mount={"mountPath": "/dev"}).runnable


def test_without_root_they_are_refused() -> None:
    powers = ProcessRights(uid=1000, gid=1000, root=False)
    volumes: list[dict[str, Any]] = [{"emptyDir": {}}, {"configMap": {"name": "c"}}]
    for volume in (*volumes, {"hostPath": {"path": "/a"}}):
        spec = spec_of(volume, objects(config(k="v")), powers=powers)
        assert "UID 1000 cannot mount it" in errors(spec)[0]
        assert spec.folders == ()


@pytest.mark.parametrize("images", [False, True])
def test_content_is_no_part_of_the_digest_and_the_definition_is(images: bool) -> None:
    def digest(volume: dict[str, Any], found: ConfigObjects = NOTHING) -> str:
        return spec_of(volume, found, images=images).digest()

    one = {"configMap": {"name": "c"}}
    first = spec_of(one, objects(config(k="1")), images=images)
    assert digest(one, objects(config(k="2"))) == first.digest() == digest(one)
    assert first.sourced({"v": "/somewhere"}).digest() == first.digest()
    others: list[dict[str, Any]] = [
        {"configMap": {"name": "d"}},
        {"configMap": {"name": "c", "defaultMode": 0o600}},
        {"secret": {"secretName": "c"}},
        {"hostPath": {"path": "/a"}},
        {"hostPath": {"path": "/b"}},
        {"emptyDir": {}},
    ]
    assert len({first.digest(), *(digest(other) for other in others)}) == 1 + len(others)


def test_no_content_goes_to_a_runtime() -> None:
    spec = spec_of({"secret": {"secretName": "s"}}, objects(secret(pw="hunter2")))
    assert "hunter2" in str(spec.folders[0].files[0].data)  # type: ignore[union-attr]
    given = msgspec.json.encode(spec.sourced({"v": "/x"}))
    assert b"hunter2" not in given
    assert b"aHVudGVyMg" not in given


def test_a_container_runtime_gets_a_part_of_files_and_of_nothing_else() -> None:
    found = objects(config(k="v"))
    assert spec_of(
        {"configMap": {"name": "c"}}, found, images=True, mount={"subPath": "k"}
    ).runnable
    assert not spec_of({"emptyDir": {}}, images=True, mount={"subPath": "k"}).runnable


def test_claim_templates_are_named_where_a_stateful_set_mounts_one() -> None:
    for kind, said in (("StatefulSet", True), ("Deployment", False)):
        spec = spec_of({"emptyDir": {}}, mount={"name": "data"}, kind=kind)
        (row,) = [row for row in spec.problems if row.severity == "error"]
        assert "no volume is named 'data'" in row.message
        assert ("volumeClaimTemplates" in row.hint) is said
