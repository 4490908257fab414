"""ConfigMaps and Secrets of the input, file by file."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from qoslet.core.api.config.index import ConfigIndex
from qoslet.core.api.config.objects import ConfigKey, ConfigObject, config_object
from qoslet.core.api.documents import value_document
from qoslet.core.api.manifest import Options, pods_from
from qoslet.errors import BadInput

A, B = (0, "a.yaml"), (0, "b.yaml")


def document(kind: str = "ConfigMap", name: str = "c", **fields: Any) -> dict[str, Any]:
    """A document of one."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}


def one(kind: str = "ConfigMap", **fields: Any) -> ConfigObject:
    """The object of a valid document."""
    (made,), faults = config_object(kind, document(kind, **fields), f"f: {kind} default/c")
    assert faults == []
    return made


def test_values_are_bytes_and_string_data_wins() -> None:
    made = one("Secret", data={"a": b64encode(b"\x00\xff").decode(), "b": "Yg==\n"})
    assert made.text == {"a": b"\x00\xff", "b": b"b"}
    made = one("Secret", data={"a": "YQ=="}, stringData={"a": "other", "c": "ä"})
    assert made.text == {"a": b"other", "c": "ä".encode()}
    made = one(data={"x": "1", "empty": None}, binaryData={"y": "AP8="}, immutable=True)
    assert (made.text, made.binary) == ({"x": b"1", "empty": b""}, {"y": b"\x00\xff"})
    assert made.files == {"x": b"1", "empty": b"", "y": b"\x00\xff"}
    assert made.immutable


def test_no_value_is_ever_shown() -> None:
    made = one("Secret", stringData={"k": "hunter2"})
    assert "hunter2" not in repr(made)
    assert "hunter2" not in str([made])


@pytest.mark.parametrize(
    ("kind", "fields", "where", "message"),
    [
        ("ConfigMap", {"data": {"p": 8080}}, "data.p", "must be a string"),
        ("ConfigMap", {"data": {"p": True}}, "data.p", "must be a string"),
        ("ConfigMap", {"data": ["p"]}, "data", "must be an object"),
        ("ConfigMap", {"data": {"a/b": ""}}, "data['a/b']", "is not a valid key"),
        ("ConfigMap", {"data": {"..a": ""}}, "data['..a']", "is not a valid key"),
        ("ConfigMap", {"data": {".": ""}}, "data['.']", "is not a valid key"),
        ("ConfigMap", {"data": {"k" * 254: ""}}, f"data['{'k' * 80}']", "is not a valid key"),
        ("ConfigMap", {"data": {"k": ""}, "binaryData": {"k": ""}}, "binaryData.k", "is also a key of data"),
        ("ConfigMap", {"binaryData": {"k": "hunter2!"}}, "binaryData.k", "is not base64"),
        ("Secret", {"data": {"k": "hunter2!"}}, "data.k", "is not base64"),
        ("Secret", {"data": {"k": "aGk"}}, "data.k", "is not base64"),
        ("Secret", {"stringData": {"k": "x" * (1 << 20) + "y"}}, "data", "is longer than 1 MiB"),
        ("ConfigMap", {"immutable": "yes"}, "immutable", "must be true or false"),
        ("ConfigMap", {"metadata": {"name": "A_b"}}, "metadata.name", "is not a DNS name"),
        ("ConfigMap", {"metadata": {}}, "metadata.name", "is missing"),
        ("Secret", {"metadata": {"name": "a", "namespace": "../x"}}, "metadata.namespace", "is not a DNS label"),
    ],
)  # fmt: skip
def test_what_the_api_server_refuses_is_a_fault_without_the_value(
    kind: str, fields: dict[str, Any], where: str, message: str
) -> None:
    made, (fault,) = config_object(kind, {**document(kind), **fields}, "f: X")
    assert made == []
    assert (fault.where, fault.message) == (f"f: X: {where}", message)
    assert "hunter2" not in f"{fault}"


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "app"}]},
}


