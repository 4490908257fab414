"""``qoslet config``: every form, and the exit code that says whether it can be run."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from qoslet import schema
from tests.cli.fixtures import NODE, run

KUBELET = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 7
kubeReserved: {memory: 64Mi}
"""


def config(*arguments: str) -> tuple[int, str, str]:
    done = run("config", *arguments)
    return done.returncode, done.stdout, done.stderr


def test_json_conforms_and_names_sources(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    files = [str(tmp_path / "node.yaml"), str(tmp_path / "kubelet.yaml")]
    code, out, err = config(*files, "--kube-reserved", "memory=1Gi", "-o", "json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    jsonschema.validate(document, json.loads(schema.text("config")))
    rows = {row["field"]: row for row in document["fields"]}
    assert rows["maxPods"] == {
        "field": "maxPods",
        "value": 7,
        "source": f"{files[1]}: maxPods",
        "flag": "--max-pods",
        "sources": None,
    }
    assert rows["kubeReserved"]["source"] == "--kube-reserved"
    assert rows["kubeReserved"]["value"] == {"memory": "1Gi"}


def test_each_part_of_a_value_has_its_source(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE)
    kubelet = tmp_path / "kubelet.yaml"
    kubelet.write_text(KUBELET + "systemReserved: {memory: 1Gi}\nreservedSystemCPUs: '0'\n")
    code, out, _ = config(str(tmp_path / "node.yaml"), str(kubelet))
    assert code == 0
    assert f"memory: {kubelet}: systemReserved; cpu: {kubelet}: reservedSystemCPUs" in out
    _, out, _ = config(str(tmp_path / "node.yaml"), str(kubelet), "-o", "json")
    document = json.loads(out)
    jsonschema.validate(document, json.loads(schema.text("config")))
    (row,) = (row for row in document["fields"] if row["field"] == "systemReserved")
    assert row["source"] == f"{kubelet}: systemReserved"
    assert row["sources"] == {
        "memory": f"{kubelet}: systemReserved",
        "cpu": f"{kubelet}: reservedSystemCPUs",
    }


def test_what_another_field_sets_is_changed(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE)
    code, out, _ = config(str(tmp_path / "node.yaml"), "--reserved-cpus", "0", "--changed")
    assert code == 0
    (line,) = (line for line in out.splitlines() if line.startswith("systemReserved "))
    assert line.split() == ["systemReserved", "cpu=1", "--reserved-cpus"]


def test_what_is_changed_and_the_table(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE)
    code, out, _ = config(str(tmp_path / "node.yaml"), "--max-pods", "9", "--changed")
    assert code == 0
    assert "--max-pods" in out
    assert "failSwapOn" not in out


def test_its_yaml_read_again_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    _, first, _ = config(str(tmp_path / "node.yaml"), str(tmp_path / "kubelet.yaml"), "-oyaml")
    (tmp_path / "all.yaml").write_text(first)
    code, again, _ = config(str(tmp_path / "all.yaml"), "-oyaml")
    assert (code, again) == (0, first)


def test_faults_and_refusals(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE.replace("v2", "v1"))
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    files = [str(tmp_path / "node.yaml"), str(tmp_path / "kubelet.yaml")]
    code, out, err = config(*files)
    assert code == 1
    assert "failCgroupV1" in err
    assert "maxPods" in out
    code, out, err = config(*files, "--max-pods", "many")
    assert (code, out) == (2, "")
    assert "--max-pods" in err
    code, out, err = config(*files, "--changed", "-o", "yaml")
    assert (code, out) == (2, "")


def test_a_directory_of_drop_ins_goes_over_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    folder = tmp_path / "conf.d"
    folder.mkdir()
    files = [str(tmp_path / "node.yaml"), str(tmp_path / "kubelet.yaml"), str(folder)]
    code, _, err = config(*files)
    assert code == 2
    assert "of a directory *.yaml, *.yml, *.json and *.conf are read" in err
    (folder / "20-pods.conf").write_text(KUBELET.replace("maxPods: 7", "maxPods: 9"))
    (folder / "10-pods.conf").write_text(KUBELET.replace("maxPods: 7", "maxPods: 8"))
    (folder / ".30-hidden.conf").write_text("kind: [")
    (folder / "notes.txt").write_text("kind: [")
    code, out, err = config(*files, "-o", "json")
    assert (code, err) == (0, "")
    rows = {row["field"]: row for row in json.loads(out)["fields"]}
    assert rows["maxPods"]["value"] == 9
    assert rows["maxPods"]["source"] == f"{folder}/20-pods.conf: maxPods"
