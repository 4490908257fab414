"""The node of a kubelet that runs here, from what it answers or else from its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.app.node.assigned import kubelet_assignments
from qoslet.app.node.found_node import (
    RELEASE,
    Credentials,
    FoundNode,
    KubeletOptions,
    find_node,
)
from qoslet.core.bundle.archive import unpack
from qoslet.core.node.node import Kubelet
from qoslet.errors import BadInput, CannotDo
from qoslet.host.cgroupfs.mounted import mounted
from qoslet.host.kubelet.kubelet_release import KubeletRelease
from qoslet.host.kubelet.manager_states import manager_states
from tests.cli.fixtures import environment
from tests.core.managers.fixtures import node_of
from tests.host.kubelet.fake_node import (
    CERTIFICATES,
    HEAD,
    METRICS,
    Reply,
    declare,
    kubelet_port,
    pods,
)

CONFIGZ = json.dumps(
    {
        "kubeletconfig": {
            "syncFrequency": "1m0s",
            "nodeStatusUpdateFrequency": "10s",
            "maxPods": 33,
            "mergeDefaultEvictionSettings": False,
        }
    }
).encode()


def look(machine: Path, pid: int | None = None, **credentials: str) -> FoundNode:
    options = KubeletOptions(pid, Credentials(**credentials), str(machine))
    return find_node(options, KubeletRelease())


def states(found: FoundNode) -> dict[str, str]:
    return {row.topic: row.state for row in found.notes if row.topic != "kubelet runtime"}


def own(found: FoundNode) -> dict[str, object]:
    """qoslet's own document among those found."""
    document: dict[str, object] = found.documents[-1][1]
    return document


def certificate(name: str) -> dict[str, str]:
    return {"/pki/kubelet.crt": (CERTIFICATES / name).read_text()}


def test_the_read_only_port_gives_pods_and_release(tmp_path: Path) -> None:
    pages = {"/pods": pods("a", "b"), "/metrics": METRICS}
    with kubelet_port(pages) as (number, asked):
        files = {"/k.yaml": f"{HEAD}readOnlyPort: {number}\nmaxPods: 7\nport: 1\n"}
        declare(tmp_path, "--config=/k.yaml", files=files)
        found = look(tmp_path)
    assert (found.pid, found.name) == (812, "n1")
    assert found.pods == (f"http://127.0.0.1:{number}/pods", pages["/pods"])
    assert own(found) == {
        "apiVersion": "qoslet/v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "kubernetes": "v1.33.4",
    }
    assert found.documents[0][1]["maxPods"] == 7
    assert set(states(found).values()) == {"ok"}
    assert [path for path, _ in asked] == ["/pods", "/metrics"]


def test_a_kubelet_that_told_its_release_is_not_asked_for_it_again(tmp_path: Path) -> None:
    """/metrics takes seconds on a busy node, for which nothing else would be looked at."""
    releases = KubeletRelease()
    with kubelet_port({"/pods": pods("a"), "/metrics": METRICS}) as (number, asked):
        declare(
            tmp_path,
            "--config=/k.yaml",
            files={"/k.yaml": f"{HEAD}readOnlyPort: {number}\nport: 1\n"},
        )
        (tmp_path / "proc/812/stat").write_text(" ".join(["812 (kubelet) S", *["0"] * 18, "7"]))
        options = KubeletOptions(root=str(tmp_path))
        first, second = (find_node(options, releases) for _ in range(2))
    assert [path for path, _ in asked] == ["/pods", "/metrics", "/pods"]
    assert first.documents == second.documents
    assert first.note(RELEASE) == second.note(RELEASE)


