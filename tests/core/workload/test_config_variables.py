"""Variables from ConfigMaps and Secrets, as a kubelet makes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from qoslet.core.api.config.objects import ConfigKey, ConfigObject, ConfigObjects, config_object
from qoslet.core.api.pod import Container, Pod
from qoslet.core.workload.config.references import ConfigUsers, references
from qoslet.core.workload.env import PodEnvironment
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.core.workload.pod_reader import read
from qoslet.core.workload.process_spec import PodSpec


def objects(*documents: dict[str, Any]) -> ConfigObjects:
    """The objects of these documents."""
    made: dict[ConfigKey, ConfigObject] = {}
    for each in documents:
        (one,), faults = config_object(each["kind"], each, "f")
        assert faults == []
        made[one.key] = one
    return made


def config(name: str = "c", namespace: str = "default", **data: str) -> dict[str, Any]:
    return {"kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def secret(name: str = "s", namespace: str = "default", **data: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace}
    return {"kind": "Secret", "metadata": meta, "stringData": data}


def spec_of(
    container: dict[str, Any], found: ConfigObjects, *, images: bool = False, **spec: Any
) -> PodSpec:
    """A pod with this container."""
    app = {"name": "app", "image": "i", "command": ["true"], **container}
    document = {"metadata": {"name": "p"}, "spec": {"containers": [app], **spec}}
    shape = Container("app", "regular", "spec.containers[0]")
    pod = Pod("default", "p", "u-1", "p.yaml: Pod default/p", (shape,))
    around = PodEnvironment("n1", config=found)
    return (read_images if images else read)(pod, document, around=around)


def env(spec: PodSpec) -> dict[str, str]:
    made = dict(spec.launches[0].env)
    return {name: value for name, value in made.items() if name not in ("PATH", "HOME")}


def of(kind: str, name: str, key: str, **more: Any) -> dict[str, Any]:
    return {f"{kind}KeyRef": {"name": name, "key": key, **more}}


@pytest.mark.parametrize("images", [False, True])
def test_env_from_comes_first_and_env_sees_it(images: bool) -> None:
    container = {
        "envFrom": [
            {"configMapRef": {"name": "c"}},
            {"prefix": "S_", "secretRef": {"name": "s"}},
            {"secretRef": {"name": "s", "optional": False}},
        ],
        "env": [
            {"name": "both", "value": "env"},
            {"name": "url", "value": "http://$(host):$(S_port)$(none)"},
            {"name": "key", "valueFrom": of("secret", "s", "port")},
            {"name": "conf", "valueFrom": of("configMap", "c", "host")},
        ],
        "args": ["$(url)"],
    }
    found = objects(config(host="h", both="c", port="1"), secret(port="2", both="s"))
    spec = spec_of(container, found, images=images)
    assert env(spec) == {
        "host": "h",
        "both": "env",
        "port": "2",
        "S_port": "2",
        "S_both": "s",
        "url": "http://h:2$(none)",
        "key": "2",
        "conf": "h",
    }
    assert spec.launches[0].argv[-1] == "http://h:2$(none)"
    assert (spec.unmet, spec.runnable) == ((), True)
    assert not any(row.severity in ("warning", "error") for row in spec.problems)


MISSING = [
    ({"envFrom": [{"configMapRef": {"name": "x"}}]}, "envFrom[0]", 'configmap "x" not found'),
    ({"envFrom": [{"secretRef": {"name": "x"}}]}, "envFrom[0]", 'secret "x" not found'),
    ({"env": [{"name": "A", "valueFrom": of("configMap", "x", "k")}]}, "env[0] (A)", 'configmap "x" not found'),
    ({"env": [{"name": "A", "valueFrom": of("secret", "x", "k")}]}, "env[0] (A)", 'secret "x" not found'),
    ({"env": [{"name": "A", "valueFrom": of("configMap", "c", "x")}]}, "env[0] (A)", "couldn't find key x in ConfigMap default/c"),
    ({"env": [{"name": "A", "valueFrom": of("secret", "s", "x")}]}, "env[0] (A)", "couldn't find key x in Secret default/s"),
    ({"env": [{"name": "A", "valueFrom": of("configMap", "other", "k")}]}, "env[0] (A)", 'configmap "other" not found'),
]  # fmt: skip


@pytest.mark.parametrize(("container", "field", "message"), MISSING)
def test_what_is_missing_is_waited_for_in_a_kubelets_words(
    container: dict[str, Any], field: str, message: str
) -> None:
    found = objects(config(k="v"), secret(k="v"), config("other", "elsewhere", k="v"))
    spec = spec_of(container, found)
    (lacks,) = spec.unmet
    assert (lacks.field, lacks.reason) == (
        f"spec.containers[0].{field}",
        "CreateContainerConfigError",
    )
    assert lacks.message == message
    assert spec.runnable, "it may run once that is there"
    (row,) = [row for row in spec.problems if row.severity == "warning"]
    assert message in row.message


@pytest.mark.parametrize(("container", "field", "message"), MISSING)
def test_what_is_optional_is_left_out(container: dict[str, Any], field: str, message: str) -> None:
    optional = msgspec.json.decode(
        msgspec.json.encode(container).replace(b'"name":"x"', b'"optional":true,"name":"x"')
        .replace(b'"key":"x"', b'"key":"x","optional":true')
        .replace(b'"name":"other"', b'"optional":true,"name":"other"')
    )  # fmt: skip
    spec = spec_of(optional, objects(config(k="v"), secret(k="v")))
    assert (env(spec), spec.unmet) == ({}, ())


def test_what_is_no_text_is_no_variable_and_binary_data_is_none() -> None:
    one = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "/w=="}}
    spec = spec_of({"envFrom": [{"secretRef": {"name": "s"}}]}, objects(one))
    assert "is not UTF-8" in spec.unmet[0].message
    one = {"kind": "ConfigMap", "metadata": {"name": "c"}, "binaryData": {"k": "YQ=="}}
    assert env(spec_of({"envFrom": [{"configMapRef": {"name": "c"}}]}, objects(one))) == {}


def test_a_nul_is_refused_without_the_value() -> None:
    one = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "hunter2\0"}}
    spec = spec_of({"envFrom": [{"secretRef": {"name": "s"}}]}, objects(one))
    assert not spec.runnable
    assert "hunter2" not in f"{spec.problems}"


@pytest.mark.parametrize("images", [False, True])
def test_other_values_are_the_same_containers_and_other_references_are_not(images: bool) -> None:
    container = {
        "envFrom": [{"secretRef": {"name": "s"}}],
        "env": [{"name": "A", "valueFrom": of("secret", "s", "k")}],
        "args": ["$(A)"],
    }
    first = spec_of(container, objects(secret(k="1")), images=images)
    others = [objects(secret(k="2", new="3")), objects()]
    assert {spec_of(container, one, images=images).digest() for one in others} == {first.digest()}
    assert first != spec_of(container, others[0], images=images)
    prefixed = {**container, "envFrom": [{"prefix": "P", "secretRef": {"name": "s"}}]}
    assert spec_of(prefixed, objects(secret(k="1")), images=images).digest() != first.digest()


def test_no_value_is_left_for_others_to_read() -> None:
    container = {"envFrom": [{"secretRef": {"name": "s"}}]}
    for images in (False, True):
        spec = spec_of(container, objects(secret(k="hunter2")), images=images)
        assert spec.from_config
        assert b"hunter2" not in msgspec.json.encode(spec.without_variables())


def test_a_secret_in_a_sub_path_is_not_shown() -> None:
    container = {
        "env": [{"name": "A", "valueFrom": of("secret", "s", "k")}],
        "volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "$(A)"}],
    }
    for text in ("../hunter2", "/hunter2", "hunter2\n", "$(hunter2)"):
        spec = spec_of(
            container, objects(secret(k=text)), volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}]
        )  # fmt: skip
        assert not spec.runnable
        assert "hunter2" not in f"{spec.problems}"


def test_references_are_found_wherever_a_pod_has_them() -> None:
    document = {
        "spec": {
            "initContainers": [{"envFrom": [{"secretRef": {"name": "a"}}]}],
            "containers": [{"env": [{"name": "X", "valueFrom": of("configMap", "b", "k")}]}],
            "volumes": [
                {"name": "v", "secret": {"secretName": "c"}},
                {"name": "w", "configMap": {"name": "d"}},
                {"projected": {"sources": [{"secret": {"name": "e"}}, {"configMap": {"name": "f"}}]}},
                {"emptyDir": {}},
            ],
        }
    }  # fmt: skip
    found = {(one.kind, one.namespace, one.name) for one in references("n", document)}
    assert found == {
        ("Secret", "n", "a"),
        ("ConfigMap", "n", "b"),
        ("Secret", "n", "c"),
        ("ConfigMap", "n", "d"),
        ("Secret", "n", "e"),
        ("ConfigMap", "n", "f"),
    }
    users = ConfigUsers()
    users.put("u", "n", document)
    assert users.of([ConfigKey("Secret", "n", "a")]) == {"u"}
    users.put("u", "n", {"spec": {}})
    assert users.of([ConfigKey("Secret", "n", "a")]) == set()
