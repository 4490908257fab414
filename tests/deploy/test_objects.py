"""What ``deploy/`` installs: the same by Kustomize and by Helm, with the least rights."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from docs.generate import deploy_parts
from qoslet.cli.commands import COMMANDS, parser_of
from qoslet.core.node.cluster.rights import RIGHTS, Use
from qoslet.host.nri.link import SOCKET
from qoslet.version import VERSION
from tests.cli.fixtures import run
from tests.deploy.objects import (
    CHART,
    DEPLOY,
    KUSTOMIZE,
    chart,
    documents,
    kustomized,
    rendered,
    rules_of,
)
from tests.paths import REPO

COMPONENTS: dict[str, Use] = {
    "api-source": "api",
    "kubelet-before-1.33": "kubelet-before-1.33",
    "evict": "evict",
    "node-condition": "node-condition",
}


REFUSAL = ("Job", "qoslet-needs-mode-release-before-uninstall")
USERS = {"fleet", "bundle"}
"""What is asked with a user's own rights."""


def rules(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """What the service account may do, by resource; those of its own namespace, too."""
    found: dict[str, tuple[str, ...]] = {}
    for scope in ("ClusterRole", "Role"):
        roles = {name: one for (kind, name), one in objects.items() if kind == scope}
        bound = {
            one["roleRef"]["name"]
            for (kind, _), one in objects.items()
            if kind == f"{scope}Binding" and one["roleRef"]["kind"] == scope
        }
        assert bound == set(roles)
        for role in roles.values():
            for rule in role["rules"]:
                (group,) = rule["apiGroups"]
                names = [f"{one}.{group}" if group else one for one in rule["resources"]]
                found |= {name: tuple(rule["verbs"]) for name in names}
                local = {one.resource for one in RIGHTS if one.namespace and one.use not in USERS}
                assert all((name in local) == (scope == "Role") for name in names)
    return found


def rbac(name: str) -> dict[str, bool]:
    """The chart's values of rights, with one of them."""
    return dict.fromkeys(("api", "nodesProxy", "evict", "nodeCondition"), False) | {name: True}


def pod_spec(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = objects["DaemonSet", "qoslet"]["spec"]["template"]["spec"]
    return spec


def test_the_base_grants_what_the_kubelet_is_asked_for() -> None:
    assert rules(kustomized()) == rules_of("kubelet")


@pytest.mark.parametrize(("component", "use"), COMPONENTS.items())
def test_a_component_grants_what_its_use_takes(component: str, use: Use) -> None:
    assert rules(kustomized(component)) == {**rules_of("kubelet"), **rules_of(use)}


def test_every_right_of_the_agent_is_granted_by_a_component() -> None:
    granted = {"kubelet", *COMPONENTS.values()}
    assert {one.use for one in RIGHTS} - granted == USERS


@pytest.mark.parametrize(
    ("values", "components"),
    [
        ({}, ()),
        ({"mode": "release"}, ("release",)),
        ({"monitoring": True}, ("monitoring",)),
        ({"monitoring": True, "mode": "release"}, ("monitoring", "release")),
        ({"monitoring": True, "mode": "release"}, ("release", "monitoring")),
        ({"nri": True}, ("nri",)),
        ({"nri": True, "mode": "release"}, ("nri", "release")),
        ({"nri": True, "mode": "release"}, ("release",)),
        ({"realTime": True}, ("real-time",)),
        ({"realTime": True, "nri": True}, ("nri", "real-time")),
        ({"realTime": True, "mode": "release"}, ("real-time", "release")),
        ({"rbac": rbac("api")}, ("api-source",)),
        ({"rbac": rbac("nodesProxy")}, ("kubelet-before-1.33",)),
        ({"rbac": rbac("evict")}, ("evict",)),
        ({"rbac": rbac("nodeCondition")}, ("node-condition",)),
    ],
)
def test_chart_and_base_are_the_same(values: dict[str, Any], components: tuple[str, ...]) -> None:
    by_helm, by_kustomize = chart(**values), kustomized(*components)
    for one in (by_helm, by_kustomize):
        policy = one.pop(("ConfigMap", "qoslet-policy"))["data"]["policy.yaml"]
        assert yaml.safe_load(policy) == {
            "apiVersion": "qoslet/v1",
            "kind": "AgentPolicy",
            "mode": "watch",
        }
    del by_kustomize["Namespace", "qoslet"]
    job = by_helm.pop(REFUSAL, None)
    assert (job is None) == ("release" in components)
    assert by_helm == by_kustomize


def test_a_policy_that_changes_is_no_new_agent() -> None:
    templates = [
        chart(policy={"mode": mode})["DaemonSet", "qoslet"]["spec"]["template"]
        for mode in ("watch", "protect")
    ]
    assert templates[0] == templates[1]
    (mount,) = [
        one for one in pod_spec(chart())["containers"][0]["volumeMounts"] if one["name"] == "policy"
    ]
    # kubelets never change a file that is mounted alone
    assert "subPath" not in mount
    (head,) = documents((KUSTOMIZE / "base" / "kustomization.yaml").read_text())
    assert head["configMapGenerator"][0]["options"] == {"disableNameSuffixHash": True}
    text = chart(policy={"mode": "guard", "memoryQos": "qoslet"})["ConfigMap", "qoslet-policy"]
    assert yaml.safe_load(text["data"]["policy.yaml"])["memoryQos"] == "qoslet"


def test_alerts_and_dashboard_are_those_of_the_program() -> None:
    made = deploy_parts.files()
    assert len(made) == 4
    for path, text in made.items():
        assert path.read_text() == text, "make docs writes it"
    objects = kustomized("monitoring")
    alerts = yaml.safe_load(run("metrics", "--agent", "-o", "rules").stdout)
    assert objects["PrometheusRule", "qoslet"]["spec"] == alerts
    board = objects["ConfigMap", "qoslet-dashboard"]["data"]["qoslet-agent.json"]
    assert json.loads(board) == json.loads(run("metrics", "--agent", "-o", "grafana").stdout)
    endpoint = objects["PodMonitor", "qoslet"]["spec"]["podMetricsEndpoints"][0]
    (port,) = pod_spec(objects)["containers"][0]["ports"]
    assert port["name"] == endpoint["port"]
    assert f"$(NODE_IP):{port['containerPort']}" in pod_spec(objects)["containers"][0]["args"][-1]
    assert "ports" not in pod_spec(kustomized())["containers"][0]


def test_an_uninstall_is_refused_until_values_are_released() -> None:
    job = chart()[REFUSAL]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    done = subprocess.run(["python3", "-c", *container["args"]], capture_output=True, text=True)
    assert done.returncode == 1
    assert "mode=release" in done.stderr
    # Helm prints no more than the name of a Job that fails
    assert "needs-mode-release" in job["metadata"]["name"]


def test_the_plugin_does_not_run_while_values_are_given_back() -> None:
    given = pod_spec(kustomized("nri"))
    agent, plugin = given["containers"]
    assert (agent["name"], plugin["name"]) == ("agent", "nri")
    plugins = plugin["securityContext"]["capabilities"].pop("add")
    agents = agent["securityContext"]["capabilities"].pop("add")
    assert (agents, plugins) == (["SYS_PTRACE"], ["SYS_PTRACE", "SYS_NICE"])
    assert plugin["securityContext"] == agent["securityContext"]
    assert plugin["args"][1:] == agent["args"][1:], "one policy, one way to the pods"
    writable = {one["mountPath"] for one in plugin["volumeMounts"] if not one.get("readOnly")}
    assert writable == {"/sys/fs/cgroup", "/run/qoslet"}
    (socket,) = [one for one in given["volumes"] if one["name"] == "nri"]
    assert socket["hostPath"]["path"] == os.path.dirname(SOCKET)
    released = pod_spec(kustomized("nri", "release"))
    assert released == pod_spec(kustomized("release"))
    with pytest.raises(ValueError, match="args/1"):
        kustomized("release", "nri")


def test_every_value_is_used_and_every_used_one_is_there() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    text = "".join(path.read_text() for path in (CHART / "templates").glob("*.yaml"))
    used = set(re.findall(r"\.Values\.([A-Za-z.]+)", text))
    names = {
        f"{name}.{inner}" if name == "rbac" else name
        for name, value in values.items()
        for inner in (value if name == "rbac" else [""])
    }
    assert used == names
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert not schema["additionalProperties"], "a value that is misspelt is refused"
    assert set(schema["properties"]) == {*values, "global"}
    assert set(schema["properties"]["rbac"]["properties"]) == set(values["rbac"])
    jsonschema.validate(values, schema)
    mistakes: list[dict[str, Any]]
    mistakes = [{"mode": "relase"}, {"rbac": {"evcit": True}}, {"nodeSelektor": {}}]
    mistakes += [
        {"nameOverride": "other"},
        {"extraArgs": ["interval"]},
        {"imagePullSecrets": ["r"]},
    ]
    for wrong in mistakes:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**values, **wrong}, schema)
    head = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert head["appVersion"] == VERSION


