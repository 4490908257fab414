"""``qoslet bundle``: this machine in a file, whose plan is the machine's."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qoslet.core.bundle.archive import pack, unpack
from qoslet.core.bundle.parts import PARTS
from tests.cli.fixtures import KUBELET, PODS, command, environment, run

SECRET = "zqsecretzq"
NAMED = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: zqpod, namespace: zqspace, annotations: {{note: {SECRET}, qoslet.dev/memory-high.zqmain: 32Mi}}}}
spec:
  nodeName: zqnode
  containers:
  - name: zqmain
    image: zqregistry.example/zqimage:1
    command: [run, {SECRET}]
    env: [{{name: TOKEN, value: {SECRET}}}]
    resources: {{requests: {{cpu: 100m, memory: 32Mi}}, limits: {{memory: 64Mi}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: zqdeploy, namespace: zqspace}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: zqlabel}}}}
  template:
    metadata: {{labels: {{app: zqlabel}}}}
    spec:
      runtimeClassName: zqclass
      containers: [{{name: zqside, image: zqother, args: [{SECRET}]}}]
---
apiVersion: v1
kind: Secret
metadata: {{name: zqs, namespace: zqspace}}
stringData: {{password: {SECRET}}}
"""
FAILING = (
    "{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, failCgroupV1: false}\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pods.yaml").write_text(PODS)
    (tmp_path / "named.yaml").write_text(NAMED)
    (tmp_path / "kubelet.yaml").write_text(KUBELET.replace("cgroupDriver: systemd\n", ""))
    (tmp_path / "off.yaml").write_text(FAILING)
    return tmp_path


def parts(folder: Path, *options: str) -> dict[str, bytes]:
    """The parts of the bundle of this machine."""
    done = run("bundle", *options, "-o", "b.tgz", folder=folder)
    assert done.returncode == 0, done.stderr
    path = folder / "b.tgz"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size < 1_000_000
    return dict(unpack(path.read_bytes(), "b.tgz").parts)


