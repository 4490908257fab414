"""``qoslet lint``: severities, suppressions, charts, and the documents of CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from tests.cli.fixtures import run, write

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {%s}}
spec:
  containers:
  - {name: app, image: x, resources: {requests: {cpu: "500", memory: 64Mi}}}
"""


def findings(folder: Path, *arguments: str, code: int = 0, stdin: str = "") -> list[dict[str, Any]]:
    done = run("lint", *arguments, "-o", "json", folder=folder, stdin=stdin)
    assert (done.returncode, done.stderr) == (code, "")
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [one["id"] for one in found if one["suppressed"] is None]


def test_a_manifest_needs_no_node(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(POD % "")
    found = findings(tmp_path, "web.yaml", code=1)
    assert ids(found) == ["QL005", "QL022"]
    assert found[0] == {
        "id": "QL005",
        "severity": "error",
        "where": "web.yaml: Pod default/web: spec.containers[0].resources.requests.cpu",
        "pod": "default/web",
        "container": "app",
        "field": "spec.containers[0].resources.requests.cpu",
        "message": "requests 500 CPUs: 500m is 500 thousandths of one",
        "hint": "Write m behind thousandths.",
        "source": "Kubernetes: resource units",
        "suppressed": None,
    }


def test_files_with_the_same_objects_are_variants(tmp_path: Path) -> None:
    for folder in ("dev", "prod"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "web.yaml").write_text(POD % "")
        (tmp_path / folder / "values.yaml").write_text(SERVICE)
    found = findings(tmp_path, "-R", ".", code=1)
    assert [(one["id"], one["where"].partition(":")[0]) for one in found] == [
        ("QL005", "./dev/web.yaml"),
        ("QL022", "./dev/web.yaml"),
        ("QL005", "./prod/web.yaml"),
        ("QL022", "./prod/web.yaml"),
    ]
    assert findings(tmp_path, "dev/web.yaml", "dev/web.yaml", code=1) == [
        {**one, "where": one["where"].removeprefix("./")} for one in found[:2]
    ]
    (tmp_path / "dev" / "twice.yaml").write_text(f"{POD % ''}---\n{POD % ''}")
    done = run("lint", "-R", ".", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("occurs twice") == 1
    assert done.stderr.startswith("qoslet: ./dev/twice.yaml: ")


def test_a_node_is_looked_at_once_for_all_variants(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(POD % "")
    node = (
        "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nevictionHard: {}\n"
    )
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "kubelet.yaml").write_text(node)
    found = findings(tmp_path, ".", "--node", "node/kubelet.yaml", code=1)
    assert ids(found).count("QL124") == 1
    assert ids(found).count("QL005") == 2


@pytest.mark.parametrize(
    ("text", "left", "code"),
    [
        ("QL005: a render farm", ["QL022"], 0),
        ("QL005: a render farm; QL022: it is small", [], 0),
        ("QL005: a farm\\nQL022: small", [], 0),
        ("QL005", ["QL000", "QL005", "QL022"], 1),
        ("QL005:", ["QL000", "QL005", "QL022"], 1),
        ("QL999: why", ["QL000", "QL005", "QL022"], 1),
        ("QL000: why", ["QL000", "QL005", "QL022"], 1),
        ("all: of it", ["QL000", "QL005", "QL022"], 1),
        ("", ["QL005", "QL022"], 1),
    ],
)
def test_a_finding_is_suppressed_with_a_reason(
    tmp_path: Path, text: str, left: list[str], code: int
) -> None:
    (tmp_path / "web.yaml").write_text(POD % f'qoslet.dev/lint-ignore: "{text}"')
    found = findings(tmp_path, "web.yaml", code=code)
    assert ids(found) == left
    assert {"QL005", "QL022"} <= {one["id"] for one in found}


def test_the_rule_about_suppressions_is_explained_and_can_be_switched_off(tmp_path: Path) -> None:
    done = run("lint", "--explain", "QL000", folder=tmp_path)
    assert (done.returncode, done.stdout.split()[0]) == (0, "QL000")
    (tmp_path / "web.yaml").write_text(POD % 'qoslet.dev/lint-ignore: "QL005"')
    (tmp_path / "lint.yaml").write_text("kind: LintConfiguration\nseverities: {QL000: off}\n")
    found = findings(tmp_path, "web.yaml", "--config", "lint.yaml", code=1)
    assert ids(found) == ["QL005", "QL022"]


def test_a_kubelet_configuration_among_the_pods_is_not_left_out_in_silence(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(POD % "")
    kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    (tmp_path / "kubelet.yaml").write_text(kubelet)
    done = run("lint", ".", "-o", "json", folder=tmp_path)
    assert "kubelet.yaml: " in done.stderr
    assert "--node" in done.stderr
    assert run("lint", ".", "--node", "kubelet.yaml", folder=tmp_path).stderr == ""


def test_the_pods_of_one_workload_are_told_once(tmp_path: Path) -> None:
    maker = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w"}
    containers = [{"name": "app", "image": "x"}]
    pods: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": [{**maker, "controller": True}] * owned},
            "spec": {"containers": containers},
        }
        for name, owned in (("web-0", 1), ("web-1", 1), ("web-2", 1), ("lone", 0), ("other", 0))
    ]
    (tmp_path / "pods.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})
    )
    drawn = run("lint", "pods.json", folder=tmp_path).stdout
    heads = [line for line in drawn.splitlines() if line and not line.startswith(" ")]
    assert heads[:3] == [
        "pods.json: Pod default/web-0 and 2 like it",
        "pods.json: Pod default/lone",
        "pods.json: Pod default/other",
    ]
    every = run("lint", "-v", "pods.json", folder=tmp_path).stdout
    assert all(f"default/{one['metadata']['name']}\n" in every for one in pods)
    assert heads[-1] == every.splitlines()[-1], "all are counted"


def test_an_annotation_beside_the_template_is_no_suppression(tmp_path: Path) -> None:
    ignored = 'metadata: {name: web, annotations: {qoslet.dev/lint-ignore: "QL005: a farm"}}'
    whole = PATCH % ", image: x"
    (tmp_path / "web.yaml").write_text(whole.replace("metadata: {name: web}", ignored, 1))
    found = findings(tmp_path, "web.yaml", code=1)
    assert ids(found) == ["QL000", "QL005", "QL022", "QL023"]
    assert "pods get the annotations of their template" in found[0]["message"]


def test_the_annotation_is_known_to_other_commands(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(POD % 'qoslet.dev/lint-ignore: "QL005: a farm"')
    _, _, *node = write(tmp_path)
    done = run("plan", "web.yaml", *node, "-o", "json", folder=tmp_path)
    assert "lint-ignore" not in done.stdout


@pytest.mark.parametrize(("severity", "code"), [("error", 0), ("warning", 1), ("info", 1)])
def test_it_fails_on_what_is_asked_for(tmp_path: Path, severity: str, code: int) -> None:
    text = POD.replace('"500"', "500m") % ""
    (tmp_path / "web.yaml").write_text(text)
    assert ids(findings(tmp_path, "web.yaml", "--fail-on", severity, code=code)) == ["QL022"]


def test_severities_are_configured(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(POD % "")
    config = (
        "apiVersion: qoslet/v1\nkind: LintConfiguration\nseverities: {QL005: off, QL022: error}\n"
    )
    (tmp_path / "lint.yaml").write_text(config)
    (one,) = findings(tmp_path, "web.yaml", "--config", "lint.yaml", code=1)
    assert (one["id"], one["severity"]) == ("QL022", "error")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod", "expected a LintConfiguration"),
        ("kind: LintConfiguration\napiVersion: qoslet/v9", "is 'qoslet/v9', not qoslet/v1"),
        ("kind: LintConfiguration\nseverity: {}", "unknown field 'severity'"),
        ("kind: LintConfiguration\nseverities: [QL001]", "must be an object"),
        ("kind: LintConfiguration\nseverities: {QL0022: off}", "did you mean"),
        ("kind: LintConfiguration\nseverities: {QL022: fatal}", "unknown severity 'fatal'"),
        ("kind: LintConfiguration\nseverities: {QL022: [a]}", "unknown severity"),
    ],
)
def test_a_bad_configuration_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "web.yaml").write_text(POD % "")
    (tmp_path / "lint.yaml").write_text(text)
    done = run("lint", "web.yaml", "--config", "lint.yaml", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_kubelet_configuration_alone(tmp_path: Path) -> None:
    text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    (tmp_path / "kubelet.yaml").write_text(text)
    write_node = write(tmp_path)
    assert write_node
    (tmp_path / "kubelet.yaml").write_text(text)
    found = findings(tmp_path, "--node", "kubelet.yaml", "--node", "node.yaml")
    assert {"QL120", "QL123"} <= set(ids(found))
    assert all(one["pod"] is None for one in found)


def test_a_chart_comes_by_standard_input(tmp_path: Path) -> None:
    text = POD.replace('"500"', "500m") % ""
    custom = "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: t}\nspec: {}\n"
    found = findings(tmp_path, "-", stdin=f"{text}---\n{custom}")
    assert ids(found) == ["QL022"]


def test_sarif_names_rules_files_and_suppressions(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(POD % 'qoslet.dev/lint-ignore: "QL005: a farm"')
    done = run("lint", "web.yaml", "-o", "sarif", folder=tmp_path)
    (log,) = json.loads(done.stdout)["runs"]
    results = {one["ruleId"]: one for one in log["results"]}
    assert results["QL005"]["suppressions"][0]["justification"] == "a farm"
    place = results["QL022"]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert (place, results["QL022"]["level"]) == ("web.yaml", "warning")
    assert len(log["tool"]["driver"]["rules"]) >= 40


def test_sarif_names_files_by_relative_references(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 70) / ("e" * 70)
    folder.mkdir(parents=True)
    name = f"{'d' * 70}/{'e' * 70}/a: b #1 50%.yaml"
    (tmp_path / name).write_text(POD % "")
    _, _, *node = write(tmp_path)
    done = run("lint", name, *node, "-o", "sarif", folder=tmp_path)
    (log,) = json.loads(done.stdout)["runs"]
    places = {
        one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in log["results"]
    }
    files = {unquote(place) for place in places}
    assert name in files
    assert not [place for place in places if set(place) & set(" :#?")]
    assert all((tmp_path / file).is_file() for file in files)


def test_sarif_points_to_the_line_of_the_field(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(POD % 'qoslet.dev/lint-ignore: "QL005: a farm"')
    log = json.loads(run("lint", "web.yaml", "-o", "sarif", folder=tmp_path).stdout)["runs"][0]
    text = (tmp_path / "web.yaml").read_text().splitlines()
    places = [one["locations"][0] for one in log["results"]]
    lines = [text[one["physicalLocation"]["region"]["startLine"] - 1] for one in places]
    assert lines
    for place, line in zip(places, lines, strict=True):
        assert place["logicalLocations"][0]["name"].split(".")[2] in line


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", 1), ("info", 1)])
def test_junit_fails_where_the_exit_code_does(tmp_path: Path, fail_on: str, code: int) -> None:
    (tmp_path / "web.yaml").write_text(POD % 'qoslet.dev/lint-ignore: "QL005: a farm"')
    done = run("lint", "web.yaml", "-o", "junit", "--fail-on", fail_on, folder=tmp_path)
    suite = ElementTree.fromstring(done.stdout)[0]
    counted = {key: suite.get(key) for key in ("tests", "failures", "skipped")}
    assert counted == {"tests": "2", "failures": str(code), "skipped": str(2 - code)}
    assert done.returncode == code
    assert len(suite.findall(".//failure")) == code


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    text = POD % 'qoslet.dev/lint-ignore: "QL005: \\e[31mred\\u0007 <b>]]>"'
    (tmp_path / "web.yaml").write_text(text)
    for form in ("table", "sarif", "junit", "json"):
        done = run("lint", "web.yaml", "-v", "-o", form, folder=tmp_path)
        assert "\x1b" not in done.stdout
        assert "\x07" not in done.stdout
    ElementTree.fromstring(run("lint", "web.yaml", "-o", "junit", folder=tmp_path).stdout)


def test_rules_are_listed_and_explained(tmp_path: Path) -> None:
    listed = run("lint", "--rules").stdout.splitlines()
    assert len(listed) >= 40
    for line in listed[::7]:
        done = run("lint", "--explain", line.split()[0].lower())
        assert done.returncode == 0
        assert "An example that does not fire:" in done.stdout


def test_a_node_of_kubectl_says_nothing_of_the_kubelet(tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "allocatable": {"cpu": "8", "memory": "31Gi", "pods": "110"},
            "nodeInfo": {"kubeletVersion": "v1.36.2", "operatingSystem": "linux"},
        },
    }
    (tmp_path / "node.json").write_text(json.dumps(node))
    (tmp_path / "web.yaml").write_text(POD.replace('"500"', '"1"') % "")
    assert ids(findings(tmp_path, "web.yaml", "--node", "node.json")) == ["QL022"]
    flags = ("--node", "node.json", "--pod-max-pids", "100")
    assert "QL123" in ids(findings(tmp_path, "web.yaml", *flags))
    done = run("lint", "--node", "node.json", folder=tmp_path)
    assert done.returncode == 2
    assert "does not say how a kubelet is configured" in done.stderr


def test_a_pod_is_held_to_a_node_as_the_scheduler_counts(tmp_path: Path) -> None:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "2"}
    status = {"capacity": amounts, "allocatable": {**amounts, "cpu": "7920m"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status}
    (tmp_path / "node.json").write_text(json.dumps(node))
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  overhead: {cpu: 1}\n"
        "  initContainers:\n"
        "  - {name: a, image: x, restartPolicy: Always, resources: {requests: {cpu: 4}}}\n"
        "  - {name: b, image: x, resources: {requests: {cpu: 4}}}\n  containers:\n"
        "  - {name: c, image: x, resources: {limits: {nvidia.com/gpu: 4, example.com/b: 1}}}\n"
    )
    found = findings(tmp_path, "pod.yaml", "--node", "node.json", code=1)
    assert [one["message"] for one in found if one["id"] == "QL080"] == [
        "requests 9 cpu, the node has 7920m for pods",
        "requests 4 nvidia.com/gpu, the node has 2 for pods",
        "requests 1 example.com/b, the node has 0 for pods",
    ]


@pytest.mark.parametrize(("kind", "fires"), [("DaemonSet", False), ("Deployment", True)])
def test_an_agent_of_each_node_may_be_critical(tmp_path: Path, kind: str, fires: bool) -> None:
    (tmp_path / "agent.yaml").write_text(
        f"apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: a, namespace: net}}\nspec:\n"
        "  selector: {matchLabels: {a: a}}\n  template:\n    metadata: {labels: {a: a}}\n"
        "    spec:\n      priorityClassName: system-node-critical\n"
        "      containers: [{name: c, image: x}]\n"
    )
    assert ("QL044" in ids(findings(tmp_path, "agent.yaml"))) == fires


PATCH = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      initContainers: [{name: init, image: x, resources: {requests: {cpu: 1m}}}]
      containers: [{name: app%s, args: [--verbose], resources: {requests: {cpu: "500"}}}]
"""


def test_a_patch_lacks_what_its_base_has(tmp_path: Path) -> None:
    (tmp_path / "patch.yaml").write_text(PATCH % "")
    assert ids(findings(tmp_path, "patch.yaml", code=1)) == ["QL005"]
    (tmp_path / "whole.yaml").write_text(PATCH % ", image: x")
    assert ids(findings(tmp_path, "whole.yaml", code=1)) == ["QL005", "QL022", "QL023"]


def test_the_weight_of_an_init_container_counts_among_nobody(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text((PATCH % ", image: x").replace('"500"', "1m"))
    found = [one for one in findings(tmp_path, "pod.yaml") if one["id"] == "QL002"]
    assert [one["container"] for one in found] == ["app"]
