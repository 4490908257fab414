"""``import qoslet``: the same answers as the program's, and every public name."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest

import qoslet
from docs.generate import document_types
from qoslet.core.node.flags import Flags
from qoslet.library_arguments import flags_from
from tests.cli.fixtures import PODS, run, write
from tests.paths import REPO


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


def test_values_show_themselves_in_one_short_line(tmp_path: Path) -> None:
    write(tmp_path)
    node = qoslet.load_node(str(tmp_path / "node.yaml"))
    loaded = qoslet.read_pods(PODS)
    plan = qoslet.plan(loaded, node)
    shown = f"kubernetes='{node.profile.kubernetes}', pods=3, cgroups={len(plan.cgroups)}"
    assert shown in repr(plan)
    answer = qoslet.explain(plan, "web")
    made = qoslet.convert({"cpu": {"shares": 1024}}, "v2")
    for value in (node, plan, loaded, answer, made, loaded[0], plan.cgroups[0]):
        assert len(repr(value)) < 300
        assert "\n" not in repr(value)
    assert repr(node.capacity["memory"]) == f"Quantity('{node.capacity['memory']}')"
    assert repr(loaded) == "Loaded(3 pods: shop/db, default/web, jobs/batch)"


def test_loaded_pods_are_counted_and_given_in_order() -> None:
    loaded = qoslet.read_pods(PODS)
    assert len(loaded) == 3
    assert list(loaded) == loaded.pods
    assert [pod.name for pod in loaded] == ["db", "web", "batch"]
    assert loaded[-1].name == "batch"
    empty = qoslet.read_pods("{apiVersion: v1, kind: List, items: []}")
    assert len(empty) == 0
    assert empty


SAME: list[tuple[str, object, str]] = [
    ("kube_reserved", {"cpu": "500m", "memory": "1Gi"}, "cpu=500m,memory=1Gi"),
    ("kube_reserved", {"cpu": 1}, "cpu=1"),
    ("system_reserved", {"pid": 100}, "pid=100"),
    ("qos_reserved", {"memory": "50%"}, "memory=50%"),
    ("eviction_hard", {"memory.available": "200Mi"}, "memory.available<200Mi"),
    ("feature_gates", {"MemoryQoS": False}, "MemoryQoS=false"),
    ("enforce_node_allocatable", ["pods"], "pods"),
    ("cpu_cfs_quota", False, "false"),
    ("pod_max_pids", 100, "100"),
    ("memory_throttling_factor", 0.8, "0.8"),
    ("memory_swap_behavior", {"swapBehavior": "NoSwap"}, "NoSwap"),
    ("reserved_memory", {0: {"memory": "1Gi"}}, "0:memory=1Gi"),
    ("reserved_memory", [{"numaNode": 0, "limits": {"memory": "1Gi"}}], "0:memory=1Gi"),
]


@pytest.mark.parametrize(("name", "value", "text"), SAME, ids=lambda value: str(value)[:30])
def test_a_flag_takes_a_python_value_or_its_text(name: str, value: object, text: str) -> None:
    assert flags_from({name: value}) == flags_from({name: text}) == Flags(**{name: text})
    assert flags_from({name: None}) == Flags()


def test_a_node_from_a_map(tmp_path: Path) -> None:
    write(tmp_path)
    path = str(tmp_path / "node.yaml")
    reserved = {"cpu": "1", "memory": "1Gi"}
    made = qoslet.load_node(path, kube_reserved=reserved, feature_gates={"MemoryQoS": True})
    text = "cpu=1,memory=1Gi"
    assert made == qoslet.load_node(path, kube_reserved=text, feature_gates="MemoryQoS=true")


@pytest.mark.parametrize(
    ("flags", "where"),
    [
        ({"kube_reserved": {"cpu": [1]}}, "kube_reserved.cpu"),
        ({"kube_reserved": {"cpu": "many"}}, "kube_reserved.cpu"),
        ({"kube_reserved": {"cpu": "1,memory=2"}}, "kube_reserved.cpu"),
        ({"kubernetes": {"minor": 36}}, "kubernetes"),
        ({"kubernetes": "9.9"}, "kubernetes"),
        ({"kubernetes": ["1.36"]}, "kubernetes"),
        ({"reserved_memory": {0: "1Gi"}}, "reserved_memory"),
        ({"pod_max_pids": b"1"}, "pod_max_pids"),
    ],
    ids=str,
)
def test_a_fault_of_a_flag_names_the_keyword(
    tmp_path: Path, flags: dict[str, object], where: str
) -> None:
    write(tmp_path)
    with pytest.raises(qoslet.BadInput) as caught:
        qoslet.load_node(str(tmp_path / "node.yaml"), **flags)
    assert caught.value.where == where
    assert "--" not in caught.value.where
    assert caught.value.hint or caught.value.message


def test_an_unknown_keyword_gets_a_suggestion() -> None:
    calls: list[tuple[Any, str]] = [
        (lambda: qoslet.load_node(kube_reservd="cpu=1"), "kube_reserved"),
        (lambda: cast(Any, qoslet.load_pods)("x", expnd=True), "expand"),
        (lambda: cast(Any, qoslet.read_pods)("x", nam="y"), "name"),
        (lambda: cast(Any, qoslet.convert)({}, "v2", runtim="x"), "runtime"),
        (lambda: cast(Any, qoslet.ConvertOptions)(runtim="x"), "runtime"),
    ]
    for call, meant in calls:
        with pytest.raises(qoslet.UnknownArgument) as caught:
            call()
        assert isinstance(caught.value, TypeError)
        assert f"did you mean {meant}?" in str(caught.value)


def test_arguments_of_another_type_are_faults(tmp_path: Path) -> None:
    write(tmp_path)
    node = qoslet.load_node(str(tmp_path / "node.yaml"))
    loaded: Any = qoslet.read_pods(PODS)
    for pods, place, where in (("x", node, "pods"), (["x"], node, "pods"), (loaded, "n", "node")):
        with pytest.raises(qoslet.BadInput) as caught:
            cast(Any, qoslet.plan)(pods, place)
        assert caught.value.where == where
        assert "qoslet.load_" in caught.value.hint


def test_an_argument_of_another_type_names_what_is_meant(tmp_path: Path) -> None:
    write(tmp_path)
    plan: Any = qoslet.plan(qoslet.read_pods(PODS), qoslet.load_node(str(tmp_path / "node.yaml")))
    library: Any = qoslet
    calls: list[tuple[Any, str, str]] = [
        (lambda: library.explain("x", "web"), "plan", "qoslet.plan"),
        (lambda: library.audit("x"), "plan", "qoslet.plan"),
        (lambda: library.diff(1, plan), "before", "qoslet.plan"),
        (lambda: library.diff(plan, 1), "after", "qoslet.plan"),
        (lambda: library.to_text(qoslet.read_pods(PODS)), "answer", "plan, explain"),
        (lambda: library.to_dict([]), "answer", "plan, explain"),
        (lambda: library.to_json({}), "answer", "plan, explain"),
        (lambda: library.explain(plan, None), "target", "web/app"),
        (lambda: library.explain(plan, "web", 5), "file", "memory.high"),
        (lambda: library.explain(plan, "web", namespace=5), "namespace", "default"),
        (lambda: library.to_text(plan, width="80"), "width", "columns"),
        (lambda: library.read_pods("", name=5), "name", "messages"),
        (lambda: library.load_pods(["x"]), "paths", "*paths"),
        (lambda: library.load_node(1), "paths", "*paths"),
        (lambda: library.load_pods("x", selector=1), "selector", "app"),
        (lambda: library.read_pods([{}]), "text", "List"),
        (lambda: library.load_pods("x", namespace=1), "namespace", "default"),
        (lambda: library.load_node(kubernetes=float("1.30")), "kubernetes", '"1.30"?'),
        (lambda: library.load_pods("x", node_name=1), "node_name", "default"),
        (lambda: library.plan([], plan.node, problems=None), "problems", "load_pods"),
        (lambda: library.plan([], plan.node, problems=["x"]), "problems", "load_pods"),
        (lambda: library.convert(_limited(1), "v2", node="n1"), "node", "load_node"),
        (lambda: library.convert({"cpu": {"shares": 2}}, "v2", without=1), "without", "swap"),
        (lambda: library.convert({"cpu": {"shares": 2}}, "v2", usage=(1, 2, 3)), "usage", "bytes"),
    ]
    for call, where, hint in calls:
        with pytest.raises(qoslet.BadInput) as caught:
            call()
        assert (caught.value.where, hint in caught.value.hint) == (where, True)


def test_python_values_stand_for_texts(tmp_path: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "x"}}}
    pod["spec"] = {"containers": [{"name": "c", "image": "i"}]}
    assert [one.key for one in qoslet.read_pods(pod)] == ["default/a"]
    file = tmp_path / "a.json"
    file.write_text(json.dumps(pod))
    assert len(qoslet.load_pods(file, selector={"app": "x"})) == 1
    with pytest.raises(qoslet.BadInputs) as caught:
        qoslet.load_pods(file, selector={"app": "y"})
    assert caught.value.faults[0].where == "selector"
    block = {"cpu": {"shares": 1024}}
    made = qoslet.convert(block, "v2", without="bfq,swap")
    assert made == qoslet.convert(block, "v2", without=["bfq", "swap"])


def test_convert_takes_its_options_as_one_value() -> None:
    block = {"cpu": {"shares": 1024}}
    options = qoslet.ConvertOptions(runtime="runc-1.1.0", without=("bfq",))
    made = qoslet.convert(block, "v2", options)
    assert made == qoslet.convert(block, "v2", runtime="runc-1.1.0", without=("bfq",))
    for wrong in ({"options": options, "runtime": "runc-1.2.0"}, {"options": {"runtime": "x"}}):
        with pytest.raises(qoslet.BadInput) as caught:
            qoslet.convert(block, "v2", **cast(Any, wrong))
        assert caught.value.where == "options"


def test_the_types_of_documents_are_those_of_the_schemas() -> None:
    folder = REPO / "src" / "qoslet" / "render" / "documents" / "types"
    for kind in (*document_types.KINDS, "rules"):
        written = (folder / f"{kind}.py").read_text(encoding="utf-8")
        assert ast.dump(ast.parse(document_types.text(kind))) == ast.dump(ast.parse(written)), kind


def test_documents_have_the_fields_of_their_types(tmp_path: Path) -> None:
    write(tmp_path)
    plan = qoslet.plan(qoslet.read_pods(PODS), qoslet.load_node(str(tmp_path / "node.yaml")))
    answers = (
        (qoslet.to_dict(plan), qoslet.PlanDocument),
        (qoslet.to_dict(qoslet.explain(plan, "web")), qoslet.ExplanationDocument),
        (qoslet.to_dict(qoslet.convert({}, "v2", source="oci")), qoslet.ConversionDocument),
    )
    for document, shape in answers:
        assert shape.__required_keys__ <= document.keys() <= shape.__annotations__.keys()


def _limited(cpu: object, labels: object = None) -> dict[str, Any]:
    limits = {"containers": [{"name": "app", "resources": {"limits": {"cpu": cpu}}}]}
    metadata = {"name": "web", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": limits}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            _limited(float("nan")),
            "web.yaml: spec.containers[0].resources.limits.cpu: is not a JSON",
        ),
        (_limited(float("inf")), "limits.cpu: is not a JSON number"),
        (_limited(object()), "web.yaml: cannot be written as JSON"),
        (_limited(1, {(1, 2): "x"}), "web.yaml: cannot be written as JSON"),
    ],
)
def test_a_decoded_document_that_json_has_not_is_a_fault(document: Any, message: str) -> None:
    with pytest.raises(qoslet.BadInput, match=re.escape(message)):
        qoslet.read_pods(document, name="web.yaml")
    node = qoslet.load_node(str(REPO / "docs" / "n1.yaml"))
    with pytest.raises(qoslet.BadInput, match=re.escape(message)):
        qoslet.convert(document, "v2", node=node, name="web.yaml")


def test_a_document_that_contains_itself_is_a_fault() -> None:
    document = _limited(1)
    document["spec"]["more"] = document
    with pytest.raises(qoslet.BadInput, match="contains itself"):
        qoslet.read_pods(document)
