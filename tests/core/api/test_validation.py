"""What the API server refuses is a fault, and what any release of it takes is none.

Source of every row: k8s.io/kubernetes pkg/apis/core/validation/validation.go; for the kinds with a
template pkg/apis/apps/validation and pkg/apis/batch/validation.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from qoslet.core.api.documents import json_documents
from qoslet.core.api.manifest import Options, pods_from

META = {"name": "web"}
BASE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": META,
    "spec": {
        "containers": [{"name": "a", "image": "nginx"}, {"name": "b", "image": "nginx"}],
        "initContainers": [{"name": "i", "image": "nginx"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}


def faults_of(*documents: Any) -> list[tuple[str, str, str]]:
    """Field path, message and hint of each fault."""
    text = "\n".join(map(json.dumps, documents)).encode()
    faults = pods_from(json_documents(text, "f.json"), Options()).faults
    return [(fault.where.rpartition(": ")[2], fault.message, fault.hint) for fault in faults]


def with_value(path: str, value: Any, document: dict[str, Any] = BASE) -> dict[str, Any]:
    """The document with ``value`` at ``path`` (``spec.containers.0.env``)."""
    made = copy.deepcopy(document)
    *above, last = path.split(".")
    place: Any = made
    for step in above:
        place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
    if isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return made


def env(**source: Any) -> list[dict[str, Any]]:
    return [{"name": "A", "valueFrom": source}]


def volume(**source: Any) -> list[dict[str, Any]]:
    return [{"name": "v", **source}]


def mount(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "v", "mountPath": "/m", **fields}]


A, INIT, SPEC = "spec.containers.0", "spec.initContainers.0", "spec"
EXEC = {"exec": {"command": ["true"]}}
HTTP = {"path": "/", "port": 80}
FILE_KEY = {"volumeName": "v", "path": "a.env", "key": "A"}

REFUSED = [
    (f"{A}.command", "sleep 1", "command"),
    (f"{A}.command", ["sleep", 1], "command[1]"),
    (f"{A}.args", {"a": "b"}, "args"),
    (f"{A}.workingDir", 1, "workingDir"),
    (f"{INIT}.restartPolicy", "Sometimes", ".restartPolicy"),
    (f"{INIT}.restartPolicy", "always", ".restartPolicy"),
    (f"{A}.restartPolicy", "Sometimes", ".restartPolicy"),
    (f"{INIT}.livenessProbe", EXEC, ".livenessProbe"),
    (f"{INIT}.readinessProbe", EXEC, ".readinessProbe"),
    (f"{INIT}.startupProbe", EXEC, ".startupProbe"),
    (f"{INIT}.lifecycle", {"preStop": EXEC}, ".lifecycle"),
    (f"{A}.image", "", ".image"),
    (f"{A}.image", " nginx", ".image"),
    (f"{A}.image", 7, ".image"),
    (f"{A}.imagePullPolicy", "Sometimes", ".imagePullPolicy"),
    (f"{A}.terminationMessagePolicy", "Log", ".terminationMessagePolicy"),
    (f"{A}.name", "A_b", ".name"),
    (f"{A}.name", "b", ".name"),
    (f"{A}.name", "i", ".name"),
    (f"{A}.ports", [{"containerPort": 0}], ".ports[0].containerPort"),
    (f"{A}.ports", [{}], ".ports[0].containerPort"),
    (f"{A}.ports", [{"containerPort": 65536}], ".ports[0].containerPort"),
    (f"{A}.ports", [{"containerPort": "80"}], ".ports[0].containerPort"),
    (f"{A}.ports", [{"containerPort": 80, "hostPort": -1}], ".ports[0].hostPort"),
    (f"{A}.ports", [{"containerPort": 80, "protocol": "tcp"}], ".ports[0].protocol"),
    (f"{A}.ports", [{"containerPort": 80, "name": "Web"}], ".ports[0].name"),
    (f"{A}.ports", [{"containerPort": 80, "name": "a-name-too-long1"}], ".ports[0].name"),
    (f"{A}.ports", [{"containerPort": 80, "name": "80"}], ".ports[0].name"),
    (f"{A}.ports", [{"containerPort": n, "name": "x"} for n in (1, 2)], ".ports[1].name"),
    (f"{A}.ports", [{"containerPort": n, "hostPort": 9} for n in (1, 2)], ".ports[1].hostPort"),
    (f"{A}.ports", {"containerPort": 80}, ".ports"),
    (f"{A}.env", [{"value": "x"}], ".env[0].name"),
    (f"{A}.env", [{"name": "A=B"}], ".env[0].name"),
    (f"{A}.env", [{"name": "Ä"}], ".env[0].name"),
    (f"{A}.env", [{"name": "A", "value": 1}], ".env[0].value"),
    (f"{A}.env", [{"name": "A", "value": True}], ".env[0].value"),
    (f"{A}.env", env(), ".env[0].valueFrom"),
    (f"{A}.env", env(fieldRef={}), ".fieldRef.fieldPath"),
    (f"{A}.env", env(fieldRef={"fieldPath": "spec.color"}), ".fieldRef.fieldPath"),
    (f"{A}.env", env(fieldRef={"fieldPath": "metadata.labels"}), ".fieldRef.fieldPath"),
    (f"{A}.env", env(fieldRef={"fieldPath": "metadata.labels['a b']"}), ".fieldRef.fieldPath"),
    (f"{A}.env", env(resourceFieldRef={"resource": "limits.gpu"}), ".resource"),
    (f"{A}.env", env(resourceFieldRef={"resource": "limits.cpu", "divisor": "1Mi"}), ".divisor"),
    (f"{A}.env", env(resourceFieldRef={"resource": "limits.memory", "divisor": "3"}), ".divisor"),
    (f"{A}.env", env(configMapKeyRef={"name": "c"}), ".configMapKeyRef.key"),
    (f"{A}.env", env(secretKeyRef={"name": "s", "key": "a b"}), ".secretKeyRef.key"),
    (f"{A}.env", env(fileKeyRef={**FILE_KEY, "volumeName": "w"}), ".fileKeyRef.volumeName"),
    (f"{A}.env", env(fileKeyRef={**FILE_KEY, "path": "../a"}), ".fileKeyRef.path"),
    (
        f"{A}.env",
        [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        ".env[0].valueFrom",
    ),
    (f"{A}.envFrom", [{}], ".envFrom[0]"),
    (f"{A}.envFrom", [{"configMapRef": {}}], ".configMapRef.name"),
    (f"{A}.envFrom", [{"secretRef": {"name": "A_b"}}], ".secretRef.name"),
    (f"{A}.envFrom", [{"prefix": "a=", "secretRef": {"name": "s"}}], ".prefix"),
    (f"{A}.volumeMounts", mount(name="w"), ".volumeMounts[0].name"),
    (f"{A}.volumeMounts", [{"name": "v"}], ".volumeMounts[0].mountPath"),
    (f"{A}.volumeMounts", mount() * 2, ".volumeMounts[1].mountPath"),
    (f"{A}.volumeMounts", mount(subPath="/a"), ".subPath"),
    (f"{A}.volumeMounts", mount(subPath="a/../../b"), ".subPath"),
    (f"{A}.volumeMounts", mount(subPath="a", subPathExpr="b"), ".subPathExpr"),
    (f"{A}.volumeMounts", mount(mountPropagation="Both"), ".mountPropagation"),
    (f"{A}.volumeMounts", mount(mountPropagation="Bidirectional"), ".mountPropagation"),
    (f"{A}.volumeMounts", mount(recursiveReadOnly="Enabled"), ".recursiveReadOnly"),
    (f"{A}.resizePolicy", [{"resourceName": "gpu", "restartPolicy": "NotRequired"}], "Name"),
    (f"{A}.resizePolicy", [{"resourceName": "cpu", "restartPolicy": "Never"}], ".restartPolicy"),
    (f"{A}.livenessProbe", {}, ".livenessProbe"),
    (f"{A}.livenessProbe", [], ".livenessProbe"),
    (f"{A}.livenessProbe", {"periodSeconds": 3}, ".livenessProbe"),
    (f"{A}.ports", {}, ".ports"),
    (f"{A}.lifecycle", [], ".lifecycle"),
    (f"{A}.livenessProbe", {**EXEC, "httpGet": HTTP}, ".livenessProbe"),
    (f"{A}.livenessProbe", {"exec": {}}, ".exec.command"),
    (f"{A}.livenessProbe", {"httpGet": {"path": "/"}}, ".httpGet.port"),
    (f"{A}.livenessProbe", {"httpGet": {**HTTP, "port": "80"}}, ".httpGet.port"),
    (f"{A}.livenessProbe", {"httpGet": {**HTTP, "scheme": "http"}}, ".httpGet.scheme"),
    (f"{A}.livenessProbe", {"tcpSocket": {"port": 70000}}, ".tcpSocket.port"),
    (f"{A}.livenessProbe", {"grpc": {}}, ".grpc.port"),
    (f"{A}.livenessProbe", {**EXEC, "successThreshold": 2}, ".successThreshold"),
    (f"{A}.startupProbe", {**EXEC, "successThreshold": 2}, ".successThreshold"),
    (f"{A}.livenessProbe", {**EXEC, "periodSeconds": -1}, ".periodSeconds"),
    (f"{A}.livenessProbe", {**EXEC, "periodSeconds": 1.5}, ".periodSeconds"),
    (f"{A}.livenessProbe", {**EXEC, "terminationGracePeriodSeconds": 0}, "Seconds"),
    (f"{A}.readinessProbe", {**EXEC, "terminationGracePeriodSeconds": 9}, "Seconds"),
    (f"{A}.lifecycle", {"preStop": {}}, ".preStop"),
    (f"{A}.lifecycle", {"stopSignal": 15}, ".stopSignal"),
    (f"{A}.lifecycle", {"stopSignal": "SIGUSER1"}, ".stopSignal"),
    (f"{A}.lifecycle", {"preStop": {"sleep": {"seconds": 31}}}, ".sleep.seconds"),
    (f"{A}.lifecycle", {"postStart": {"exec": {"command": []}}}, ".exec.command"),
    (f"{A}.securityContext", {"runAsUser": -1}, ".runAsUser"),
    (f"{A}.securityContext", {"runAsUser": 2**31}, ".runAsUser"),
    (f"{A}.securityContext", {"runAsUser": "1000"}, ".runAsUser"),
    (f"{A}.securityContext", {"privileged": "yes"}, ".privileged"),
    (f"{A}.securityContext", {"procMount": "All"}, ".procMount"),
    (f"{A}.securityContext", {"seccompProfile": {}}, ".seccompProfile.type"),
    (f"{A}.securityContext", {"seccompProfile": {"type": "Default"}}, ".seccompProfile.type"),
    (f"{A}.securityContext", {"seccompProfile": {"type": "Localhost"}}, ".localhostProfile"),
    (f"{A}.securityContext", {"appArmorProfile": {"type": "Localhost"}}, ".localhostProfile"),
    (
        f"{A}.securityContext",
        {"privileged": True, "allowPrivilegeEscalation": False},
        ".allowPrivilegeEscalation",
    ),
    (f"{A}.resources", {"claims": [{"name": "gpu"}]}, ".claims[0].name"),
    (f"{A}.resources", {"requests": {"cpu": 2}, "limits": {"cpu": 1}}, ".requests.cpu"),
    (f"{A}.resources", {"limits": {"hugepages-2Mi": "2Mi"}}, ".resources"),
    (f"{A}.resources", {"requests": {"example.com/a": 1}}, "[example.com/a]"),
    (f"{A}.resources", {"limits": {"example.com/a": "1500m"}}, "[example.com/a]"),
    (f"{A}.resources", {"limits": {"ephemeral-storage": "-1"}}, ".ephemeral-storage"),
    (f"{SPEC}.restartPolicy", "Sometimes", "spec.restartPolicy"),
    (f"{SPEC}.dnsPolicy", "Cluster", "spec.dnsPolicy"),
    (f"{SPEC}.preemptionPolicy", "Always", "spec.preemptionPolicy"),
    (f"{SPEC}.activeDeadlineSeconds", 0, "spec.activeDeadlineSeconds"),
    (f"{SPEC}.activeDeadlineSeconds", 2**31, "spec.activeDeadlineSeconds"),
    (f"{SPEC}.terminationGracePeriodSeconds", "30", "spec.terminationGracePeriodSeconds"),
    (f"{SPEC}.terminationGracePeriodSeconds", 2**63, "spec.terminationGracePeriodSeconds"),
    (f"{SPEC}.priorityClassName", "High_1", "spec.priorityClassName"),
    (f"{SPEC}.runtimeClassName", "Kata!", "spec.runtimeClassName"),
    (f"{SPEC}.serviceAccountName", "A b", "spec.serviceAccountName"),
    (f"{SPEC}.hostname", "a.b", "spec.hostname"),
    (f"{SPEC}.subdomain", "-a", "spec.subdomain"),
    (f"{SPEC}.hostNetwork", "yes", "spec.hostNetwork"),
    (f"{SPEC}.nodeSelector", {"a b": "c"}, "[a b]"),
    (f"{SPEC}.nodeSelector", {"a": "b c"}, ".nodeSelector.a"),
    (f"{SPEC}.nodeSelector", {"a": True}, ".nodeSelector.a"),
    (f"{SPEC}.securityContext", {"runAsGroup": -1}, ".runAsGroup"),
    (f"{SPEC}.securityContext", {"supplementalGroups": [-1]}, ".supplementalGroups[0]"),
    (f"{SPEC}.securityContext", {"fsGroupChangePolicy": "Never"}, ".fsGroupChangePolicy"),
    (f"{SPEC}.securityContext", {"sysctls": [{"name": "A B"}]}, ".sysctls[0].name"),
    (f"{SPEC}.securityContext", [], "spec.securityContext"),
    (f"{SPEC}.resourceClaims", [{"name": "a"}, {"name": "a"}], ".resourceClaims[1].name"),
    (f"{SPEC}.volumes", [{"emptyDir": {}}], ".volumes[0].name"),
    (f"{SPEC}.volumes", [{"name": "A"}], ".volumes[0].name"),
    (f"{SPEC}.volumes", [{"name": "v"}] * 2, ".volumes[1].name"),
    (f"{SPEC}.volumes", volume(emptyDir={}, secret={"secretName": "s"}), ".volumes[0]"),
    (f"{SPEC}.volumes", volume(emptyDir={"sizeLimit": "-1"}), ".emptyDir.sizeLimit"),
    (f"{SPEC}.volumes", volume(emptyDir={"sizeLimit": "1Zi"}), ".emptyDir.sizeLimit"),
    (f"{SPEC}.volumes", volume(configMap={}), ".configMap.name"),
    (f"{SPEC}.volumes", volume(configMap={"name": "c", "defaultMode": 644}), ".defaultMode"),
    (f"{SPEC}.volumes", volume(secret={"secretName": "s", "items": [{"key": "a"}]}), ".path"),
    (
        f"{SPEC}.volumes",
        volume(configMap={"name": "c", "items": [{"key": "a", "path": "../b"}]}),
        ".items[0].path",
    ),
    (f"{SPEC}.volumes", volume(hostPath={"path": "/a/../b"}), ".hostPath.path"),
    (f"{SPEC}.volumes", volume(hostPath={"path": "/a", "type": "Dir"}), ".hostPath.type"),
    (f"{SPEC}.volumes", volume(persistentVolumeClaim={}), ".claimName"),
    (f"{SPEC}.volumes", volume(downwardAPI={"items": [{"path": "a"}]}), ".items[0]"),
    (
        f"{SPEC}.volumes",
        volume(
            projected={"sources": [{"serviceAccountToken": {"path": "a", "expirationSeconds": 9}}]}
        ),
        ".expirationSeconds",
    ),
    ("metadata.labels", {"a b": "c"}, "[a b]"),
    ("metadata.labels", {"a": "b c"}, "metadata.labels.a"),
    ("metadata.labels", {"a": 1}, "metadata.labels.a"),
    ("metadata.labels", {"a": "x" * 64}, "metadata.labels.a"),
    ("metadata.annotations", {"a b": ""}, "[a b]"),
    ("metadata.annotations", {"a": "x" * 262144}, "metadata.annotations"),
    (
        "metadata.annotations",
        {"container.apparmor.security.beta.kubernetes.io/z": "unconfined"},
        "io/z]",
    ),
]


@pytest.mark.parametrize(
    ("path", "value", "place"),
    REFUSED,
    ids=lambda value: str(value)[:50],
)
def test_what_the_api_server_refuses_is_one_fault_with_its_place(
    path: str, value: Any, place: str
) -> None:
    assert faults_of(BASE) == []
    found = faults_of(with_value(path, value))
    assert len(found) == 1, found
    where, message, hint = found[0]
    assert where.endswith(place)
    assert message
    assert hint or "priority" in where or "must be" in message
    assert "\n" not in message + hint


@pytest.mark.parametrize(("path", "value", "place"), REFUSED, ids=lambda value: str(value)[:50])
def test_a_pod_that_passed_hides_no_fault_of_the_next(path: str, value: Any, place: str) -> None:
    passed = with_value("metadata.name", "passed")
    refused = with_value(path, value)
    assert faults_of(passed, refused) == faults_of(refused)


def test_a_value_that_was_refused_once_is_refused_again() -> None:
    document = with_value(f"{A}.env", [{"name": "A", "value": 1}])
    other = with_value("metadata.name", "second", document)
    assert len(faults_of(document, other)) == 2


TAKEN: list[tuple[str, Any]] = [
    (f"{INIT}.restartPolicy", "Always"),
    (f"{INIT}.restartPolicy", "OnFailure"),
    (f"{A}.restartPolicy", "Never"),
    (f"{A}.image", None),
    (f"{A}.command", ["sleep", None]),
    (f"{A}.args", None),
    (f"{A}.imagePullPolicy", ""),
    (f"{A}.ports", [{"containerPort": 80, "protocol": "SCTP", "name": "http-2", "hostIP": ""}]),
    (f"{A}.ports", [{"containerPort": 53, "hostPort": 53, "protocol": p} for p in ("TCP", "UDP")]),
    (f"{A}.ports", []),
    (f"{A}.ports", None),
    (f"{A}.env", [{"name": "a.b-c d/1", "value": ""}, {"name": "1", "value": None}]),
    (f"{A}.env", env(fieldRef={"apiVersion": "v1", "fieldPath": "status.podIPs"})),
    (f"{A}.env", env(fieldRef={"fieldPath": "metadata.annotations['A/b']"})),
    (f"{A}.env", env(fieldRef={"fieldPath": "metadata.labels['app.kubernetes.io/name']"})),
    (f"{A}.env", env(resourceFieldRef={"resource": "limits.cpu", "divisor": "0"})),
    (f"{A}.env", env(resourceFieldRef={"resource": "limits.cpu", "divisor": "1m"})),
    (f"{A}.env", env(resourceFieldRef={"resource": "requests.memory", "divisor": "1Mi"})),
    (f"{A}.env", env(resourceFieldRef={"resource": "limits.hugepages-2Mi"})),
    (f"{A}.env", env(secretKeyRef={"name": "s", "key": "a.b", "optional": True})),
    (f"{A}.envFrom", [{"prefix": "X_", "configMapRef": {"name": "c", "optional": True}}]),
    (f"{A}.volumeMounts", mount(subPath="a/b", readOnly=True, recursiveReadOnly="Enabled")),
    (f"{A}.livenessProbe", {**EXEC, "successThreshold": 0, "timeoutSeconds": 0}),
    (f"{A}.livenessProbe", {"httpGet": {"port": "http", "scheme": "HTTPS"}, "periodSeconds": 3.0}),
    (f"{A}.readinessProbe", {"grpc": {"port": 1}, "successThreshold": 3}),
    (f"{A}.lifecycle", {"preStop": {"sleep": {"seconds": 30}}, "stopSignal": None}),
    (f"{A}.lifecycle", {}),
    (f"{A}.securityContext", {"runAsUser": 2**31 - 1, "seccompProfile": {"type": "Unconfined"}}),
    (f"{A}.securityContext", {"windowsOptions": {}, "capabilities": {"add": ["NET_ADMIN"]}}),
    (f"{A}.resources", {"claims": []}),
    (f"{A}.terminationMessagePath", "/dev/termination-log"),
    (f"{SPEC}.terminationGracePeriodSeconds", -1),
    (f"{SPEC}.activeDeadlineSeconds", 2**31 - 1),
    (f"{SPEC}.priorityClassName", ""),
    (f"{SPEC}.runtimeClassName", ""),
    (f"{SPEC}.hostname", ""),
    (f"{SPEC}.nodeSelector", {"kubernetes.io/os": "linux", "a": ""}),
    (f"{SPEC}.securityContext", {"sysctls": [{"name": "net/core.somaxconn", "value": "1"}]}),
    (f"{SPEC}.securityContext", {}),
    (f"{SPEC}.volumes", volume()),
    (f"{SPEC}.volumes", volume(emptyDir=None)),
    (f"{SPEC}.volumes", volume(emptyDir={"medium": "Memory", "sizeLimit": "64Mi"})),
    (f"{SPEC}.volumes", volume(emptyDir={"medium": "Future", "sizeLimit": 0})),
    (f"{SPEC}.volumes", volume(hostPath={"path": "relative", "type": ""})),
    (f"{SPEC}.volumes", volume(configMap={"name": "A b", "defaultMode": 420})),
    (f"{SPEC}.volumes", volume(somethingNew={"x": 1})),
    (f"{SPEC}.ephemeralContainers", [{"name": "d", "image": "x", "targetContainerName": "a"}]),
    (f"{SPEC}.unknownField", {"a": 1}),
    ("metadata.labels", {"App": "", "a/b_c.d": "X-1"}),
    ("metadata.annotations", {"Example.com/Some_Key": "x"}),
    (
        "metadata.annotations",
        {"container.apparmor.security.beta.kubernetes.io/i": "localhost/x"},
    ),
]


def test_a_pod_that_an_api_server_took_is_not_refused_for_a_newer_field() -> None:
    document = with_value("spec.dnsPolicy", "ClusterSecond")
    assert [path for path, _, _ in faults_of(document)] == ["spec.dnsPolicy"]
    taken = with_value("metadata.uid", "a-b", with_value("status.phase", "Running", document))
    found = pods_from(json_documents(json.dumps(taken).encode(), "f.json"), Options())
    assert (len(found.pods), found.faults) == (1, [])
    (problem,) = found.problems
    assert (problem.severity, problem.where) == (
        "warning",
        "f.json: Pod default/web: spec.dnsPolicy",
    )
    broken = with_value("spec.containers.0.resources", {"limits": {"memory": "1Zi"}}, taken)
    assert [path for path, _, _ in faults_of(broken)] == [
        "spec.containers[0].resources.limits.memory"
    ]
