"""Pods and nodes chosen on the command line, as with kubectl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fixtures import run
from tests.core.api.test_manifest import container, pod

STATUS = {"capacity": {"cpu": "4", "memory": "8Gi"}}


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": STATUS}


def on(place: str, name: str, namespace: str = "shop") -> dict[str, Any]:
    meta = {"namespace": namespace, "labels": {"app": name}}
    return pod(name, container(command=["sleep", "9"]), metadata=meta, spec={"nodeName": place})


PODS = [on("n-a", "web"), on("n-b", "api"), on("n-a", "dns", "kube-system")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def listed(items: list[dict[str, Any]]) -> str:
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})

    (tmp_path / "pods.json").write_text(listed(PODS))
    (tmp_path / "nodes.json").write_text(listed([node("n-a"), node("n-b")]))
    (tmp_path / "dir/below").mkdir(parents=True)
    (tmp_path / "dir/below/web.json").write_text(json.dumps(PODS[0]))
    return tmp_path


def planned(folder: Path, *options: str) -> tuple[list[str], dict[str, Any]]:
    done = run("plan", *options, "-o", "json", folder=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    return [f"{one['namespace']}/{one['name']}" for one in document["pods"]], document


NODES = {"shop/web": "n-a", "shop/api": "n-b", "kube-system/dns": "n-a"}
ALL = ["shop/web", "shop/api", "kube-system/dns"]


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ((), ALL),
        (("--node-name", "n-a"), ["shop/web", "kube-system/dns"]),
        (("--node-name", "n-b", "--node", "nodes.json"), ["shop/api"]),
        (("-n", "shop"), ["shop/web", "shop/api"]),
        (("--namespace", "shop", "--node-name=n-a"), ["shop/web"]),
        (("-l", "app in (web, dns)"), ["shop/web", "kube-system/dns"]),
        (("--selector=app!=web", "-n", "shop"), ["shop/api"]),
    ],
)
def test_plan(folder: Path, options: tuple[str, ...], chosen: list[str]) -> None:
    names, document = planned(folder, "pods.json", *options)
    assert names == chosen
    warned = any("are planned as if on one" in row["message"] for row in document["problems"])
    assert warned == (len({NODES[one] for one in chosen}) > 1)


def test_the_warning_is_seen(folder: Path) -> None:
    done = run("plan", "pods.json", folder=folder)
    assert "the pods are on 2 nodes (n-a: 2, n-b: 1) and are planned as if on one" in done.stdout
    files = run("plan", "pods.json", "-o", "files", folder=folder)
    assert "--node-name" in files.stderr


def test_directories_below(folder: Path) -> None:
    assert planned(folder, "dir", "-R")[0] == ["shop/web"]
    done = run("plan", "dir", folder=folder)
    assert (done.returncode, "-R reads them" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-n", "shp"), "-n: the input has no pod in namespace shp"),
        (("-l", "app=nope"), "-l: no pod of the input is chosen by -l app=nope"),
        (("-l", "app in"), "-l app in: lacks ("),
        (("--node-name", "n-c"), "--node-name: no pod of the input is on node n-c"),
        (("--node-name", "n-c", "--node", "nodes.json"), "nodes.json: contains no node 'n-c'"),
        (("--node", "nodes.json"), "choose one with --node-name"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "convert"])
def test_refusals(folder: Path, command: str, options: tuple[str, ...], words: str) -> None:
    more = ("--to", "v2") if command == "convert" else ()
    done = run(command, "pods.json", *more, *options, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_explain_keeps_its_namespace_for_the_target(folder: Path) -> None:
    given = ("explain", "pod/web", "cpu.weight", "-n", "shop", "-f", "pods.json", "-o", "json")
    done = run(*given, folder=folder)
    assert done.returncode == 0, done.stderr
    assert run(*given, "-l", "app=api", folder=folder).returncode == 2
    assert run(*given, "-l", "app=web", "--node-name", "n-a", folder=folder).returncode == 0


@pytest.mark.parametrize("paths", [("pods.json",), ("dir", "-R"), ("-",)])
def test_run_takes_the_same(folder: Path, paths: tuple[str, ...]) -> None:
    text = (folder / "pods.json").read_text()
    options = ("-n", "shop", "-l", "app=web", "--simulate", "--for", "0.1", "--plain")
    done = run("run", *paths, *options, folder=folder, stdin=text)
    assert done.returncode == 0, done.stderr
    assert "web" in done.stdout
    assert "api" not in done.stdout
    broken = run("run", *paths, "--simulate", "-l", "a in", folder=folder, stdin=text)
    assert (broken.returncode, "-l a in: lacks (" in broken.stderr) == (2, True)


def test_one_file_of_nodes_and_pods_describes_both(folder: Path) -> None:
    both = {"apiVersion": "v1", "kind": "List", "items": [node("n-a"), *PODS]}
    (folder / "all.json").write_text(json.dumps(both))
    (folder / "other.json").write_text(json.dumps(node("n-a")))
    _, document = planned(folder, "-f", "all.json", "--node", "all.json")
    assert not [row for row in document["problems"] if "Node skipped" in row["message"]]
    _, document = planned(folder, "-f", "all.json", "--node", "other.json")
    assert [row for row in document["problems"] if "Node skipped" in row["message"]]
