"""A pod document as containers of images: what is passed on, what is wrong, what is only said."""

from __future__ import annotations

import pytest

from qoslet.core.workload.container_spec import default_pull
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.core.workload.process_spec import PodSpec
from tests.core.workload.test_process_spec import document_of, pod_of


def read_(container: dict | None = None, **spec: object) -> PodSpec:
    document = document_of(container, **spec)
    return read_images(pod_of(document), document)


def rows(spec: PodSpec, severity: str) -> list[str]:
    return [f"{row.where.rpartition(': ')[2]}: {row.message}" for row in spec.problems if row.severity == severity]  # fmt: skip


def test_everything_that_a_runtime_can_give_is_passed_on() -> None:
    spec = read_(
        {
            "args": ["$(A)"],
            "env": [{"name": "A", "value": "1"}],
            "workingDir": "/w",
            "imagePullPolicy": "Never",
            "tty": True,
            "securityContext": {
                "runAsUser": 5,
                "runAsGroup": 6,
                "privileged": True,
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"add": ["CAP_NET_ADMIN"], "drop": ["all"]},
                "seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"},
            },
        },
        securityContext={
            "supplementalGroups": [7],
            "fsGroup": 8,
            "sysctls": [{"name": "a.b", "value": "1"}],
        },
        hostNetwork=True,
        hostPID=True,
        shareProcessNamespace=True,
        runtimeClassName="kata",
    )
    assert spec.runnable
    assert not spec.problems
    asked = spec.launches[0].contained
    assert asked is not None
    assert (asked.command, asked.args, asked.env, asked.cwd) == (
        ("true",),
        ("1",),
        (("A", "1"),),
        "/w",
    )
    assert (asked.uid, asked.gid, asked.groups, asked.pull) == (5, 6, (7, 8), "Never")
    assert (asked.add, asked.drop, asked.seccomp) == (("NET_ADMIN",), ("ALL",), "Localhost/p.json")
    assert asked.privileged
    assert asked.read_only_root
    assert asked.no_new_privileges
    box = spec.sandbox
    assert box is not None
    assert (box.host_network, box.host_pid, box.share_pid, box.handler) == (
        True,
        True,
        True,
        "kata",
    )
    assert (box.hostname, box.sysctls) == ("", (("a.b", "1"),))


WRONG = [
    ({"image": ""}, "spec.containers[0].image: no image"),
    ({"securityContext": {"runAsUser": "me"}}, "runAsUser: 'me' is not a user or group ID"),
    ({"securityContext": {"runAsUser": -1}}, "runAsUser: -1 is not a user or group ID"),
    ({"securityContext": {"runAsGroup": 5}}, "runAsGroup: runAsGroup needs runAsUser"),
    ({"securityContext": {"runAsNonRoot": True, "runAsUser": 0}}, "would run as UID 0"),
]


@pytest.mark.parametrize(("container", "said"), WRONG)
def test_what_is_wrong_is_an_error_of_its_field(container: dict, said: str) -> None:
    spec = read_(container)
    assert not spec.runnable
    assert any(said in row for row in rows(spec, "error")), spec.problems


def test_what_is_not_passed_on_is_named() -> None:
    spec = read_(
        {"livenessProbe": {"tcpSocket": {"port": 80}}, "lifecycle": {"onFire": {"x": 1}}},
        hostAliases=[{"ip": "::1"}],
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}],
    )
    assert spec.runnable
    [row] = rows(spec, "warning")
    for name in ("hostAliases", "lifecycle.onFire", "spec.volumes[0] (v)"):
        assert name in row
    assert "livenessProbe" not in row


@pytest.mark.parametrize(("value", "named"), [("Default", False), ("Unmasked", True)])
def test_the_usual_view_of_proc_is_what_a_runtime_gives(value: str, named: bool) -> None:
    spec = read_({"image": "app", "securityContext": {"procMount": value}})
    assert any("procMount" in row for row in rows(spec, "warning")) is named


def test_a_command_may_be_the_images() -> None:
    document = document_of()
    del document["spec"]["containers"][0]["command"]
    spec = read_images(pod_of(document), document)
    assert spec.runnable
    assert spec.launches[0].argv == ()


def test_the_digest_differs_where_containers_would() -> None:
    plain = read_().digest()
    assert plain == read_().digest()
    assert plain != read_({"image": "other"}).digest()
    assert plain != read_(hostNetwork=True).digest()


def test_user_namespaces_are_refused() -> None:
    document = document_of(hostUsers=False)
    assert not read_images(pod_of(document), document).runnable
    assert read_images(pod_of(document), document, unconfined=True).runnable


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("app:1", "IfNotPresent"),
        ("host:5000/app", "Always"),
        ("host:5000/app:1", "IfNotPresent"),
        ("app@sha256:00", "IfNotPresent"),
    ],
)
def test_the_default_pull_policy(image: str, policy: str) -> None:
    assert default_pull(image) == policy
