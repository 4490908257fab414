"""Faults of manifests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.api.test_manifest import (
    TEMPLATE,
    UID,
    asks,
    container,
    faults_of,
    loaded,
    pod,
    pods_of,
    workload,
)

LONG = "a" * 64
C = "f.json: Pod default/web: spec.containers[0]"
R = f"{C}.resources"


def one(**resources: Any) -> dict[str, Any]:
    return pod("web", container(resources=resources))


BAD: list[tuple[str, Any, str, str]] = [
    ("no kind", {"apiVersion": "v1"}, "f.json: kind", "is missing"),
    ("no apiVersion", {"kind": "Pod"}, "f.json: apiVersion", "is missing"),
    ("kind is a number", {"apiVersion": "v1", "kind": 1}, "f.json: kind", "must be a string"),
    ("unknown kind", pod() | {"kind": "Pud"}, "f.json: Pud default/web", "did you mean Pod?"),
    (
        "foreign group",
        workload("Deployment", TEMPLATE) | {"apiVersion": "app/v1"},
        "f.json: Deployment default/web",
        "apps/v1",
    ),
    ("wrong version", pod() | {"apiVersion": "v2"}, "f.json: Pod default/web", "has apiVersion v1"),
    ("only others", {"apiVersion": "v1", "kind": "Secret"}, "-f", "f.json skipped"),
    ("Kind", {"apiVersion": "v1", "Kind": "Pod"}, "f.json: kind", "Kind: did you mean kind?"),
    (
        "container",
        pod() | {"spec": {"container": []}},
        "spec.containers",
        "container: did you mean containers?",
    ),
    (
        "only init containers",
        pod() | {"spec": {"initContainers": [container()]}},
        "spec.containers",
        "a pod needs at least one container",
    ),
    (
        "container's name",
        pod("web", {"nam": "c"}),
        "spec.containers[0].name",
        "nam: did you mean name?",
    ),
    ("specs", {**pod(), "spec": None, "specs": {}}, "spec", "specs: did you mean spec?"),
    (
        "templates",
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
        | {"spec": {"templates": {}}},
        "spec.template",
        "templates: did you mean template?",
    ),
    ("only a node", {"apiVersion": "v1", "kind": "Node"}, "-f", "--node"),
    ("an array", [pod()], "f.json", "must be an object, is an array"),
    ("items missing", {"apiVersion": "v1", "kind": "List"}, "f.json: items", "is missing"),
    (
        "items no array",
        {"apiVersion": "v1", "kind": "List", "items": {}},
        "f.json: items",
        "must be an array",
    ),
    (
        "item no object",
        {"apiVersion": "v1", "kind": "List", "items": [7]},
        "f.json: items[0]",
        "must be an object, is a number",
    ),
    (
        "item without kind",
        {"apiVersion": "v1", "kind": "List", "items": [{"metadata": {"name": "x"}}]},
        "f.json: items[0]: kind",
        "is missing",
    ),
    ("no name", pod(""), "f.json: metadata.name", "is missing"),
    ("name is a number", pod(metadata={"name": 7}), "f.json: metadata.name", "put it in quotes"),
    ("name with a slash", pod("a/b"), "f.json: Pod default/a/b: metadata.name", "not a DNS name"),
    ("name of dots", pod(".."), "f.json: Pod default/..: metadata.name", "not a DNS name"),
    ("name with NUL", pod("a\0b"), "f.json: Pod default/a\\x00b: metadata.name", "not a DNS name"),
    ("name in capitals", pod("Web"), "f.json: Pod default/Web: metadata.name", "lowercase"),
    ("bad namespace", pod(metadata={"namespace": "a.b"}), "metadata.namespace", "not a DNS label"),
    ("escape in a name", pod("a\x1b[31m"), "\\x1b[31m: metadata.name", "\\x1b"),
    ("uid with a slash", pod(metadata={"uid": "a/b"}), "metadata.uid", "cannot name a cgroup"),
    ("uid of dots", pod(metadata={"uid": "a..b"}), "metadata.uid", "cannot name a cgroup"),
    ("uid with NUL", pod(metadata={"uid": "a\0b"}), "metadata.uid", "cannot name a cgroup"),
    ("uid with _", pod(metadata={"uid": "a_b"}), "metadata.uid", "panics on _"),
    ("uid with @", pod(metadata={"uid": "a@b"}), "metadata.uid", "cannot name a cgroup"),
    ("uid with %", pod(metadata={"uid": "%i"}), "metadata.uid", "cannot name a cgroup"),
    ("long uid", pod(metadata={"uid": "a" * 253}), "metadata.uid", "at most 252"),
    (
        "no spec",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}},
        "spec",
        "missing",
    ),
    ("no containers", pod(spec={"containers": []}), "spec.containers", "missing or empty"),
    ("containers no array", pod(spec={"containers": {}}), "spec.containers", "must be an array"),
    (
        "container no object",
        pod("web", "c"),
        "spec.containers[0]",
        "must be an object, is a string",
    ),
    ("container unnamed", pod("web", {}), f"{C}.name", "is missing"),
    ("container name", pod("web", container("a_b")), f"{C}.name", "not a DNS label"),
    ("container name long", pod("web", container(LONG)), f"{C}.name", "at most 63"),
    ("container path", pod("web", container("../x")), f"{C}.name", "not a DNS label"),
    (
        "container twice",
        pod(spec={"initContainers": [container()]}),
        f"{C}.name",
        "'c' is also the name of spec.initContainers[0]",
    ),
    ("annotation number", pod(metadata={"annotations": {"a": 1}}), "annotations.a", "quotes"),
    ("bad node name", pod(spec={"nodeName": "a/b"}), "spec.nodeName", "not a DNS name"),
    ("os without a name", pod(spec={"os": {}}), "spec.os.name", "is missing"),
    ("bad os", pod(spec={"os": {"name": "plan9"}}), "spec.os.name", "linux, windows"),
    ("priority text", pod(spec={"priority": "1"}), "spec.priority", "whole number, is a string"),
    ("phase", pod(status={"phase": "Done"}), "status.phase", "known are Pending"),
    ("qos class", pod(status={"qosClass": "Best"}), "status.qosClass", "known are Guaranteed"),
    (
        "container id",
        pod(status={"containerStatuses": [{"name": "c", "containerID": "x://../a"}]}),
        "status.containerStatuses[0].containerID",
        "not a container ID",
    ),
    (
        "isolation",
        pod(metadata={"annotations": {"experimental.windows.kubernetes.io/isolation-type": "vm"}}),
        "metadata.annotations[experimental.windows.kubernetes.io/isolation-type]",
        "process, hyperv",
    ),
    ("resources a list", pod("web", container(resources=[])), R, "must be an object, is an array"),
    ("misspelt field", one(request={"cpu": 1}), f"{R}.request", "did you mean requests?"),
    ("limits a list", one(limits=["cpu"]), f"{R}.limits", "must be an object, is an array"),
    ("no digits", one(limits={"memory": "Ki"}), f"{R}.limits.memory", "'Ki' has no digits"),
    ("only a dot", one(limits={"memory": "."}), f"{R}.limits.memory", "'.' has no digits"),
    ("only a suffix", one(limits={"cpu": "m"}), f"{R}.limits.cpu", "'m' has no digits"),
    ("only a sign", one(limits={"cpu": "-"}), f"{R}.limits.cpu", "'-' has no digits"),
    ("empty", one(limits={"cpu": ""}), f"{R}.limits.cpu", "is empty"),
    ("boolean", one(limits={"cpu": True}), f"{R}.limits.cpu", "a quantity, is a boolean"),
    ("object", one(limits={"cpu": {}}), f"{R}.limits.cpu", "a quantity, is an object"),
    ("suffix", one(limits={"memory": "1mi"}), f"{R}.limits.memory", "did you mean Mi or M?"),
    ("bytes", one(limits={"memory": "1GB"}), f"{R}.limits.memory", "did you mean Gi or G?"),
    ("words", one(limits={"cpu": "two"}), f"{R}.limits.cpu", "write cores"),
    ("negative", one(limits={"cpu": -1}), f"{R}.limits.cpu", "-1 is negative (use 0 or more)"),
    ("negative bytes", one(limits={"memory": "-1Gi"}), f"{R}.limits.memory", "(use 0 or more)"),
    ("bytes overflow", one(limits={"memory": "10E"}), f"{R}.limits.memory", "overflows"),
    ("binary overflow", one(limits={"memory": "8Ei"}), f"{R}.limits.memory", "overflows"),
    ("cpu overflow", one(limits={"cpu": "10P"}), f"{R}.limits.cpu", "overflows"),
    ("exponent", one(limits={"cpu": "1e999999999"}), f"{R}.limits.cpu", "beyond"),
    (
        "above the limit",
        one(requests={"cpu": 2}, limits={"cpu": "1500m"}),
        f"{R}.requests.cpu",
        "2 is above the limit 1500m",
    ),
    (
        "thousandths of a byte",
        one(requests={"memory": "256M"}, limits={"memory": "512m"}),
        f"{R}.requests.memory",
        "did you mean 512Mi or 512M?",
    ),
    (
        "hugepages differ",
        one(requests={"hugepages-2Mi": "2Mi", "cpu": 1}, limits={"hugepages-2Mi": "4Mi"}),
        f"{R}.requests.hugepages-2Mi",
        "must equal the limit",
    ),
    (
        "hugepages without a limit",
        one(requests={"hugepages-2Mi": "2Mi", "cpu": 1}),
        f"{R}.requests.hugepages-2Mi",
        "has no limit",
    ),
    ("hugepages alone", one(limits={"hugepages-2Mi": "2Mi"}), R, "need a cpu or memory request"),
    (
        "hugepage size",
        one(limits={"hugepages-2X": "2Mi", "cpu": 1}),
        f"{R}.limits.hugepages-2X",
        "no valid page size",
    ),
    (
        "half a hugepage",
        one(limits={"hugepages-2Mi": "3Mi", "cpu": 1}),
        f"{R}.limits.hugepages-2Mi",
        "not a multiple",
    ),
    ("unknown resource", one(limits={"memry": 1}), f"{R}.limits.memry", "did you mean memory?"),
    ("pods", one(limits={"pods": 1}), f"{R}.limits.pods", "not a container resource"),
    (
        "resource name",
        one(limits={"a b/c": 1}),
        f"{R}.limits[a b/c]",
        "not a valid resource name",
    ),
    (
        "fraction of a device",
        one(limits={"x.io/gpu": "1500m"}),
        f"{R}.limits[x.io/gpu]",
        "must be a whole number",
    ),
    (
        "device without a limit",
        one(requests={"x.io/gpu": 1}),
        f"{R}.requests[x.io/gpu]",
        "has no limit",
    ),
    (
        "devices differ",
        one(requests={"x.io/gpu": 1}, limits={"x.io/gpu": 2}),
        f"{R}.requests[x.io/gpu]",
        "must equal",
    ),
    (
        "ephemeral container asks",
        pod(spec={"ephemeralContainers": [container("d", **asks({"cpu": 1}))]}),
        "spec.ephemeralContainers[0].resources",
        "not allowed",
    ),
    ("overhead", pod(spec={"overhead": {"cpu": "x"}}), "spec.overhead.cpu", "unknown suffix"),
    ("overhead type", pod(spec={"overhead": 3}), "spec.overhead", "must be an object"),
    (
        "pod-level storage",
        pod(spec=asks({"ephemeral-storage": 1})),
        "spec.resources.requests.ephemeral-storage",
        "cpu, memory and hugepages-* are",
    ),
    (
        "pod-level claims",
        pod(spec={"resources": {"claims": [{"name": "x"}]}}),
        "spec.resources.claims",
        "cannot have claims",
    ),
    (
        "pod-level request low",
        pod("web", container(**asks({"cpu": 2})), spec=asks({"cpu": 1})),
        "spec.resources.requests.cpu",
        "1 is below the 2 that containers request",
    ),
    (
        "pod-level limit low",
        pod("web", container(**asks({"cpu": 2})), spec=asks(None, {"cpu": 1})),
        "spec.resources.limits.cpu",
        "1 is below the 2 that containers request",
    ),
    (
        "container above the pod",
        pod("web", container(**asks({"cpu": 1}, {"cpu": 3})), spec=asks(None, {"cpu": 2})),
        f"{R}.limits.cpu",
        "3 is above the pod's own limit 2",
    ),
    (
        "watch event",
        {"type": "ADDED", "object": pod()},
        "f.json: kind",
        "it is an event of a watch",
    ),
    (
        "no template",
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {}},
        "f.json: Deployment default/web: spec.template",
        "is missing",
    ),
    (
        "fault in a template",
        workload("Deployment", {"spec": {"containers": [container(**asks({"cpu": "x"}))]}}),
        "Deployment default/web: spec.template.spec.containers[0].resources.requests.cpu",
        "unknown suffix",
    ),
    (
        "template of a cron job",
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "web"},
            "spec": {
                "jobTemplate": {
                    "spec": {"template": {"spec": {"containers": [{}], "restartPolicy": "Never"}}}
                }
            },
        },
        "spec.jobTemplate.spec.template.spec.containers[0].name",
        "is missing",
    ),
    ("replicas text", workload("Job", TEMPLATE, parallelism="2"), "spec.parallelism", "number"),
    (
        "owner references",
        pod(metadata={"ownerReferences": [{"kind": 1}]}),
        "metadata.ownerReferences[0].kind",
        "must be a string",
    ),
    ("priority", pod(spec={"priority": 2**31}), "spec.priority", "does not fit 32 bits"),
    ("priority fraction", pod(spec={"priority": 0.5}), "spec.priority", "a whole number"),
    ("replicas negative", workload("Deployment", TEMPLATE, replicas=-1), "replicas", "negative"),
]


@pytest.mark.parametrize(
    ("document", "where", "words"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad_input_is_one_line_with_its_place(document: Any, where: str, words: str) -> None:
    (fault,) = faults_of(document)
    assert fault.where.endswith(where)
    assert words in str(fault)
    assert str(fault).isprintable()
    assert fault.exit_code == 2


def test_all_faults_of_a_document_are_there_at_once() -> None:
    document = pod(
        "Web",
        container("a", resources={"limits": {"cpu": "x", "memory": -1}}),
        container("a", image=7, resources=[]),
        "c",
        metadata={"uid": "_", "annotations": {"n": 1}},
        spec={"priority": "high"},
    )
    places = {fault.where.rpartition(": ")[2] for fault in faults_of(document)}
    assert places == {
        "metadata.name",
        "metadata.uid",
        "metadata.annotations.n",
        "spec.priority",
        "spec.containers[0].resources.limits.cpu",
        "spec.containers[0].resources.limits.memory",
        "spec.containers[1].image",
        "spec.containers[1].name",
        "spec.containers[1].resources",
        "spec.containers[2]",
    }


def test_a_bad_item_spoils_no_other() -> None:
    items = [pod("a"), pod("b", "c"), pod("c"), {"kind": "X", "apiVersion": "v1"}]
    result = loaded({"apiVersion": "v1", "kind": "List", "items": items})
    assert [each.name for each in result.pods] == ["a", "c"]
    assert len(result.faults) == 2


def test_a_name_that_is_there_twice_names_both_places() -> None:
    (fault,) = faults_of(pod("a"), pod("b"), pod("a"))
    assert fault.where == "f.json: Pod default/a (f.json: document 3): metadata.name"
    assert fault.message == "default/a occurs twice in the input: also at f.json: document 1"


def test_a_pod_that_is_being_deleted_leaves_its_name_to_the_next() -> None:
    # so a kubelet lists them while the first still runs
    leaving = pod("a", metadata={"uid": "old", "deletionTimestamp": "2026-11-30T11:00:00Z"})
    for pair in ((leaving, pod("a")), (pod("a"), leaving)):
        assert len({one.uid for one in pods_of(*pair)}) == 2
    assert len(faults_of(leaving, pod("a"), pod("a"))) == 1


def test_the_same_name_in_another_namespace_is_another_pod() -> None:
    assert len(pods_of(pod("a"), pod("a", metadata={"namespace": "b"}))) == 2


def test_a_uid_that_is_there_twice_names_both_pods() -> None:
    meta = {"uid": UID}
    (fault,) = faults_of(pod("a", metadata=meta), pod("b", metadata=meta))
    assert fault.where == "f.json: Pod default/b: metadata.uid"
    assert fault.message == f"{UID} is also the UID of default/a, at f.json: document 1"


def test_expansion_is_bounded() -> None:
    document = workload("Deployment", TEMPLATE, replicas=10**12)
    (fault,) = faults_of(document, expand=True)
    assert fault.where == "f.json: Deployment default/web: spec.replicas"
    assert faults_of(document) == []


def test_a_faulty_status_counts_only_where_it_is_used() -> None:
    status = {"containerStatuses": [{"name": "c", "resources": {"limits": {"cpu": "x"}}}]}
    assert faults_of(pod(status=status)) == []
    (fault,) = faults_of(pod(status=status), allocated=True)
    assert fault.where.endswith("status.containerStatuses[0].resources.limits.cpu")
