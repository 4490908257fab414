"""Files, directories, standard input and YAML: what is read, what is refused, and in which words."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.api.manifest import Loaded, Options
from qoslet.errors import BadInput, BadInputs, FaultCode
from qoslet.host.files import manifests
from qoslet.host.files.manifests import load, load_text
from qoslet.host.files.yaml import YamlDocument, documents, resolve
from tests.paths import SAMPLES

OPTIONS = Options()

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: c
    resources:
      limits: {cpu: 500m, memory: 64Mi}
"""


def pod_named(name: str) -> str:
    return POD.replace("web", name)


def names(loaded: Loaded) -> list[str]:
    return [pod.name for pod in loaded.pods]


def faults(*paths: Path | str, **arguments: Any) -> list[BadInput]:
    with pytest.raises(BadInputs) as caught:
        load([str(path) for path in paths], OPTIONS, **arguments)
    return caught.value.faults


def text_faults(text: str | bytes) -> list[BadInput]:
    with pytest.raises(BadInputs) as caught:
        load_text(text, OPTIONS, name="t.yaml")
    return caught.value.faults


# --- real documents ---------------------------------------------------------------------------


def test_the_same_pods_in_json_and_yaml_are_the_same() -> None:
    first = load([str(SAMPLES / "pods.json")], OPTIONS)
    second = load([str(SAMPLES / "pods.yaml")], OPTIONS)
    assert [replace(pod, where="") for pod in first.pods] == [
        replace(pod, where="") for pod in second.pods
    ]
    assert sorted(names(first)) == [
        "besteffort",
        "burst-lim",
        "burst-nolim",
        "guaranteed",
        "init-sidecar",
        "overhead",
    ]


def test_what_a_kubelet_lists_is_read() -> None:
    found = load([str(SAMPLES / "kubelet-pods.json")], Options(node_name="n1"))
    assert len(found.pods) == 6
    assert not any(pod.critical for pod in found.pods)
    assert all(pod.containers[-1].id for pod in found.pods)


def test_a_list_with_a_node_in_it_is_read() -> None:
    found = load([str(SAMPLES / "nodes-pods.json")], OPTIONS)
    assert len(found.pods) == 6
    assert [(row.severity, row.message.split()[0]) for row in found.problems] == [("info", "Node")]


def test_a_resized_pod_has_two_readings() -> None:
    path = str(SAMPLES / "resized-pod.json")
    (wanted,) = load([path], OPTIONS).pods
    (actual,) = load([path], Options(allocated=True)).pods
    assert wanted.containers[0].resources.limits["cpu"].milli == 800
    assert replace(actual, where="") == replace(wanted, where="")


# --- files, directories, streams --------------------------------------------------------------


def test_a_directory_gives_its_own_manifests_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(pod_named("b"))
    (tmp_path / "a.yml").write_text(pod_named("a"))
    (tmp_path / "c.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": []}))
    (tmp_path / ".hidden.yaml").write_text("}")
    (tmp_path / "notes.txt").write_text("}")
    (tmp_path / "deep.yaml").mkdir()
    (tmp_path / "deep.yaml" / "d.yaml").write_text("}")
    assert names(load([str(tmp_path)], OPTIONS)) == ["a", "b"]


def test_every_bad_file_of_a_directory_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("nowhere")
    (tmp_path / "b.yaml").write_bytes(b"\0\1\2")
    (tmp_path / "c.yaml").write_bytes(b"name: \xff")
    os.mkfifo(tmp_path / "d.yaml")
    (tmp_path / "e.json").write_text('{"a"')
    (tmp_path / "f.yaml").write_text("a: [")
    (tmp_path / "g.yaml").write_text(POD.encode("utf-16").decode("latin-1"), encoding="latin-1")
    (tmp_path / "h.yaml").write_text(POD)
    found = [(Path(fault.where.split(":")[0]).name, fault.message) for fault in faults(tmp_path)]
    assert found == [
        ("a.yaml", "is a dangling link"),
        ("b.yaml", "is binary: byte 0 is NUL"),
        ("c.yaml", "is not UTF-8 near byte 6"),
        ("d.yaml", "is a FIFO"),
        ("e.json", "broken JSON: ends in the middle of a value"),
        ("f.yaml", "broken YAML: did not find expected node content"),
        ("g.yaml", "is UTF-16"),
    ]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/nonexistent/x.yaml", "does not exist"),
        ("/dev/null", "is a device"),
        ("/dev/zero", "is a device"),
        ("a\0b", "null"),
        ("", "does not exist"),
        ("/" + "x" * 5000, "cannot be read"),
        ("\x1b[2J", "does not exist"),
    ],
)
def test_paths_that_cannot_be_read(path: str, words: str) -> None:
    (fault,) = faults(path)
    assert words in str(fault)
    assert str(fault).isprintable()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(POD)
    path.chmod(0)
    (fault,) = faults(path)
    assert fault.message == "cannot be read: Permission denied"