def test_odd_values_stay_what_they_are() -> None:
    secrets, more = [{"name": "r"}], ["--interval=60", "--node-name=a: b"]
    taints = [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]
    given = {"imagePullSecrets": secrets, "extraArgs": more, "tolerations": taints}
    spec = pod_spec(chart(**given, monitoring=True))
    assert spec["containers"][0]["args"][-2:] == more, "the last one counts"
    job = chart(**given)[REFUSAL]["spec"]["template"]["spec"]
    for one in (spec, job):
        assert (one["imagePullSecrets"], one["tolerations"]) == (secrets, taints)
    (first,) = pod_spec(chart(mode="release", cgroupRoot="/a,b]"))["initContainers"]
    assert first["args"] == ["release", "--cgroup-root=/a,b]"]


def test_values_of_an_earlier_chart_are_enough() -> None:
    new = ("imagePullSecrets", "extraArgs", "nriResources", "realTime")
    assert chart(*new) == chart()
    later, earlier = chart(nri=True), chart(*new, nri=True)
    assert pod_spec(earlier)["containers"][1].pop("resources") is None
    del pod_spec(later)["containers"][1]["resources"]
    assert earlier == later


def test_a_template_without_an_end_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("{{- if .Values.a }}\nkind: A\n")
    with pytest.raises(AssertionError, match="no end"):
        rendered(path, {"a": True})