def planned(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    done = run("plan", *options, "-o", "json", folder=folder)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    found["node"]["probed"] = []
    del found["problems"]
    return done.returncode, found


@pytest.mark.parametrize(
    "options",
    [
        ("-f", "pods.yaml"),
        ("-f", "pods.yaml", "--node", "kubelet.yaml"),
        ("-f", "pods.yaml", "--node", "kubelet.yaml", "--node", "off.yaml", "--kubernetes", "1.34"),
        ("-f", "pods.yaml", "--kube-reserved", "cpu=100m,memory=64Mi", "--cgroup-root", "/zq-root"),
        ("-f", "pods.yaml", "--cgroup-driver", "cgroupfs", "--feature-gates", "MemoryQoS=true"),
        ("-f", "pods.yaml", "--memory-qos", "off", "--runtime", "crun-1.20"),
        ("-f", "named.yaml"),
        ("-f", "named.yaml", "--expand"),
        ("-f", "pods.yaml", "-n", "shop"),
    ],
)
def test_the_plan_of_the_bundle_is_that_of_the_machine(
    folder: Path, options: tuple[str, ...]
) -> None:
    parts(folder, *options)
    assert planned(folder, "--bundle", "b.tgz") == planned(folder, *options)


@pytest.mark.parametrize("redact", [False, True])
def test_no_secret_gets_in(folder: Path, redact: bool) -> None:
    found = parts(folder, "-f", "named.yaml", *(["--redact"] if redact else []))
    assert not [name for name, text in found.items() if SECRET.encode() in text]
    assert b"TOKEN" not in b"".join(found.values())


def test_redaction_leaves_no_name(folder: Path) -> None:
    options = ("-f", "named.yaml", "--expand", "--cgroup-root", "/zqroot", "--node-name", "zqnode")
    whole = parts(folder, *options)
    assert b"zqpod" in whole["pods.json"]
    redacted = parts(folder, *options, "--redact")
    assert not [name for name, text in redacted.items() if re.search(rb"(?<![0-9a-z])zq", text)]
    assert json.loads(redacted["bundle.json"])["redacted"] is True
    code, found = planned(folder, "--bundle", "b.tgz")
    before = planned(folder, *options)
    assert code == before[0]
    shape = [[(row["file"], row["value"]) for row in one["settings"]] for one in found["cgroups"]]
    assert shape == [
        [(row["file"], row["value"]) for row in one["settings"]] for one in before[1]["cgroups"]
    ]


def test_the_parts_are_as_the_layout_says(folder: Path) -> None:
    found = parts(folder, "-f", "pods.yaml", "--node", "off.yaml")
    assert found.keys() <= PARTS.keys()
    about = json.loads(found["bundle.json"])
    assert (about["apiVersion"], about["kind"], about["pods"]) == ("qoslet/v1", "Bundle", 3)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", about["time"])
    assert about["versions"]["qoslet"]
    absent = {one["part"] for one in about["missing"]}
    assert absent & {"node.json", "kubelet.yaml", "pods.json"} == {"node.json"}
    assert msgspec.yaml.decode(found["machine.yaml"])["kind"] == "Node"
    assert msgspec.yaml.decode(found["kubelet.yaml"])["failCgroupV1"] is False
    for line in found["cgroups.jsonl"].splitlines():
        row = json.loads(line)
        assert row["path"].startswith("/")
        assert row["hierarchy"] in (
            "v2",
            "cpu",
            "cpuacct",
            "cpuset",
            "memory",
            "pids",
            "freezer",
            "hugetlb",
        )
        assert all(
            isinstance(text, str) and not text.endswith("\n")
            for text in row.get("files", {}).values()
        )


def test_a_node_of_the_api_goes_with_it(folder: Path) -> None:
    node = {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "labels": {SECRET: "x"}},
        "status": {"capacity": {"cpu": "64", "memory": "256Gi", "pods": "110"}, "nodeInfo": {"kubeletVersion": "v1.35.1", "containerRuntimeVersion": "containerd://2.1.4"}},
    }  # fmt: skip
    (folder / "nodes.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [node]})
    )
    options = ("-f", "pods.yaml", "--node", "nodes.json", "--probe", "always")
    found = parts(folder, *options)
    assert json.loads(found["node.json"])["metadata"] == {"name": "n1"}
    versions = json.loads(found["bundle.json"])["versions"]
    assert (versions["kubelet"], versions["containerd"]) == ("v1.35.1", "2.1.4")
    assert planned(folder, "--bundle", "b.tgz") == planned(folder, *options)


@pytest.mark.skipif(os.geteuid() != 0, reason="the agent's socket is root's")
def test_an_agent_whose_kubelet_is_down_is_not_denied(folder: Path) -> None:
    state = Path("/run/qoslet/zq-beside%2Fkubepods")
    state.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
        try:
            agent.bind(str(state / "agent.sock"))
            agent.listen()
            done = run("bundle", "-o", "b.tgz", "--cgroup-root", "/zq-beside", folder=folder)
        finally:
            shutil.rmtree(state)
    assert done.returncode == 0
    assert "no kubelet runs here; the agent beside that of /zq-beside/kubepods" in done.stderr


def test_without_pods_it_says_so(folder: Path) -> None:
    done = run("bundle", "-o", "b.tgz", "--cgroup-root", "/zq-nobody", folder=folder)
    assert done.returncode == 0
    assert "pods.json: no pods were given (-f), and no agent of qoslet runs here" in done.stderr
    assert re.fullmatch(r"b\.tgz: 0 pods, \d+ cgroups(, \d+ units)?, \d+ KiB\n", done.stdout)
    done = run("plan", "--bundle", "b.tgz", folder=folder)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "has no pods.json" in done.stderr


