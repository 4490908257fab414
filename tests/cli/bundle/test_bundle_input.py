"""``--bundle FILE`` instead of a machine: ``plan`` and ``explain``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qoslet.core.bundle.archive import pack
from tests.cli.fixtures import KUBELET, NODE, PODS, command, environment, run, write
from tests.paths import REPO

ITEMS = [msgspec.yaml.decode(one) for one in PODS.split("---\n")]
PARTS = {
    "bundle.json": b'{"apiVersion": "qoslet/v1", "kind": "Bundle"}',
    "machine.yaml": NODE.encode(),
    "kubelet.yaml": KUBELET.encode(),
    "pods.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}).encode(),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path)
    return bundled(tmp_path)


def bundled(folder: Path, **changed: bytes | None) -> Path:
    """A folder with ``b.tgz``; parts by their name with ``_`` for the dot, None leaves one out."""
    parts = PARTS | {name.replace("_", "."): data for name, data in changed.items()}
    packed = pack({name: data for name, data in parts.items() if data is not None})
    (folder / "b.tgz").write_bytes(packed)
    return folder


def planned(folder: Path, *options: str) -> dict[str, Any]:
    done = run("plan", *options, "-o", "json", folder=folder)
    assert done.returncode in (0, 1), done.stderr
    said = done.stdout.replace("b.tgz: pods.json", "pods.yaml").replace("b.tgz: ", "")
    found: dict[str, Any] = json.loads(said)
    return found


def test_the_plan_of_a_bundle_is_that_of_its_documents(folder: Path) -> None:
    documents = ("-f", "pods.yaml", "--node", "node.yaml", "--node", "kubelet.yaml")
    assert planned(folder, "--bundle", "b.tgz") == planned(folder, *documents)


@pytest.mark.parametrize(
    "options",
    [("--kubernetes", "1.30"), ("--hierarchy", "v1"), ("-n", "shop"), ("--node", "n2.yaml")],
)
def test_options_and_documents_go_above_the_bundle(folder: Path, options: tuple[str, ...]) -> None:
    (folder / "n2.yaml").write_text("apiVersion: qoslet/v1\nkind: Node\ncapacity: {cpu: '2'}\n")
    documents = ("-f", "pods.yaml", "--node", "node.yaml", "--node", "kubelet.yaml")
    assert planned(folder, "--bundle", "b.tgz", *options) == planned(folder, *documents, *options)


def test_other_pods_on_the_bundles_machine(folder: Path) -> None:
    (folder / "one.json").write_text(json.dumps(ITEMS[1]))
    pods = planned(folder, "--bundle", "b.tgz", "-f", "one.json")["pods"]
    assert [one["name"] for one in pods] == ["web"]


def test_json_stands_where_yaml_is_named(folder: Path) -> None:
    as_json = {
        "machine_yaml": json.dumps(msgspec.yaml.decode(NODE)).encode(),
        "kubelet_yaml": json.dumps(msgspec.yaml.decode(KUBELET)).encode(),
    }
    yaml = planned(folder, "--bundle", "b.tgz")
    assert planned(bundled(folder, **as_json), "--bundle", "b.tgz") == yaml


def test_a_bundle_is_read_from_standard_input(folder: Path) -> None:
    done = subprocess.run(
        command("plan", "--bundle", "-"), input=(folder / "b.tgz").read_bytes(), env=environment(),
        capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.startswith(b"n1 ")


def test_explain_takes_a_bundle(folder: Path) -> None:
    done = run("explain", "--bundle", "b.tgz", "web/app", "memory.max", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "memory.max = 268435456 (256Mi)" in done.stdout


def test_explain_live_has_what_the_files_of_a_bundle_held(folder: Path) -> None:
    bundle = str(REPO / "tests/data/bundles/processes-v1.tar.gz")
    options = ("--live", "--bundle", bundle, "pod-2/container-3", "-o", "json")
    done = run("explain", *options, folder=folder)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["cgroups"]
    held = {one["file"]: one["live"] for one in row["values"]}
    assert (held["cpu.shares"]["found"], held["cpu.shares"]["verdict"]) == ("512", None)
    assert (held["oom_score_adj"]["found"], held["oom_score_adj"]["verdict"]) == ("0", "drift")
    done = run("explain", "--live", "--bundle", "b.tgz", "web/app", folder=folder)
    assert (done.returncode, done.stderr.count("has no cgroups.jsonl")) == (2, 1)


def test_nothing_of_this_machine_gets_in(folder: Path) -> None:
    small = b"{apiVersion: qoslet/v1, kind: Node, capacity: {cpu: '3', memory: 5Gi}}"
    bundled(folder, machine_yaml=small, kubelet_yaml=None)
    plan = planned(folder, "--bundle", "b.tgz")
    assert plan["node"]["probed"] == []
    assert {one["field"] for one in plan["node"]["assumed"]} >= {"host.hierarchy", "driver"}
    assert any("no kubelet.yaml" in one["message"] for one in plan["problems"])


def test_a_node_of_the_api_does_without_a_machine(folder: Path) -> None:
    node = {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n7"},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "nodeInfo": {"kubeletVersion": "v1.34.2"}},
    }  # fmt: skip
    bundled(folder, machine_yaml=None, node_json=json.dumps(node).encode())
    found = planned(folder, "--bundle", "b.tgz")["node"]
    assert (found["name"], found["kubernetes"], found["probed"]) == ("n7", "1.34", [])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"pods_json": None}, "b.tgz: has no pods.json (give the pods with -f)"),
        ({"machine_yaml": None}, "b.tgz: has no machine.yaml: what machine it is from is unknown"),
        ({"pods_json": b"{"}, "b.tgz: pods.json: broken JSON"),
        ({"pods_json": b'{"a":' * 100_000}, "b.tgz: pods.json: "),
        ({"machine_yaml": b"a: " + b"[" * 100_000}, "b.tgz: machine.yaml: "),
        ({"machine_yaml": b"\xff\xfe\0"}, "b.tgz: machine.yaml: is UTF-16"),
        ({"machine_yaml": b""}, "b.tgz: machine.yaml: contains no document"),
        ({"kubelet_yaml": b"kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec: {}\n"}, None),
        ({"machine_yaml": b"x: &a [" + b"1," * 3000 + b"1]\ny: [" + b"*a," * 3000 + b"*a]\n"}, "values"),
    ],
)  # fmt: skip
def test_what_lacks_or_is_broken_is_bad_input(
    folder: Path, changed: dict[str, bytes | None], said: str | None
) -> None:
    done = run("plan", "--bundle", "b.tgz", folder=bundled(folder, **changed))
    if said is None:
        assert done.returncode in (0, 2)
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--bundle", "nosuch.tgz"), "nosuch.tgz: does not exist"),
        (("--bundle", "."), ".: is a directory"),
        (("--bundle", "/dev/zero"), "/dev/zero: is a device"),
        (("--bundle", "pods.yaml"), "pods.yaml: is not gzip"),
        (("--bundle", "b.tgz", "--probe", "always"), "--probe: reads this machine"),
        (("--bundle", "-", "-f", "-"), "--bundle -: standard input can be read once"),
        (("--bundle", "-", "--node", "-"), "--node -: standard input can be read once"),
    ],
)
def test_a_wrong_file_or_option_is_bad_input(
    folder: Path, options: tuple[str, ...], said: str
) -> None:
    done = run("plan", *options, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_unknown_parts_are_ignored_and_named(folder: Path) -> None:
    packed = pack(PARTS | {"later.json": b"{}"})
    (folder / "b.tgz").write_bytes(packed)
    problems = planned(folder, "--bundle", "b.tgz")["problems"]
    assert any("later.json: not a part of a bundle, ignored" in one["message"] for one in problems)