@pytest.mark.skipif(os.geteuid() != 0, reason="the check is for root")
def test_as_root_a_directory_that_everybody_writes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(POD)
    tmp_path.chmod(0o777)
    assert names(load([str(tmp_path)], OPTIONS)) == ["web"]
    (fault,) = faults(tmp_path, root_check=True)
    assert fault.hint == f"chmod go-w {tmp_path}"
    tmp_path.chmod(0o755)
    (tmp_path / "a.yaml").chmod(0o666)
    (fault,) = faults(tmp_path, root_check=True)
    assert fault.hint == f"chmod go-w {tmp_path}/a.yaml"
    (tmp_path / "a.yaml").chmod(0o644)
    assert names(load([str(tmp_path)], OPTIONS, root_check=True)) == ["web"]


def test_standard_input_is_read_once() -> None:
    assert names(load(["-"], OPTIONS, stdin=io.BytesIO(POD.encode()))) == ["web"]
    (fault,) = faults("-", "-", stdin=io.BytesIO(POD.encode()))
    assert fault.message == "standard input can be read once"


def test_a_large_standard_input_goes_through_a_file() -> None:
    padding = "x" * (20 << 20)
    document = {"apiVersion": "v1", "kind": "List", "metadata": {"x": padding}, "items": []}
    text = json.dumps(document).encode()
    assert load(["-"], OPTIONS, stdin=io.BytesIO(text)).pods == []


def test_a_pipe_of_the_caller_is_read(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, POD.encode())
    os.close(write)
    assert names(load([f"/dev/fd/{read}"], OPTIONS)) == ["web"]
    os.close(read)


def test_files_are_named_and_duplicates_are_found_across_them(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    for path in (first, second):
        path.write_text(POD)
    (fault,) = faults(first, second)
    assert fault.where == f"{second}: Pod default/web ({second}): metadata.name"
    assert fault.message.endswith(f"also at {first}")


def test_faults_of_all_files_come_in_their_order(tmp_path: Path) -> None:
    for name in ("c", "a", "b"):
        (tmp_path / name).write_text(POD.replace("500m", name))
    found = faults(tmp_path / "c", tmp_path / "a", tmp_path / "b")
    assert [Path(fault.where.split(":")[0]).name for fault in found] == ["c", "a", "b"]


def test_the_list_of_faults_is_bounded() -> None:
    items = [{"apiVersion": "v1", "kind": f"K{number}"} for number in range(500)]
    found = text_faults(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert len(found) == 101
    assert found[-1].message == "... and 400 more faults"


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "---\n---\n", "null"])
def test_an_empty_text_has_no_pod(text: str) -> None:
    (fault,) = text_faults(text)
    assert fault.message == "no pod in the input"


def test_input_without_a_pod_names_what_it_has(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    Path("empty.yaml").write_text("# nothing\n")
    Path("service.yaml").write_text(service)
    for folder, files in (
        ("none", {}),
        ("text", {"a.txt": POD, "b.txt": POD}),
        ("both", {"service.yml": service, "empty.json": ""}),
    ):
        Path(folder).mkdir()
        for name, text in files.items():
            (Path(folder) / name).write_text(text)

    def said(*paths: str) -> str:
        (fault,) = faults(*paths, stdin=io.BytesIO())
        assert fault.where == "-f"
        return fault.message.removeprefix("no pod in the input: ")

    assert said("empty.yaml") == "empty.yaml has no document"
    assert said("-") == "stdin has no document"
    assert said("service.yaml") == "service.yaml: Service default/web skipped"
    assert said("none") == "none has no *.yaml, *.yml or *.json"
    assert said("text") == "text has no *.yaml, *.yml or *.json, only a.txt and 1 more"
    assert said("both", "none") == (
        "both/service.yml: Service default/web skipped; both/empty.json has no document;"
        " none has no *.yaml, *.yml or *.json"
    )
    for number in range(9):
        (Path("both") / f"{number}.yaml").write_text(service.replace("web", f"web{number}"))
    assert said("both").endswith("; and 6 more")


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
    env = {**os.environ, "PYTHONPATH": str(Path(manifests.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_is_not_held_open(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    shutil.copy(SAMPLES / "pods.json", path)
    before = len(os.listdir("/proc/self/fd"))
    load([str(path)], OPTIONS)
    assert len(os.listdir("/proc/self/fd")) == before