def test_it_goes_to_standard_output(folder: Path) -> None:
    done = subprocess.run(
        command("bundle", "-f", "pods.yaml", "-o", "-"), cwd=folder, env=environment(),
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert "pods.json" in unpack(done.stdout, "-").parts
    assert b"standard output: 3 pods, " in done.stderr


def test_the_file_has_a_name_of_its_time(folder: Path) -> None:
    assert run("bundle", "-f", "pods.yaml", folder=folder).returncode == 0
    names = [name for name in os.listdir(folder) if name.startswith("qoslet-bundle-")]
    assert len(names) == 1
    assert re.fullmatch(r"qoslet-bundle-\d{8}T\d{6}Z\.tar\.gz", names[0])


def test_what_is_there_is_replaced_whole_and_links_are_not_followed(folder: Path) -> None:
    (folder / "other").write_text("mine")
    (folder / "b.tgz").symlink_to("other")
    parts(folder, "-f", "pods.yaml")
    assert (folder / "other").read_text() == "mine"
    assert not (folder / "b.tgz").is_symlink()
    assert not [name for name in os.listdir(folder) if name.startswith(".b.tgz")]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("-f", "pods.yaml", "-o", "nosuch/b.tgz"), 3, "nosuch/b.tgz: cannot be written: No such file or directory"),
        (("-f", "pods.yaml", "-o", "."), 3, ".: cannot be written: "),
        (("-f", "nosuch.yaml", "-o", "b.tgz"), 2, "nosuch.yaml: does not exist"),
        (("-f", "pods.yaml", "--node", "nosuch.yaml", "-o", "b.tgz"), 2, "nosuch.yaml: does not exist"),
        (("-f", "pods.yaml", "--probe", "never"), 2, "--probe: is never"),
        (("b.tgz",), 2, "b.tgz: does not exist (a name without an option is that of manifests; to write the bundle there: -o b.tgz)"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_line_and_leaves_nothing(
    folder: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    before = set(os.listdir(folder))
    done = run("bundle", *options, folder=folder)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert set(os.listdir(folder)) == before


def test_a_terminal_gets_no_archive(folder: Path) -> None:
    script = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    words = command("bundle", "-f", "pods.yaml", "-o", "-")
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert b"not written to a terminal" in done.stdout
    assert done.returncode == 2


def test_no_output_at_all_gets_no_archive(folder: Path) -> None:
    line = f"{' '.join(command('bundle'))} -f pods.yaml -o - >&-"
    done = subprocess.run(
        ["sh", "-c", line], cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        3,
        "qoslet: standard output is closed (redirect it to a file or /dev/null)\n",
    )


def test_the_doctor_says_the_same_of_the_bundle(folder: Path) -> None:
    parts(folder, "-f", "pods.yaml")
    here, there = (
        run("doctor", "-o", "json"),
        run("doctor", "--bundle", "b.tgz", "-o", "json", folder=folder),
    )
    assert here.returncode == there.returncode
    found, wanted = json.loads(there.stdout), json.loads(here.stdout)
    assert {key: found[key] for key in ("kind", "hierarchy", "canWrite")} == {
        key: wanted[key] for key in ("kind", "hierarchy", "canWrite")
    }
    about = [
        row for row in wanted["findings"] if not row["topic"].startswith(("kubelet", "container"))
    ]
    assert [
        row for row in found["findings"] if not row["topic"].startswith(("kubelet", "container"))
    ] == about


def test_the_doctor_needs_a_machine_in_the_bundle(folder: Path) -> None:
    found = parts(folder, "-f", "pods.yaml")
    (folder / "c.tgz").write_bytes(pack({"pods.json": found["pods.json"]}))
    done = run("doctor", "--bundle", "c.tgz", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "has no machine.yaml" in done.stderr
    (folder / "c.tgz").write_bytes(pack({"machine.yaml": found["machine.yaml"]}))
    done = run("doctor", "--bundle", "c.tgz", folder=folder)
    assert done.returncode in (0, 3)
    assert "doctor.json" in done.stdout
