"""Pod templates and containers that custom resources have at other places than ``spec.template``."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.api.owners import Workload
from tests.core.api.test_custom_resources import CONTAINERS, TEMPLATE, custom, skipped
from tests.core.api.test_manifest import container, faults_of, loaded, pods_of

EXPERIMENT = {
    "templates": [
        {"name": "baseline", "replicas": 2, "selector": {}, "template": TEMPLATE},
        {"name": "canary", "template": TEMPLATE},
    ]
}
TRAINING = {
    "tfReplicaSpecs": {
        "Worker": {"replicas": 2, "template": TEMPLATE},
        "PS": {"template": TEMPLATE},
    }
}
JOB = {"parallelism": 3, "completions": 2, "template": TEMPLATE}


@pytest.mark.parametrize(
    ("api", "kind", "spec", "names", "pods"),
    [
        (
            "argoproj.io/v1alpha1",
            "Experiment",
            EXPERIMENT,
            ["web-baseline", "web-canary"],
            ["web-baseline-0", "web-baseline-1", "web-canary-0"],
        ),
        (
            "kubeflow.org/v1",
            "TFJob",
            TRAINING,
            ["web-worker", "web-ps"],
            ["web-worker-0", "web-worker-1", "web-ps-0"],
        ),
        ("keda.sh/v1alpha1", "ScaledJob", {"jobTargetRef": JOB}, ["web"], ["web-0", "web-1"]),
        ("example.com/v1", "Cron", {"jobTemplate": {"spec": JOB}}, ["web"], ["web-0", "web-1"]),
        (
            "apps.kruise.io/v1alpha1",
            "AdvancedCronJob",
            {"template": {"jobTemplate": {"spec": JOB}}},
            ["web"],
            ["web-0", "web-1"],
        ),
    ],
)
def test_templates_at_other_places_are_read(
    api: str, kind: str, spec: Any, names: list[str], pods: list[str]
) -> None:
    document = custom(api, kind, spec)
    result = loaded(document, keep_raw=True)
    assert (result.faults, result.problems) == ([], [])
    assert [each.name for each in result.pods] == names
    assert {each.where for each in result.pods} == {f"f.json: {kind} default/web"}
    assert set(result.templates.values()) == {Workload(kind, "default", "web")}
    assert all(raw["spec"]["containers"] == CONTAINERS for raw in result.raw.values())
    assert [each.name for each in pods_of(document, expand=True)] == pods


def test_a_fault_stands_at_its_place_in_the_resource() -> None:
    bad = {"spec": {"containers": [container(resources={"limits": {"cpu": "1x"}})]}}
    templates = [EXPERIMENT["templates"][0], {"name": "canary", "template": bad}]
    (fault,) = faults_of(custom("argoproj.io/v1alpha1", "Experiment", {"templates": templates}))
    field = "spec.templates[1].template.spec.containers[0].resources.limits.cpu"
    assert fault.where == f"f.json: Experiment default/web: {field}"


@pytest.mark.parametrize(
    "templates",
    [
        [EXPERIMENT["templates"][0]] * 2,
        [EXPERIMENT["templates"][0], {"name": "canary", "template": {"spec": {}}}],
        [{"name": 1, "template": TEMPLATE}],
        [{"template": TEMPLATE}],
    ],
)
def test_templates_are_read_together_or_not_at_all(templates: Any) -> None:
    (row,) = skipped(custom("argoproj.io/v1alpha1", "Experiment", {"templates": templates}))
    assert "does not read its containers at spec.templates[].template" in row.message


def test_replica_sets_of_an_experiment_count_once() -> None:
    experiment = custom("argoproj.io/v1alpha1", "Experiment", EXPERIMENT)
    owners = [{"kind": "Experiment", "name": "web", "controller": True}]
    made = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-canary", "ownerReferences": owners},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
    }
    result = loaded(experiment, made)
    assert sorted(each.name for each in result.pods) == ["web-baseline", "web-canary"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"containers": [{"name": "c"}]}, "spec.containers"),
        ({"containers": [{"image": "a"}, {}]}, "spec.containers"),
        (
            {"templates": [{"steps": [[{"name": "s"}]]}, {"container": {"image": "a"}}]},
            "spec.templates[].container",
        ),
        ({"templates": [{"script": {"image": "a", "source": "ls"}}]}, "spec.templates[].script"),
        ({"steps": [{"name": "build", "image": "a"}]}, "spec.steps"),
        ({"podTemplate": TEMPLATE}, "spec.podTemplate.spec.containers"),
        (
            {"template": {"spec": {"template": TEMPLATE}}},
            "spec.template.spec.template.spec.containers",
        ),
        (
            {"mpiReplicaSpecs": {"Worker": {"template": TEMPLATE}}},
            "spec.mpiReplicaSpecs.Worker.template.spec.containers",
        ),
        (
            {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": TEMPLATE}}}]},
            "spec.replicatedJobs[].template.spec.template.spec.containers",
        ),
        (
            {"templates": [{"name": "a", "template": TEMPLATE}]},
            "spec.templates[].template.spec.containers",
        ),
    ],
)
def test_containers_that_are_not_read_are_named(spec: Any, path: str) -> None:
    rows = skipped(custom("example.com/v1", "Thing"), custom("example.com/v1", "Thing", spec, "b"))
    assert [(row.severity, row.message, row.hint) for row in rows] == [
        (
            "info",
            f"Thing (example.com, 2 of them) skipped: qoslet does not read its containers at {path}",
            "plan the pods that its controller makes",
        )
    ]


def test_input_of_nothing_else_says_what_to_plan() -> None:
    workflow = custom("a.example/v1", "Flow", {"templates": [{"container": {"image": "a"}}]})
    (fault,) = faults_of(workflow)
    assert fault.hint == "plan the pods that its controller makes"
