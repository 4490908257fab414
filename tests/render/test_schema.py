"""The published schemas: complete in their enumerations, and true of every output."""

from __future__ import annotations

import json
import os
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from qoslet import schema
from qoslet.core.api import pod
from qoslet.core.api.manifest import Options
from qoslet.core.convert.inputs import Kind
from qoslet.core.convert.options import Target
from qoslet.core.diff.diff import diff
from qoslet.core.explain.alternatives import Axis
from qoslet.core.explain.explain import explain
from qoslet.core.node.flags import Flags
from qoslet.core.oci.result import Fate
from qoslet.core.plan.plan import plan
from qoslet.core.problem import Severity
from qoslet.core.resources import cgroup_tree
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.core.rules.catalog import RULES, register_all
from qoslet.core.versions import kubernetes
from qoslet.host.files import manifests
from qoslet.host.files import node as node_files
from qoslet.render.documents import encode
from qoslet.render.documents import plan as plan_document
from qoslet.render.documents.diff import diff_document
from qoslet.render.documents.explanation import explanation_document
from tests.cli.fixtures import DATA, NODE, PODS, answer, made, run, write
from tests.cli.fleet.clusters import write_cluster
from tests.core.vectors import kubelet_answers

SAMPLES = DATA / "samples"
SCHEMAS: dict[str, dict[str, Any]] = {name: json.loads(schema.text(name)) for name in schema.NAMES}
VALIDATORS = {name: jsonschema.Draft202012Validator(text) for name, text in SCHEMAS.items()}


