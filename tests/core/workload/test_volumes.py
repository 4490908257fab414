"""Memory-backed volumes and their mounts, as read from a pod document."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.api.pod import Container, Pod, Resources
from qoslet.core.quantity import parse
from qoslet.core.workload.env import PodEnvironment
from qoslet.core.workload.pod_reader import read
from qoslet.core.workload.process_spec import MemoryVolume, PodSpec, VolumeMount
from qoslet.core.workload.security.context import ProcessRights

MI = 1024 * 1024
AROUND = PodEnvironment("n1", {"memory": parse("1Gi"), "cpu": parse("2")})
MEMORY = {"name": "cache", "emptyDir": {"medium": "Memory"}}


def spec_of(
    volumes: Any,
    mounts: Any = (),
    *,
    limits: dict[str, str] | None = None,
    around: PodEnvironment = AROUND,
    powers: ProcessRights | None = None,
    unconfined: bool = False,
    env: Any = (),
    **spec: Any,
) -> PodSpec:
    """``read`` of a pod with one container ``app``."""
    app = {"name": "app", "command": ["true"], "volumeMounts": mounts, "env": list(env)}
    asked = Resources(limits={name: parse(text) for name, text in (limits or {}).items()})
    shape = Container("app", "regular", "spec.containers[0]", asked)
    pod = Pod("default", "p", "u-1", "p.yaml: Pod default/p", (shape,))
    document = {
        "metadata": {"name": "p"},
        "spec": {"containers": [app], "volumes": volumes, **spec},
    }
    return read(pod, document, around=around, powers=powers, unconfined=unconfined)


def errors(spec: PodSpec) -> list[str]:
    """The fields and messages of the error rows."""
    return [
        f"{row.where.removeprefix('p.yaml: Pod default/p: ')}: {row.message}"
        for row in spec.problems
        if row.severity == "error"
    ]


def said(spec: PodSpec) -> str:
    """The warning rows."""
    return " ".join(row.message for row in spec.problems if row.severity == "warning")


def test_a_memory_volume_and_its_mounts_are_honoured() -> None:
    spec = spec_of(
        [MEMORY],
        [
            {"name": "cache", "mountPath": "/cache"},
            {"name": "cache", "mountPath": "//srv/./a/", "readOnly": True, "subPath": "x/y"},
            {"name": "cache", "mountPath": "relative", "mountPropagation": "None"},
        ],
        securityContext={"fsGroup": 7},
    )
    assert spec.volumes == (MemoryVolume("cache", 1024 * MI, 7),)
    assert spec.launches[0].mounts == (
        VolumeMount("cache", "/cache"),
        VolumeMount("cache", "/srv/a", True, sub_path="x/y"),
        VolumeMount("cache", "/relative"),
    )
    assert spec.runnable
    assert "not honoured" not in said(spec)


# kubelet empty_dir_test.go TestCalculateEmptyDirMemorySize: the smallest of what is given wins.
SIZES = [
    (None, None, 1024 * MI),
    ("10Mi", None, 10 * MI),
    ("2Gi", None, 1024 * MI),
    (None, "64Mi", 64 * MI),
    ("128Mi", "64Mi", 64 * MI),
    ("32Mi", "64Mi", 32 * MI),
    ("0", "64Mi", 64 * MI),
    (1000, None, 1000),
    ("1500m", None, 2),
    (1e6, None, 10**6),
]


@pytest.mark.parametrize(("size_limit", "memory_limit", "expected"), SIZES)
def test_the_size_is_the_smallest_of_its_bounds(
    size_limit: Any, memory_limit: str | None, expected: int
) -> None:
    volume = {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": size_limit}}
    limits = {"memory": memory_limit} if memory_limit else {}
    assert spec_of([volume], limits=limits).volumes == (MemoryVolume("v", expected),)


def test_without_any_bound_the_kernel_has_its_own() -> None:
    assert spec_of([MEMORY], around=PodEnvironment()).volumes == (MemoryVolume("cache"),)


WRONG_VOLUMES = [
    ({"emptyDir": {"medium": "Memory", "sizeLimit": "10Q"}}, "emptyDir.sizeLimit"),
    ({"emptyDir": {"medium": "Memory", "sizeLimit": "-1"}}, "emptyDir.sizeLimit"),
    ({"emptyDir": {"medium": "Memory", "sizeLimit": True}}, "emptyDir.sizeLimit"),
    ({"emptyDir": {"medium": "Memory", "sizeLimit": ["1"]}}, "emptyDir.sizeLimit"),
    ({"emptyDir": {"sizeLimit": "x"}}, "emptyDir.sizeLimit"),
    ({"emptyDir": {"medium": "memory"}}, "emptyDir.medium"),
    ({"emptyDir": {"medium": ["Memory"]}}, "emptyDir.medium"),
    ({"name": "../x", "emptyDir": {"medium": "Memory"}}, "name"),
    ({"name": "a/b", "emptyDir": {"medium": "Memory"}}, "name"),
    ({"name": "..", "emptyDir": {"medium": "Memory"}}, "name"),
    ({"name": 5, "emptyDir": {"medium": "Memory"}}, "name"),
    ({"name": None}, "name"),
]


@pytest.mark.parametrize(("volume", "field"), WRONG_VOLUMES)
def test_a_wrong_volume_is_an_error_at_its_field(volume: dict, field: str) -> None:
    spec = spec_of([{"name": "v", **volume}])
    assert [row.partition(": ")[0] for row in errors(spec)] == [f"spec.volumes[0].{field}"]
    assert not spec.runnable


def test_two_volumes_of_one_name_are_an_error() -> None:
    assert "occurs twice" in errors(spec_of([MEMORY, MEMORY]))[0]


WRONG_MOUNTS = [
    ({"mountPath": None}, "mountPath"),
    ({"mountPath": ""}, "mountPath"),
    ({"mountPath": "/a/../b"}, "mountPath"),
    ({"mountPath": ".."}, "mountPath"),
    ({"mountPath": "/a:b"}, "mountPath"),
    ({"mountPath": "/a\0b"}, "mountPath"),
    ({"mountPath": "/a\nb"}, "mountPath"),
    ({"mountPath": "/" + "a" * 5000}, "mountPath"),
    ({"mountPath": ["/a"]}, "mountPath"),
    ({"mountPath": "/"}, "mountPath"),
    ({"mountPath": "//."}, "mountPath"),
    ({"mountPath": "/proc"}, "mountPath"),
    ({"mountPath": "/proc/sys/kernel"}, "mountPath"),
    ({"mountPath": "sys/fs/cgroup"}, "mountPath"),
    ({"mountPath": "/dev"}, "mountPath"),
    ({"mountPath": "/a", "subPath": "/b"}, "subPath"),
    ({"mountPath": "/a", "subPath": "../b"}, "subPath"),
    ({"mountPath": "/a", "subPath": "b", "subPathExpr": "c"}, "subPath"),
    ({"mountPath": "/a", "subPathExpr": "$(NONE)"}, "subPathExpr"),
    ({"mountPath": "/a", "subPathExpr": "$(UP)"}, "subPathExpr"),
    ({"mountPath": "/a", "name": "other"}, "name"),
]


@pytest.mark.parametrize(("mount", "field"), WRONG_MOUNTS)
def test_a_wrong_mount_is_an_error_at_its_field(mount: dict, field: str) -> None:
    env = [{"name": "UP", "value": "../x"}]
    spec = spec_of([MEMORY], [{"name": "cache", **mount}], env=env)
    at = f"spec.containers[0].volumeMounts[0].{field}"
    assert [row.partition(": ")[0] for row in errors(spec)] == [at]
    assert spec.launches[0].mounts == ()


def test_one_path_holds_one_volume() -> None:
    mount = {"name": "cache", "mountPath": "/a"}
    assert "mounted twice" in errors(spec_of([MEMORY], [mount, {**mount, "mountPath": "/a/"}]))[0]


def test_a_sub_path_may_name_variables() -> None:
    mount = {"name": "cache", "mountPath": "/a", "subPathExpr": "$(WHO)/x"}
    spec = spec_of([MEMORY], [mount], env=[{"name": "WHO", "value": "me"}])
    assert spec.launches[0].mounts[0].sub_path == "me/x"


def test_other_volumes_are_named_not_dropped() -> None:
    volumes = [
        {"name": "disk", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "huge", "emptyDir": {"medium": "HugePages-2Mi"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
        MEMORY,
    ]
    mounts = [{"name": "cache", "mountPath": "/dev/shm", "mountPropagation": "Bidirectional"}]
    spec = spec_of(volumes, mounts)
    assert spec.runnable
    for text in (
        "spec.volumes[0].emptyDir.sizeLimit",
        "spec.volumes[1] (huge) emptyDir with medium HugePages-2Mi",
        "spec.volumes[2] (data) persistentVolumeClaim",
        "volumeMounts[0].mountPropagation",
    ):
        assert said(spec).count(text) == 1
    assert spec.launches[0].mounts == (VolumeMount("cache", "/dev/shm"),)


@pytest.mark.parametrize(
    "kind", ["persistentVolumeClaim", "nfs", "csi", "ephemeral", "iscsi", "image", "gitRepo", "new"]
)
def test_a_volume_that_nobody_can_make_and_a_container_mounts_is_refused_by_name(kind: str) -> None:
    volumes, mounts = [{"name": "v", kind: {"x": "y"}}], [{"name": "v", "mountPath": "/v"}]
    (error,) = errors(spec_of(volumes, mounts))
    assert error.startswith("spec.containers[0].volumeMounts[0]: not run, because it mounts a vol")
    assert error.endswith(f"that qoslet cannot make: v ({kind})")
    allowed = spec_of(volumes, mounts, unconfined=True)
    assert (allowed.runnable, allowed.launches[0].mounts) == (True, ())
    assert f"v ({kind})" in said(allowed)


@pytest.mark.parametrize(
    ("volume", "asked", "refused"),
    [
        ({"hostPath": {"path": "/srv"}}, "Enabled", 1),
        ({"hostPath": {"path": "/srv"}}, "IfPossible", 0),
        ({"hostPath": {"path": "/srv"}}, "Disabled", 0),
        ({"emptyDir": {}}, "Enabled", 0),
    ],
)
def test_mounts_below_a_host_path_cannot_be_made_read_only(
    volume: dict, asked: str, refused: int
) -> None:
    mount = {"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": asked}
    spec = spec_of([{"name": "v", **volume}], [mount])
    assert [row for row in errors(spec) if "below /v would stay writable" in row] == errors(spec)
    assert len(errors(spec)) == refused


def test_without_root_it_is_refused() -> None:
    powers = ProcessRights(uid=1000, gid=1000, root=False)
    mounts = [{"name": "cache", "mountPath": "/a"}]
    refused = spec_of([MEMORY], mounts, powers=powers)
    assert "UID 1000 cannot mount the tmpfs of volume cache" in errors(refused)[0]
    allowed = spec_of([MEMORY], mounts, powers=powers, unconfined=True)
    assert allowed.runnable
    assert allowed.volumes == ()
    assert allowed.launches[0].mounts == ()
    assert "--unconfined" in said(allowed)


def test_a_spec_survives_json() -> None:
    mount = {"name": "cache", "mountPath": "/a", "readOnly": True, "subPath": "b"}
    spec = spec_of([MEMORY], [mount], securityContext={"fsGroup": 7})
    spec = spec.scored({"app": 5}).sourced({"cache": "/run/v"})
    assert msgspec.json.decode(msgspec.json.encode(spec), type=PodSpec) == spec


def test_the_digest_tells_processes_apart_and_nothing_else() -> None:
    mount = {"name": "cache", "mountPath": "/a"}
    spec = spec_of([MEMORY], [mount])
    same = [
        spec.scored({"app": 77}),
        spec.sourced({"cache": "/elsewhere"}),
        spec_of([MEMORY], [mount], limits={"memory": "64Mi"}),
        msgspec.json.decode(msgspec.json.encode(spec), type=PodSpec),
    ]
    assert {one.digest() for one in same} == {spec.digest()}
    others = [
        spec_of([MEMORY], []),
        spec_of([MEMORY], [{**mount, "readOnly": True}]),
        spec_of([MEMORY], [{**mount, "mountPath": "/b"}]),
        spec_of([MEMORY, {**MEMORY, "name": "more"}], [mount]),
        spec_of([MEMORY], [mount], env=[{"name": "A", "value": "1"}]),
    ]
    assert len({one.digest() for one in [*others, spec]}) == len(others) + 1


def test_variables_from_resources_change_in_place() -> None:
    source = {"valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}}
    env = [{"name": "LIMIT", **source}]
    small = spec_of([], env=env, limits={"memory": "64Mi"})
    large = spec_of([], env=env, limits={"memory": "128Mi"})
    assert dict(small.launches[0].env)["LIMIT"] != dict(large.launches[0].env)["LIMIT"]
    assert small.digest() == large.digest()
    named = spec_of([], env=[{**env[0], "name": "OTHER"}], limits={"memory": "64Mi"})
    assert named.digest() != small.digest()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
VOLUME = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["a", "b"]) | JSON,
        "emptyDir": st.fixed_dictionaries(
            {}, optional={"medium": st.just("Memory") | JSON, "sizeLimit": JSON}
        )
        | JSON,
    },
)
MOUNT = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"]) | JSON},
    optional=dict.fromkeys(("mountPath", "subPath", "subPathExpr", "readOnly"), JSON),
)


@given(st.lists(VOLUME | JSON, max_size=3) | JSON, st.lists(MOUNT | JSON, max_size=3) | JSON)
def test_any_document_gives_rows_or_plain_paths(volumes: Any, mounts: Any) -> None:
    spec = spec_of(volumes, mounts)
    for launch in spec.launches:
        for mount in launch.mounts:
            assert mount.volume in {volume.name for volume in spec.volumes}
            for part in (*mount.path[1:].split("/"), *mount.sub_path.split("/")[1:]):
                assert part not in ("", ".", "..")
            assert "\0" not in mount.path + mount.sub_path
    for volume in spec.volumes:
        assert volume.size is None or volume.size > 0
    assert len(spec.digest()) == 32
