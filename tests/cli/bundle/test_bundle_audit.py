"""``audit --bundle``: of real bundles that are kept here, and of one that is as its plan says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qoslet.core.bundle.archive import pack, unpack
from tests.cli.fixtures import KUBELET, NODE, PODS, command, environment, run
from tests.paths import DATA

BUNDLES = DATA / "bundles"
PROCESSES = BUNDLES / "processes-v1.tar.gz"
"""An agent's tree of three pods as processes on cgroup v1, redacted. It had no right to lower
``oom_score_adj``."""


KUBELET_NODE = BUNDLES / "kubelet-containerd-v1.tar.gz"
"""A node of a real kubelet and containerd on cgroup v1 with four static pods, redacted; the runtime
had no right to lower ``oom_score_adj``."""


NUMA_NODE = BUNDLES / "kubelet-numa-v2.tar.gz"
"""A node of a kubelet 1.36.2 with static CPU and memory managers and two NUMA nodes, redacted; its ``/pods`` names the
pods in another order than that of their admission."""


def audited(bundle: Path, *options: str) -> tuple[int, dict[str, Any]]:
    done = run("audit", "--bundle", str(bundle), "-o", "json", *options)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def changed(folder: Path, bundle: Path, **parts: bytes | None) -> Path:
    """A bundle with other parts; ``_`` stands for the dot, None leaves one out."""
    found = dict(unpack(bundle.read_bytes(), "b").parts)
    found |= {name.replace("_", "."): data for name, data in parts.items()}  # type: ignore[misc]
    (folder / "b.tgz").write_bytes(
        pack({name: data for name, data in found.items() if data is not None})
    )
    return folder / "b.tgz"


def rows_of(bundle: Path) -> list[dict[str, Any]]:
    text = unpack(bundle.read_bytes(), "b").parts["cgroups.jsonl"]
    return [json.loads(line) for line in text.splitlines()]


def text_of(rows: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def test_a_real_bundle() -> None:
    code, found = audited(PROCESSES)
    assert (code, found["compared"], found["cgroups"]) == (1, 90, 10)
    assert [(one["verdict"], one["file"], one["expected"], one["found"]) for one in found["findings"]] == [
        ("drift", "oom_score_adj", "-997", "0")
    ]  # fmt: skip


def test_a_real_kubelets_bundle() -> None:
    code, found = audited(KUBELET_NODE)
    assert (code, found["compared"], found["cgroups"]) == (1, 161, 18)
    # its runtime had no right to lower them, of two containers and of the sandbox of each pod
    rows = [
        (one["verdict"], one["file"], one["expected"], one["found"]) for one in found["findings"]
    ]
    assert sorted(rows) == (
        [("drift", "oom_score_adj", "-997", "0")] * 2
        + [("drift", "oom_score_adj", "-998", "0")] * 4
    )
    done = run("doctor", "--bundle", str(KUBELET_NODE))
    assert done.returncode == 0
    hint = f"compare them with its plan: qoslet audit --bundle {KUBELET_NODE}"
    assert hint in " ".join(done.stdout.split())


def test_a_release_that_the_kubelet_did_not_tell_is_not_told_by_the_bundle(tmp_path: Path) -> None:
    # as with a token of a kubelet 1.36.2 that may get nodes/pods and nodes/configz, but not nodes/metrics
    parts = unpack(NUMA_NODE.read_bytes(), "b").parts
    about = json.loads(parts["bundle.json"])
    about["kubelet"]["releases"] = ["1.35", "1.36"]
    machine = parts["machine.yaml"].decode().replace("kubernetes: '1.36'", "kubernetes: '1.37'")
    untold = changed(
        tmp_path, NUMA_NODE, bundle_json=json.dumps(about).encode(), machine_yaml=machine.encode()
    )
    code, found = audited(untold)
    assert (code, found["node"]["kubernetes"]) == (0, "1.37")
    assert {one["severity"] for one in found["findings"]} == {"info"}
    assert "as 1.35 has it; the release of the kubelet" in found["findings"][0]["message"]
    done = run("plan", "--bundle", str(untold))
    assert "the kubelet did not tell its release: rules of 1.37 are used" in done.stdout
    code, found = audited(untold, "--kubernetes", "1.36")
    assert (code, found["findings"]) == (0, [])


def test_what_an_agent_keeps_beside_the_kubelet_is_told_as_its_own(tmp_path: Path) -> None:
    about = json.loads(unpack(NUMA_NODE.read_bytes(), "b").parts["bundle.json"])
    rows = rows_of(NUMA_NODE)
    row = next(one for one in rows if one["path"].endswith("/burstable"))
    row["files"]["cpu.weight"] = "7"
    held = {"path": row["path"], "file": "cpu.weight", "value": "7"}
    for values, code, severity in (([], 1, "warning"), ([held], 0, "info")):
        about["kubelet"]["held"] = values
        text = json.dumps(about).encode()
        kept = changed(tmp_path, NUMA_NODE, bundle_json=text, cgroups_jsonl=text_of(rows))
        ended, found = audited(kept)
        told = [(one["file"], one["severity"]) for one in found["findings"]]
        assert (ended, told) == (code, [("cpu.weight", severity)])


def test_cpus_and_memory_are_those_that_the_kubelet_handed_out(tmp_path: Path) -> None:
    code, found = audited(NUMA_NODE)
    assert (code, found["compared"], found["findings"]) == (0, 484, [])
    about = json.loads(unpack(NUMA_NODE.read_bytes(), "b").parts["bundle.json"])
    del about["kubelet"]["assigned"]
    without = changed(tmp_path, NUMA_NODE, bundle_json=json.dumps(about).encode())
    code, found = audited(without)
    assert code == 1
    assert {one["file"] for one in found["findings"]} == {"cpuset.cpus", "cpuset.mems"}


@pytest.mark.parametrize(
    ("path", "hierarchy", "file", "value"),
    [
        ("burstable", "cpu", "cpu.shares", "2"),
        ("container-1", "memory", "memory.limit_in_bytes", "4096"),
        ("container-2", "cpu", "cpu.cfs_quota_us", "-1"),
        ("kubepods", "pids", "pids.max", "7"),
    ],
)
def test_each_change_in_a_bundle_is_found(
    tmp_path: Path, path: str, hierarchy: str, file: str, value: str
) -> None:
    rows = rows_of(PROCESSES)
    row = next(one for one in rows if one["path"].endswith(path) and one["hierarchy"] == hierarchy)
    row["files"][file] = value
    code, found = audited(changed(tmp_path, PROCESSES, cgroups_jsonl=text_of(rows)))
    assert code == 1
    assert (row["path"], file, value) in [
        (one["path"], one["file"], one["found"]) for one in found["findings"]
    ]


def test_groups_that_lack_or_are_too_many_are_found(tmp_path: Path) -> None:
    rows = [one for one in rows_of(PROCESSES) if not one["path"].endswith("/container-2")]
    orphan = "/cgroup1/kubepods/burstable/pod0a1b2c3d-0000-4000-8000-00000000000f"
    rows.append({"path": orphan, "hierarchy": "memory", "inode": 99, "processes": 1, "files": {}})
    _, found = audited(changed(tmp_path, PROCESSES, cgroups_jsonl=text_of(rows)))
    seen = {(one["verdict"], one["path"].rpartition("/")[2]) for one in found["findings"]}
    assert ("orphan", orphan.rpartition("/")[2]) in seen
    assert any(verdict == "missing" for verdict, _ in seen)


def made(folder: Path, *, units: bool) -> Path:
    """A bundle of a v2 node with systemd whose cgroups are as its plan says."""
    pods = PODS.split("---\n")
    parts: dict[str, bytes] = {"machine.yaml": NODE.encode(), "kubelet.yaml": KUBELET.encode()}
    for name, text in (
        ("pods.yaml", PODS),
        ("node.yaml", NODE),
        ("kubelet.yaml", KUBELET),
    ):
        (folder / name).write_text(text)
    done = run(
        "plan",
        "-f",
        "pods.yaml",
        "--node",
        "node.yaml",
        "--node",
        "kubelet.yaml",
        "-o",
        "json",
        folder=folder,
    )
    plan = json.loads(done.stdout)
    rows: dict[str, dict[str, Any]] = {}
    controllers = "cpu cpuset memory hugetlb pids io"
    for cgroup in plan["cgroups"]:
        if cgroup["path"] is None:
            continue
        files = {one["file"]: one.get("effective", one["value"]) for one in cgroup["settings"]}
        files["cgroup.subtree_control"] = controllers
        rows[cgroup["path"]] = {
            "path": cgroup["path"],
            "hierarchy": "v2",
            "inode": len(rows) + 2,
            "processes": 0,
            "files": files,
        }
    rows["/"] = {
        "path": "/",
        "hierarchy": "v2",
        "inode": 1,
        "processes": 0,
        "files": {"cgroup.subtree_control": controllers},
    }
    parts["cgroups.jsonl"] = text_of(list(rows.values()))
    documents = [msgspec.yaml.decode(one) for one in pods]
    parts["pods.json"] = json.dumps(
        {"apiVersion": "v1", "kind": "PodList", "items": documents}
    ).encode()
    if units:
        parts["units.jsonl"] = b""
    (folder / "made.tgz").write_bytes(pack(parts))
    return folder / "made.tgz"


def test_a_bundle_as_planned_has_no_finding(tmp_path: Path) -> None:
    code, found = audited(made(tmp_path, units=True))
    worse = [one for one in found["findings"] if one["severity"] != "info"]
    assert (code, worse) == (0, [])
    assert found["compared"] > 20
    assert found["unread"] == []


def test_without_units_it_says_what_could_not_be_read(tmp_path: Path) -> None:
    code, found = audited(made(tmp_path, units=False))
    assert code == 0
    assert any("units.jsonl" in one["error"] for one in found["unread"])


@pytest.mark.parametrize(
    ("part", "data", "said"),
    [
        ("cgroups_jsonl", None, "has no cgroups.jsonl: nothing can be compared"),
        ("pods_json", None, "has no pods.json (give the pods with -f)"),
        ("machine_yaml", None, "has no machine.yaml"),
        ("cgroups_jsonl", b"{\n", "cgroups.jsonl: line 1: "),
        ("bundle_json", b"[", "bundle.json: cannot be read"),
        ("units_jsonl", b'{"unit": 1}\n', "units.jsonl: line 1: "),
        ("pods_json", b"null", "pods.json: no pod in the input"),
        ("bundle_json", b'{"apiVersion": "qoslet/v9"}', "bundle.json: has apiVersion qoslet/v9"),
        (
            "cgroups_jsonl",
            b'{"path": "/a", "hierarchy": "cpu"}\n{"path": "/a", "hierarchy": "cpu", "inode": 2}\n',
            "cgroups.jsonl: has two different lines for /a (cpu)",
        ),
        (
            "units_jsonl",
            b'{"unit": "a"}\n{"unit": "a", "properties": {"CPUWeight": "1"}}\n',
            "units.jsonl: has two different lines for a",
        ),
        (
            "cgroups_jsonl",
            b'{"path": "/a", "hierarchy": "v2"}\n',
            "cgroups.jsonl: has cgroups of v2 only, its node has cgroup v1",
        ),
    ],
)
def test_what_an_audit_needs_is_bad_input_where_it_lacks(
    tmp_path: Path, part: str, data: bytes | None, said: str
) -> None:
    bundle = changed(tmp_path, PROCESSES, **{part: data})
    done = run("audit", "--bundle", str(bundle))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr


def test_a_machine_that_bounds_scores_explains_them(tmp_path: Path) -> None:
    bundle = changed(tmp_path, PROCESSES, bundle_json=b'{"leastOomScoreAdj": 0}')
    code, found = audited(bundle)
    assert (code, found["findings"]) == (0, [])


def test_a_line_that_says_the_same_twice_changes_nothing(tmp_path: Path) -> None:
    rows = rows_of(PROCESSES)
    bundle = changed(tmp_path, PROCESSES, cgroups_jsonl=text_of(rows + rows))
    assert audited(bundle) == audited(PROCESSES)


def test_nothing_compared_is_not_fine(tmp_path: Path) -> None:
    done = run("audit", "--bundle", str(changed(tmp_path, PROCESSES, cgroups_jsonl=b"")))
    assert done.returncode in (1, 3)


def test_an_audit_reads_a_bundle_from_standard_input() -> None:
    done = subprocess.run(
        command("audit", "--bundle", "-", "-o", "json"), input=PROCESSES.read_bytes(),
        env=environment(), capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout)["compared"] == 90


def test_a_kept_bundle_is_small_and_private() -> None:
    for path in BUNDLES.iterdir():
        found = unpack(path.read_bytes(), path.name)
        assert path.stat().st_size < 20_000
        assert json.loads(found.parts["bundle.json"])["redacted"] is True


def test_what_a_kubelet_was_about_to_do_is_as_in_an_audit_of_its_node(tmp_path: Path) -> None:
    # of a kubelet 1.36.2 that had just started, with two values changed meanwhile
    bundle = BUNDLES / "new-kubelet-v1.tar.gz"
    changed_by_hand = {"pids.max", "cpu.shares"}
    rows = audited(bundle)[1]["findings"]
    found = {one["file"]: one["verdict"] for one in rows if one["file"] in changed_by_hand}
    assert found == dict.fromkeys(changed_by_hand, "pending")
    about = json.loads(unpack(bundle.read_bytes(), "b").parts["bundle.json"])
    assert set(about["kubelet"]["ready"]) >= set(about["kubelet"]["older"])
    older = changed(tmp_path, bundle, bundle_json=json.dumps({**about, "kubelet": None}).encode())
    rows = audited(older)[1]["findings"]
    found = {one["file"]: one["verdict"] for one in rows if one["file"] in changed_by_hand}
    assert found == dict.fromkeys(changed_by_hand, "drift")