@pytest.mark.parametrize("name", schema.NAMES)
def test_schema_is_valid(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


def own_rules(name: str) -> None:
    register_all()
    definitions = SCHEMAS[name]["$defs"]
    if os.environ.get("QOSLET_GOLDEN") == "1":
        definitions["rule"]["enum"] = sorted(RULES)
        path = Path(schema.__file__).with_name(f"{name}.json")
        path.write_text(json.dumps(SCHEMAS[name], indent=2) + "\n")
    assert definitions["rule"]["enum"] == sorted(RULES), "QOSLET_GOLDEN=1 writes it"


def test_rules_of_a_conversion_are_the_program_s() -> None:
    own_rules("conversion")
    definitions = SCHEMAS["conversion"]["$defs"]
    assert definitions["lost"]["properties"]["fate"]["enum"] == list(typing.get_args(Fate))
    properties = SCHEMAS["conversion"]["properties"]
    assert properties["from"]["enum"] == list(typing.get_args(Kind))
    assert properties["to"]["enum"] == list(typing.get_args(Target))


@pytest.mark.parametrize("name", ["plan", "explanation"])
def test_enumerations_are_the_program_s(name: str) -> None:
    own_rules(name)
    definitions = SCHEMAS[name]["$defs"]
    assert definitions["level"]["enum"] == list(typing.get_args(cgroup_tree.Level))
    assert definitions["writer"]["enum"] == list(typing.get_args(cgroup_tree.Writer))
    assert definitions["role"]["enum"] == [*typing.get_args(pod.Role), None]
    assert definitions["qosClass"]["enum"] == list(typing.get_args(pod.QosClass))
    forms = definitions["node"]["properties"]["memoryQos"]["enum"]
    assert forms == list(kubernetes.MEMORY_QOS_VARIANTS)


def test_further_enumerations() -> None:
    definitions = SCHEMAS["plan"]["$defs"]
    severities = definitions["problem"]["properties"]["severity"]["enum"]
    assert severities == list(typing.get_args(Severity))
    uids = definitions["pod"]["properties"]["uidFrom"]["enum"]
    assert uids == list(typing.get_args(pod.UidFrom))
    axes = SCHEMAS["explanation"]["$defs"]["alternative"]["properties"]["axis"]["enum"]
    assert axes == list(typing.get_args(Axis))


def check(name: str, document: Any) -> None:
    """The document as a reader gets it, against its schema."""
    read = json.loads(encode(document))
    VALIDATORS[name].validate(read)


def check_all(made: Plan) -> None:
    check("plan", plan_document.plan_document(made))
    check("cri", plan_document.cri_document(made))
    check("oci", plan_document.oci_document(made))


def test_real_answers_conform() -> None:
    rows = kubelet_answers.rows()
    assert len(rows) >= 60
    for row in rows:
        request = row["request"]
        check_all(plan(kubelet_answers.pods_of(request), kubelet_answers.node_of(request)))


@pytest.mark.parametrize("pods", ["pods.json", "pods.yaml", "kubelet-pods.json", "nodes-pods.json"])
def test_real_documents_conform(pods: str) -> None:
    documents = [str(SAMPLES / "kubelet-config.yaml"), str(SAMPLES / "nodes.json")]
    node, problems = node_files.load_node(documents, Flags())
    loaded = manifests.load([str(SAMPLES / pods)], Options(node_name=node.name))
    check_all(plan(loaded.pods, node, (*problems, *loaded.problems)))


def variants() -> Iterator[dict[str, str]]:
    yield {}
    yield {"kubernetes": "design"}
    yield {"cgroup_driver": "cgroupfs"}
    yield {"cgroups_per_qos": "false", "enforce_node_allocatable": "none"}
    yield {"cgroup_root": "/custom"}
    for minor in range(kubernetes.OLDEST, kubernetes.NEWEST + 1):
        yield {"kubernetes": f"1.{minor}"}
    for form in kubernetes.MEMORY_QOS_VARIANTS:
        yield {"memory_qos": form}


@pytest.mark.parametrize("flags", list(variants()), ids=str)
def test_profiles_conform(tmp_path: Path, flags: dict[str, str]) -> None:
    kubelet = flags.get("kubernetes", "1.36") in ("1.36", "1.37", "design")
    kubelet = kubelet and flags.get("memory_qos") != "off"
    check_all(made(tmp_path, with_kubelet=kubelet, flags=Flags(**flags)))


@pytest.mark.parametrize("replaced", [("v2", "v1"), ("os: linux", "os: windows")], ids=str)
def test_other_hosts_conform(tmp_path: Path, replaced: tuple[str, str]) -> None:
    write(tmp_path)
    (tmp_path / "node.yaml").write_text(NODE.replace(*replaced))
    node, problems = node_files.load_node([str(tmp_path / "node.yaml")], Flags())
    check_all(plan(manifests.load_text(PODS, Options()).pods, node, problems))


def test_findings_of_lint_conform(tmp_path: Path) -> None:
    for arguments in ((), ("--node", "kubelet.yaml", "--node", "node.yaml")):
        write(tmp_path)
        done = run("lint", "pods.yaml", *arguments, "-o", "json", folder=tmp_path)
        document = json.loads(done.stdout)
        VALIDATORS["lint"].validate(document)
        assert document["findings"]


def test_fleets_conform(tmp_path: Path) -> None:
    write_cluster(tmp_path)
    for arguments in ((), ("--rehearse", "1.36-to-1.37"), ("--fit", "pod.yaml")):
        done = run("fleet", "cluster.json", *arguments, "-o", "json", folder=tmp_path)
        document = json.loads(done.stdout)
        VALIDATORS["fleet"].validate(document)
        assert {"ok", "broken"} & {one["outcome"] for one in document["nodes"]}


def test_differences_conform(tmp_path: Path) -> None:
    own_rules("diff")
    before = made(tmp_path)
    for flags in variants():
        check("diff", diff_document(diff(before, made(tmp_path, flags=Flags(**flags)))))


@pytest.mark.parametrize(
    ("target", "file"),
    [
        ("web", None),
        ("batch", "memory.high"),
        ("/kubepods", None),
        ("/kubepods/burstable", "cpu.weight"),
        ("web/app", "oom_score_adj"),
        ("db/postgres", "cpu.weight"),
    ],
)
def test_explanations_conform(tmp_path: Path, target: str, file: str | None) -> None:
    check("explanation", explanation_document(explain(made(tmp_path), target, file)))


def test_every_value_of_real_plans_can_be_explained() -> None:
    for row in kubelet_answers.rows()[::6]:
        request = row["request"]
        answer = plan(kubelet_answers.pods_of(request), kubelet_answers.node_of(request))
        for group in answer.cgroups:
            check("explanation", explanation_document(explain(answer, group.name)))


def test_keys_stand_in_the_contract_s_order(tmp_path: Path) -> None:
    done = run("plan", *write(tmp_path), "-o", "json", folder=tmp_path)
    document = json.loads(done.stdout)
    assert list(document) == ["apiVersion", "kind", "node", "pods", "cgroups", "problems"]
    assert list(document["node"])[:10] == [
        "name", "hierarchy", "driver", "kubernetes", "runtime", "memoryQos", "capacity",
        "allocatable", "enforced", "probed",
    ]  # fmt: skip
    group = document["cgroups"][0]
    assert list(group) == [
        "name", "level", "role", "path", "unit", "pod", "container", "oomScoreAdj", "settings",
    ]  # fmt: skip
    assert list(group["settings"][0]) == [
        "file", "value", "writer", "property", "rule", "because", "source",
    ]  # fmt: skip
    effective = [s for g in document["cgroups"] for s in g["settings"] if "effective" in s]
    assert effective
    assert all(s["effective"] != s["value"] for s in effective)
    names = [group["name"] for group in document["cgroups"]]
    for index, name in enumerate(names):
        parent = name.rpartition("/")[0]
        assert parent not in names[index:]


def test_properties_only_with_systemd(tmp_path: Path) -> None:
    def found(driver: str) -> set[Any]:
        plan = made(tmp_path, flags=Flags(cgroup_driver=driver))
        document: Any = plan_document.plan_document(plan)
        return {s["property"] for g in document["cgroups"] for s in g["settings"]}

    assert {"CPUWeight", "MemoryMax", "TasksMax", None} <= found("systemd")
    assert found("cgroupfs") == {None}


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((name, name) for name in ("plan", "diff", "lint", "fleet", "replay", "config")),
        *((name, name) for name in ("audit", "top", "apply", "release", "run")),
        ("explain", "explanation"),
        ("convert", "conversion"),
        ("agent", "agentstatus"),
        ("ps", "podstates"),
        ("ps -o stats", "podstats"),
        ("plan -o json", "plan"),
        ("plan -o cri", "cri"),
        ("plan -o oci", "oci"),
    ],
)
def test_the_program_prints_the_schema(command: str, name: str) -> None:
    assert answer(*command.split(), "--schema").stdout == schema.text(name)


def test_yaml_is_the_same_document(tmp_path: Path) -> None:
    import yaml

    options = write(tmp_path)
    as_json = run("plan", *options, "-o", "json", folder=tmp_path).stdout
    as_yaml = run("plan", *options, "-o", "yaml", folder=tmp_path).stdout
    assert yaml.safe_load(as_yaml) == json.loads(as_json)
