"""Pods chosen by namespace and labels, and pods of several nodes."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.api.input.label_selector import label_selector
from qoslet.errors import BadInput, BadInputs
from tests.core.api.test_manifest import container, loaded, pod, workload

LABELS = {"app": "web", "tier": "front", "weight": "7", "example.com/x": "", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("app=web", True),
        ("app==web", True),
        (" app = web ", True),
        ("app=api", False),
        ("app!=api", True),
        ("app!=web", False),
        ("lacking!=web", True),
        ("lacking=web", False),
        ("app", True),
        ("lacking", False),
        ("!lacking", True),
        ("! app", False),
        ("app in (web, api)", True),
        ("app in (web,api),tier in (front)", True),
        ("app in(api)", False),
        ("app notin (web,api)", False),
        ("lacking notin (web)", True),
        ("app in (web),!tier", False),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
        ("weight>6", True),
        ("weight > 7", False),
        ("weight<8", True),
        ("app>1", False),
        ("lacking<1", False),
        ("example.com/x", True),
        ("example.com/x=", True),
        ("empty=", True),
        ("empty in ()", True),
        ("empty in (,a)", True),
        ("app in (,a)", False),
        ("empty!=", False),
        ("in in (in)", False),
        ("in", False),
    ],
)
def test_a_selector_is_kubectls(text: str, matches: bool) -> None:
    """k8s.io/apimachinery pkg/labels/selector_test.go."""
    assert label_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    "text",
    [
        "", " ", ",", "a,", "=", "=a", "a=b=c", "a==b==c", "a b", "a in", "a in b", "a in (b",
        "a in (b c)", "a notin", "!", "!a=b", "a>b", "a>", "a in (b)c", "a/b/c", "/a", "a/", "-a",
        "a-", "A/b", "a=-b", "a=b!", "a" * 64, f"a={'b' * 64}", "a;b", "a=ü", "a=\x1b[1m",
        "x" * 254 + "/a", "a=(b)", "()",
    ],
)  # fmt: skip
def test_a_broken_selector_is_one_line(text: str) -> None:
    with pytest.raises(BadInput) as found:
        label_selector(text)
    assert found.value.where.startswith("-l")
    assert found.value.hint
    assert str(found.value).isprintable()


def labelled(name: str, labels: Any, namespace: str = "shop", **fields: Any) -> dict[str, Any]:
    return pod(name, metadata={"labels": labels, "namespace": namespace}, **fields)


PODS = (
    labelled("web", {"app": "web"}),
    labelled("api", {"app": "api"}),
    labelled("other", {"app": "web"}, "dev"),
    pod("plain"),
)


def names(*documents: Any, **options: Any) -> list[str]:
    result = loaded(*documents, **options)
    assert [str(fault) for fault in result.faults] == []
    return [each.key for each in result.pods]


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, ["shop/web", "shop/api", "dev/other", "default/plain"]),
        ({"namespace": "shop"}, ["shop/web", "shop/api"]),
        ({"namespace": "default"}, ["default/plain"]),
        ({"selector": "app=web"}, ["shop/web", "dev/other"]),
        ({"selector": "!app"}, ["default/plain"]),
        ({"selector": "app!=web"}, ["shop/api", "default/plain"]),
        ({"namespace": "shop", "selector": "app in (web)"}, ["shop/web"]),
    ],
)
def test_pods_are_chosen(options: dict[str, str], chosen: list[str]) -> None:
    assert names(*PODS, **options) == chosen


def test_what_was_left_out_is_one_row() -> None:
    result = loaded(*PODS, namespace="shop", selector="app=web")
    (row,) = result.problems
    assert (row.severity, row.where) == ("info", "pods")
    assert row.message == "3 pods left out: not chosen by -n shop -l app=web"


def test_a_template_has_the_labels_of_its_pods() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container()]}}
    document = workload("Deployment", template)
    document["metadata"] = {"name": "web", "namespace": "shop", "labels": {"owner": "me"}}
    assert names(document, PODS[1], selector="app=web", namespace="shop") == ["shop/web"]
    assert names(document, selector="app=web", namespace="shop", expand=True) == ["shop/web-0"]
    assert names(document, PODS[3], selector="!app") == ["default/plain"]


def test_a_fault_of_a_pod_that_is_not_chosen_is_none() -> None:
    broken = labelled("bad", {"app": "bad"}, spec={"containers": [{"name": "A_"}]})
    assert names(*PODS, broken, selector="app=web") == ["shop/web", "dev/other"]
    assert len(loaded(*PODS, broken).faults) == 1


@pytest.mark.parametrize("labels", [None, {}, {"app": None}])
def test_labels_that_are_none_match_nothing(labels: Any) -> None:
    assert names(labelled("a", labels), PODS[0], selector="app=web") == ["shop/web"]
    assert names(labelled("a", labels)) == ["shop/a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"namespace": "shp"},
            "-n: the input has no pod in namespace shp (namespaces: default, dev, shop)",
        ),
        ({"selector": "app=wbe"}, "-l: no pod of the input is chosen by -l app=wbe"),
        ({"namespace": "dev", "selector": "!app"}, "-l: no pod of the input is chosen by -n dev"),
    ],
)
def test_a_choice_that_no_pod_meets_is_a_fault(options: dict[str, str], message: str) -> None:
    (fault,) = loaded(*PODS, **options).faults
    assert str(fault).startswith(message)


def test_an_empty_list_needs_no_choice() -> None:
    empty = {"apiVersion": "v1", "kind": "List", "items": []}
    assert names(empty, namespace="shop", selector="app=web") == []


def test_a_broken_selector_is_bad_input() -> None:
    with pytest.raises(BadInputs):
        loaded(*PODS, selector="app in")


def on(node: str, name: str, **status: Any) -> dict[str, Any]:
    return pod(name, spec={"nodeName": node}, status=status)


SEVERAL = (on("n-a", "a"), on("n-b", "b"), on("n-a", "c"), pod("unbound"))


def test_pods_of_several_nodes_are_told() -> None:
    result = loaded(*SEVERAL)
    (row,) = result.problems
    assert (row.severity, row.where) == ("warning", "pods: spec.nodeName")
    assert row.message == "the pods are on 2 nodes (n-a: 2, n-b: 1) and are planned as if on one"
    assert "--node-name" in row.hint
    assert result.nodes == {"n-a": 2, "n-b": 1}


def test_pods_of_one_node_are_not() -> None:
    assert loaded(SEVERAL[0], SEVERAL[2], SEVERAL[3]).problems == []
    ended = on("n-z", "z", phase="Succeeded")
    assert [row.severity for row in loaded(SEVERAL[0], ended).problems] == ["info"]
    chosen = loaded(*SEVERAL, node_name="n-b")
    assert [each.name for each in chosen.pods] == ["b", "unbound"]
    assert {row.severity for row in chosen.problems} == {"info"}


def test_many_nodes_are_counted() -> None:
    result = loaded(*(on(f"n-{at}", f"p-{at}") for at in range(9)))
    assert "9 nodes (n-0: 1, n-1: 1, n-2: 1, n-3: 1, n-4: 1, 4 more)" in result.problems[0].message
