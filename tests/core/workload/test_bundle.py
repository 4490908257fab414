"""``config.json`` of a container, and what of a pod an OCI runtime is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.cgroup.unit_properties import OOM_POLICY_SINCE
from qoslet.core.versions.runtime import runtime_of, untold
from qoslet.core.workload.container_spec import PlannedBlock
from qoslet.core.workload.oci.bundle import STOP_SIGNAL, PreparedContainer, User, bundle_config
from qoslet.core.workload.oci.image import Execution, command_of
from qoslet.core.workload.oci.image_reference import reference
from qoslet.core.workload.oci.oci_spec import SHARED_MEMORY, read_oci, shared
from qoslet.core.workload.process_spec import PodSpec
from tests.core.workload.test_process_spec import document_of, pod_of

IMAGE = Execution(entrypoint=("/e",), cmd=("c",), env=("A=1", "PATH=/own"), working_dir="/w")


def spec_of(container: dict[str, Any] | None = None, **spec: Any) -> PodSpec:
    document = document_of({"command": None, **(container or {})}, **spec)
    return read_oci(pod_of(document), document)


def made(container: dict[str, Any] | None = None, *, v2: bool = True, **spec: Any) -> Any:
    """The bundle of that container."""
    read = spec_of(container, **spec)
    assert read.sandbox is not None
    launch = read.launches[0]
    found = PreparedContainer(
        IMAGE,
        User(0, 0),
        "/r",
        dict.fromkeys(shared(read.sandbox), "/proc/1/fd/9"),
        {"/etc/hosts": "/h"},
        tuple(replace(one, source="/v") for one in launch.mounts),
        frozenset(range(10)),
    )
    block = PlannedBlock("/g/c", {"cpu": {"shares": 7}})
    return bundle_config(read.sandbox, launch, block, found, v2=v2)


def kinds(config: Any) -> set[str]:
    return {one["type"] for one in config["linux"]["namespaces"]}


def test_the_plan_s_words_are_in_it_as_they_are() -> None:
    linux = made()["linux"]
    assert linux["cgroupsPath"] == "/g/c"
    devices = linux["resources"].pop("devices")
    assert linux["resources"] == {"cpu": {"shares": 7}}
    assert devices == [{"allow": False, "access": "rwm"}]


@pytest.mark.parametrize(("group", "policy"), [("1", "'kill'"), ("0", "'continue'")])
def test_systemd_is_told_of_an_oom_group_with_the_scope(group: str, policy: str) -> None:
    read = spec_of()
    pod = read.sandbox
    assert pod is not None
    block = PlannedBlock("s:runc:c", {"unified": {"memory.oom.group": group}})
    found = PreparedContainer(IMAGE, User(0, 0), "/r", {}, {}, (), systemd=OOM_POLICY_SINCE)

    def told(found: PreparedContainer, block: PlannedBlock) -> object:
        made = bundle_config(pod, read.launches[0], block, found, v2=True)
        return made["annotations"].get("org.systemd.property.OOMPolicy")

    assert told(found, block) == policy
    assert told(replace(found, systemd=OOM_POLICY_SINCE - 1), block) is None
    assert told(found, PlannedBlock("s:runc:c", {})) is None


HALF = {"cpu": {"quota": 50_000, "period": 100_000}, "memory": {"limit": 1 << 26}}


@pytest.mark.parametrize(
    ("resources", "v2", "told"),
    [
        (HALF, True, {"CPUQuotaPerSecUSec": 500_000, "MemoryMax": 1 << 26}),
        (HALF, False, {"CPUQuotaPerSecUSec": 500_000, "MemoryLimit": 1 << 26}),
        ({"cpu": {"quota": 1_500, "period": 100_000}}, True, {"CPUQuotaPerSecUSec": 20_000}),
        ({"cpu": {"quota": 5_000, "period": 10_000}}, False, {"CPUQuotaPerSecUSec": 500_000}),
        ({"cpu": {"quota": -1, "shares": 2}, "memory": {"limit": -1}}, True, {}),
        (
            {"memory": {"limit": 8192, "swap": 12288}, "pids": {"limit": 9}},
            True,
            {"MemoryMax": 8192, "MemorySwapMax": 4096, "TasksMax": 9},
        ),
        ({"memory": {"limit": 8192, "swap": 12288}}, False, {"MemoryLimit": 8192}),
        (
            {"unified": {"memory.high": "max", "memory.min": "0", "memory.oom.group": "1"}},
            True,
            {"MemoryHigh": 2**64 - 1, "MemoryMin": 0},
        ),
        ({}, False, {}),
    ],
)
def test_systemd_is_told_of_limits_that_an_old_crun_only_writes(
    resources: dict[str, dict[str, int]], v2: bool, told: dict[str, int]
) -> None:
    read = spec_of()
    pod = read.sandbox
    assert pod is not None
    block = PlannedBlock("s:runc:c", resources)
    found = PreparedContainer(IMAGE, User(0, 0), "/r", {}, {}, (), systemd=252)
    for runtime, wanted in (("crun-1.8.1", told), ("crun-1.21", {}), ("runc-1.1.5", {})):
        one = replace(found, untold=untold(runtime_of(runtime)))
        annotations = bundle_config(pod, read.launches[0], block, one, v2=v2)["annotations"]
        seen = {
            key.rpartition(".")[2]: int(text.removeprefix("uint64 "))
            for key, text in annotations.items()
            if key.startswith("org.systemd.property.") and "PeriodUSec" not in key
        }
        assert seen == wanted
        period = annotations.get("org.systemd.property.CPUQuotaPeriodUSec")
        assert (period is not None) == ("CPUQuotaPerSecUSec" in wanted)


def test_the_manifest_goes_before_the_image() -> None:
    process = made()["process"]
    assert (process["args"], process["cwd"]) == (["/e", "c"], "/w")
    assert process["env"] == ["PATH=/own", "A=1"]
    own = {"command": ["x"], "workingDir": "/o", "env": [{"name": "A", "value": "2"}]}
    process = made(own)["process"]
    assert (process["args"], process["cwd"], process["env"]) == (["x"], "/o", ["PATH=/own", "A=2"])
    for command, args, told in [
        ((), (), ("/e", "c")),
        ((), ("a",), ("/e", "a")),
        (("x",), (), ("x",)),
        (("x",), ("a",), ("x", "a")),
    ]:
        assert command_of(IMAGE, command, args) == told


def test_nothing_to_execute_is_told() -> None:
    read = spec_of()
    assert read.sandbox is not None
    found = PreparedContainer(Execution(), User(0, 0), "/r", {}, {}, ())
    with pytest.raises(ValueError, match="neither the manifest nor the image"):
        bundle_config(read.sandbox, read.launches[0], PlannedBlock("/g", {}), found, v2=True)


def test_namespaces() -> None:
    assert kinds(made()) == {"mount", "pid", "cgroup", "network", "uts", "ipc"}
    assert kinds(made(v2=False)) == {"mount", "pid", "network", "uts", "ipc"}
    assert "cgroup" not in kinds(made({"securityContext": {"privileged": True}}))
    host: dict[str, Any] = {"hostNetwork": True, "hostPID": True, "hostIPC": True}
    assert kinds(made(**host)) == {"mount", "cgroup"}
    paths = {one["type"]: one.get("path") for one in made()["linux"]["namespaces"]}
    assert paths["network"] == paths["ipc"] == "/proc/1/fd/9"
    assert paths["pid"] is None


def test_privileged_means_all_that_there_is_here() -> None:
    config = made({"securityContext": {"privileged": True}})
    assert len(config["process"]["capabilities"]["bounding"]) == 10
    assert config["linux"]["resources"]["devices"] == [{"allow": True, "access": "rwm"}]
    assert "maskedPaths" not in config["linux"]
    named = made({"securityContext": {"capabilities": {"drop": ["ALL"], "add": ["SYS_TIME"]}}})
    assert named["process"]["capabilities"]["effective"] == ["CAP_SYS_TIME"]


def test_shared_memory_is_the_pod_s_but_for_one_s_own() -> None:
    read = spec_of()
    assert [one.name for one in read.volumes] == [SHARED_MEMORY]
    assert spec_of(hostIPC=True).volumes == ()
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/dev/shm"}]}
    own = spec_of(mount, volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}])
    assert [one.volume for one in own.launches[0].mounts] == ["v"]


def test_the_stop_signal_of_the_manifest_goes_before_the_image_s() -> None:
    read = spec_of()
    assert read.sandbox is not None
    image = replace(IMAGE, stop_signal="SIGQUIT")
    found = PreparedContainer(image, User(0, 0), "/r", {}, {}, ())
    for stop, told in (("SIGTERM", "SIGQUIT"), ("SIGUSR1", "SIGUSR1")):
        launch = replace(read.launches[0], stop_signal=stop)
        config = bundle_config(read.sandbox, launch, PlannedBlock("/g", {}), found, v2=True)
        assert config["annotations"][STOP_SIGNAL] == told


@pytest.mark.parametrize(
    ("container", "spec", "said"),
    [
        ({}, {"shareProcessNamespace": True}, "no process holds"),
        ({}, {"runtimeClassName": "kata"}, "'kata' does not run it"),
        (
            {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}},
            {},
            "the seccomp profile",
        ),
        ({"securityContext": {"capabilities": {"drop": ["X"]}}}, {}, "capability X"),
        ({"image": ""}, {}, "no image"),
        (
            {},
            {"securityContext": {"sysctls": [{"name": "vm.swappiness", "value": "1"}]}},
            "belongs to the whole machine",
        ),
        (
            {},
            {
                "hostNetwork": True,
                "securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]},
            },
            "belongs to the whole machine",
        ),
    ],
)
def test_what_is_not_there_is_refused(
    container: dict[str, Any], spec: dict[str, Any], said: str
) -> None:
    read = spec_of(container, **spec)
    assert not read.runnable
    assert [row for row in read.problems if row.severity == "error" and said in row.message]


def test_a_network_of_its_own_is_said() -> None:
    (row,) = spec_of().problems
    assert (row.severity, "only the loopback interface" in row.message) == ("info", True)
    assert spec_of(hostNetwork=True).problems == ()


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("a/b:1", "docker.io/a/b:1"),
        ("localhost/a", "localhost/a:latest"),
        ("host:5000/a/b:v1", "host:5000/a/b:v1"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        (f"a@sha256:{'0' * 64}", f"docker.io/library/a@sha256:{'0' * 64}"),
    ],
)
def test_names_in_full(text: str, full: str) -> None:
    assert str(reference(text)) == full


@pytest.mark.parametrize(
    "text", ["", "A", "a:", "a b", "../a", "a//b", "a@sha256:1", "-a", "a" * 2000, "a:b:c\n"]
)
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"image name|not a tag|not a digest"):
        reference(text)
