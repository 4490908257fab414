"""Whatever the input: pods or faults, never a traceback, and memory within a bound."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.api.manifest import Loaded, Options
from qoslet.errors import BadInputs
from qoslet.host.files.manifests import load_text
from tests.paths import SAMPLES

PODS = json.loads((SAMPLES / "pods.json").read_text())["items"]

OPTIONS = st.builds(
    Options,
    expand=st.booleans(),
    allocated=st.booleans(),
    node_name=st.sampled_from([None, "n1"]),
    keep_raw=st.booleans(),
)

WORDS = st.sampled_from(
    [
        *["apiVersion", "kind", "items", "metadata", "spec", "status", "template", "containers"],
        *["initContainers", "name", "namespace", "uid", "annotations", "resources", "requests"],
        *["limits", "cpu", "memory", "hugepages-2Mi", "overhead", "replicas", "jobTemplate"],
        *["v1", "apps/v1", "batch/v1", "Pod", "List", "PodList", "Deployment", "CronJob", "Node"],
        *["500m", "1Gi", "-1", "Ki", "1e3", "..", "a/b", "\0", "\x1b[31m", "<<", "yes", "Always"],
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=20)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(WORDS | st.text(max_size=8), inner, max_size=6)
    ),
    max_leaves=30,
)


def read(text: str | bytes, options: Options) -> None:
    """Only pods or faults may come out, and every line of them may reach a terminal."""
    try:
        loaded = load_text(text, options, name="fuzz")
    except BadInputs as error:
        lines = [str(fault) for fault in error.faults]
    else:
        lines = [f"{row.where}: {row.message} {row.hint}" for row in loaded.problems]
        check_names(loaded)
    assert [ascii(line) for line in lines if not line.isprintable() or len(line) > 2000] == []


def check_names(loaded: Loaded) -> None:
    for pod in loaded.pods:
        assert pod.where.isprintable()
        assert not {"/", "_", "\0"} & set(pod.uid)
        assert ".." not in pod.uid


@given(st.text(), OPTIONS)
def test_any_text(text: str, options: Options) -> None:
    read(text, options)


@given(st.binary(), OPTIONS)
def test_any_bytes(data: bytes, options: Options) -> None:
    read(data, options)


@given(
    st.lists(WORDS | st.sampled_from(list("{}[]:,-?&*!|>'\"#%@`\n \t")) | st.text(max_size=3)),
    OPTIONS,
)
def test_anything_made_of_yaml_signs(parts: list[str], options: Options) -> None:
    read("".join(parts), options)


@given(TREES, OPTIONS, st.sampled_from(["Pod", "List", "PodList", "Deployment", "CronJob"]))
def test_any_tree(tree: Any, options: Options, kind: str) -> None:
    read(json.dumps(tree), options)
    head = {"apiVersion": {"Deployment": "apps/v1", "CronJob": "batch/v1"}.get(kind, "v1")}
    for document in (
        {**head, "kind": kind, "metadata": {"name": "a"}, "spec": tree},
        {**head, "kind": kind, "metadata": tree, "spec": {"containers": tree}},
        {**head, "kind": kind, "items": [tree, tree]},
        {**head, "kind": kind, **(tree if isinstance(tree, dict) else {})},
    ):
        read(json.dumps(document), options)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container below ``value`` with a key in it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield value, key
            yield from places(item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from places(item)


@settings(max_examples=300)
@given(st.data(), OPTIONS)
def test_real_pods_with_something_wrong(data: st.DataObject, options: Options) -> None:
    document = copy.deepcopy(data.draw(st.sampled_from(PODS)))
    for _ in range(data.draw(st.integers(1, 3))):
        found = list(places(document))
        where, key = found[data.draw(st.integers(0, len(found) - 1))]
        where[key] = data.draw(SCALARS | TREES)
    text = json.dumps(document)
    read(text, options)
    at = data.draw(st.integers(0, len(text)))
    read(text[:at] + data.draw(st.text(max_size=3)) + text[at:], options)
    read(text[:at], options)


@settings(max_examples=300)
@given(st.data(), OPTIONS)
def test_real_yaml_with_something_wrong(data: st.DataObject, options: Options) -> None:
    lines = (SAMPLES / "pods.yaml").read_text().splitlines()[:60]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        action = data.draw(st.sampled_from(["drop", "twice", "indent", "put"]))
        if action == "drop" and len(lines) > 1:
            del lines[at]
        elif action == "twice":
            lines.insert(at, lines[at])
        elif action == "indent":
            lines[at] = " " + lines[at]
        else:
            lines[at] = lines[at].partition(":")[0] + ": " + data.draw(st.text(max_size=12) | WORDS)
    read("\n".join(lines), options)


HEAD = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":'
BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n".encode()
    for before, name in zip("abcdefghijk", "bcdefghijkl", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        b"- " * 500_000,
        b"[" * 1_000_000,
        b"{" * 1_000_000,
        HEAD + b"[" * 1_000_000,
        HEAD + b'{"containers":' + b"[" * 500_000 + b"]" * 500_000 + b"}}",
        HEAD + b'{"containers":[' + b"7," * 500_000 + b"7]}}",
        HEAD + b'{"containers":[{"name":"' + b"x" * 1_000_000 + b'"}]}}',
        HEAD + b'{"overhead":{"cpu":"' + b"9" * 1_000_000 + b'"}}}',
        HEAD + b'{"overhead":{"cpu":' + b"9" * 1_000_000 + b"}}}",
        HEAD + b'{"overhead":{"' + b"\\u001b" * 100_000 + b'":1}}}',
        b'{"apiVersion":"v1","kind":"List","items":[' + b"[]," * 300_000 + b"0]}",
        b"a: " + b"9" * 1_000_000,
        b"&a " * 100_000,
        b"a: *b\n" * 10_000,
        b"---\n" * 100_000,
        b"\n".join([b'{"kind":"Pod"}'] * 20_000),
    ],
    ids=lambda text: ascii(text[:24].decode()),
)
def test_memory_is_bounded(text: bytes) -> None:
    tracemalloc.start()
    try:
        read(text, Options(keep_raw=True))
        assert tracemalloc.get_traced_memory()[1] < 300 << 20
    finally:
        tracemalloc.stop()
