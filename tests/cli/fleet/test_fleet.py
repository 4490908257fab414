"""``qoslet fleet``: streams, broken documents, sides, and what more fits."""

from __future__ import annotations

import gzip
import json
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fixtures import KUBELET, command, environment, run
from tests.cli.fleet.clusters import MORE, cluster, node, pod, text_of, write_cluster
from tests.paths import REPO

BUNDLES = REPO / "tests" / "data" / "bundles"


def fleet(folder: Path, *arguments: str, code: int = 0, stdin: str = "") -> dict[str, Any]:
    done = run("fleet", *arguments, "-o", "json", folder=folder, stdin=stdin)
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def errors(found: dict[str, Any]) -> list[tuple[str, str]]:
    rows = found["problems"]
    return [(one["where"], one["message"]) for one in rows if one["severity"] == "error"]


def by_name(found: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one for one in found["nodes"]}


@pytest.mark.parametrize("indent", [None, 4])
def test_a_stream_is_read(tmp_path: Path, indent: int | None) -> None:
    text = text_of(cluster(3, 24), indent)
    found = fleet(tmp_path, "-", stdin=text)
    assert [one["pods"] for one in found["nodes"]] == [8, 8, 8]
    assert found["totals"]["requested"] == {"cpu": "10500m", "memory": "8448Mi"}
    (tmp_path / "c.json.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "c.json").write_text(text)
    for name in ("c.json.gz", "c.json"):
        assert fleet(tmp_path, name)["nodes"] == found["nodes"]


def test_nodes_and_pods_in_files_of_their_own(tmp_path: Path) -> None:
    items = cluster(2, 8)
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "nodes.json").write_text(text_of(items[:2]))
    # of the API server, whose items have no kind
    pods = [{key: value for key, value in one.items() if "k" not in key[:1]} for one in items[2:]]
    listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}
    (folder / "a-pods.json").write_text(json.dumps(listed))
    (folder / "notes.txt").write_text("x")
    assert [one["pods"] for one in fleet(tmp_path, "c")["nodes"]] == [4, 4]
    lines = "\n".join(json.dumps(one) for one in items)
    assert [one["pods"] for one in fleet(tmp_path, "-", stdin=lines)["nodes"]] == [4, 4]


def test_processes_agree(tmp_path: Path) -> None:
    items = cluster(150, 12_000, versions=5)
    (tmp_path / "c.json").write_text(text_of(items, 1))
    options = ("c.json", "--rehearse", "memory-qos")
    assert fleet(tmp_path, *options, "--jobs", "3") == fleet(tmp_path, *options, "--jobs", "1")


def test_what_is_broken_is_named_and_the_rest_is_right(tmp_path: Path) -> None:
    items = cluster(300, 1200, versions=100)
    sound = by_name(fleet(tmp_path, "-", stdin=text_of(items)))
    assert len({one["kubernetes"] for one in sound.values()}) == 13
    items[7]["status"]["capacity"]["memory"] = "32Gb"
    items[107]["status"]["nodeInfo"]["kubeletVersion"] = 3
    items[207]["status"] = "none"
    items[305]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "one"}}
    items[306]["spec"]["containers"] = 1
    text = text_of([*items, items[400], items[3]], 1)
    at = text.index('"name": "app-500"')
    text = text[: at - 5] + "," + text[at - 5 :]
    found = fleet(tmp_path, "-", stdin=text, code=1)
    named = errors(found)
    assert [where for where, _ in named] == [
        "stdin: Pod shop/app-5: spec.containers[0].resources.limits.cpu",
        "stdin: Pod shop/app-6: spec.containers",
        "stdin: Node node-3",
        "stdin: Pod shop/app-100",
        "stdin: items[800]",
        "stdin: Node node-7: status.capacity.memory",
        "stdin: Node node-107: status.nodeInfo.kubeletVersion",
        "stdin: Node node-207: capacity.cpu",
        "stdin: Node node-207: capacity.memory",
    ]
    nodes = by_name(found)
    assert {name for name, one in nodes.items() if one["outcome"] == "broken"} == {
        "node-7",
        "node-107",
        "node-207",
    }
    missing = {"node-5", "node-6", "node-200", "node-7", "node-107", "node-207"}
    for name, one in sound.items():
        if name not in missing:
            assert nodes[name] == one


