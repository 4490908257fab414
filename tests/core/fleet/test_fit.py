"""What more fits is what a scheduler would place, pod by pod."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.api.documents import Options
from qoslet.core.fleet.cluster import Cluster
from qoslet.core.fleet.fit import FitRequest, Toleration, fit_request
from qoslet.core.fleet.nodes import Configuration, NodeFactory
from qoslet.core.fleet.plan import FleetPlanner
from qoslet.core.fleet.read import BatchReader, Taint
from qoslet.core.fleet.splitter import ItemSplitter
from qoslet.core.node.flags import Flags
from qoslet.core.quantity import parse
from qoslet.errors import BadInput
from qoslet.host.files.manifests import load_text
from tests.cli.fleet.clusters import node, text_of

Json = dict[str, Any]

_AMOUNTS = {
    "cpu": ("1m", "250m", "1", "1500m", "3"),
    "memory": ("1", "64Mi", "1G", "3Gi"),
    "ephemeral-storage": ("1Gi", "5G"),
    "hugepages-2Mi": ("2Mi", "64Mi"),
    "example.com/gpu": ("1", "3"),
}
_ROOM = {
    "cpu": ("1", "7500m", "16"),
    "memory": ("512Mi", "8Gi", "100G"),
    "pods": ("0", "3", "30"),
    "ephemeral-storage": ("0", "20Gi", "100G"),
    "hugepages-2Mi": ("0", "256Mi"),
    "example.com/gpu": ("0", "2", "8"),
}


def amounts_of(known: dict[str, tuple[str, ...]], least: int = 0) -> st.SearchStrategy[Json]:
    chosen = st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(texts) for name, texts in known.items()}
    )
    return chosen.filter(lambda found: len(found) >= least)


@st.composite
def resources(draw: st.DrawFn) -> Json:
    """Requests, limits where Kubernetes wants them, and requests that the API server copies."""
    requests = draw(amounts_of(_AMOUNTS))
    equal = {name: text for name, text in requests.items() if "/" in name or "huge" in name}
    copied = draw(st.sampled_from(({}, {"cpu": "2"}, {"memory": "2Gi"})))
    limits = {**equal, **{name: text for name, text in copied.items() if name not in requests}}
    given = {"requests": requests, "limits": limits}
    # huge pages need cpu or memory
    if any("huge" in name for name in requests) and not {"cpu", "memory"} & {*requests, *limits}:
        given["requests"] = {**requests, "cpu": "10m"}
    return given


@st.composite
def specs(draw: st.DrawFn) -> Json:
    containers = draw(st.lists(resources(), min_size=1, max_size=2))
    inits = draw(st.lists(st.tuples(resources(), st.booleans()), max_size=3))
    spec: Json = {
        "containers": [
            {"name": f"c{at}", "image": "x", "resources": one} for at, one in enumerate(containers)
        ],
        "initContainers": [
            {
                "name": f"i{at}",
                "image": "x",
                "resources": one,
                **({"restartPolicy": "Always"} if sidecar else {}),
            }
            for at, (one, sidecar) in enumerate(inits)
        ],
    }
    if draw(st.booleans()):
        spec["overhead"] = {"cpu": "50m", "memory": "32Mi"}
    return spec


def scaled(name: str, text: str) -> int:
    quantity = parse(text)
    return quantity.milli if name == "cpu" else quantity.value


def container_requests(container: Json) -> dict[str, int]:
    given = container.get("resources", {})
    whole = {**given.get("limits", {}), **given.get("requests", {})}
    return {name: scaled(name, text) for name, text in whole.items()}


def added(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {*first, *second}}


def pod_requests(spec: Json) -> dict[str, int]:
    """Source: component-helpers resource.PodRequests: sidecars run beside all that start after
    them."""
    running: dict[str, int] = {}
    largest: dict[str, int] = {}
    for one in spec.get("initContainers", ()):
        own = container_requests(one)
        if one.get("restartPolicy") == "Always":
            running = added(running, own)
            own = running
        else:
            own = added(running, own)
        largest = {name: max(largest.get(name, 0), own.get(name, 0)) for name in {*largest, *own}}
    for one in spec["containers"]:
        running = added(running, container_requests(one))
    whole = {name: max(largest.get(name, 0), running.get(name, 0)) for name in {*largest, *running}}
    overhead = {name: scaled(name, text) for name, text in spec.get("overhead", {}).items()}
    return added(whole, overhead)


def placed(room: dict[str, int], running: Iterable[Json], spec: Json) -> int:
    """How often a scheduler would put the pod on the node."""
    used: dict[str, int] = {}
    pods = 0
    for one in running:
        used, pods = added(used, pod_requests(one)), pods + 1
    wanted, count = pod_requests(spec), 0
    while pods + 1 <= room.get("pods", 0) and all(
        amount <= room.get(name, 0) - used.get(name, 0)
        for name, amount in wanted.items()
        if amount > 0
    ):
        used, pods, count = added(used, wanted), pods + 1, count + 1
    return count


def cluster_of(items: list[Json], spec: Json, kind: str = "Pod") -> tuple[Cluster, FitRequest]:
    cluster, reader, splitter = Cluster(), BatchReader(), ItemSplitter("c.json")
    for batch in (*splitter.feed(text_of(items).encode()), *splitter.finish()):
        cluster.add(reader.read(batch))  # type: ignore[arg-type]
    cluster.finish()
    document: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m"}, "spec": spec}
    if kind == "DaemonSet":
        labels = {"a": "b"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        document |= {"apiVersion": "apps/v1", "kind": kind}
        document["spec"] = {"selector": {"matchLabels": labels}, "template": template}
    loaded = load_text(json.dumps(document), Options(keep_raw=True))
    (pod,) = loaded.pods
    return cluster, fit_request(pod, loaded.raw[pod.uid]["spec"])


def fits(
    items: list[Json], spec: Json, kind: str = "Pod", kubelet: Json | None = None
) -> list[tuple[int, str]]:
    cluster, request = cluster_of(items, spec, kind)
    configurations = [Configuration([("kubelet.yaml", kubelet)])] if kubelet else []
    planner = FleetPlanner(cluster, [NodeFactory(Flags(), configurations)], request)
    found = [one.fit for one in planner.results(cluster.nodes)]
    return [(one.count, one.binding) for one in found if one is not None]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(amounts_of(_ROOM, 2), min_size=1, max_size=3), st.lists(specs(), max_size=6), specs()
)
def test_as_many_fit_as_a_scheduler_would_place(
    rooms: list[Json], running: list[Json], spec: Json
) -> None:
    nodes = []
    for at, room in enumerate(rooms):
        made = node(f"n-{at}")
        made["status"]["allocatable"] = {"pods": "5", "cpu": "1", "memory": "1Gi", **room}
        nodes.append(made)
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p-{at}", "namespace": "d", "uid": f"u-{at}"},
            "spec": {"nodeName": f"n-{at % len(nodes)}", **one},
        }
        for at, one in enumerate(running)
    ]
    wanted = [
        placed(
            {name: scaled(name, text) for name, text in nodes[at]["status"]["allocatable"].items()},
            running[at :: len(nodes)],
            spec,
        )
        for at in range(len(nodes))
    ]
    assert [count for count, _ in fits([*nodes, *pods], spec)] == wanted


def test_a_configuration_decides_about_all_but_devices() -> None:
    """Those that are not healthy are no longer allocatable."""
    made = node("n", **{"example.com/gpu": "4"})
    made["status"]["allocatable"]["example.com/gpu"] = "1"
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "maxPods": 3,
    }
    gpu = {"name": "c", "image": "x", "resources": {"limits": {"example.com/gpu": "1"}}}
    assert fits([made], {"containers": [gpu]}, kubelet=kubelet) == [(1, "example.com/gpu")]
    assert fits([made], {"containers": [{"name": "c", "image": "x"}]}, kubelet=kubelet) == [
        (3, "pods")
    ]


@pytest.mark.parametrize(("per_core", "count"), [(0, 5), (1, 4), (2, 5)])
def test_pods_per_core_bounds_pods_below_max_pods(per_core: int, count: int) -> None:
    """The kubelet reports the lower of both."""
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "maxPods": 5,
        "podsPerCore": per_core,
    }
    spec = {"containers": [{"name": "c", "image": "x"}]}
    assert fits([node("n", cpu="4")], spec, kubelet=kubelet) == [(count, "pods")]


TAINTS: list[tuple[list[Json], Json, str, tuple[int, str]]] = [
    ([{"key": "gpu", "value": "a", "effect": "NoSchedule"}], {}, "Pod", (0, "taints")),
    ([{"key": "gpu", "effect": "PreferNoSchedule"}], {}, "Pod", (8, "cpu")),
    ([{"key": "gpu", "value": "a", "effect": "NoExecute"}], {"key": "gpu"}, "Pod", (0, "taints")),
    (
        [{"key": "gpu", "value": "a", "effect": "NoExecute"}],
        {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        "Pod",
        (8, "cpu"),
    ),
    (
        [{"key": "gpu", "value": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}],
        {"key": "gpu", "value": "a"},
        "Pod",
        (0, "taints"),
    ),
    ([{"key": "b", "effect": "NoExecute"}], {"operator": "Exists"}, "Pod", (8, "cpu")),
    (
        [{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}],
        {},
        "DaemonSet",
        (1, "daemonSet"),
    ),
    (
        [{"key": "node.kubernetes.io/network-unavailable", "effect": "NoSchedule"}],
        {},
        "DaemonSet",
        (0, "taints"),
    ),
    ([None, "x", {"key": "a"}], {}, "Pod", (8, "cpu")),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("taints", "toleration", "kind", "wanted"), TAINTS)
def test_taints_keep_pods_off_that_do_not_tolerate_them(
    taints: list[Json], toleration: Json, kind: str, wanted: tuple[int, str]
) -> None:
    tainted = node("n")
    tainted["spec"] = {"taints": taints}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec: Json = {"containers": [container], "tolerations": [toleration] if toleration else []}
    assert fits([tainted], spec, kind) == [wanted]


def test_a_cordon_is_tolerated_as_a_taint() -> None:
    cordoned = node("n")
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    cordoned["spec"] = {"unschedulable": True, "taints": [taint]}
    spec: Json = {"containers": [{"name": "c", "image": "x"}]}
    assert fits([cordoned], spec) == [(0, "unschedulable")]
    assert fits([cordoned], {**spec, "tolerations": [{"operator": "Exists"}]}) == [(110, "pods")]
    assert fits([cordoned], spec, "DaemonSet") == [(1, "daemonSet")]


def test_a_sidecar_takes_the_port_of_a_node_and_an_init_container_does_not() -> None:
    one = {"name": "i", "image": "x", "ports": [{"containerPort": 1, "hostPort": 80}]}
    spec: Json = {"containers": [{"name": "c", "image": "x"}], "initContainers": [one]}
    assert fits([node("n")], spec) == [(110, "pods")]
    spec["initContainers"] = [{**one, "restartPolicy": "Always"}]
    assert fits([node("n")], spec) == [(1, "hostPort")]


@pytest.mark.parametrize("given", [1, "x", {"key": "a"}, ["x"], [{"key": 1}], [{"operator": []}]])
def test_tolerations_that_are_none_are_bad_input(given: Any) -> None:
    spec = {"containers": [{"name": "c", "image": "x"}], "tolerations": given}
    with pytest.raises(BadInput, match=r"spec\.tolerations: cannot be read"):
        fits([node("n")], spec)


@pytest.mark.parametrize("given", [None, [], [{"key": None, "operator": "Exists"}]])
def test_what_is_null_is_not_given(given: Any) -> None:
    spec = {"containers": [{"name": "c", "image": "x"}], "tolerations": given}
    assert fits([node("n")], spec) == [(110, "pods")]


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration(), False),
        (Toleration("k"), False),
        (Toleration("k", "Equal", "v"), True),
        (Toleration("k", "", "v", "NoExecute"), False),
        (Toleration("k", "Exists", "", "NoSchedule"), True),
        (Toleration("", "Exists"), True),
        (Toleration("k", "Gt", "v"), False),
    ],
)
def test_a_toleration_matches_as_the_api_says(toleration: Toleration, tolerates: bool) -> None:
    assert toleration.tolerates(Taint("k", "v", "NoSchedule")) == tolerates
