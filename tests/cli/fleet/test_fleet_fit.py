"""``qoslet fleet --fit``: how many more pods fit, on which side, and what binds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fixtures import KUBELET, run
from tests.cli.fleet.clusters import MORE, node, pod, text_of
from tests.cli.fleet.test_fleet import BUNDLES, by_name, fleet


def test_how_many_more_fit(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(MORE)
    cordoned = node("node-8")
    cordoned["spec"] = {"unschedulable": True}
    items = [node("node-0"), node("node-1", memory="2Gi"), cordoned, pod(1, "node-0")]
    items[1]["status"]["allocatable"]["memory"] = "2Gi"
    items[1]["status"]["allocatable"]["pods"] = "1"
    found = fleet(tmp_path, "-", "--fit", "pod.yaml", stdin=text_of(items))
    fits = {name: one["fit"] for name, one in by_name(found).items()}
    assert fits == {
        "node-0": {"count": 3, "bindingResource": "cpu"},
        "node-1": {"count": 1, "bindingResource": "pods"},
        "node-8": {"count": 0, "bindingResource": "unschedulable"},
    }
    assert found["totals"]["fit"]["count"] == 4


FLAGS: list[tuple[tuple[str, ...], tuple[int, str], tuple[int, str] | None]] = [
    (("--kube-reserved", "cpu=4"), (2, "cpu"), None),
    (("--max-pods", "2"), (2, "pods"), None),
    (("--hierarchy", "v2"), (4, "cpu"), None),
    (("--to", "kube-reserved=cpu=4"), (4, "cpu"), (2, "cpu")),
    (("--to", "max-pods=3"), (4, "cpu"), (3, "pods")),
    (("--max-pods", "1", "--to", "max-pods=200"), (1, "pods"), (4, "cpu")),
    (("--to", "hierarchy=v1", "--hierarchy", "v2"), (4, "cpu"), (4, "cpu")),
    (("--rehearse", "v2-to-v2"), (4, "cpu"), (4, "cpu")),
    (
        ("--to", "node=kubelet.yaml", "--to", "cpu-manager-policy=static"),
        (4, "cpu"),
        (3, "cpu"),
    ),
]


@pytest.mark.parametrize(("options", "wanted", "other"), FLAGS)
def test_what_decides_about_allocatable_decides_about_what_fits(
    tmp_path: Path,
    options: tuple[str, ...],
    wanted: tuple[int, str],
    other: tuple[int, str] | None,
) -> None:
    (tmp_path / "pod.yaml").write_text(MORE)
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    text = text_of([node("node-0")])
    done = run("fleet", "-", "--fit", "pod.yaml", *options, folder=tmp_path, stdin=text)
    found = fleet(tmp_path, "-", "--fit", "pod.yaml", *options, stdin=text)
    (one,) = found["nodes"]
    assert tuple(one["fit"].values()) == wanted
    after = one["after"]["fit"] if other else None
    assert (None if after is None else tuple(after.values())) == other
    total = found["totals"]["fit"]
    if other is None:
        assert "after" not in total
        assert f"{wanted[0]} more of default/more fit" in done.stdout
        return
    binding = {other[1]: 1}
    assert total["after"] == {"count": other[0], "nodes": 1, "bindingResources": binding}
    told = f"on the other side: {other[0]} more fit; what binds: {other[1]} on 1"
    assert (told in done.stdout) == (other != wanted)
    if other[0] != wanted[0]:
        assert f"{wanted[0]} → {other[0]}" in done.stdout


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FITS: list[tuple[str, dict[str, Any], dict[str, tuple[int, str]], list[str]]] = [
    ("Pod", {}, {"a": (8, "cpu"), "b": (0, "taints"), "off": (0, "unschedulable")}, []),
    (
        "Pod",
        {"nodeSelector": {"pool": "gpu"}, "affinity": {"podAntiAffinity": {REQUIRED: [{}]}}},
        {"a": (8, "cpu"), "b": (0, "nodeSelector"), "off": (0, "unschedulable")},
        ["affinity"],
    ),
    (
        "Pod",
        {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "pool", "operator": "In", "values": ["gpu"]}
                                ]
                            }
                        ]
                    }
                }
            },
            "tolerations": [{"key": "k"}],
            "nodeName": "b",
        },
        {"a": (8, "cpu"), "b": (0, "nodeAffinity"), "off": (0, "unschedulable")},
        ["nodeName"],
    ),
    (
        "DaemonSet",
        {},
        {"a": (1, "daemonSet"), "b": (0, "taints"), "off": (1, "daemonSet")},
        [],
    ),
    (
        "Pod",
        {
            "hostNetwork": True,
            "volumes": [{"name": "v", "persistentVolumeClaim": {}}],
            "tolerations": [{"key": "k"}],
        },
        {"a": (1, "hostPort"), "b": (1, "hostPort"), "off": (0, "unschedulable")},
        ["volumes"],
    ),
]


@pytest.mark.parametrize(("kind", "more", "wanted", "ignored"), FITS)
def test_what_limits_a_pod_to_nodes_counts_or_is_named(
    tmp_path: Path,
    kind: str,
    more: dict[str, Any],
    wanted: dict[str, tuple[int, str]],
    ignored: list[str],
) -> None:
    nodes = [node("a"), node("b"), node("off")]
    nodes[0]["metadata"]["labels"] = {"pool": "gpu"}
    nodes[1]["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    nodes[2]["spec"] = {"unschedulable": True}
    ports = [{"containerPort": 80}]
    container = {"name": "c", "image": "x", "ports": ports, "resources": {"requests": {"cpu": "1"}}}
    claim = {"persistentVolumeClaim": {"claimName": "c"}}
    more |= {"volumes": [{"name": "v", **claim}]} if "volumes" in more else {}
    spec = {"containers": [container], **more}
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    if kind == "DaemonSet":
        labels = {"app": "c"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        selector = {"matchLabels": labels}
        document = {"apiVersion": "apps/v1", "spec": {"selector": selector, "template": template}}
    document |= {"kind": kind, "metadata": {"name": "more"}}
    (tmp_path / "more.json").write_text(json.dumps(document))
    found = fleet(tmp_path, "-", "--fit", "more.json", stdin=text_of(nodes))
    fits = {one["name"]: tuple(one["fit"].values()) for one in found["nodes"]}
    assert fits == wanted
    assert found["totals"]["fit"]["notConsidered"] == ignored


def test_what_a_bundle_does_not_tell_refuses_no_pod(tmp_path: Path) -> None:
    """It holds neither labels nor taints."""
    terms = "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}"
    affinity = f"  affinity: {{nodeAffinity: {{{REQUIRED}: {terms}}}}}\n"
    (tmp_path / "pod.yaml").write_text(
        f"{MORE}  nodeSelector: {{pool: gpu}}\n{affinity}".replace("1Gi", "1Mi")
    )
    path = str(BUNDLES / "kubelet-containerd-v1.tar.gz")
    found = fleet(tmp_path, path, "--fit", "pod.yaml")
    assert found["nodes"][0]["fit"]["bindingResource"] == "cpu"
    assert found["totals"]["fit"]["notConsidered"] == ["nodeSelector", "nodeAffinity", "taints"]
