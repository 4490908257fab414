"""Pod-level resources are defaulted as the API server does, by release.

Source: k8s.io/kubernetes pkg/apis/core/v1/defaults.go (defaultHugePagePodLimits, defaultPodRequests,
defaultPodLimits); PRs 130577, 131089 and 140514.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from qoslet.core.api.documents import json_documents
from qoslet.core.api.manifest import Options, pods_from
from qoslet.core.api.pod import Pod
from qoslet.core.api.pod_level_resources import DefaultingRules, default_pod_level
from qoslet.core.plan.plan import plan
from qoslet.core.quantity import canonical
from tests.core.vectors.fixtures import files, node_of

GI = 1 << 30


def container(name: str, **limits: str) -> dict[str, Any]:
    amounts = {key.replace("_", "-"): value for key, value in limits.items()}
    return {"name": name, "resources": {"limits": amounts} if amounts else {}}


def document(
    *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **resources: Any
) -> dict[str, Any]:
    spec = {"containers": list(containers), "initContainers": list(init), "resources": resources}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def loaded(*containers: dict[str, Any], **more: Any) -> Pod:
    text = json.dumps(document(*containers, **more)).encode()
    result = pods_from(json_documents(text, "f.json"), Options())
    assert [str(fault) for fault in result.faults] == []
    return result.pods[0]


def texts(pod: Pod, side: str) -> dict[str, str]:
    assert pod.resources is not None
    return {name: canonical(amount) for name, amount in getattr(pod.resources, side).items()}


BOTH = {"cpu": "2", "memory": "1Gi"}


def test_a_hugepage_limit_is_what_the_containers_have_together_for_every_size() -> None:
    pod = loaded(
        container("a", cpu="1", hugepages_2Mi="512Mi", hugepages_1Gi="1Gi"),
        container("b", cpu="1", hugepages_2Mi="512Mi"),
        container("c"),
        init=(container("i", cpu="1", hugepages_64Ki="64Ki", hugepages_2Mi="2Gi"),),
        limits=BOTH,
    )
    pages = {"hugepages-2Mi": "2Gi", "hugepages-1Gi": "1Gi", "hugepages-64Ki": "64Ki"}
    assert texts(pod, "limits") == {**BOTH, **pages}
    assert texts(pod, "requests") == {"cpu": "2", "memory": "1Gi", **pages}
    assert set(pages) <= set(pod.defaulted)
    assert pod.written is not None
    assert set(pod.written.limits) == {"cpu", "memory"}


def test_a_given_hugepage_limit_stays_and_other_sizes_are_filled() -> None:
    pod = loaded(
        container("a", cpu="1", hugepages_2Mi="2Mi", hugepages_1Gi="1Gi"),
        limits={"cpu": "2", "hugepages-2Mi": "8Mi"},
    )
    assert texts(pod, "limits") == {"cpu": "2", "hugepages-2Mi": "8Mi", "hugepages-1Gi": "1Gi"}


def test_requests_alone_get_hugepage_limits_and_then_what_limits_bring() -> None:
    pod = loaded(container("a", memory="1Mi", hugepages_2Mi="2Mi"), requests={"cpu": "1"})
    assert texts(pod, "limits") == {"hugepages-2Mi": "2Mi"}
    assert texts(pod, "requests") == {"cpu": "1", "memory": "1Mi", "hugepages-2Mi": "2Mi"}


def test_an_empty_field_and_an_absent_one_get_nothing() -> None:
    huge = container("a", cpu="1", hugepages_2Mi="2Mi")
    assert texts(loaded(huge), "limits") == {}
    bare = document(huge)
    del bare["spec"]["resources"]
    (pod,) = pods_from(json_documents(json.dumps(bare).encode(), "f"), Options()).pods
    assert pod.resources is pod.written is None


def test_a_hugepage_request_needs_a_limit_somewhere() -> None:
    text = json.dumps(document(container("a"), requests={"cpu": "1", "hugepages-2Mi": "2Mi"}))
    (fault,) = pods_from(json_documents(text.encode(), "f.json"), Options()).faults
    assert fault.where.endswith("spec.resources.requests.hugepages-2Mi")
    assert "has no limit" in fault.message


def settings(pod: Pod, release: str, **gates: bool) -> dict[str, dict[str, str]]:
    node = node_of(
        release,
        capacity={"cpu": "8", "memory": "32Gi", "hugepages-1Gi": "4Gi", "hugepages-2Mi": "4Gi"},
        host={"hugepage_sizes": (2 << 20, GI)},
        gates={"PodLevelResources": True, **gates},
    )
    made = plan([pod], node)
    return {
        group.name.rpartition("/")[2]: files(group.settings)
        for group in made.cgroups
        if group.pod is not None
    }


@pytest.mark.parametrize(
    ("release", "pages"), [("1.33", 0), ("1.34", GI), ("1.36", GI), ("1.37", GI)]
)
def test_a_container_without_hugepages_gets_those_of_the_pod(release: str, pages: int) -> None:
    pod = loaded(
        container("a", cpu="1", memory="512Mi", hugepages_2Mi="512Mi", hugepages_1Gi="1Gi"),
        container("b", cpu="1", memory="512Mi", hugepages_2Mi="512Mi"),
        container("c"),
        limits={"cpu": "2", "memory": "2Gi"},
    )
    found = settings(pod, release)
    assert found["c"]["hugetlb.2MB.max"] == found["c"]["hugetlb.1GB.max"] == str(pages)
    assert found["b"]["hugetlb.2MB.max"] == str(GI // 2)
    assert found["b"]["hugetlb.1GB.max"] == str(pages)
    assert found[f"pod{pod.uid}"]["hugetlb.2MB.max"] == str(GI)


@pytest.mark.parametrize(
    ("containers", "limits"),
    [
        ([container("a", cpu="1", memory="1Gi"), container("b", cpu="1")], {"cpu": "2"}),
        ([container("a", cpu="1"), container("b", memory="1Gi")], {}),
        ([container("a")], {}),
    ],
)
def test_from_137_limits_are_filled_where_every_container_has_one(
    containers: list[dict[str, Any]], limits: dict[str, str]
) -> None:
    pod = loaded(*containers, requests=BOTH)
    assert texts(pod, "limits") == {}
    assert pod.written is not None
    made, filled = default_pod_level(pod.written, pod.containers, DefaultingRules(limits=True))
    assert {name: canonical(amount) for name, amount in made.limits.items()} == limits
    assert filled == ()


def test_the_class_follows_from_the_defaults_of_the_release() -> None:
    pod = loaded(container("a", cpu="2", memory="1Gi"), requests=BOTH)
    for release, group in (("1.36", "/kubepods/burstable/"), ("1.37", "/kubepods/")):
        node = node_of(release, capacity={"cpu": "8", "memory": "32Gi"})
        names = {cgroup.name for cgroup in plan([pod], node).cgroups}
        assert f"{group}pod{pod.uid}" in names, release