def test_root_has_one_capability_and_nothing_of_the_node_is_mounted_but_what_is_named() -> None:
    spec = pod_spec(kustomized("release"))
    containers = [*spec["initContainers"], *spec["containers"]]
    for one in containers:
        security = one["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"]["drop"] == ["ALL"]
    added = [one["securityContext"]["capabilities"].get("add") for one in containers]
    assert added == [None, ["SYS_PTRACE"]]
    paths = {one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    assert paths == {"/sys/fs/cgroup", "/run/qoslet", "/run/dbus", "/run/systemd"}
    writable = {
        one["mountPath"] for one in spec["containers"][0]["volumeMounts"] if not one.get("readOnly")
    }
    assert writable == {"/sys/fs/cgroup", "/run/qoslet"}
    namespace = kustomized()["Namespace", "qoslet"]
    label = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert label == "privileged", "which hostPID, hostNetwork and hostPath take"


def test_our_own_plan_and_lint_accept_it(tmp_path: Path) -> None:
    path = tmp_path / "daemonset.yaml"
    path.write_text(yaml.safe_dump(kustomized()["DaemonSet", "qoslet"]))
    node = str(REPO / "docs" / "n1.yaml")
    done = run("plan", str(path), "--node", node, "-o", "json")
    assert done.returncode == 0, done.stderr
    files = {
        row["file"]
        for one in json.loads(done.stdout)["cgroups"]
        for row in one["settings"]
        if one["container"] == "agent"
    }
    assert "memory.max" in files
    assert "memory.high" not in files, "nothing may hold the agent up"
    done = run("lint", str(path), "--node", node, "-o", "json")
    assert done.returncode == 0, done.stderr
    own = [one for one in json.loads(done.stdout)["findings"] if one["pod"]]
    assert [one for one in own if one["severity"] in ("warning", "error")] == []


@pytest.mark.skipif("agent" not in COMMANDS, reason="this tree has no command agent")
@pytest.mark.parametrize("components", [(), ("release",), ("monitoring",), ("nri",)])
def test_the_program_takes_the_arguments(components: tuple[str, ...]) -> None:
    spec = pod_spec(kustomized(*components))
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    commands = [one["args"] for one in containers]
    commands += [
        one["readinessProbe"]["exec"]["command"][1:]
        for one in containers
        if "readinessProbe" in one
    ]
    for command, *rest in commands:
        parser_of(command).parse_args(rest)


def test_the_image_installs_what_the_lock_files_pin() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert text.count("FROM ${BASE}") == 2
    (base,) = re.findall(r"^ARG BASE=(\S+)$", text, re.MULTILINE)
    assert "/" not in base, "a name without a registry"
    (extras,) = re.findall(r'--build-arg EXTRAS="([a-z ]+)"', text)
    assert [
        one for one in extras.split() if not (REPO / f"requirements-{one}.lock").is_file()
    ] == []
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    missing = [name for row in copied for name in row.split() if not list(REPO.glob(name))]
    assert missing == []
    installs = [line for line in text.splitlines() if " install " in line]
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE) == ["65532:65532"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_patch_of_the_guide_names_another_cgroup_root(tmp_path: Path) -> None:
    guide = (REPO / "docs" / "how-to" / "cluster.md").read_text(encoding="utf-8")
    (patch,) = re.findall(r"```yaml\n(patches:\n.*?)```", guide, re.DOTALL)
    shutil.copytree(KUSTOMIZE, tmp_path / "kustomize")
    (tmp_path / "over").mkdir()
    head = {
        "resources": ["../kustomize/base"],
        "components": ["../kustomize/components/release"],
    }
    (tmp_path / "over" / "kustomization.yaml").write_text(yaml.safe_dump(head) + patch)
    words = ["kubectl", "kustomize", str(tmp_path / "over")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {one["kind"]: one for one in documents(done.stdout)}
    spec = found["DaemonSet"]["spec"]["template"]["spec"]
    assert spec["initContainers"][0]["args"] == ["release", "--cgroup-root=/ROOT/kubepods"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize(
    "components",
    [
        (),
        ("release",),
        ("release", "monitoring"),
        (*COMPONENTS, "monitoring", "nri"),
        ("monitoring", "nri", "release"),
    ],
)
def test_kubectl_puts_it_together_alike(tmp_path: Path, components: tuple[str, ...]) -> None:
    shutil.copytree(KUSTOMIZE, tmp_path / "kustomize")
    (tmp_path / "over").mkdir()
    head = {
        "resources": ["../kustomize/base"],
        "components": [f"../kustomize/components/{one}" for one in components],
    }
    (tmp_path / "over" / "kustomization.yaml").write_text(yaml.safe_dump(head))
    words = ["kubectl", "kustomize", str(tmp_path / "over")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected, found = kustomized(*components), {}
    for one in documents(done.stdout):
        name = re.sub(r"^(qoslet-policy)-\w+$", r"\1", one["metadata"]["name"])
        found[one["kind"], name] = one
    assert found.keys() == expected.keys()
    (volume,) = [one["configMap"] for one in pod_spec(found)["volumes"] if "configMap" in one]
    assert volume["name"] == found["ConfigMap", "qoslet-policy"]["metadata"]["name"]
    volume["name"] = "qoslet-policy"
    assert found["DaemonSet", "qoslet"] == expected["DaemonSet", "qoslet"]
