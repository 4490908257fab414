"""YAML and JSON texts of manifests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from qoslet.errors import BadInput, FaultCode
from qoslet.host.files import manifests
from qoslet.host.files.manifests import load, load_text
from qoslet.host.files.yaml import YamlDocument, documents, resolve
from tests.host.files.test_manifests import OPTIONS, POD, faults, names, text_faults
from tests.paths import SAMPLES


def test_a_byte_order_mark_is_no_fault() -> None:
    assert names(load_text(b"\xef\xbb\xbf" + POD.encode(), OPTIONS)) == ["web"]


def test_yaml_has_a_bound_and_json_has_not(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as file:
        file.write(b"a: 1\n")
        for _ in range(65):
            file.write(b"#" * (1 << 20) + b"\n")
    (fault,) = faults(path)
    assert fault.message == "is 65 MiB of YAML, at most 64 are read"
    assert "JSON" in fault.hint


def test_json_may_stand_where_yaml_is_expected(tmp_path: Path) -> None:
    compact = json.dumps({"apiVersion": "v1", "kind": "List", "items": []})
    for name in ("a.yaml", "b.json", "c"):
        (tmp_path / name).write_text(compact)
        assert load([str(tmp_path / name)], OPTIONS).pods == []
    flow = "{apiVersion: v1, kind: List, items: [],}"
    assert load_text(flow, OPTIONS).pods == []
    (tmp_path / "yaml.json").write_text(POD)
    assert names(load([str(tmp_path / "yaml.json")], OPTIONS)) == ["web"]


def test_a_broken_json_file_is_told_as_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": 1,}')
    (fault,) = faults(path)
    assert fault.where == f"{path}: line 1 column 9"
    assert fault.fault_code is FaultCode.BROKEN_JSON


# --- YAML -------------------------------------------------------------------------------------


def values(text: str) -> list[Any]:
    found = list(documents(textwrap.dedent(text).encode(), "t.yaml"))
    assert all(isinstance(each, YamlDocument) for each in found), found
    return [each.value for each in found if isinstance(each, YamlDocument)]


def yaml_faults(text: str) -> list[BadInput]:
    found = documents(textwrap.dedent(text).encode(), "t.yaml")
    return [each for each in found if isinstance(each, BadInput)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("On", True),
        ("y", True),
        ("no", False),
        ("OFF", False),
        ("true", True),
        ("~", None),
        ("", None),
        ("Null", None),
        ("12", 12),
        ("-12", -12),
        ("+1", 1),
        ("1_000", 1000),
        ("0777", 511),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0b11", -3),
        ("08", 8.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("1e999", "1e999"),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", 2.0**64),
        ("9" * 5000, "9" * 5000),
        ("2026-11-21", "2026-11-21"),
        ("1:30", "1:30"),
        ("500m", "500m"),
        ("1Gi", "1Gi"),
        ("-", "-"),
        ("nginx", "nginx"),
        ("٣", "٣"),
    ],
)
def test_plain_scalars_are_what_go_reads(text: str, value: Any) -> None:
    found = resolve(text)
    assert found == value
    assert type(found) is type(value)


def test_quotes_and_tags_make_text() -> None:
    assert values("a: 'yes'\nb: \"1\"\nc: !!str 2\nd: ! 3\ne: !!float 4\nf: |\n  on\n") == [
        {"a": "yes", "b": "1", "c": "2", "d": "3", "e": 4.0, "f": "on\n"}
    ]


def test_documents_are_numbered_and_empty_ones_left_out() -> None:
    found = list(documents(b"---\n---\na: 1\n---\n# x\n---\nb: 2\n...\n", "t.yaml"))
    assert [(each.number, each.value) for each in found if isinstance(each, YamlDocument)] == [
        (2, {"a": 1}),
        (4, {"b": 2}),
    ]


def test_keys_that_are_numbers_become_text_as_kubernetes_does() -> None:
    assert values("1: a\ntrue: b\n1.5: c") == [{"1": "a", "true": "b", "1.5": "c"}]


def test_anchors_aliases_and_merges() -> None:
    text = """
        base: &base {a: 1, b: &list [x, z]}
        one: {<<: *base, b: 2}
        two:
          <<: [{a: 9}, *base]
          c: *list
        '<<': plain
    """
    assert values(text) == [
        {
            "base": {"a": 1, "b": ["x", "z"]},
            "one": {"a": 1, "b": 2},
            "two": {"a": 9, "b": ["x", "z"], "c": ["x", "z"]},
            "<<": "plain",
        }
    ]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefghijk", "bcdefghijkl", strict=True)
)


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("a: [", "t.yaml: line 2", "broken YAML"),
        ("a:\n\tb: 1", "t.yaml: line 2 column 1", "cannot start any token"),
        ("a:\n\tb: 1", "t.yaml: line 2 column 1", "indent with spaces, not tabs"),
        ("a: 1\nb: 2\na: 3", "t.yaml: line 3", "the key 'a' occurs twice"),
        ("? [a]\n: 1", "t.yaml: line 1", "a key must be text"),
        ("? {a: b}\n: 1\nc: 2", "t.yaml: line 1", "a key must be text"),
        ("~: 1", "t.yaml: line 1", "a key must be text"),
        ("a: !!python/object:os.system x", "t.yaml: line 1", "tag"),
        ("a: !mine [x]", "t.yaml: line 1", "the tag !mine is not allowed"),
        ("a: !!int x", "t.yaml: line 1", "'x' is not int"),
        ("a: .nan", "t.yaml: line 1", "not a JSON number"),
        ("a: *b", "t.yaml: line 1", "alias without an anchor"),
        ("a: &a [*a]", "t.yaml: line 1", "inside its own anchor"),
        ("<<: 3", "t.yaml: line 1", "needs a mapping"),
        ("[" * 200 + "]" * 200, "t.yaml: line 1", "nested more than 128 deep"),
        ("- " * 100_000, "t.yaml: line 1", "nested more than 128 deep"),
        (BOMB, "t.yaml: line", "expands to too many values through aliases"),
        ("a: \x07", "t.yaml", "broken YAML"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_bad_yaml_says_where(text: str, where: str, words: str) -> None:
    fault = yaml_faults(text)[0]
    assert fault.where.startswith(where)
    assert words in str(fault)
    assert str(fault).isprintable()


def test_a_merge_bomb_is_bounded() -> None:
    text = "a0: &a0 {k: v}\n" + "".join(
        f"a{n}: &a{n} {{<<: *a{n - 1}, k{n}: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40)
    )
    assert "aliases" in yaml_faults(text)[0].message


def test_a_chain_of_aliases_that_nests_deeply_is_a_fault() -> None:
    chain = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 2500))
    (fault,) = text_faults("apiVersion: v1\nkind: Pod\n" + chain)
    assert "nested more than" in fault.message


def test_a_faulty_document_does_not_hide_the_next() -> None:
    text = "a: 1\na: 2\n---\n" + POD.replace("500m", "x")
    found = text_faults(text)
    assert [fault.where for fault in found] == [
        "t.yaml: line 2",
        "t.yaml: Pod default/web: spec.containers[0].resources.limits.cpu",
    ]


def test_half_a_surrogate_pair_is_a_fault() -> None:
    (fault,) = text_faults(POD + 'x: "\\ud800"\n')
    assert fault.message == "broken YAML: found invalid Unicode character escape code"
    (fault,) = text_faults("\ud800")
    assert fault.message.startswith("is not UTF-8")


# --- cost -------------------------------------------------------------------------------------


def test_reading_json_loads_neither_yaml_nor_anything_heavy() -> None:
    program = (
        "import sys, msgspec; before = set(sys.modules);"
        "from qoslet.host.files.manifests import load; from qoslet.core.api.manifest import Options;"
        f"load([{str(SAMPLES / 'pods.json')!r}], Options());"
        "heavy = {'yaml', 'uuid', 'inspect', 'dataclasses', 'hashlib', 'tempfile', 'difflib',"
        " 'json', 'logging', 'asyncio'};"
        "sys.exit(' '.join(heavy & (set(sys.modules) - before)) or 0)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(manifests.__file__).parents[3])}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_is_not_held_open(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    shutil.copy(SAMPLES / "pods.json", path)
    before = len(os.listdir("/proc/self/fd"))
    load([str(path)], OPTIONS)
    assert len(os.listdir("/proc/self/fd")) == before
