"""``qoslet convert``: what it reads, every form, the exit codes, and the schema of its answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import qoslet
from qoslet import schema
from tests.cli.fixtures import NODE, PODS, run

BLOCK = {"cpu": {"shares": 512}, "memory": {"limit": 1 << 26, "swap": 1 << 27}}
BAD = {"memory": {"limit": 9, "swap": 5}}


def convert(*arguments: str, given: Any = None, folder: Path | None = None) -> tuple[int, str, str]:
    stdin = given if isinstance(given, str) else json.dumps(given)
    done = run("convert", *arguments, stdin=stdin if given is not None else "", folder=folder)
    return done.returncode, done.stdout, done.stderr


def document(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    jsonschema.validate(found, json.loads(schema.text("conversion")))
    return found


@pytest.mark.parametrize("output", ["files", "shell"])
def test_what_is_refused_is_said_beside_files(output: str) -> None:
    block = '{"pids": {"limit": 9}, "hugepageLimits": [{"pageSize": "2MB", "limit": 0}]}'
    done = run("convert", "-", "--to", "v2", "--kernel", "5.4", "-o", output, stdin=block)
    assert (done.returncode, done.stdout.count("\n")) == (1, 1)
    assert "refused: hugepageLimits: kernel 5.4 has no hugetlb controller" in done.stderr
    swap = '{"memory": {"limit": 9, "swap": 5}}'
    done = run("convert", "-", "--to", "v2", "--runtime", "crun-1.21", "-o", output, stdin=swap)
    assert done.returncode == 1
    assert "refused: memory.swap: cannot set memory+swap limit" in done.stderr
    done = run("convert", "-", "--to", "v2", "-o", output, stdin='{"pids": {"limit": 9}}')
    assert (done.returncode, done.stderr) == (0, "")


def test_json_conforms() -> None:
    code, out, err = convert("-", "--to", "v2", "--runtime", "crun-1.23", "-o", "json", given=BLOCK)
    assert (code, err) == (0, "")
    found = document(out)
    rows = {row["file"]: row["value"] for row in found["blocks"][0]["rows"]}
    assert rows == {"memory.max": "67108864", "memory.swap.max": "67108864", "cpu.weight": "59"}
    assert found["accounting"]
    assert all(row["because"] and row["source"] for row in found["blocks"][0]["rows"])


def test_a_refusal_is_an_answer_and_exit_code_1() -> None:
    code, out, err = convert("-", "--to", "v2", "-o", "json", given=BAD)
    assert (code, err) == (1, "")
    refused = document(out)["blocks"][0]["refused"]
    assert refused["message"] == "memory+swap limit should be >= memory limit"
    assert (refused["by"], refused["field"]) == ("runtime", "memory.swap")
    code, out, _ = convert("-", "--to", "v2", "-o", "shell", given=BAD)
    assert code == 1
    assert "# refused: memory.swap" in out


@pytest.mark.parametrize("form", ["text", "files", "shell"])
@pytest.mark.parametrize("to", ["v1", "v2", "systemd"])
def test_forms_for_people_and_shells(form: str, to: str) -> None:
    code, out, err = convert("-", "--to", to, "-o", form, given=BLOCK)
    assert (code, err) == (0, "")
    assert "67108864" in out
    if form == "shell" and to == "systemd":
        assert out.startswith('systemctl set-property --runtime "$UNIT" ')
    elif form == "shell":
        assert all(line.startswith("printf '%s' ") for line in out.splitlines())


def test_messages_are_passed_on() -> None:
    code, out, _ = convert("-", "--to", "cri", given=BLOCK)
    assert code == 0
    start = out.index("{")
    assert json.loads(out[start : out.rindex("}") + 1])["cpu_shares"] == 512


def test_pods_take_a_node(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "pods.yaml").write_text(PODS)
    files = ("pods.yaml", "--node", "node.yaml")
    code, out, _ = convert(*files, "--to", "v2", "-o", "json", folder=tmp_path)
    assert code == 0
    found = document(out)
    names = [block["name"] for block in found["blocks"]]
    assert {"shop/db", "shop/db/postgres", "default/web/app"} <= set(names)
    assert found["runtime"] == "containerd-2.2.0+runc-1.4.0"
    for to in ("oci", "cri", "systemd", "windows", "v1"):
        code, out, _ = convert(*files, "--to", to, "-o", "json", folder=tmp_path)
        document(out)
    code, out, _ = convert(
        "-", "--node", "node.yaml", "--to", "v2", "-o", "json", given=PODS, folder=tmp_path
    )
    assert [block["name"] for block in document(out)["blocks"]] == names


def test_an_update_of_a_block(tmp_path: Path) -> None:
    (tmp_path / "before.json").write_text('{"cpu": {"quota": 20000, "period": 50000}}')
    options = ("-", "--to", "v2", "-o", "files", "--update", "before.json")
    code, out, _ = convert(*options, given={"cpu": {"period": 100000}}, folder=tmp_path)
    assert (code, out) == (0, "cpu.max=20000 100000\n")


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        ((), None, "no document given"),
        (("-",), BLOCK, "--to: is missing"),
        (("-", "--to", "v2"), {}, "give --from"),
        (("-", "--to", "v2"), [], "must be an object"),
        (("-", "--to", "v2"), {"cpu": {"shares": -1}}, "cpu.shares"),
        (("-", "--to", "v2"), "{", "stdin"),
        (("-", "--to", "v2", "--runtime", "podman-1"), BLOCK, "--runtime"),
        (("-", "--to", "v2", "--without", "ram"), BLOCK, "--without"),
        (("-", "--to", "cri", "-o", "files"), BLOCK, "-o files"),
        (("-", "--to", "windows"), BLOCK, "Linux container"),
        (("-", "--to", "windows", "--processors", "0"), {"cpu_count": 1}, "--processors"),
        (("-", "--to", "windows", "--isolation", "vm"), {"cpu_count": 1}, "--isolation"),
        (("-", "--to", "v2", "--update", "-"), BLOCK, "read once"),
        (("/nonexistent", "--to", "v2"), None, "does not exist"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], given: Any, words: str
) -> None:
    code, out, err = convert(*arguments, given=given)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_control_characters_never_reach_a_terminal() -> None:
    hostile = {"cpu": {}, "unified": {"memory.high\x1b[31m": "1\x07"}}
    for form in ("text", "files", "shell", "json"):
        _, out, _ = convert("-", "--to", "v2", "-o", form, given=hostile)
        assert "\x1b" not in out
        assert "\x07" not in out


def test_the_schema_is_printed() -> None:
    code, out, _ = convert("--schema")
    assert code == 0
    assert json.loads(out)["title"]


def test_the_library_says_the_same() -> None:
    made = qoslet.convert(json.dumps(BLOCK), "v2", runtime="crun-1.23")
    _, out, _ = convert("-", "--to", "v2", "--runtime", "crun-1.23", "-o", "json", given=BLOCK)
    assert qoslet.to_dict(made) == document(out)
    assert "cpu.weight" in qoslet.to_text(made)
    assert not qoslet.convert(BAD, "v2").stands
    before = {"cpu": {"quota": 5000, "period": 20000}}
    for given, value in (({"period": 5000}, "5000 5000"), ({"quota": 8000}, "8000 20000")):
        updated = qoslet.convert({"cpu": given}, "v2", before=before)
        assert updated.parts[0].rows[0].value == value
    node = qoslet.read_pods(PODS)
    assert node.pods
    with pytest.raises(qoslet.BadInput, match="needs a node"):
        qoslet.convert(PODS.split("---")[0], "v2")


WINDOWS = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  os: {name: windows}
  containers: [{name: c, image: x, resources: {limits: {cpu: 1500m, memory: 1Gi}}}]
"""


