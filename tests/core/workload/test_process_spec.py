"""What the process runtime reads of a pod document, refuses, and says that it cannot do."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from qoslet.core.api.pod import Container, Pod, Resources, Role
from qoslet.core.quantity import parse
from qoslet.core.workload.env import PodEnvironment, expand
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.core.workload.pod_reader import read
from qoslet.core.workload.process_spec import PodSpec
from qoslet.core.workload.security.context import CAPABILITIES, DEFAULT_CAPABILITIES, ProcessRights


def pod_of(document: dict) -> Pod:
    """A pod whose containers follow the document, without the manifest reader."""
    spec = document["spec"]
    containers = []
    for index, raw in enumerate(spec.get("initContainers", ())):
        role: Role = "sidecar" if raw.get("restartPolicy") == "Always" else "init"
        containers.append(Container(raw["name"], role, f"spec.initContainers[{index}]"))
    for index, raw in enumerate(spec.get("containers", ())):
        resources = raw.get("resources", {})
        asked = Resources(
            requests={k: parse(v) for k, v in resources.get("requests", {}).items()},
            limits={k: parse(v) for k, v in resources.get("limits", {}).items()},
        )
        containers.append(Container(raw["name"], "regular", f"spec.containers[{index}]", asked))
    meta = document.get("metadata", {})
    return Pod(
        "default", meta.get("name", "p"), "u-1", "pod.yaml: Pod default/p", tuple(containers)
    )


def document_of(container: dict | None = None, **spec: object) -> dict:
    """A pod document with one container ``app``."""
    app = {"name": "app", "image": "busybox", "command": ["true"], **(container or {})}
    return {"metadata": {"name": "p"}, "spec": {"containers": [app], **spec}}


def read_(container: dict | None = None, *, unconfined: bool = False, **spec: object) -> PodSpec:
    """``read`` of a document with one container."""
    document = document_of(container, **spec)
    return read(pod_of(document), document, unconfined=unconfined)


EXPANSIONS = [
    ("plain", "plain"),
    ("$(A)", "1"),
    ("$(A)-$(B)", "1-two"),
    ("$$(A)", "$(A)"),
    ("$$$(A)", "$1"),
    ("$(MISSING)", "$(MISSING)"),
    ("$A", "$A"),
    ("$", "$"),
    ("a$", "a$"),
    ("$(A", "$(A"),
    ("$(", "$("),
    ("$()", "$()"),
    ("$($(A))", "$($(A))"),
    ("$(A)$(A)$$", "11$"),
    ("%(A) ${A}", "%(A) ${A}"),
]


@pytest.mark.parametrize(("text", "expected"), EXPANSIONS)
def test_expansion_is_that_of_kubernetes(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "two"}) == expected


def test_variables_that_double_each_other_are_refused_and_stay_small() -> None:
    env = [{"name": "E0", "value": "x" * 10}]
    env += [{"name": f"E{at}", "value": f"$(E{at - 1})" * 2} for at in range(1, 60)]
    env += [{"name": f"F{at}", "value": "$(E13)$(E12)"} for at in range(1000)]
    spec = read_({"env": env, "args": ["$(E59)"] * 1000})
    messages = {row.message for row in spec.problems if row.severity == "error"}
    assert messages == {
        "is longer than 128 KiB",
        "command, args and env are longer than 6 MiB together",
    }
    size = sum(len(value) for launch in spec.launches for _, value in launch.env)
    assert size < 16 << 20


@pytest.mark.parametrize(
    ("container", "refused"),
    [
        ({"args": ["x" * 131071]}, False),
        ({"args": ["x" * 131072]}, True),
        ({"args": ["\u20ac" * 43690]}, False),
        ({"args": ["\u20ac" * 43691]}, True),
        ({"env": [{"name": "A", "value": "x" * 131069}]}, False),
        ({"env": [{"name": "A", "value": "x" * 131070}]}, True),
        ({"env": [{"name": "A", "value": "x" * 1000}], "args": ["$(A)" * 131]}, False),
        ({"env": [{"name": "A", "value": "x" * 1000}], "args": ["$(A)" * 132]}, True),
        ({"env": [{"name": "A", "value": "x" * 1000}], "args": ["$(A)"] * 132}, False),
    ],
)
def test_a_word_of_at_most_128_kib_is_taken(container: dict[str, object], refused: bool) -> None:
    spec = read_(container)
    messages = {row.message for row in spec.problems if row.severity == "error"}
    assert messages == ({"is longer than 128 KiB"} if refused else set())


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/proc/self/fd/7", True),
        ("/proc", True),
        ("//proc/self", True),
        ("/./proc/1", True),
        ("/srv/../proc/self/fd/7/", True),
        ("proc/self", True),
        ("/process", False),
        ("/srv/proc", False),
        ("/", False),
    ],
)
def test_no_working_directory_is_below_proc(path: str, refused: bool) -> None:
    rows = [row for row in read_({"workingDir": path}).problems if row.severity == "error"]
    assert bool(rows) is refused
    assert all(row.where.endswith("workingDir") for row in rows)


def test_a_word_as_long_as_the_kernel_takes_is_fine() -> None:
    assert not [row for row in read_({"args": ["x" * 131071]}).problems if row.severity == "error"]
    assert [row for row in read_({"args": ["x" * 131072]}).problems if row.severity == "error"]


def test_a_pod_of_many_containers_costs_what_they_cost() -> None:
    """Twice as many, twice as long: each once searched all others for its document."""
    containers = [{"name": f"c{at}", "command": ["true"]} for at in range(4000)]
    document = {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    pod, begun = pod_of(document), time.process_time()
    assert len(read(pod, document).launches) == 4000
    assert time.process_time() - begun < 3


def test_args_see_the_environment_and_values_see_earlier_ones() -> None:
    spec = read_(
        {
            "command": ["echo", "$(GREETING)"],
            "args": ["$(WHO)", "$$(WHO)"],
            "env": [{"name": "WHO", "value": "you"}, {"name": "GREETING", "value": "hi $(WHO)"}],
        }
    )
    assert spec.launches[0].argv == ("echo", "hi you", "you", "$(WHO)")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
        ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "default"),
        ({"fieldRef": {"fieldPath": "metadata.uid"}}, "u-1"),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "n1"),
        ({"fieldRef": {"fieldPath": "metadata.labels['tier']"}}, "web"),
        ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, "64"),
        ({"resourceFieldRef": {"resource": "requests.cpu"}}, "1"),
        ({"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}, "250"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "4"),
    ],
)
def test_downward_api(source: dict, expected: str) -> None:
    document = document_of(
        {
            "env": [{"name": "X", "valueFrom": source}],
            "resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "64Mi"}},
        }
    )
    document["metadata"]["labels"] = {"tier": "web"}
    around = PodEnvironment("n1", {"cpu": parse("4")})
    spec = read(pod_of(document), document, around=around)
    assert dict(spec.launches[0].env)["X"] == expected


def test_environment_has_a_path_and_nothing_of_ours() -> None:
    names = set(dict(read_().launches[0].env))
    assert names == {"PATH", "HOME"}


def test_a_missing_secret_is_named_and_waited_for() -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    spec = read_({"env": [{"name": "TOKEN", "valueFrom": source}]})
    assert any("spec.containers[0].env[0] (TOKEN)" in row.where for row in spec.problems)
    assert spec.runnable
    assert [one.message for one in spec.unmet] == ['secret "s" not found']


REFUSED = [
    ({"securityContext": {"runAsNonRoot": True}}, {}, "runAsNonRoot"),
    ({"securityContext": {"readOnlyRootFilesystem": True}}, {}, "readOnlyRootFilesystem"),
    ({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, {}, "seccompProfile"),
    ({"securityContext": {"appArmorProfile": {"type": "Localhost"}}}, {}, "appArmorProfile"),
    ({"securityContext": {"seLinuxOptions": {"type": "t"}}}, {}, "seLinuxOptions"),
    ({"securityContext": {"capabilities": {"drop": ["NO_SUCH"]}}}, {}, "capabilities"),
    ({"securityContext": {"runAsUser": "root"}}, {}, "runAsUser"),
    ({}, {"securityContext": {"runAsNonRoot": True}}, "runAsNonRoot"),
    ({}, {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, "seccompProfile"),
    ({}, {"hostUsers": False}, "hostUsers"),
    ({}, {"runtimeClassName": "gvisor"}, "runtimeClassName"),
]


@pytest.mark.parametrize(("container", "spec", "field"), REFUSED)
def test_less_isolation_than_asked_is_refused(container: dict, spec: dict, field: str) -> None:
    refused = read_(container, **spec)
    errors = [row for row in refused.problems if row.severity == "error"]
    assert len(errors) == 1
    assert field in errors[0].where
    assert "--unconfined" in errors[0].hint
    assert not refused.runnable
    allowed = read_(container, unconfined=True, **spec)
    assert allowed.runnable
    assert any("--unconfined" in row.message for row in allowed.problems)


GIVEN = [
    {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000}},
    {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
    {"securityContext": {"readOnlyRootFilesystem": False}},
    {"securityContext": {"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False}},
    {"securityContext": {"privileged": True}},
]


@pytest.mark.parametrize("container", GIVEN)
def test_what_can_be_given_is_not_refused(container: dict) -> None:
    assert read_(container).runnable


def test_another_user_is_refused_without_root() -> None:
    document = document_of({"securityContext": {"runAsUser": 5}})
    spec = read(pod_of(document), document, powers=ProcessRights(uid=1000, gid=1000, root=False))
    assert not spec.runnable


def test_capabilities_are_the_default_of_runtimes_changed_as_asked() -> None:
    context = {"capabilities": {"drop": ["net_raw", "CAP_KILL"], "add": ["SYS_TIME"]}}
    identity = read_({"securityContext": context}).launches[0].identity
    less = {CAPABILITIES["NET_RAW"], CAPABILITIES["KILL"]}
    assert identity.capabilities == DEFAULT_CAPABILITIES - less | {CAPABILITIES["SYS_TIME"]}


def test_groups_and_users_come_from_pod_and_container() -> None:
    spec = read_(
        {"securityContext": {"runAsUser": 10}},
        securityContext={"runAsUser": 5, "runAsGroup": 6, "supplementalGroups": [7], "fsGroup": 8},
    )
    identity = spec.launches[0].identity
    assert (identity.uid, identity.gid, identity.groups) == (10, 6, (7, 8))


def test_every_field_without_effect_is_named_once() -> None:
    spec = read_(
        {
            "ports": [{"containerPort": 80}],
            "resources": {
                "claims": [{"name": "gpu"}],
                "limits": {
                    "cpu": "1",
                    "hugepages-2Mi": "4Mi",
                    "ephemeral-storage": "1Gi",
                    "a.b/gpu": "1",
                },
            },
            "securityContext": {"capabilities": {"add": ["CAP_KILL", "ALL", "FLY"]}},
            "somethingNew": True,
        },
        volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}],
        securityContext={"sysctls": [{"name": "a", "value": "b"}]},
        futureField=1,
    )
    said = " ".join(row.message for row in spec.problems if row.severity == "warning")
    for field in (
        "containers[0].ports",
        "containers[0].resources.claims",
        "containers[0].resources.limits (ephemeral-storage)",
        "containers[0].resources.limits (a.b/gpu)",
        "containers[0].securityContext.capabilities (FLY)",
        "containers[0].somethingNew",
        "spec.volumes",
        "spec.securityContext.sysctls",
        "spec.futureField",
    ):
        assert said.count(field) == 1
    assert "KILL" not in said
    assert "(cpu)" not in said
    assert "hugepages" not in said
    assert sum(row.severity == "info" for row in spec.problems) == 1
    assert "busybox" in next(row.message for row in spec.problems if row.severity == "info")


NULS = [
    ({"command": ["sh", "a\0b"]}, "spec.containers[0].command[1]"),
    ({"args": ["\0"]}, "spec.containers[0].args[0]"),
    ({"env": [{"name": "A", "value": "1\0"}]}, "spec.containers[0].env ('A')"),
    ({"env": [{"name": "A\0", "value": "1"}]}, "spec.containers[0].env ('A\\x00')"),
    (
        {
            "env": [
                {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['l']"}}}
            ],
            "args": ["$(A)"],
        },
        "spec.containers[0].env ('A')",
    ),
    ({"workingDir": "/a\0"}, "spec.containers[0].workingDir"),
]


@pytest.mark.parametrize("reader", [read, read_images])
@pytest.mark.parametrize(("container", "field"), NULS)
def test_a_nul_in_what_a_process_is_given_is_an_error_of_its_field(
    reader: Callable[[Pod, dict], PodSpec], container: dict, field: str
) -> None:
    document = document_of(container)
    document["metadata"]["labels"] = {"l": "x\0"}
    spec = reader(pod_of(document), document)
    assert not spec.runnable
    [row] = [row for row in spec.problems if row.severity == "error"]
    assert (row.where, row.message) == (f"pod.yaml: Pod default/p: {field}", "contains a NUL")


def test_a_command_that_only_the_image_knows_is_an_error() -> None:
    spec = read_({"command": None, "args": ["-x"]})
    assert not spec.runnable
    assert "entrypoint of image busybox" in spec.problems[0].message


@pytest.mark.parametrize(
    ("policy", "roles"),
    [
        (None, ("OnFailure", "Always", "Always")),
        ("OnFailure", ("OnFailure", "Always", "OnFailure")),
        ("Never", ("Never", "Always", "Never")),
    ],
)
def test_restart_policies_by_role(policy: str | None, roles: tuple[str, ...]) -> None:
    inits = [
        {"name": "i", "command": ["true"]},
        {"name": "s", "command": ["true"], "restartPolicy": "Always"},
    ]
    document = document_of(initContainers=inits, restartPolicy=policy)
    spec = read(pod_of(document), document)
    assert tuple(launch.restart for launch in spec.launches) == roles


@pytest.mark.parametrize(
    ("pods", "container", "me", "told"),
    [
        (None, None, 0, True),
        (None, 0, 0, True),
        (1000, 0, 0, True),
        (0, None, 0, True),
        (1000, None, 0, False),
        (None, 1000, 0, False),
        (0, 1000, 0, False),
        (None, None, 1000, False),
    ],
)
def test_who_would_be_root_of_this_host_is_told(
    pods: int | None, container: int | None, me: int, told: bool
) -> None:
    own = {} if container is None else {"securityContext": {"runAsUser": container}}
    spec = {} if pods is None else {"securityContext": {"runAsUser": pods}}
    document = document_of(own, **spec)
    found = read(pod_of(document), document, powers=ProcessRights(me, me, me == 0))
    (row,) = [one for one in found.problems if one.message.startswith("runs as plain processes")]
    assert ("root can leave its cgroups" in row.hint) == told
