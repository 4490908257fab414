"""``qoslet fleet``: inputs of other makes than one kubectl, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fixtures import run
from tests.cli.fleet.clusters import node, pod, text_of


def items(*found: dict[str, Any], kind: str = "List") -> dict[str, Any]:
    return {"kind": kind, "apiVersion": "v1", "items": list(found)}


def test_lists_within_lists_are_read(tmp_path: Path) -> None:
    bare = {key: value for key, value in pod(2, "node-0").items() if key != "kind"}
    broken = {"kind": "NodeList", "apiVersion": "v1", "items": 3}
    deep = items(items(pod(1, "node-0")), items(bare, kind="PodList"))
    text = json.dumps(items(items(node("node-0"), kind="NodeList"), deep, broken))
    done = run("fleet", "-", "-o", "json", folder=tmp_path, stdin=text)
    found = json.loads(done.stdout)
    assert (found["totals"]["nodes"], found["totals"]["pods"]) == (1, 2)
    assert done.returncode == 1
    assert [one["where"] for one in found["problems"] if one["severity"] == "error"] == [
        "stdin: items[2]"
    ]


def test_other_kinds_are_one_row(tmp_path: Path) -> None:
    others = [{"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}} for kind in "BAB"]
    text = text_of([node("node-0"), *others])
    found = json.loads(run("fleet", "-", "-o", "json", folder=tmp_path, stdin=text).stdout)
    assert [one["message"] for one in found["problems"] if one["where"] == "input"] == [
        "1 A, 2 B skipped"
    ]


def test_shapes_are_those_of_pods_that_count(tmp_path: Path) -> None:
    again = {**pod(1, "node-0"), "metadata": pod(0, "")["metadata"]}
    text = text_of([node("node-0"), pod(0, "node-0"), again])
    done = run("fleet", "-", folder=tmp_path, stdin=text)
    assert done.stdout.startswith("1 node: 1 ok; 1 pod of 1 shape\n")


def test_only_what_could_not_be_read_is_said(tmp_path: Path) -> None:
    done = run("fleet", "gone.json", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["qoslet: gone.json: does not exist (check the path)"]
    (tmp_path / "pods.json").write_text(text_of([pod(1, "node-0")]))
    done = run("fleet", "pods.json", "gone.json", folder=tmp_path)
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["gone.json", "pods.json"]


def test_a_virtual_node_may_write_its_system_in_capitals(tmp_path: Path) -> None:
    virtual = node("virtual", kubernetes="v1.24.2-vk-v1.6.1")
    virtual["status"]["nodeInfo"]["operatingSystem"] = "Linux"
    done = run("fleet", "-", "-o", "json", folder=tmp_path, stdin=text_of([virtual]))
    assert [one["outcome"] for one in json.loads(done.stdout)["nodes"]] == ["ok"]


@pytest.mark.parametrize(
    ("options", "allocatable", "part"),
    [((), "30Gi", "50%"), (("--kube-reserved=cpu=1",), "31.9Gi", "57%")],
)
def test_what_is_requested_is_a_part_of_what_the_node_reports(
    tmp_path: Path, options: tuple[str, ...], allocatable: str, part: str
) -> None:
    """As ``kubectl describe node`` says it, unless the configuration is known."""
    reporting, asking = node("node-0"), pod(1, "node-0")
    reporting["status"]["allocatable"] |= {"cpu": "8", "memory": "30Gi"}
    asking["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    text = text_of([reporting, asking])
    done = run("fleet", "-", *options, folder=tmp_path, stdin=text)
    _, cpu, memory, *_ = done.stdout.splitlines()
    assert cpu.endswith(f"({part})")
    assert memory == f"memory: 0 requested of {allocatable} allocatable (0%)"
    assert f" {part} " in done.stdout


def test_many_cores_are_no_millicores(tmp_path: Path) -> None:
    text = text_of([*(node(f"node-{at}", cpu="7910m") for at in range(3)), pod(1, "node-0")])
    done = run("fleet", "-", "--kube-reserved=cpu=0", folder=tmp_path, stdin=text)
    assert "\ncpu: 500m requested of 23.7 allocatable (2%)\n" in done.stdout


@pytest.mark.parametrize("listed", [True, False])
def test_nodes_of_the_cluster_do_not_configure_it(tmp_path: Path, listed: bool) -> None:
    given = json.dumps(node("node-0"))
    (tmp_path / "node.json").write_text(text_of([node("node-0")]) if listed else given)
    done = run("fleet", "-", "--node", "node.json", folder=tmp_path, stdin=given)
    assert done.returncode == 2
    assert "describes nodes of a cluster (give it with -f" in done.stderr