def test_the_secure_port_gives_the_configuration_in_force(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    pages = {"/configz": CONFIGZ, "/pods": pods("a"), "/metrics": METRICS}
    with kubelet_port(pages, "self-signed.pem", "secret") as (number, asked):
        files = {"/k.yaml": f"{HEAD}port: {number}\n", **certificate("self-signed.pem")}
        declare(tmp_path, "--config=/k.yaml", "--cert-dir=/pki", files=files)
        found = look(tmp_path, token=str(token))
        without = look(tmp_path)
    assert found.documents[0][1] == json.loads(CONFIGZ)
    assert found.pods is not None
    assert set(states(found).values()) == {"ok"}
    assert {path for path, word in asked if word} == set(pages)
    assert without.pods is None
    assert states(without) == {
        "kubelet": "ok",
        "kubelet configuration": "ok",
        "kubelet pods": "missing",
        "kubelet release": "unknown",
    }
    (lacking,) = [row for row in without.notes if row.topic == "kubelet pods"]
    assert "takes no anonymous questions" in lacking.value
    assert "nodes/pods" in lacking.remedy


def test_a_user_without_the_right_is_told_which(tmp_path: Path) -> None:
    pages: dict[str, Reply] = {"/configz": CONFIGZ, "/pods": 403, "/metrics": 403}
    with kubelet_port(pages, "self-signed.pem") as (number, _):
        files = {"/k.yaml": f"{HEAD}port: {number}\n", **certificate("self-signed.pem")}
        declare(tmp_path, "--config=/k.yaml", "--cert-dir=/pki", files=files)
        found = look(tmp_path)
    (lacking,) = [row for row in found.notes if row.topic == "kubelet pods"]
    assert "system:anonymous may not get nodes/pods" in lacking.value
    assert (
        lacking.remedy
        == "grant get on nodes/pods (before 1.33 nodes/proxy, which also allows running commands)"
    )
    (release,) = [row for row in found.notes if row.topic == "kubelet release"]
    assert release.value == "1.33 or later"


def test_a_port_that_nobody_serves_yet_is_why_the_pods_are_not_known(tmp_path: Path) -> None:
    """As in the first seconds of a kubelet: only its first page is asked for."""
    with kubelet_port({}, "self-signed.pem") as (number, _):
        files = {"/k.yaml": f"{HEAD}port: {number}\n", **certificate("self-signed.pem")}
    declare(tmp_path, "--config=/k.yaml", "--cert-dir=/pki", files=files)
    (lacking,) = [row for row in look(tmp_path).notes if row.topic == "kubelet pods"]
    assert f":{number}" in lacking.value
    assert "nothing listens there" in lacking.value


def test_a_token_is_refused_where_nobody_can_check_it(tmp_path: Path) -> None:
    """As by a kubelet 1.36.2 with webhooks while its API server is away."""
    token = tmp_path / "token"
    token.write_text("secret")
    pages: dict[str, Reply] = {"/configz": 401, "/pods": 401, "/metrics": 401}
    with kubelet_port(pages, "self-signed.pem") as (number, _):
        files = {"/k.yaml": f"{HEAD}port: {number}\n", **certificate("self-signed.pem")}
        declare(tmp_path, "--config=/k.yaml", "--cert-dir=/pki", files=files)
        found = look(tmp_path, token=str(token))
    (lacking,) = [row for row in found.notes if row.topic == "kubelet pods"]
    assert "not valid, or the kubelet does not reach the API server" in lacking.value


def test_a_program_in_the_kubelet_s_place_is_told_nothing(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    with kubelet_port({"/configz": CONFIGZ}, "other.pem") as (number, asked):
        files = {"/k.yaml": f"{HEAD}port: {number}\n", **certificate("self-signed.pem")}
        declare(tmp_path, "--config=/k.yaml", "--cert-dir=/pki", files=files)
        found = look(tmp_path, token=str(token))
    assert not asked
    (note,) = [row for row in found.notes if row.topic == "kubelet configuration"]
    assert "not the one of the kubelet's own file" in note.cost


def test_an_authority_needs_no_certificate_file(tmp_path: Path) -> None:
    with kubelet_port({"/configz": CONFIGZ}, "signed.pem") as (number, _):
        files = {"/k.yaml": f"{HEAD}port: {number}\n"}
        declare(tmp_path, "--config=/k.yaml", "--hostname-override=n1", files=files)
        assert states(look(tmp_path))["kubelet pods"] == "missing"
        found = look(tmp_path, authorities=str(CERTIFICATES / "ca.pem"))
    assert found.documents[0][0] == f"https://127.0.0.1:{number}/configz"


@pytest.mark.parametrize("page", [b"[]", b"{", b'{"kubeletconfig": 1}', b"[" * 100_000, b"", 500])
def test_a_page_that_is_none_is_left_out(tmp_path: Path, page: bytes | int) -> None:
    pages: dict[str, Reply] = {"/configz": page, "/pods": page, "/metrics": page}
    with kubelet_port(pages, "self-signed.pem") as (number, _):
        files = {"/k.yaml": f"{HEAD}port: {number}\nmaxPods: 5\n", **certificate("self-signed.pem")}
        declare(tmp_path, "--config=/k.yaml", "--cert-dir=/pki", files=files)
        found = look(tmp_path)
    assert found.pods is None
    assert found.documents[0][1]["maxPods"] == 5


def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    declare(tmp_path, "--config=/k.yaml", "--port=1")
    found = look(tmp_path)
    (note,) = [row for row in found.notes if row.topic == "kubelet configuration"]
    assert (note.state, note.value) == (
        "missing",
        "/k.yaml: cannot be read: No such file or directory",
    )


def test_without_a_kubelet_there_is_nothing_to_find(tmp_path: Path) -> None:
    declare(tmp_path, comm="bash")
    with pytest.raises(CannotDo, match="no kubelet runs"):
        look(tmp_path)


def test_a_kubelet_that_ends_while_it_is_asked_is_said_to_have_ended(tmp_path: Path) -> None:
    def end(handler: BaseHTTPRequestHandler) -> None:
        (tmp_path / "proc/812").rename(tmp_path / "ended")
        handler.send_error(500)

    with kubelet_port({"/pods": end}) as (number, _):
        files = {"/k.yaml": f"{HEAD}readOnlyPort: {number}\n"}
        declare(tmp_path, "--config=/k.yaml", files=files)
        with pytest.raises(CannotDo, match=r"process 812\) ended while it was asked") as error:
            look(tmp_path)
    assert error.value.hint == "ask again when it runs"


def test_one_of_several_is_chosen(tmp_path: Path) -> None:
    for pid in (7, 8):
        declare(tmp_path, "--read-only-port=0", "--port=1", pid=pid)
    with pytest.raises(BadInput, match="2 kubelets") as error:
        look(tmp_path)
    assert error.value.hint == "kubelets: 7, 8"
    assert look(tmp_path, pid=8).pid == 8
    with pytest.raises(BadInput, match="process 9 is not a kubelet"):
        look(tmp_path, pid=9)


def contained(machine: Path, pid: int, *, has_ours: bool) -> None:
    """A kubelet in a container, with our cgroups or others."""
    here = mounted()
    point = here.unified if here.hierarchy == "v2" else here.mounts["memory"]
    assert point is not None
    declare(machine / str(pid), "--read-only-port=0", "--port=1", pid=pid)
    folder = machine / str(pid) / "proc" / str(pid)
    (folder / "ns").mkdir()
    (folder / "ns" / "mnt").symlink_to("mnt:[1]")
    place = folder / "root" / point.lstrip("/")
    place.parent.mkdir(parents=True)
    place.symlink_to(point) if has_ours else place.mkdir()
    (machine / "proc").mkdir(exist_ok=True)
    (machine / "proc" / str(pid)).symlink_to(folder)


def test_a_kubelet_with_other_cgroups_is_another_node(tmp_path: Path) -> None:
    # a node of kind beside nothing, then on a node whose own kubelet is in a container, too
    contained(tmp_path, 7, has_ours=False)
    with pytest.raises(CannotDo, match=r"kubelet \(process 7\) has other cgroups") as error:
        look(tmp_path)
    assert "--kubelet-pid 7" in error.value.hint
    assert look(tmp_path, pid=7).pid == 7
    contained(tmp_path, 8, has_ours=True)
    assert look(tmp_path).pid == 8


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[int]:
    """A process that is called kubelet."""
    program = folder / "kubelet"
    program.symlink_to(sys.executable)
    code = "import sys; print(1, flush=True); sys.stdin.read()"
    command = [str(program), "-c", code, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def qoslet(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "qoslet", *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)


def test_a_plan_of_a_live_kubelet(tmp_path: Path) -> None:
    with kubelet_port({"/pods": pods("a", "b"), "/metrics": METRICS}) as (number, asked):
        config = tmp_path / "k.yaml"
        config.write_text(
            f"{HEAD}readOnlyPort: {number}\nport: 1\ncgroupRoot: /here\nfailCgroupV1: false\n"
        )
        with running(tmp_path, f"--config={config}", "--cgroup-driver=cgroupfs") as pid:
            chosen = f"--kubelet-pid={pid}"
            planned = qoslet("plan", "--live", chosen, "-o", "json")
            why = qoslet("explain", "--live", chosen, "a", "cpu.shares", "--hierarchy=v1")
            doctor = qoslet("doctor", chosen)
            begun = len(asked)
            change = qoslet("diff", "--live", chosen, "--to", "kubernetes=1.37", "-o", "json")
            looked = asked[begun:]
    document = json.loads(planned.stdout)
    assert [pod["name"] for pod in document["pods"]] == ["a", "b"]
    assert document["node"]["kubernetes"] == "1.33"
    assert document["node"]["name"] == "n1"
    assert document["cgroups"][0]["name"] == "/here/kubepods"
    assert f"kubelet pods: from http://127.0.0.1:{number}/pods" in planned.stderr
    assert why.returncode == 0, why.stderr
    assert f"from the command line and {config}" in doctor.stdout
    assert "/here/kubepods" in doctor.stdout, "another kubelet may be on the machine"
    assert os.path.basename(sys.executable) not in doctor.stdout
    assert change.returncode == 0, change.stderr
    sides = json.loads(change.stdout)
    assert [sides[side]["kubernetes"] for side in ("from", "to")] == ["1.33", "1.37"]
    assert sorted(looked) == sorted(set(looked)), "one look serves both sides"


def test_a_bundle_takes_the_configuration_of_the_kubelet_beside_manifests(tmp_path: Path) -> None:
    config, bundle = tmp_path / "k.yaml", tmp_path / "b.tgz"
    config.write_text(f"{HEAD}readOnlyPort: 0\nport: 1\ncgroupRoot: /here\n")
    (tmp_path / "pods.json").write_bytes(pods("a"))
    words = ("bundle", "-f", str(tmp_path / "pods.json"), "-o", str(bundle))
    with running(tmp_path, f"--config={config}", "--cgroup-driver=cgroupfs") as pid:
        for live in (False, True):
            done = qoslet(*words, f"--kubelet-pid={pid}", *(["--live"] if live else ()))
            assert done.returncode == 0, done.stderr
            found = unpack(bundle.read_bytes(), "b").parts
            assert (b"cgroupRoot: /here" in found["kubelet.yaml"]) is live
    done = qoslet("bundle", "--live", f"--kubelet-pid={os.getpid()}", "-o", str(bundle))
    assert (done.returncode, done.stdout) == (2, "")


def test_pods_that_cannot_be_seen_are_no_empty_plan(tmp_path: Path) -> None:
    with running(tmp_path, "--read-only-port=0", "--port=1") as pid:
        done = qoslet("plan", "--live", f"--kubelet-pid={pid}")
    assert done.returncode == 3
    assert not done.stdout
    assert "the kubelet's pods: " in done.stderr
    assert "(the kubelet has just started: ask again in some seconds; " in done.stderr
    assert "give them with -f" in done.stderr


def test_a_kubelet_that_refuses_is_not_asked_again_for_being_new(tmp_path: Path) -> None:
    # of a kubelet 1.36.2 without a read-only port, 15 s after its start
    config = tmp_path / "k.yaml"
    with kubelet_port({"/pods": 401, "/metrics": 401}) as (number, _):
        config.write_text(f"{HEAD}readOnlyPort: {number}\nenableServer: false\n")
        with running(tmp_path, f"--config={config}") as pid:
            done = qoslet("plan", "--live", f"--kubelet-pid={pid}")
    assert done.returncode == 3
    assert "takes no anonymous questions (give --kubelet-token" in done.stderr
    assert "just started" not in done.stderr


def test_an_audit_without_pods_is_bad_input(tmp_path: Path) -> None:
    with running(tmp_path, "--read-only-port=0", "--port=1") as pid:
        done = qoslet("audit", f"--kubelet-pid={pid}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the kubelet's pods: " in done.stderr


def test_an_audit_takes_the_pods_of_the_kubelet(tmp_path: Path) -> None:
    """Nothing of their node is there: the kubelet, which has just started, has still to make it."""
    with kubelet_port({"/pods": pods("a"), "/metrics": METRICS}) as (number, _):
        more = ("--port=1", "--cgroup-root=/nosuch", "--fail-cgroupv1=false")
        with running(tmp_path, f"--read-only-port={number}", *more) as pid:
            done = qoslet("audit", f"--kubelet-pid={pid}", "-o", "json")
    found = json.loads(done.stdout)["findings"]
    assert done.returncode == 3, done.stderr
    assert {one["verdict"] for one in found} == {"pending"}
    assert "/nosuch/kubepods" in {one["name"] for one in found}


def test_what_its_managers_handed_out_is_read_from_its_root_directory(tmp_path: Path) -> None:
    entries = {"u": {"c": "1"}}
    state = json.dumps({"policyName": "static", "defaultCpuSet": "0", "entries": entries})
    with kubelet_port({"/pods": pods("a"), "/metrics": METRICS}) as (number, _):
        files = {
            "/k.yaml": f"{HEAD}readOnlyPort: {number}\nport: 1\n",
            "/data/cpu_manager_state": state,
        }
        declare(tmp_path, "--config=/k.yaml", "--root-dir=/data", files=files)
        found = look(tmp_path)
    static = node_of(cpus="0-1", numa=("0-1",), sizes=(1 << 30,))
    kept = kubelet_assignments(found, static)
    assert kept is not None
    assert kept.cpus == {("u", "c"): frozenset({1})}
    assert kubelet_assignments(found, replace(static, kubelet=Kubelet())) is None
    # a kubelet that ended, and a directory that cannot be read
    assert manager_states(f"{tmp_path}/proc/1", "/data") == {}
    assert manager_states(found.folder, "/none") == {}
