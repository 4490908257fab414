"""``qoslet diff``: sides, gates, documents and what people read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qoslet.core.diff.rehearsals import NAMED, PATTERNS
from tests.cli.fixtures import KUBELET, NODE, PODS, golden, run, write


def made(folder: Path, *arguments: str) -> dict[str, Any]:
    done = run("diff", *write(folder), *arguments, "-o", "json", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("v1-to-v2", ("--rehearse", "v1-to-v2", "--cgroup-driver", "cgroupfs")),
        ("release", ("--to", "kubernetes=1.37", "-v")),
        ("runtime", ("--rehearse", "runc-1.3.1-to-1.3.2", "-v")),
        ("driver", ("--rehearse", "systemd-to-cgroupfs", "-v")),
        ("fault", ("--rehearse", "v2-to-v1")),
    ],
)
def test_golden(tmp_path: Path, name: str, arguments: tuple[str, ...]) -> None:
    done = run("diff", *write(tmp_path), *arguments, folder=tmp_path, COLUMNS="100")
    assert done.returncode == 0, done.stderr
    golden(f"diff.{name}.txt", done.stdout)


REHEARSED = {
    **{one.name: () for one in NAMED},
    **{example: () for _, _, example in PATTERNS},
    "memory-qos": ("--feature-gates", "MemoryQoS=false"),
    "v1-to-v2": ("--cgroup-driver", "cgroupfs"),
}
"""Every name that the help gives, with the options that make it say something."""


@pytest.mark.parametrize("name", sorted(REHEARSED))
def test_every_rehearsal_has_an_answer_that_was_read(tmp_path: Path, name: str) -> None:
    documents = write(tmp_path)
    (tmp_path / "node.yaml").write_text(NODE.replace("swap: 0", "swap: 4Gi"))
    kubelet = f"{KUBELET}failSwapOn: false\n"
    if name == "memory-qos":
        kubelet = kubelet.replace("memoryReservationPolicy: TieredReservation\n", "")
    (tmp_path / "kubelet.yaml").write_text(kubelet)
    options = ("--rehearse", name, *REHEARSED[name], "-v")
    done = run("diff", *documents, *options, folder=tmp_path, COLUMNS="100")
    assert done.returncode == 0, done.stderr
    assert "no difference" not in done.stdout
    golden(f"diff.rehearse.{name}.txt", done.stdout)


def test_the_same_differs_in_nothing(tmp_path: Path) -> None:
    found = made(tmp_path, "--to", "kubernetes=1.36")
    assert found["changes"] == found["shares"] == found["hints"] == []
    assert found["summary"] == {"worse": 0, "better": 0, "changed": 0}
    assert found["from"] == found["to"]


def test_a_gate_is_switched_on_beside_the_others(tmp_path: Path) -> None:
    write(tmp_path)
    options = ("-f", "pods.yaml", "--node", "node.yaml", "--feature-gates", "NodeSwap=true")
    done = run("diff", *options, "--rehearse", "memory-qos", "-o", "json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = json.loads(done.stdout)["changes"]
    assert {"memory.high"} == {row["file"] for row in rows if row["severity"] == "warning"}


def test_a_gate_is_switched_on_beside_those_of_the_other_side(tmp_path: Path) -> None:
    write(tmp_path)
    options = ("-f", "pods.yaml", "--node", "node.yaml", "--feature-gates", "MemoryQoS=false")
    to = ("--rehearse", "memory-qos", "--to", "feature-gates=NodeSwap=true")
    done = run("diff", *options, *to, "-o", "json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "memory.high" in {row["file"] for row in json.loads(done.stdout)["changes"]}


def test_an_option_is_replaced_and_an_empty_one_unset(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(KUBELET.replace("1024", "99"))
    options = ["--to", "node=node.yaml", "--to", "node=other.yaml"]
    (row,) = {(row["file"], row["from"], row["to"]) for row in made(tmp_path, *options)["changes"]}
    assert row == ("pids.max", "1024", "99")
    assert made(tmp_path, "--memory-qos", "off", "--to", "memory-qos=")["changes"]


def test_two_files_are_one_side(tmp_path: Path) -> None:
    done = run("diff", "before.yaml", "after.yaml", folder=tmp_path)
    assert done.returncode == 2
    assert "to compare them: before.yaml --to filename=after.yaml)" in done.stderr


def test_the_heading_says_what_is_in_force(tmp_path: Path) -> None:
    write(tmp_path)
    pods = ("diff", "-f", "pods.yaml", "--node", "node.yaml", "--node", "kubelet.yaml")
    done = run(*pods, "--to", "node=kubelet.yaml", folder=tmp_path)
    assert "name: n1 → this node\n" in done.stdout
    assert "replaces every --node" in done.stderr
    off = ("--feature-gates", "MemoryQoS=false", "--rehearse", "1.35-to-1.36")
    assert "memoryQos" not in run(*pods, *off, folder=tmp_path).stdout


def test_other_files_are_compared_by_names_of_pods(tmp_path: Path) -> None:
    text = PODS.replace("memory: 256Mi", "memory: 128Mi").replace("0a1b2c3d-", "ffffffff-")
    (tmp_path / "after.yaml").write_text(text)
    found = made(tmp_path, "--to", "filename=after.yaml")
    rows = {(row["pod"]["name"], row["container"], row["file"]) for row in found["changes"]}
    assert ("web", "app", "memory.max") in rows
    assert {row["pod"]["name"] for row in found["changes"]} == {"web"}
    assert all("0a1b2c3d-" in row["name"] for row in found["changes"])
    assert found["summary"]["worse"]


@pytest.mark.parametrize(
    ("allow", "arguments", "code"),
    [
        ("none", ("--to", "kubernetes=1.36"), 0),
        ("none", ("--to", "pod-max-pids=9"), 1),
        ("info", ("--to", "pod-max-pids=9"), 0),
        ("info", ("--to", "cpu-cfs-quota=false"), 0),
        ("info", ("--cpu-cfs-quota", "false", "--to", "cpu-cfs-quota="), 1),
        ("warning", ("--cpu-cfs-quota", "false", "--to", "cpu-cfs-quota="), 0),
        ("warning", ("--rehearse", "v2-to-v1"), 1),
    ],
)
def test_a_gate(tmp_path: Path, allow: str, arguments: tuple[str, ...], code: int) -> None:
    done = run("diff", *write(tmp_path), *arguments, "--allow", allow, folder=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing differs on the other side"),
        (("--to", "kubernetes"), "'kubernetes' is not KEY=VALUE"),
        (("--to", "kubernets=1.37"), "did you mean kubernetes?"),
        (("--to", "output=json"), "unknown option 'output'"),
        (("--to", "kubernetes=9.9"), "9.9"),
        (("--to", "kubernetes=1.36", "--to", "kubernetes=1.37"), "kubernetes is given twice"),
        (("--to", "kubernetes=1.36", "--to=--kubernetes=1.37"), "kubernetes is given twice"),
        (
            ("--to", "qos-reserved=memory=1%", "--to", "qos-reserve-requests=memory=2%"),
            "given twice",
        ),
        (("--to", "node=node.yaml", "--to", "node="), "node is given twice"),
        (
            ("--rehearse", "1.36-to-1.37", "--to", "kubernetes=1.35"),
            "gives --kubernetes another value than --to kubernetes=1.35",
        ),
        (
            ("--rehearse", "memory-qos", "--to", "feature-gates=MemoryQoS=false"),
            "gives --feature-gates another value",
        ),
        (("--to", "expand=maybe"), "expand is true or false"),
        (("--to", "resources=some"), "invalid choice: 'some'"),
        (("--to", "filename=absent.yaml"), "absent.yaml"),
        (("--rehearse", "v1-to-v9"), "unknown rehearsal"),
        (("--rehearse", "1.35-to-1.36", "--rehearse", "1.36-to-1.37"), "run diff for each"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run("diff", *write(tmp_path), *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("options", [("--to", "kubernetes=1.37"), ("--to", "namespace=shop")])
def test_standard_input_is_for_both_sides(tmp_path: Path, options: tuple[str, ...]) -> None:
    _, _, *nodes = write(tmp_path)
    done = run("diff", "-f", "-", *nodes, *options, folder=tmp_path, stdin=PODS)
    assert (done.returncode, done.stderr) == (0, "")
    assert "change" in done.stdout


def test_a_list_of_all_cpus_takes_none_away(tmp_path: Path) -> None:
    found = made(tmp_path, "-n", "jobs", "--rehearse", "static-cpus")
    rows = {(one["file"], one["from"], one["to"], one["severity"]) for one in found["changes"]}
    assert rows == {("cpuset.cpus", "0-7", None, "info"), ("cpuset.cpus", None, "0-7", "info")}
    assert found["summary"]["worse"] == found["summary"]["better"] == 0


def test_what_was_taken_from_the_machine_is_said_once(tmp_path: Path) -> None:
    write(tmp_path)
    options = ("-f", "pods.yaml", "--probe", "always", "--memory-qos", "off")
    done = run("diff", *options, "--to", "pod-max-pids=9", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("taken from this machine") == 1


def test_a_change_without_effect_says_why(tmp_path: Path) -> None:
    (tmp_path / "pods.yaml").write_text(PODS)
    options = ("--hierarchy", "v1", "--kubernetes", "1.34", "--rehearse", "memory-qos")
    done = run("diff", "pods.yaml", *options, folder=tmp_path, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no difference\n")
    assert "new warnings\n" in done.stdout
    assert "Memory QoS has no effect on cgroup v1" in done.stdout
