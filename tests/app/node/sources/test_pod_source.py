"""The sources that a choice stands for, beside a kubelet that answers and one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.app.node.found_node import KubeletOptions
from qoslet.app.node.sources.pod_source import Choice, pod_source, readers
from qoslet.core.node.running_kubelet.pods_reading import PodSourceName
from qoslet.errors import CannotDo
from qoslet.host.cluster.client_library import ClusterAccess, is_installed
from tests.host.kubelet.fake_node import HEAD, declare, kubelet_port, pods


def of_kubelet(folder: Path, number: int) -> KubeletOptions:
    files = {"/k.yaml": f"{HEAD}readOnlyPort: {number}\nport: 1\n"}
    declare(folder, "--config=/k.yaml", files=files)
    return KubeletOptions(root=str(folder))


def test_the_kubelet_is_asked_for_its_pods_and_nothing_else(tmp_path: Path) -> None:
    page = pods("a", "b").replace(b'"status"', b'"x": "containerID", "status"')
    page = page.replace(b'"x": "containerID"', b'"containerID": ""')
    with kubelet_port({"/pods": page}) as (number, asked):
        source = pod_source("auto", (), of_kubelet(tmp_path, number), lambda: "n1")
        found = source.poll()
        source.close()
    assert (found.source, found.pods, found.complete, found.reason) == ("kubelet", page, True, "")
    assert found.place == f"http://127.0.0.1:{number}/pods"
    assert [path for path, _ in asked] == ["/pods"]


def test_without_a_kubelet_the_reasons_are_said(tmp_path: Path) -> None:
    source = pod_source("kubelet", (), KubeletOptions(root=str(tmp_path)), lambda: None)
    with pytest.raises(CannotDo, match="no kubelet runs on this machine"):
        source.poll()


def test_a_kubelet_that_goes_keeps_its_pods(tmp_path: Path) -> None:
    with kubelet_port({"/pods": pods("a")}) as (number, _):
        options = of_kubelet(tmp_path, number)
        source = readers("kubelet", (), options, lambda: None, ClusterAccess())[0]
        assert source.read(frozenset()).complete
    with pytest.raises(CannotDo, match="certificate cannot be read"):
        source.read(frozenset())


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "pods.json"
    path.write_bytes(pods("a"))
    source = pod_source("file", (str(path),), KubeletOptions(), lambda: None)
    first = source.poll()
    assert (first.pods, first.source, first.place) == (pods("a"), "file", str(path))
    path.unlink()
    assert source.poll().pods == first.pods


@pytest.mark.parametrize(
    ("choice", "access", "expected"),
    [
        ("auto", ClusterAccess(account="/nowhere"), ["kubelet", "cri"]),
        ("kubelet", ClusterAccess(), ["kubelet"]),
        ("cri", ClusterAccess(), ["cri"]),
        ("auto", ClusterAccess(context="one"), ["kubelet", "api", "cri"]),
        ("api", ClusterAccess(), ["api"]),
    ],
)
def test_choices(choice: Choice, access: ClusterAccess, expected: list[PodSourceName]) -> None:
    if "api" in expected and not is_installed():
        with pytest.raises(CannotDo, match=r"pip install 'qoslet\[cluster\]'"):
            readers("api", (), KubeletOptions(), lambda: None, access)
        return
    found = readers(choice, (), KubeletOptions(), lambda: None, access)
    assert [one.source for one in found] == expected
