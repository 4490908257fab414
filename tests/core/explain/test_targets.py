"""Targets as kubectl writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from qoslet.core.api.manifest import Options
from qoslet.core.explain.selector import select
from qoslet.core.node.flags import Flags
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.errors import BadInput
from qoslet.host.files.manifests import load_text
from qoslet.host.files.node import load_node
from tests.core.api.test_manifest import container, pod
from tests.paths import REPO


def planned(*documents: Any, flags: Flags | None = None, **options: Any) -> Plan:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    node, _ = load_node([str(REPO / "docs/n1.yaml")], flags or Flags())
    return plan(load_text(text, Options(**options)).pods, node)


def carrying(api: str, kind: str, name: str = "web") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [container("app"), container("side")]}
    if kind in ("Job", "CronJob"):
        spec["restartPolicy"] = "Never"
    inner: dict[str, Any] = {"template": {"spec": spec}}
    if kind == "CronJob":
        inner = {"jobTemplate": {"spec": inner}}
    document = {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": inner}
    return {**document, "template": {"spec": spec}} if kind == "PodTemplate" else document


def of(kind: str, name: str, *, called: str = "web-x1") -> dict[str, Any]:
    owners = [{"kind": kind, "name": name, "controller": True}]
    return pod(called, container("app"), container("side"), metadata={"ownerReferences": owners})


def names(made: Plan, target: str, namespace: str | None = None) -> list[str]:
    found = select(made, target, namespace)
    return [
        f"{c.pod.key if c.pod else ''}:{c.container.name if c.container else c.level}"
        for c in found
    ]


@pytest.mark.parametrize(
    ("api", "kind", "words"),
    [
        ("apps/v1", "Deployment", "deployment deployments deploy Deployment deployment.apps"),
        ("apps/v1", "StatefulSet", "statefulset sts statefulsets statefulset.apps"),
        ("apps/v1", "DaemonSet", "daemonset daemonsets ds"),
        ("apps/v1", "ReplicaSet", "replicaset rs replicaset.apps"),
        ("batch/v1", "Job", "job jobs job.batch"),
        ("batch/v1", "CronJob", "cronjob cronjobs cj cronjob.batch"),
        ("v1", "PodTemplate", "podtemplate podtemplates"),
        ("v1", "ReplicationController", "rc replicationcontroller"),
        ("argoproj.io/v1alpha1", "Rollout", "rollout rollouts rollout.argoproj.io"),
        ("apps.kruise.io/v1alpha1", "CloneSet", "cloneset clonesets"),
    ],
)
def test_a_workload_is_named_as_kubectl_does(api: str, kind: str, words: str) -> None:
    made = planned(carrying(api, kind), pod("other"))
    whole = names(made, "web")
    for word in (*words.split(), "pod", "pods", "po"):
        assert names(made, f"{word}/web") == whole, word
        assert names(made, f"{word}/web/side") == names(made, "web/side")
        assert names(made, f"{word}/web", "default") == whole
        with pytest.raises(BadInput):
            names(made, f"{word}/web", "shop")


@pytest.mark.parametrize(
    ("owner", "target"),
    [
        (("ReplicaSet", "web-5d9c7b8f6d"), "deployment/web"),
        (("ReplicaSet", "web-5d9c7b8f6d"), "deploy/web"),
        (("ReplicaSet", "web-5d9c7b8f6d"), "rs/web-5d9c7b8f6d"),
        (("ReplicaSet", "web-5d9c7b8f6d"), "rollout/web"),
        (("StatefulSet", "web"), "sts/web"),
        (("DaemonSet", "web"), "ds/web"),
        (("Job", "web"), "job/web"),
        (("Job", "web-28391370"), "cronjob/web"),
        (("Rollout", "web"), "rollout/web"),
    ],
)
def test_a_pod_of_a_cluster_is_found_by_its_owner(owner: tuple[str, str], target: str) -> None:
    made = planned(of(*owner), pod("web"))
    assert names(made, target) == names(made, "web-x1")
    assert names(made, f"{target}/side") == names(made, "web-x1/side")


def test_several_pods_of_a_workload_are_candidates() -> None:
    made = planned(
        of("StatefulSet", "web", called="web-0"), of("StatefulSet", "web", called="web-1")
    )
    with pytest.raises(BadInput, match=r"could be any of default/web-0, default/web-1"):
        select(made, "sts/web")
    expanded = carrying("apps/v1", "Deployment")
    expanded["spec"]["replicas"] = 2
    with pytest.raises(BadInput, match=r"could be any of default/web-0, default/web-1"):
        select(planned(expanded, expand=True), "deployment/web")


def test_each_of_two_workloads_of_one_name_is_found() -> None:
    both = [carrying("apps/v1", "StatefulSet"), carrying("apps/v1", "Deployment")]
    for made in (planned(*both), planned(*both[::-1])):
        assert names(made, "deployment/web") == names(made, "pod/web") == names(made, "web")
        assert names(made, "sts/web") == names(made, "web-0")
        assert names(made, "sts/web/side") == ["default/web-0:side"]


def test_names_of_pods_come_first() -> None:
    made = planned(
        pod("pod", container("web")), pod("web"), pod("job", metadata={"namespace": "ds"})
    )
    assert names(made, "pod/web") == ["default/pod:web"]
    assert names(made, "ds/job")[0].startswith("ds/job")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("deployment/wbe", "no pod of deployment 'wbe' (did you mean web"),
        ("sts/web", "no pod of statefulset 'web'"),
        ("deployment/app", "no pod of deployment 'app'"),
        ("side", "did you mean web/side or lone/side?"),
        ("pod/nope", "no pod or container named 'nope'"),
        ("pod/web/none", "no pod or container named 'web/none'"),
        ("service/web", "no pod or container named 'service/web'"),
        ("a/b/c/d", "no pod or container named 'a/b/c/d'"),
        ("/web", "the plan has no cgroup"),
        ("pod/", "no pod or container named 'pod/'"),
    ],
)
def test_what_is_not_there(target: str, words: str) -> None:
    made = planned(carrying("apps/v1", "Deployment"), of("ReplicaSet", "lone-app", called="lone"))
    with pytest.raises(BadInput) as found:
        select(made, target)
    assert words in str(found.value)


@pytest.mark.parametrize(
    ("driver", "targets"),
    [
        ("cgroupfs", "burstable kubepods/burstable"),
        ("systemd", "burstable kubepods-burstable.slice kubepods.slice/kubepods-burstable.slice"),
    ],
)
def test_above_pods_the_end_of_a_name_is_enough(driver: str, targets: str) -> None:
    made = planned(pod("web"), flags=Flags(cgroup_driver=driver))
    for target in targets.split():
        assert [c.name for c in select(made, target)] == ["/kubepods/burstable"]
    assert names(planned(pod("burstable"), pod("web")), "burstable")[0] == "default/burstable:pod"
    with pytest.raises(BadInput):
        select(made, "")


def test_what_another_namespace_has_is_no_suggestion() -> None:
    made = planned(pod("web"), pod("job", metadata={"namespace": "shop"}))
    with pytest.raises(BadInput, match=r"'web' in namespace nope \(namespaces: default, shop\)"):
        select(made, "web", "nope")
    with pytest.raises(BadInput, match=r"'web' in namespace shop \(there are job, shop/job"):
        select(made, "web", "shop")


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
def test_a_cgroup_that_no_status_names_leads_to_the_sandbox(driver: str) -> None:
    made = planned(
        pod("web"),
        pod("job"),
        flags=Flags(cgroup_driver=driver, runtime="containerd-2.1.4/runc-1.3.0"),
    )
    (above, sandbox) = (
        next(one for one in select(made, "web") if one.level == level)
        for level in ("pod", "sandbox")
    )
    for file in ("", "/cpu.weight"):
        with pytest.raises(BadInput) as found:
            select(made, f"/sys/fs/cgroup{above.path}/cri-containerd-{'0' * 64}.scope{file}")
        assert found.value.hint.endswith(f"the sandbox of default/web is {sandbox.name}")
    assert select(made, sandbox.name) == [sandbox]
