"""Different objects whose pods would have one name: each pod has its own, whatever the order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.api.documents import Document, value_document
from qoslet.core.api.ids import generated_uid
from qoslet.core.api.manifest import Loaded, Options, pods_from
from qoslet.core.api.manifest_set import FileChange, ManifestSet
from qoslet.errors import BadInput

SPEC = {"containers": [{"name": "c"}]}
ENDING = {**SPEC, "restartPolicy": "Never"}
GROUPS = {"Job": "batch/v1", "CronJob": "batch/v1", "PodTemplate": "v1", "Pod": "v1"} | {
    "ReplicationController": "v1",
    "Rollout": "argoproj.io/v1alpha1",
    "Other": "example.com/v1",
}
TAGS = {
    "DaemonSet": "web-ds",
    "Job": "web-job",
    "CronJob": "web-cj",
    "ReplicaSet": "web-rs",
    "ReplicationController": "web-rc",
    "PodTemplate": "web-podtemplate",
    "StatefulSet": "web-0",
    "Rollout": "web-rollout",
}


def one(kind: str, name: str = "web", *, group: str = "", **spec: object) -> dict[str, object]:
    """An object; a name that ends in ``-`` is a generateName."""
    called = "generateName" if name.endswith("-") else "name"
    head: dict[str, object] = {"apiVersion": group or GROUPS.get(kind, "apps/v1"), "kind": kind}
    head |= {"metadata": {called: name}}
    if kind == "Pod":
        return head | {"spec": SPEC}
    if kind == "PodTemplate":
        return head | {"template": {"spec": SPEC}}
    if kind == "CronJob":
        return head | {"spec": {"jobTemplate": {"spec": {"template": {"spec": ENDING}}}}}
    if kind == "Job":
        return head | {"spec": {"template": {"spec": ENDING}, **spec}}
    return head | {"spec": {"template": {"spec": SPEC}, **spec}}


def documents(file: str, objects: Iterable[object]) -> list[Document | BadInput]:
    return [value_document(each, file, at) for at, each in enumerate(objects, 1)]


def read(*objects: object, expand: bool = False) -> Loaded:
    return pods_from(documents("a", objects), Options(expand=expand, keep_raw=True))


def names(loaded: Loaded) -> list[str]:
    assert loaded.faults == []
    return [pod.name for pod in loaded.pods]


@pytest.mark.parametrize("kind", TAGS)
def test_a_deployment_keeps_the_name_and_the_other_tells_its_kind(kind: str) -> None:
    deployment, other = one("Deployment"), one(kind)
    assert names(read(deployment, other)) == ["web", TAGS[kind]]
    loaded = read(other, deployment)
    assert names(loaded) == [TAGS[kind], "web"]
    for pod in loaded.pods:
        assert pod.uid == generated_uid("default", pod.name)
        assert loaded.raw[pod.uid]["metadata"]["name"] == pod.name
        assert loaded.raw[pod.uid]["metadata"]["uid"] == pod.uid
        assert loaded.templates[pod.uid].kind == (pod.controller or ("",))[0]
    assert names(read(other)) == ["web"]


def test_a_pod_keeps_its_name() -> None:
    assert names(read(one("Deployment"), one("StatefulSet"), one("Pod"))) == [
        "web-deploy",
        "web-0",
        "web",
    ]


def test_a_name_that_is_taken_is_not_given() -> None:
    found = names(read(one("StatefulSet"), one("Deployment"), one("Pod", "web-0")))
    assert found[1:] == ["web", "web-0"]
    assert found[0].startswith("web-")
    assert len(set(found)) == 3


def test_the_same_object_twice_is_a_fault_among_namesakes_too() -> None:
    loaded = read(one("Deployment"), one("StatefulSet"), one("StatefulSet"))
    (fault,) = loaded.faults
    assert fault.where == "a: StatefulSet default/web (a: document 3): metadata.name"
    assert "occurs twice" in fault.message
    beta = one("Deployment", group="extensions/v1beta1")
    assert len(read(one("Deployment"), beta).faults) == 1


def test_custom_resources_of_two_groups_are_two_objects() -> None:
    found = names(read(one("Rollout"), one("Rollout", group="example.com/v1"), one("Deployment")))
    assert found[0] == "web-rollout"
    assert found[2] == "web"
    assert len(set(found)) == 3


def test_documents_with_one_generate_name_are_numbered() -> None:
    assert names(read(*[one("Pod", "web-")] * 3)) == ["web", "web-2", "web-3"]
    assert names(read(*[one("Job", "web-")] * 2, one("Deployment"))) == ["web-job", "web-2", "web"]


def test_replicas_have_the_names_of_their_set() -> None:
    deployment, stateful = one("Deployment", replicas=2), one("StatefulSet", replicas=2)
    expected = ["web-deploy-0", "web-deploy-1", "web-0", "web-1"]
    assert names(read(deployment, stateful, expand=True)) == expected


def test_a_long_name_stays_one() -> None:
    long = "w" * 253
    for name in names(read(one("Deployment", long), one("StatefulSet", long))):
        assert len(name) <= 253


@pytest.mark.parametrize("kind", ["ÄÖ", "Under_Score", "X" * 300])
def test_a_kind_of_odd_letters_makes_a_name(kind: str) -> None:
    loaded = read(one("Deployment"), one(kind, group="example.com/v1"))
    assert all(name.replace("-", "").isalnum() and name.isascii() for name in names(loaded))
    assert len(names(loaded)[1]) < 30


def test_two_uids_that_are_one_stay_a_fault() -> None:
    twice = one("Pod", "web-") | {"metadata": {"generateName": "web-", "uid": "u"}}
    (fault,) = read(twice, twice).faults
    assert "is also the UID of" in fault.message


OBJECTS = st.builds(
    one,
    st.sampled_from(["Pod", "Deployment", "StatefulSet", "Job", "Rollout"]),
    st.sampled_from(["web", "web-", "web-0", "web-job"]),
)
FILES = st.dictionaries(st.sampled_from("abc"), st.lists(OBJECTS, max_size=3), max_size=3)


def of_all(files: dict[str, list[dict[str, object]]], order: Iterable[str]) -> dict[str, str]:
    every = itertools.chain.from_iterable(documents(name, files[name]) for name in order)
    return {pod.uid: pod.key for pod in pods_from(every, Options()).pods}


@settings(max_examples=150)
@given(st.lists(FILES, max_size=4))
def test_files_that_come_and_go_give_the_names_of_all_read_at_once(
    steps: list[dict[str, list[dict[str, object]]]],
) -> None:
    known = ManifestSet(Options())
    for files in steps:
        before = dict(known.entries)
        touched = known.apply(
            FileChange(name, (0, name), tuple(documents(name, files[name])))
            if name in files
            else FileChange(name, (0, name), None)
            for name in "abc"
        )
        whole = {name: files[name] for name in sorted(files) if not faulty(files[name])}
        kept = {uid: entry.pod.key for uid, entry in known.entries.items()}
        for uid, entry in known.entries.items():
            assert entry.document["metadata"]["name"] == entry.pod.name
            assert entry.document["metadata"]["uid"] == entry.pod.uid == uid
        both = before.keys() | known.entries
        assert touched == {u for u in both if before.get(u) != known.entries.get(u)}
        assert len(set(kept.values())) == len(kept)
        if len(whole) == len(files):
            assert kept == of_all(files, sorted(files)) == of_all(files, sorted(files)[::-1])


def faulty(objects: list[dict[str, object]]) -> bool:
    return bool(pods_from(documents("x", objects), Options()).faults) and bool(objects)


def test_another_file_renames_no_pod_that_has_its_name() -> None:
    known = ManifestSet(Options())

    def apply(file: str, *objects: object) -> set[str]:
        found = tuple(documents(file, objects)) if objects else None
        known.apply([FileChange(file, (0, file), found)])
        return {entry.pod.name for entry in known.entries.values()}

    assert apply("b", one("Deployment")) == {"web"}
    assert apply("c", one("StatefulSet")) == {"web", "web-0"}
    assert apply("a", one("DaemonSet")) == {"web", "web-0", "web-ds"}
    assert apply("a") == {"web", "web-0"}
    assert apply("0", one("Pod", "web-"), one("Pod", "web-")) >= {"web", "web-0", "web-2"}
    assert known.rows == ()
