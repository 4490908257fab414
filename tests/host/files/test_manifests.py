"""Files, directories, standard input and YAML: what is read, what is refused, and in which words."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.api.manifest import Loaded, Options
from qoslet.errors import BadInput, BadInputs
from qoslet.host.files.manifests import load, load_text
from tests.paths import REPO, SAMPLES

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
    # /proc/kmsg is as this one, and never ends
    (tmp_path / "i.yaml").symlink_to("/proc/uptime")
    found = [(Path(fault.where.split(":")[0]).name, fault.message) for fault in faults(tmp_path)]
    assert found == [
        ("a.yaml", "is a dangling link"),
        ("b.yaml", "is binary: byte 0 is NUL"),
        ("c.yaml", "is not UTF-8 near byte 6"),
        ("d.yaml", "is a FIFO"),
        ("e.json", "broken JSON: ends in the middle of a value"),
        ("f.yaml", "broken YAML: did not find expected node content"),
        ("g.yaml", "is UTF-16"),
        ("i.yaml", "is the kernel's, whose size is unknown"),
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(POD.encode()), "is compressed with gzip"),
        (bz2.compress(POD.encode()), "is compressed with bzip2"),
        (lzma.compress(POD.encode()), "is compressed with xz"),
        (b"\x28\xb5\x2f\xfd\x04", "is compressed with zstd"),
        (POD.encode("utf-16"), "is UTF-16"),
        (POD.encode("utf-32"), "is UTF-32"),
        (b"\0\0\xfe\xff" + POD.encode("utf-32-be"), "is UTF-32"),
    ],
)
def test_files_in_another_form_are_named(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "pods.yaml").write_bytes(data)
    (fault,) = faults(tmp_path / "pods.yaml")
    assert fault.message == message
    assert ("| qoslet plan" in fault.hint) is ("compressed" in message)


def test_a_bundle_is_told_from_compressed_manifests() -> None:
    path = REPO / "tests" / "data" / "bundles" / "processes-v1.tar.gz"
    (fault,) = faults(path)
    assert fault.message == "is a gzipped tar, no manifest"
    assert "--bundle" in fault.hint


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
        ("https://example.com/web.yaml", "is an address, no file (pipe it in: curl"),
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