@pytest.mark.parametrize(
    "documents",
    [
        [document(data={"a": "1"}), document("Secret", stringData={"a": "1"})],
        [{"apiVersion": "v1", "kind": "List", "items": [document(data={"a": "1"}), document("Secret", data={"a": "MQ=="})]}],
        [{"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "c"}, "data": {"a": "1"}}]},
         {"apiVersion": "v1", "kind": "SecretList", "items": [{"metadata": {"name": "c"}, "data": {"a": "MQ=="}}]}],
    ],
    ids=["documents", "list", "typed lists"],
)  # fmt: skip
def test_run_reads_them_without_a_row_and_plan_needs_none(documents: list[Any]) -> None:
    def read(options: Options) -> Any:
        return pods_from((value_document(v, "f", 0) for v in [*documents, POD]), options)

    loaded = read(Options(keep_raw=True))
    assert (loaded.faults, loaded.problems) == ([], [])
    assert {made.key: made.text for made in loaded.config} == {
        ConfigKey("ConfigMap", "default", "c"): {"a": b"1"},
        ConfigKey("Secret", "default", "c"): {"a": b"1"},
    }
    plain = read(Options())
    assert (plain.faults, plain.config) == ([], [])
    assert {row.severity for row in plain.problems} == {"info"}


def test_a_bad_one_is_a_fault_of_its_file() -> None:
    bad = value_document(document("Secret", data={"k": "no!"}), "f", 0)
    loaded = pods_from([bad, value_document(POD, "f", 0)], Options(keep_raw=True))
    (fault,) = loaded.faults
    assert isinstance(fault, BadInput)
    assert fault.where == "f: Secret default/c: data.k"
    assert pods_from([bad, value_document(POD, "f", 0)], Options()).faults == []


KEY = ConfigKey("ConfigMap", "default", "c")


def texts(index: ConfigIndex) -> dict[ConfigKey, Any]:
    return {key: dict(found.text) for key, found in index.objects.items()}


def test_objects_come_change_and_go_and_the_first_file_counts() -> None:
    index = ConfigIndex()
    index.replace(B, [one(data={"k": "b"})])
    assert (texts(index), set(index.take_changed())) == ({KEY: {"k": b"b"}}, {KEY})
    index.replace(B, [one(data={"k": "b"})])
    assert index.take_changed() == frozenset()
    index.replace(A, [one(data={"k": "a"})])
    assert (texts(index), set(index.take_changed())) == ({KEY: {"k": b"a"}}, {KEY})
    assert [row.severity for row in index.rows(B)] == ["warning"]
    assert index.rows(A) == []
    index.replace(A, ())
    assert (texts(index), set(index.take_changed())) == ({KEY: {"k": b"b"}}, {KEY})
    assert index.rows(B) == []
    index.replace(B, ())
    assert (texts(index), set(index.take_changed())) == ({}, {KEY})
    assert not index.has(A)


def test_the_last_of_a_file_counts_and_the_others_are_said() -> None:
    index = ConfigIndex()
    index.replace(A, [one(data={"k": "1"}), one(data={"k": "2"})])
    assert texts(index) == {KEY: {"k": b"2"}}
    (row,) = index.rows(A)
    assert "occurs twice" in row.message


def test_an_immutable_one_stays_until_it_is_removed() -> None:
    def said(index: ConfigIndex) -> list[str]:
        return [row.severity for row in index.rows(A)]

    index = ConfigIndex()
    index.replace(A, [one(data={"k": "1"}, immutable=True)])
    index.take_changed()
    index.replace(A, [one(data={"k": "2"}, immutable=True)])
    assert (texts(index), index.take_changed(), said(index)) == (
        {KEY: {"k": b"1"}},
        frozenset(),
        ["error"],
    )
    index.replace(A, [one(data={"k": "1"}, immutable=True)])
    assert said(index) == []
    index.replace(A, ())
    index.replace(A, [one(data={"k": "2"})])
    assert texts(index) == {KEY: {"k": b"2"}}