def test_text_that_ends_early_counts_as_far_as_it_goes(tmp_path: Path) -> None:
    text = text_of(cluster(2, 40))
    found = fleet(tmp_path, "-", stdin=text[:-2000], code=1)
    assert 20 < found["totals"]["pods"] < 40
    assert errors(found) == [
        ("stdin", f"ends in the middle, after {found['totals']['pods'] + 2} items")
    ]
    packed = gzip.compress(text_of(cluster(2, 4000)).encode())
    (tmp_path / "c.json.gz").write_bytes(packed[: len(packed) // 2])
    found = fleet(tmp_path, "c.json.gz", code=1)
    assert found["totals"]["pods"] > 500
    assert [where for where, _ in errors(found)] == ["c.json.gz", "c.json.gz"]


def test_pods_without_a_node_of_the_input(tmp_path: Path) -> None:
    done = pod(9, "node-0")
    done["status"]["phase"] = "Succeeded"
    text = text_of([*cluster(1, 3), pod(7, "gone"), pod(8, ""), done])
    found = fleet(tmp_path, "-", stdin=text)
    totals = found["totals"]
    assert (totals["pods"], totals["unscheduled"], totals["ended"]) == (5, 1, 1)
    assert [one["message"] for one in found["problems"] if one["node"] == "gone"] == [
        "1 pod is on a node that the input lacks"
    ]


def test_a_pod_that_comes_twice_counts_once(tmp_path: Path) -> None:
    """Also one that has ended by the second of two lists, or by both."""
    runs, ended = pod(1, "node-0"), pod(2, "node-0")
    ended["status"]["phase"] = "Failed"
    (tmp_path / "before.json").write_text(text_of([node("node-0"), runs, ended]))
    later = pod(1, "node-0")
    later["status"]["phase"] = "Succeeded"
    (tmp_path / "after.json").write_text(text_of([later, ended]))
    found = fleet(tmp_path, "before.json", "after.json", code=1)
    assert (found["totals"]["pods"], found["totals"]["ended"]) == (1, 1)
    assert [message for _, message in errors(found)] == ["occurs twice in the input"] * 2


def test_one_node_is_what_plan_says(tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    (tmp_path / "c.json").write_text(text_of(cluster(1, 12)))
    options = ("--node", "kubelet.yaml")
    found = fleet(tmp_path, "c.json", *options)["nodes"][0]
    done = run("plan", "c.json", "--node", "c.json", *options, "-o", "json", folder=tmp_path)
    plan = json.loads(done.stdout)
    skipped = [one for one in plan["problems"] if "Node" in one["where"]]
    assert found["problems"] == len(plan["problems"]) - len(skipped)
    for name in ("cpu", "memory"):
        assert found["allocatable"][name] == plan["node"]["allocatable"][name]
    pods = next(one for one in plan["cgroups"] if one["name"] == "/kubepods")
    held = {one["file"]: one["value"] for one in pods["settings"]}
    wanted = int(held["memory.min"]) // 2**20
    assert found["protection"]["held"]["memory.min"] == f"{wanted}Mi"


def test_configuration_of_nodes_by_label(tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    text = text_of([node("node-0"), node("node-1")])
    nodes = by_name(fleet(tmp_path, "-", "--node-with", "pool=gpu", "kubelet.yaml", stdin=text))
    assert nodes["node-0"]["allocatable"]["cpu"] == "7500m"
    assert nodes["node-1"]["allocatable"]["cpu"] == "8"


def test_a_configuration_for_labels_of_no_node_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    text = text_of([node("node-0")])
    found = fleet(tmp_path, "-", "--node-with", "pool=gpus", "kubelet.yaml", stdin=text)
    (row,) = [one for one in found["problems"] if one["where"].startswith("--node-with")]
    assert (row["severity"], row["where"]) == ("warning", "--node-with pool=gpus kubelet.yaml")


def test_configuration_as_kubeadm_keeps_it(tmp_path: Path) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"kubelet": KUBELET}}
    (tmp_path / "cm.json").write_text(json.dumps(config))
    found = fleet(tmp_path, "-", "--node", "cm.json", stdin=text_of([node("node-0")]))
    assert by_name(found)["node-0"]["allocatable"]["cpu"] == "7500m"


def test_to_shows_what_a_change_does_to_each_node_that_it_reaches(tmp_path: Path) -> None:
    write_cluster(tmp_path)
    found = fleet(tmp_path, "cluster.json", "--to", "kube-reserved=cpu=2,memory=8Gi", code=1)
    one = by_name(found)["node-0"]
    assert (one["allocatable"]["cpu"], one["after"]["allocatable"]["cpu"]) == ("8", "6")
    assert one["changes"]["worse"] > 0
    assert "changes" not in by_name(found)["node-2"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--to", "kubernetes=9.9"), "--kubernetes: '9.9' is not a Kubernetes release"),
        (("--to", "hierarchy=v3"), "--hierarchy: is 'v3'"),
        (("--kubernetes", "9"), "--kubernetes: '9' is not a Kubernetes release"),
        (("--feature-gates", "Nope=true"), "'Nope' is not a feature gate"),
        (("--node", "bad.yaml"), "bad.yaml: podPidsLimit: must be a whole number"),
        (("--node-with", "pool=gpu", "bad.yaml"), "bad.yaml: podPidsLimit"),
        (("--node", "pod.yaml"), "pod.yaml: contains a pod, but no node"),
        (("--node-with", "pool=gpu", "pod.yaml"), "pod.yaml: contains a pod, but no node"),
        (("--to", "node=pod.yaml"), "pod.yaml: contains a pod, but no node"),
    ],
)
def test_options_that_are_wrong_on_any_node_are_bad_input(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    write_cluster(tmp_path)
    (tmp_path / "bad.yaml").write_text(KUBELET.replace("1024", "many"))
    (tmp_path / "pod.yaml").write_text(MORE)
    done = run("fleet", "cluster.json", *options, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_pods_that_pin_cpus_are_planned_one_by_one(tmp_path: Path) -> None:
    text = text_of(cluster(2, 40))
    options = ("--cpu-manager-policy", "static", "--reserved-cpus", "0")
    found = fleet(tmp_path, "-", *options, "--rehearse", "no-memory-qos", stdin=text, code=1)
    assert [one["pods"] for one in found["nodes"]] == [20, 20]
    assert found["problems"]


STATIC = {"cpu-manager-policy": "static", "kube-reserved": "cpu=500m"}


@pytest.mark.parametrize("arguments", [STATIC, {"cgroups-per-qos": "false"}])
@pytest.mark.parametrize("options", [(), ("--to", "kubernetes=1.37")])
def test_no_pod_is_lost_where_kubeadm_passes_the_flags(
    tmp_path: Path, arguments: dict[str, str], options: tuple[str, ...]
) -> None:
    document = {
        "apiVersion": "kubeadm.k8s.io/v1beta3",
        "kind": "InitConfiguration",
        "nodeRegistration": {"kubeletExtraArgs": {"enforce-node-allocatable": "none", **arguments}},
    }
    (tmp_path / "kubeadm.yaml").write_text(json.dumps(document))
    text = text_of(cluster(2, 16))
    for way in (("--node", "kubeadm.yaml"), ("--node-with", "pool", "kubeadm.yaml")):
        found = fleet(tmp_path, "-", *way, *options, stdin=text)
        assert [one["pods"] for one in found["nodes"]] == [8, 8]
        assert found["totals"]["requested"] == {"cpu": "7", "memory": "5632Mi"}


def test_no_pod_of_a_windows_node_is_lost_beside_another_side(tmp_path: Path) -> None:
    items = cluster(2, 16)
    items[1]["status"]["nodeInfo"]["operatingSystem"] = "windows"
    text = text_of(items)
    alone = fleet(tmp_path, "-", stdin=text)
    assert [one["pods"] for one in alone["nodes"]] == [8, 8]
    found = fleet(tmp_path, "-", "--to", "kubernetes=1.37", stdin=text)
    assert found["totals"]["requested"] == alone["totals"]["requested"]
    assert [one["pods"] for one in found["nodes"]] == [8, 8]
    windows = by_name(found)["node-1"]
    assert (windows["changes"]["worse"], windows["changes"]["better"]) == (0, 0)


def test_bundles_bring_their_configuration(tmp_path: Path) -> None:
    text = text_of([node("node-0")])
    (tmp_path / "c.json").write_text(text)
    path = str(BUNDLES / "kubelet-containerd-v1.tar.gz")
    found = fleet(tmp_path, "c.json", path)
    assert len(found["nodes"]) == 2
    assert found["nodes"][1]["hierarchy"] == "v1"
    assert found["nodes"][1]["pods"] > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no node"),
        ("[]", "contains no node"),
        ("{", "ends in the middle"),
        (text_of([]), "contains no node"),
        ("kind: [", "stdin"),
    ],
)
def test_nothing_to_read_is_bad_input(tmp_path: Path, text: str, message: str) -> None:
    done = run("fleet", "-", folder=tmp_path, stdin=text)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_yaml_is_read(tmp_path: Path) -> None:
    items = [node("node-0"), pod(1, "node-0")]
    text = "\n---\n".join(json.dumps(one) for one in items)
    found = fleet(tmp_path, "-", stdin=f"# YAML\n{text}\n")
    assert found["nodes"][0]["pods"] == 1


def test_a_page_escapes_hostile_names(tmp_path: Path) -> None:
    hostile = pod(1, "node-0")
    hostile["metadata"]["namespace"] = "<script>alert(1)</script>"
    text = text_of([node("node-0"), node("<b>x"), hostile, pod(2, "<img src=x>")])
    done = run("fleet", "-", "--rehearse", "v1-to-v2", "-o", "html", folder=tmp_path, stdin=text)
    assert done.returncode == 1
    page = done.stdout
    assert page.startswith("<!doctype html>")
    assert "<script" not in page
    assert "<img" not in page
    assert "<b>x" not in page
    assert "&lt;b&gt;x" in page
    assert "http://" not in page
    assert "https://" not in page
    assert page.count("<svg") == page.count("</svg>") == 3
    assert "<title>qoslet fleet: 2 nodes</title>" in page
    # on a phone it scrolls what is wide and nothing else; no number has a wrong plural
    assert '<meta name="viewport" content="width=device-width' in page
    assert page.count("<table>") == page.count('<div class="wide"><table>') > 0
    assert "prefers-color-scheme:dark" in page
    assert ">1 node<" in page
    assert ">1 nodes<" not in page


def test_a_page_draws_protection_and_throttled_containers(tmp_path: Path) -> None:
    write_cluster(tmp_path)
    options = ("--memory-qos", "1.36", "--feature-gates", "MemoryQoS=true", "-o", "html")
    done = run("fleet", "cluster.json", *options, folder=tmp_path)
    assert "<h2>Throttled containers</h2>" in done.stdout
    plain = run("fleet", "cluster.json", "--memory-qos", "off", "-o", "html", folder=tmp_path)
    assert "<h2>Throttled" not in plain.stdout
    assert "td:first-child{white-space:nowrap}" in plain.stdout, "names of nodes stay whole"
    assert "<h2>Protection" not in plain.stdout
    design = run("fleet", "cluster.json", "--memory-qos", "1.27", "-o", "html", folder=tmp_path)
    assert "<h2>Protection that pods claim</h2>" in design.stdout


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_tables_for_notebooks(tmp_path: Path, form: str) -> None:
    write_cluster(tmp_path)
    arguments = command("fleet", "cluster.json", "-o", form, "--fit", "pod.yaml")
    done = subprocess.run(
        arguments, cwd=tmp_path, env=environment(), capture_output=True, check=False
    )
    if find_spec("pyarrow") is None:
        hint = "pip install 'qoslet[fleet]', or use -o json"
        assert done.stderr.decode() == f"qoslet: -o {form}: needs pyarrow ({hint})\n"
        assert (done.returncode, done.stdout) == (3, b"")
        return
    arrow = import_module("pyarrow")
    stream = arrow.BufferReader(done.stdout)
    if form == "parquet":
        table = import_module("pyarrow.parquet").read_table(stream)
    else:
        table = arrow.ipc.open_stream(stream).read_all()
    assert table.column("name").to_pylist() == ["node-0", "node-1", "node-2"]
    assert table.column("requested_cpu_milli").to_pylist()[2] is None
    empty = {name for name in table.column_names if not any(table.column(name).to_pylist())}
    assert "allocatable_pid" in empty
    assert not [name for name in empty if str(table.schema.field(name).type) == "null"]


def test_zstd_needs_a_module(tmp_path: Path) -> None:
    if find_spec("zstandard") is not None:
        pytest.skip("zstandard is installed")
    (tmp_path / "c.json.zst").write_bytes(b"\x28\xb5\x2f\xfd0000")
    done = run("fleet", "c.json.zst", folder=tmp_path)
    assert done.returncode == 3
    assert "zstd -dc FILE | qoslet fleet -" in done.stderr
