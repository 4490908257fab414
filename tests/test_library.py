"""``import qoslet``: the same answers as the program's, and every public name."""

from __future__ import annotations

from pathlib import Path

import pytest

import qoslet
from tests.cli.fixtures import PODS, run, write


def test_every_public_name_is_there() -> None:
    assert sorted(dir(qoslet)) == sorted(qoslet.__all__)
    for name in qoslet.__all__:
        assert getattr(qoslet, name) is not None
    with pytest.raises(AttributeError):
        _ = qoslet.nothing


def test_the_library_gives_what_the_program_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = write(tmp_path)
    monkeypatch.chdir(tmp_path)
    node = qoslet.load_node("node.yaml", "kubelet.yaml")
    plan = qoslet.plan(qoslet.load_pods("pods.yaml"), node)
    assert plan.stands
    printed = run("plan", *options, "-o", "json", folder=tmp_path).stdout
    assert qoslet.to_json(plan) == printed
    printed = run("plan", *options, folder=tmp_path, COLUMNS="80").stdout
    assert qoslet.to_text(plan) == printed
    answer = qoslet.explain(plan, "web/app", "memory.high")
    done = run("explain", "web/app", "memory.high", *options, folder=tmp_path, COLUMNS="80")
    assert qoslet.to_text(answer) == done.stdout
    assert qoslet.to_dict(answer)["kind"] == "Explanation"


def test_pods_are_chosen(tmp_path: Path) -> None:
    pod = (
        "{apiVersion: v1, kind: Pod, metadata: {name: NAME, namespace: SPACE, labels: {app: NAME}},"
    )
    pod += " spec: {containers: [{name: c}]}}\n"
    (tmp_path / "below").mkdir()
    for at, (name, space) in enumerate((("web", "shop"), ("api", "shop"), ("web", "dev"))):
        text = pod.replace("NAME", name).replace("SPACE", space)
        (tmp_path / "below" / f"{at}.yaml").write_text(text)

    def keys(namespace: str | None = None, selector: str | None = None) -> list[str]:
        path = str(tmp_path)
        loaded = qoslet.load_pods(path, recursive=True, namespace=namespace, selector=selector)
        return [one.key for one in loaded.pods]

    assert keys() == ["shop/web", "shop/api", "dev/web"]
    assert keys(namespace="shop", selector="app in (web)") == ["shop/web"]
    with pytest.raises(qoslet.BadInputs):
        keys(selector="app=")
    node = tmp_path / "kubeadm.yaml"
    node.write_text("apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n")
    assert qoslet.load_node(str(node), node_name="n-b").name == "n-b"


def test_text_and_faults(tmp_path: Path) -> None:
    write(tmp_path)
    node = qoslet.load_node(str(tmp_path / "node.yaml"), kubernetes="1.37")
    assert node.profile.kubernetes == "1.37"
    loaded = qoslet.read_pods(PODS)
    assert [pod.name for pod in loaded.pods] == ["db", "web", "batch"]
    assert len(qoslet.plan(loaded.pods[:1], node).pods) == 1
    with pytest.raises(qoslet.BadInputs):
        qoslet.read_pods("kind: Pod")
    with pytest.raises(TypeError):
        qoslet.load_node(colour="red")
