"""The sources that a choice stands for, beside a kubelet that answers and one that does not."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from qoslet.app.node.found_node import KubeletOptions, ask_pages, chosen_kubelet
from qoslet.app.node.sources.pod_source import Choice, pod_source, readers
from qoslet.app.node.sources.preferred import PreferredPods
from qoslet.core.node.running_kubelet.listed_pods import listed_pods, uids_of
from qoslet.core.node.running_kubelet.pods_reading import PodSourceName
from qoslet.errors import CannotDo
from qoslet.host.cluster.client_library import ClusterAccess, is_installed
from qoslet.host.kubelet.configuration import configuration
from tests.host.kubelet.fake_node import HEAD, Reply, declare, kubelet_port, pods


def of_kubelet(folder: Path, number: int) -> KubeletOptions:
    files = {"/k.yaml": f"{HEAD}readOnlyPort: {number}\nport: 1\n"}
    declare(folder, "--config=/k.yaml", files=files)
    return KubeletOptions(root=str(folder))


UIDS = {f"uid-{name}": f"0a1b2c3d-0000-4000-8000-00000000000{name}" for name in "abc"}


def running(*names: str, ids: bool = True) -> bytes:
    """The page of a kubelet whose pods run; without ``ids`` it does not know the containers yet."""
    found = json.loads(pods(*names))
    for one in found["items"]:
        one["metadata"]["uid"] = UIDS[one["metadata"]["uid"]]
        if ids:
            one["status"]["containerStatuses"] = [{"name": "app", "containerID": "containerd://1"}]
    return json.dumps(found).encode()


def test_the_kubelet_is_asked_for_its_pods_and_nothing_else(tmp_path: Path) -> None:
    page = running("a", "b")
    assert not any(one.lacks_ids for one in listed_pods(page))
    assert all(one.lacks_ids for one in listed_pods(running("a", ids=False)))
    with kubelet_port({"/pods": page}) as (number, asked):
        source = pod_source("auto", of_kubelet(tmp_path, number), lambda: "n1")
        found = source.poll()
        source.close()
    assert (found.source, found.pods, found.complete, found.reason) == ("kubelet", page, True, "")
    assert found.place == f"http://127.0.0.1:{number}/pods"
    assert [path for path, _ in asked] == ["/pods"]


@pytest.mark.parametrize(
    ("seconds", "cgroup", "complete"),
    [
        (5, "/kubepods/burstable/pod{uid}/ab", False),
        (5, "/kubepods.slice/kubepods-pod{unit}.slice/cri-containerd-ab.scope", False),
        (5, "/qoslet/burstable/pod{uid}/ab", True),
        (5000, "/kubepods/burstable/pod{uid}/ab", True),
    ],
)
def test_an_agent_that_starts_with_the_kubelet_loses_no_pod_that_runs(
    tmp_path: Path, seconds: int, cgroup: str, complete: bool
) -> None:
    """It knows none yet whose values it may have to keep."""
    uid = UIDS["uid-b"]
    folder = tmp_path / "proc" / "99"
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text(f"0::{cgroup.format(uid=uid, unit=uid.replace('-', '_'))}\n")
    with kubelet_port({"/pods": running("a")}) as (number, _):
        options = of_kubelet(tmp_path, number)
        uptime = float(Path("/proc/uptime").read_text().split()[0]) - seconds
        fields = ["0"] * 19 + [str(int(uptime * os.sysconf("SC_CLK_TCK")))]
        (tmp_path / "proc" / "812" / "stat").write_text(f"812 (kubelet) {' '.join(fields)}\n")
        source = PreferredPods(readers("kubelet", options, lambda: None, None))
        for _ in range(2):
            found = source.poll()
            assert (found.complete, found.is_settling) == (complete, not complete)
            source.refresh()
    assert ("just started" in found.reason) == (not complete)


def test_a_kubelet_that_forgot_a_pod_that_runs_is_not_believed(tmp_path: Path) -> None:
    pages: dict[str, Reply] = {"/pods": running("a", "b")}
    with kubelet_port(pages) as (number, _):
        options = of_kubelet(tmp_path, number)
        now = [1000.0]
        some = readers("kubelet", options, lambda: None, None)
        source = PreferredPods(some, lambda: now[0])
        assert source.poll().complete
        pages["/pods"] = running("a")
        folder = tmp_path / "proc" / "900"
        folder.mkdir()
        (folder / "comm").write_text("sleep\n")
        (folder / "cgroup").write_text(f"0::/kubepods/pod{UIDS['uid-b']}/ab\n")
        for _ in range(4):
            now[0] += 11
            found = source.poll()
            assert (uids_of(found.pods), found.complete) == (uids_of(running("a", "b")), False)
            assert found.reason == "kubelet lacks 1 of the pods that run"
        shutil.rmtree(folder)
        for _ in range(2):
            now[0] += 11
            found = source.poll()
        assert (found.pods, found.complete) == (running("a"), True)


def test_without_a_kubelet_the_reasons_are_said(tmp_path: Path) -> None:
    source = pod_source("kubelet", KubeletOptions(root=str(tmp_path)), lambda: None)
    with pytest.raises(CannotDo, match="no kubelet runs on this machine"):
        source.poll()


def test_a_kubelet_that_goes_keeps_its_pods(tmp_path: Path) -> None:
    with kubelet_port({"/pods": pods("a")}) as (number, _):
        options = of_kubelet(tmp_path, number)
        source = readers("kubelet", options, lambda: None, None)[0]
        assert source.read(frozenset()).complete
    with pytest.raises(CannotDo, match="certificate cannot be read") as raised:
        source.read(frozenset())
    # root is told nothing of root: the kubelet has not made it yet
    assert "ask again" in raised.value.hint
    process = chosen_kubelet(options)
    read = configuration(process)
    shutil.rmtree(tmp_path / "proc" / "812")
    why = ask_pages(process, read, options, ("/pods",)).why_not("/pods")
    assert why is not None
    assert why.message == "the kubelet (process 812) has ended"


@pytest.mark.parametrize(
    ("choice", "access", "expected"),
    [
        ("auto", None, ["kubelet", "cri"]),
        ("kubelet", None, ["kubelet"]),
        ("cri", None, ["cri"]),
        ("auto", ClusterAccess(), ["kubelet", "api", "cri"]),
        ("auto", ClusterAccess(context="one"), ["kubelet", "api", "cri"]),
        ("api", None, ["api"]),
    ],
)
def test_choices(
    choice: Choice, access: ClusterAccess | None, expected: list[PodSourceName]
) -> None:
    if "api" in expected and not is_installed():
        with pytest.raises(CannotDo, match=r"pip install 'qoslet\[cluster\]'"):
            readers("api", KubeletOptions(), lambda: None, access)
        return
    found = readers(choice, KubeletOptions(), lambda: None, access)
    assert [one.source for one in found] == expected