@pytest.mark.parametrize("to", ["cri", "oci"])
@pytest.mark.parametrize("piped", [False, True])
def test_messages_of_windows_pods_are_of_a_windows_machine(
    to: str, piped: bool, tmp_path: Path
) -> None:
    (tmp_path / "web.yaml").write_text(WINDOWS)
    name = "-" if piped else "web.yaml"
    given = WINDOWS if piped else None
    code, out, err = convert(name, "--to", to, "--processors", "8", given=given, folder=tmp_path)
    assert code == 0
    assert "cgroup" not in out + err
    assert "linux" not in out + err
    assert out.startswith(f"pod -> {to}  Windows\n")
    code, out, err = convert(
        name, "--to", to, "--processors", "8", "-o", "json", given=given, folder=tmp_path
    )
    (block,) = document(out)["blocks"]
    resources = block["message"]["windows"]["resources"]
    assert (resources.get("cpu_maximum") or resources["cpu"]["maximum"]) == 1875


def test_processors_count_for_windows_pods_among_others() -> None:
    linux = WINDOWS.replace("windows", "linux").replace("web", "other")
    code, out, _ = convert(
        "-", "--to", "cri", "--processors", "8", "-o", "json", given=f"{WINDOWS}---\n{linux}"
    )
    assert code == 0
    messages = [block["message"] for block in document(out)["blocks"]]
    (found,) = [message["windows"] for message in messages if "windows" in message]
    assert found["resources"]["cpu_maximum"] == 1875
    assert len(messages) > 1
