"""Numbers and JSON texts of manifests that cannot be meant, and those that a kubelet tells of a resize."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from qoslet.core.api.documents import Document, json_documents, value_document
from qoslet.core.api.manifest import Loaded, Options, pods_from
from tests.core.api.test_manifest import (
    TEMPLATE,
    asks,
    container,
    pod,
    pods_of,
    texts,
    workload,
)


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "1e999", "9" * 400, "1e300"])
@pytest.mark.parametrize("keep_raw", [False, True])
def test_numbers_beyond_reason(number: str, keep_raw: bool) -> None:
    documents = (
        pod("a", spec={"priority": 7777}),
        pod("b", container(**asks({"cpu": 7777}))),
        workload("Deployment", TEMPLATE, name="c", replicas=7777),
    )
    for document in documents:
        text = json.dumps(document).replace("7777", number).encode()
        result = pods_from(json_documents(text, "f.json"), Options(expand=True, keep_raw=keep_raw))
        (fault,) = result.faults
        assert str(fault).isprintable()
        assert len(str(fault)) < 500


@pytest.mark.parametrize("make", [pod, lambda name, **x: workload("Job", TEMPLATE, name, **x)])
def test_a_number_that_nobody_reads_is_a_fault_only_where_all_is_kept(make: Any) -> None:
    text = json.dumps(make("a", x=7777)).replace("7777", "9" * 5000).encode()
    assert pods_from(json_documents(text, "f.json"), Options()).faults == []
    (fault,) = pods_from(json_documents(text, "f.json"), Options(keep_raw=True)).faults
    assert fault.where == "f.json"


def test_a_null_quantity_is_zero_and_said() -> None:
    """k8s.io/apimachinery pkg/api/resource/quantity.go UnmarshalJSON."""
    document = pod("web", container(**asks({"cpu": None, "memory": "1Gi"})))
    result = pods_from(json_documents(json.dumps(document).encode(), "f.json"), Options())
    requests = result.pods[0].containers[0].resources.requests
    assert {name: amount.value for name, amount in requests.items()} == {
        "cpu": 0,
        "memory": 1 << 30,
    }
    (row,) = result.problems
    assert row.where.endswith("resources.requests.cpu")
    assert row.message == "null is read as 0, as the API server does"


# --- JSON text --------------------------------------------------------------------------------


def read(text: bytes) -> Loaded:
    return pods_from(json_documents(text, "f.json"), Options())


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        (b'{"kind": "Pod",\n "x": }', "f.json: line 2 column 7", "invalid character"),
        (b'{"kind": "Pod"', "f.json", "ends in the middle"),
        (b'{"x": 01}', "f.json: line 1", "broken JSON"),
        (b'{"x": "\x01"}', "f.json: line 1 column 8", "invalid character"),
        (b"[" * 100_000, "f.json", "nested too deeply"),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "f.json", "nested too deeply"),
        (b'{"kind": "Pod"} x', "f.json: line 1 column 17", "two JSON documents on one line"),
        (b'{"kind": "\\ud800"}', "f.json", "broken JSON"),
    ],
)
def test_broken_json_says_where(text: bytes, where: str, words: str) -> None:
    fault = read(text).faults[-1]
    assert fault.where.startswith(where)
    assert words in str(fault)


def test_documents_on_lines_of_their_own_are_read_all() -> None:
    text = b"\n".join(json.dumps(pod(name), indent=1).encode() for name in "abc") + b"\n"
    assert [each.name for each in read(text).pods] == ["a", "b", "c"]


def test_what_stands_before_broken_json_is_kept() -> None:
    result = read(json.dumps(pod("a")).encode() + b"\n{]")
    assert [each.name for each in result.pods] == ["a"]
    assert result.faults[0].where == "f.json: line 2 column 2"


def test_of_a_key_given_twice_the_last_wins_as_in_go() -> None:
    text = json.dumps(pod("a")).encode().replace(b'"name": "a"', b'"name": "x", "name": "a"')
    assert [each.name for each in read(text).pods] == ["a"]


POD = (
    '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},'
    ' "spec": {"containers": [{"name": "app"%s}]%s}}'
)


def read_text(text: str) -> Loaded:
    return pods_from(json_documents(text.encode(), "f.json"), Options())


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (POD % ("", ', "containers": [{"name": "b"}]'), ["spec.containers"]),
        (POD % (', "image": "x", "image" : "y"', ""), ["spec.containers[0].image"]),
        (POD % (', "image": ":x", "command": ["\\":"]', ""), []),
        (POD % (', "image": "x", "i\\u006dage": "y"', ""), ["spec.containers[0].image"]),
        (POD % ("", ""), []),
    ],
)
def test_each_key_that_an_object_has_twice_is_named(text: str, paths: list[str]) -> None:
    found = read_text(text)
    assert [row.where for row in found.problems] == [f"f.json: {path}" for path in paths]
    assert all(row.severity == "warning" for row in found.problems)
    assert [one.key for one in found.pods] == ["default/a"]


def test_the_document_is_named_and_the_last_one_counts() -> None:
    twice = POD % ("", ', "containers": [{"name": "late"}]')
    found = read_text("\n".join((POD % ("", ""), twice.replace('"a"', '"b"'))))
    assert [row.where for row in found.problems] == ["f.json: document 2: spec.containers"]
    assert found.pods[1].containers[0].name == "late"


def test_a_hostile_document_is_told_of_in_a_few_rows() -> None:
    many = "".join(f', "\\u001b{number}": 1, "\\u001b{number}": 2' for number in range(1000))
    found = read_text(POD % ("", many))
    assert len(found.problems) == 5
    assert all(row.where.isprintable() for row in found.problems)


def test_the_output_for_a_whole_cluster_is_not_looked_at() -> None:
    """It comes from an API server, which has no key twice; looking costs more than planning."""
    items = ",".join(json.dumps(pod(f"p{number}")) for number in range(4000))
    text = f'{{"apiVersion": "v1", "kind": "List", "items": [], "items": [{items}]}}'
    found = read_text(text)
    assert (len(found.pods), found.problems) == (4000, [])


def test_a_text_in_a_document_is_none_of_its_keys() -> None:
    applied = msgspec.json.encode(pod("old")).decode()
    value = pod("a", metadata={"annotations": {"last-applied": applied}})
    document = value_document(value, "f.yaml", 0)
    assert isinstance(document, Document)
    assert pods_from([document], Options()).problems == []


RESIZED = {
    "containerStatuses": [
        {
            "name": "c",
            "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "400m"}},
            "allocatedResources": {"cpu": "300m"},
        }
    ]
}


ASKED = {"cpu": "100m"}


def test_spec_decides_unless_what_is_allocated_is_asked_for() -> None:
    document = pod("web", container(**asks({"cpu": "1"}, {"cpu": "1"})), status=RESIZED)
    (wanted,) = pods_of(document)
    (actual,) = pods_of(document, allocated=True)
    assert texts(wanted.containers[0].resources.limits) == {"cpu": "1"}
    assert texts(actual.containers[0].resources.requests) == {"cpu": "200m"}
    assert texts(actual.containers[0].resources.limits) == {"cpu": "400m"}


@pytest.mark.parametrize(
    ("more", "meta", "allocated", "has_actual"),
    [
        ({"observedGeneration": 2}, {}, ASKED, False),
        ({"observedGeneration": 2}, {}, {}, False),
        ({"observedGeneration": 2}, {}, {"cpu": "300m"}, True),
        ({"observedGeneration": 1}, {}, ASKED, True),
        ({}, {}, ASKED, True),
        (
            {
                "observedGeneration": 2,
                "conditions": [{"type": "PodResizePending", "status": "True"}],
            },
            {},
            ASKED,
            True,
        ),
        (
            {"observedGeneration": 2, "conditions": [{"type": "Ready", "status": "True"}]},
            {},
            ASKED,
            False,
        ),
        ({}, {"annotations": {"kubernetes.io/config.source": "file"}}, {"cpu": "300m"}, False),
    ],
)
def test_a_status_has_actual_resources_only_where_a_resize_may_be_on_its_way(
    more: dict[str, Any], meta: dict[str, Any], allocated: dict[str, str], has_actual: bool
) -> None:
    """As a kubelet 1.36.2 tells after another process wrote cpu.shares or cpu.weight of the pod, and a
    runtime after another client updated a container; and after its start, before it tries a resize again
    that was deferred."""
    status = {
        "containerStatuses": [{**RESIZED["containerStatuses"][0], "allocatedResources": allocated}],
        "resources": {"requests": {"cpu": "247m"}, "limits": {"cpu": "900m"}},
        **more,
    }
    inner = container(**asks({"cpu": "100m"}, {"cpu": "600m"}))
    document = pod(
        "web",
        inner,
        metadata={"generation": 2, **meta},
        spec=asks({"cpu": "100m"}, {"cpu": "900m"}),
        status=status,
    )
    (found,) = pods_of(document, allocated=True)
    assert found.resources is not None
    of_pod, of_container = ("247m", "200m") if has_actual else ("100m", "100m")
    assert texts(found.resources.requests)["cpu"] == of_pod
    assert texts(found.containers[0].resources.requests) == {"cpu": of_container}


@pytest.mark.parametrize(("allocated", "cpu"), [("150m", "130m"), ("170m", "170m")])
def test_a_new_kubelet_tells_what_it_allocated_at_pod_level(allocated: str, cpu: str) -> None:
    """As a kubelet 1.36.2 for half a minute after its start, when pod-level resources were resized meanwhile."""
    status = {
        "observedGeneration": 3,
        "resources": {
            "requests": {"cpu": "130m", "memory": "48Mi"},
            "limits": {"cpu": "400m", "memory": "96Mi"},
        },
        "allocatedResources": {"cpu": allocated, "memory": "48Mi"},
    }
    spec = asks({"cpu": "170m", "memory": "48Mi"}, {"cpu": "500m", "memory": "96Mi"})
    document = pod("plr", metadata={"generation": 3}, spec=spec, status=status)
    (found,) = pods_of(document, allocated=True)
    assert found.resources is not None
    assert texts(found.resources.requests)["cpu"] == cpu
    assert texts(found.resources.limits)["cpu"] == ("400m" if cpu == "130m" else "500m")


def test_a_pod_with_more_shares_than_its_limit_is_no_bad_input() -> None:
    """By hand: its kubelet tells a request of 759m below a limit of 200m."""
    status = {
        "observedGeneration": 1,
        "resources": {"requests": {"cpu": "759m"}, "limits": {"cpu": "200m"}},
    }
    spec = asks({"cpu": "100m"}, {"cpu": "200m"})
    document = pod("web", metadata={"generation": 1}, spec=spec, status=status)
    (found,) = pods_of(document, allocated=True)
    assert found.resources is not None
    assert texts(found.resources.requests) == {"cpu": "100m"}


def test_allocated_resources_replace_requests_where_nothing_is_actuated() -> None:
    status = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "300m"}}]}
    document = pod("web", container(**asks(None, {"cpu": "1", "memory": "1Mi"})), status=status)
    (actual,) = pods_of(document, allocated=True)
    (only,) = actual.containers
    assert texts(only.resources.requests) == {"cpu": "300m", "memory": "1Mi"}
    assert only.defaulted == ("memory",)
