"""Pods that are decoded once give what decoding all of them again gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from qoslet.app.guest.decoded_pods import DecodedPods
from qoslet.core.api.loaded import Loaded
from qoslet.core.api.manifest import Options
from qoslet.errors import BadInputs
from qoslet.host.files.manifests import load_text

Json = dict[str, Any]


def pod(name: str, memory: str = "64Mi", **more: Any) -> Json:
    status = {
        "phase": "Running",
        "containerStatuses": [{"name": "app", "containerID": f"x://{name}"}],
    }
    found: Json = {
        "metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}"},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "app", "resources": {"requests": {"memory": memory}}}],
        },
        "status": status,
    }
    for place, value in more.items():
        first, _, field = place.partition("_")
        found[first][field] = value
    return found


def text(*pods: Json, **more: Any) -> bytes:
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "items": pods, **more}).encode()


def outcome(load: Callable[[], Loaded]) -> object:
    try:
        found = load()
    except BadInputs as error:
        return [str(one) for one in error.faults]
    return found.pods, found.problems


A, B = pod("a"), pod("b")
LISTS = {
    "nothing": [text(), b"", b"{}", b'{"kind":"PodList","apiVersion":"v1","items":null}'],
    "some come, change and go": [
        text(A),
        text(A, B),
        text(pod("a", "96Mi"), B),
        text(B),
        text(B, A),
    ],
    "ended": [text(A, pod("b", status_phase="Failed")), text(pod("b", status_phase="Succeeded"))],
    "another node": [text(A, pod("b", spec_nodeName="n2")), text(A, pod("b", spec_nodeName=None))],
    "twice": [text(A, A), text(A, pod("a", "96Mi")), text(A, pod("b", metadata_uid="uid-a"))],
    "faulty": [
        text(A, pod("b", "64Mo")),
        text(A, B)[:-9],
        text(A, pod("b", spec_containers=7)),
        text(A, pod("b", metadata_name="")),
        text(A, B),
    ],
    "other forms": [
        text(A, kind="List"),
        text({**A, "kind": "Pod", "apiVersion": "v1"}),
        text({**A, "kind": "Service", "apiVersion": "v1"}, B),
        b"kind: Pod\napiVersion: v1\nmetadata: {name: y}\nspec: {containers: [{name: a}]}\n",
    ],
    "notes": [text(pod("a", metadata_annotations={"qoslet.dev/guard": "of"}), B), text(B)],
}


@pytest.mark.parametrize("node", [None, "n1"])
@pytest.mark.parametrize("scene", LISTS)
def test_every_list_gives_what_it_gives_alone(scene: str, node: str | None) -> None:
    decoded, options = DecodedPods(), Options(node_name=node)
    for one in [*LISTS[scene], *LISTS["some come, change and go"], *LISTS[scene]]:
        wanted = outcome(partial(load_text, one, options, name="here"))
        assert outcome(partial(decoded.load, one, options, "here")) == wanted


_NAMES = some.sampled_from("abcd")


@settings(deadline=None, max_examples=60)
@given(some.lists(some.dictionaries(_NAMES, some.sampled_from(["1Mi", "2Mi", "3Mo"])), max_size=6))
def test_any_lists_one_after_another(lists: list[dict[str, str]]) -> None:
    decoded, options = DecodedPods(), Options()
    for one in lists:
        data = text(*[pod(name, memory) for name, memory in one.items()])
        wanted = outcome(partial(load_text, data, options, name="here"))
        assert outcome(partial(decoded.load, data, options, "here")) == wanted


def test_only_what_changed_is_decoded() -> None:
    decoded, options = DecodedPods(), Options(node_name="n1")
    first = decoded.load(text(A, B), options, "here").pods
    second = decoded.load(text(pod("a", "96Mi"), B), options, "here").pods
    assert second[1] is first[1]
    assert second[0].containers != first[0].containers
    elsewhere = decoded.load(text(A, B), options, "there").pods
    assert elsewhere[1] is not first[1], "messages name the place"
    decoded.load(text(A), options, "there")
    assert decoded.load(text(A, B), options, "there").pods[1] is not elsewhere[1], "nothing is kept"
