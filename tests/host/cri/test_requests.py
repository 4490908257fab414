"""What a runtime is told of a container: seccomp profile, variables, volumes, resources."""

import pytest
from msgspec.structs import replace

from qoslet.core.workload.container_spec import PodMessages, SeccompProfiles
from qoslet.core.workload.env import PodEnvironment
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.host.cri import requests
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.resource_changes import resources_change
from tests.core.workload.test_config_variables import config, objects, secret
from tests.core.workload.test_process_spec import document_of, pod_of

KINDS = pb.SecurityProfile


@pytest.mark.parametrize(
    ("profile", "by_default", "told"),
    [
        ({"type": "RuntimeDefault"}, False, (KINDS.RuntimeDefault, "")),
        ({"type": "Unconfined"}, True, (KINDS.Unconfined, "")),
        (None, False, (KINDS.Unconfined, "")),
        (None, True, (KINDS.RuntimeDefault, "")),
        (
            {"type": "Localhost", "localhostProfile": "a/p.json"},
            False,
            (KINDS.Localhost, "/root/seccomp/a/p.json"),
        ),
    ],
)
@pytest.mark.parametrize("of_pod", [True, False])
def test_the_profile_is_in_the_message(
    profile: dict[str, str] | None, by_default: bool, told: tuple[int, str], of_pod: bool
) -> None:
    context = {} if profile is None else {"securityContext": {"seccompProfile": profile}}
    document = document_of({} if of_pod else context, **(context if of_pod else {}))
    spec = replace(read_images(pod_of(document), document), messages=PodMessages("/p", {}))
    profiles = SeccompProfiles(root="/root/seccomp", by_default=by_default)
    made = requests.container_config(spec, spec.launches[0], "i", "/r", 0, False, profiles)
    seccomp = made.linux.security_context.seccomp
    assert (seccomp.profile_type, seccomp.localhost_ref) == told


def test_variables_of_secrets_go_to_containers_and_into_no_annotation() -> None:
    document = document_of({"envFrom": [{"secretRef": {"name": "s"}}]})
    around = PodEnvironment(config=objects(secret(pw="hunter2")))
    spec = read_images(pod_of(document), document, around=around)
    spec = replace(spec, messages=PodMessages("/p", {}))
    container = requests.container_config(spec, spec.launches[0], "i", "/r", 0, False)
    assert [(one.key, one.value) for one in container.envs] == [("pw", "hunter2")]
    sandbox = requests.sandbox_config(spec, spec.digest(), "/r", "/logs", 0, False)
    assert "hunter2" not in f"{sandbox}"


def test_a_part_of_our_files_is_mounted_through_our_link() -> None:
    mounts = [
        {"name": "c", "mountPath": "/etc/one", "subPath": "k"},
        {"name": "c", "mountPath": "/etc/all"},
        {"name": "h", "mountPath": "/host"},
    ]
    volumes = [
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "h", "hostPath": {"path": "/var/log"}},
    ]
    document = document_of({"volumeMounts": mounts}, volumes=volumes)
    around = PodEnvironment(config=objects(config(k="v")))
    spec = read_images(pod_of(document), document, around=around)
    assert spec.runnable
    spec = spec.sourced({"c": "/vol/c", "h": "/var/log"})
    spec = replace(spec, messages=PodMessages("/p", {}))
    container = requests.container_config(spec, spec.launches[0], "i", "/r", 0, False)
    assert [(one.host_path, one.container_path, one.readonly) for one in container.mounts] == [
        ("/vol/c/..data/k", "/etc/one", True),
        ("/vol/c", "/etc/all", True),
        ("/var/log", "/host", False),
    ]


def test_what_changes_of_a_block() -> None:
    assert (
        resources_change(
            {"oom_score_adj": 1, "cpu_shares": 2}, {"oom_score_adj": 5, "cpu_shares": 2}
        )
        == {}
    )
    assert resources_change({}, {"cpu_shares": 2}) == {"cpu_shares": 2}
    assert resources_change({"memory_limit_in_bytes": 5}, {}) == {"memory_limit_in_bytes": -1}
    assert resources_change({"unified": {"memory.min": "5", "io.x": "y"}}, {"unified": {}}) == {
        "unified": {"memory.min": "0"}
    }
