"""What ``run`` wants, as its manifests come, change and go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qoslet.agent.desired_state import SLICE, ManifestSource
from qoslet.agent.ports import DesiredState, Source
from qoslet.core.api.documents import value_document
from qoslet.core.api.ids import generated_uid
from qoslet.core.api.manifest import Options
from qoslet.core.api.manifest_set import FileChange
from qoslet.core.node.node import Node
from qoslet.core.problem import Problem
from qoslet.core.quantity import parse
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.core.workload.security.context import ProcessRights
from qoslet.errors import BadInput
from tests.core.vectors.fixtures import node_of

ROOT = ProcessRights(0, 0, True)
BROKEN = BadInput("broken YAML", where="f.yaml", hint="mend it")


class Given:
    """Files that a test says."""

    def __init__(self) -> None:
        self.waiting: list[FileChange] = []
        self.faults: list[BadInput] = []
        self.said: list[Problem] = []
        self.woken = 0

    def say(self, file: str, *pods: dict[str, Any], given: bool = False) -> None:
        documents = tuple(value_document(pod, file, 0) for pod in pods)
        self.waiting.append(FileChange(file, (0, file), documents, given))

    def broken(self, file: str, *, given: bool = False) -> None:
        self.waiting.append(FileChange(file, (0, file), (BROKEN,), given))

    def gone(self, file: str) -> None:
        self.waiting.append(FileChange(file, (0, file), None))

    def changes(self) -> list[FileChange]:
        found, self.waiting = self.waiting, []
        return found

    def rows(self) -> list[Problem]:
        return self.said

    def follows(self, file: str) -> bool:
        return True

    def descriptors(self) -> list[int]:
        return [7]

    def wake(self, seconds: float = 0.0) -> None:
        self.woken += 1


def pod(name: str, uid: str = "", cpu: str = "100m", **more: Any) -> dict[str, Any]:
    container = {"name": "c", "command": ["true"], "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, **({"uid": uid} if uid else {})}
    spec = {"containers": [{**container, **more.pop("container", {})}], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def here(**kubelet: Any) -> Node:
    capacity = {"cpu": "8", "memory": "8Gi"}
    host = {"cpus": "0-7"}
    return node_of("1.36", capacity=capacity, host=host, runtime="process", **kubelet)


def made(files: Given, node: Node | None = None, **more: Any) -> ManifestSource:
    return ManifestSource(files, Options(), node or here(), ROOT, **more)


def uid(name: str) -> str:
    return generated_uid("default", name)


def errors(desired: DesiredState) -> list[str]:
    return [f"{row.where}: {row.message}" for row in desired.problems if row.severity == "error"]


def told(desired: DesiredState) -> tuple[set[str], set[str]]:
    """What changed and what is gone."""
    return set(desired.changed), set(desired.removed)


def test_it_is_the_loops_source() -> None:
    source: Source = made(Given())
    assert source.descriptors() == [7]


def test_many_pods_at_once_are_planned_in_slices_and_none_is_lost_meanwhile() -> None:
    """Between two slices the loop gives signs of life; a pod that moves between files stays."""
    files, now = Given(), [0.0]

    def monotonic() -> float:
        now[0] += SLICE / 3
        return now[0]

    files.say("a", pod("kept"))
    source = made(files, monotonic=monotonic)
    assert set(source.current().pods) == {uid("kept")}
    names = [f"p{number}" for number in range(7)]
    files.say("a", *map(pod, names))
    files.say("b", pod("kept", cpu="200m"))
    seen = []
    for turn in range(1, 10):
        desired = source.current()
        assert uid("kept") in desired.pods
        assert not desired.removed
        seen.append(len(desired.pods))
        if files.woken < turn:
            break
    assert seen == [4, 7, 8]
    assert desired.pods[uid("kept")].manifest == "b"


def test_a_pod_that_goes_before_it_is_planned_does_not_come() -> None:
    files, now = Given(), [0.0]

    def monotonic() -> float:
        now[0] += SLICE
        return now[0]

    source = made(files, monotonic=monotonic)
    files.say("a", pod("a"), pod("b"))
    assert set(source.current().pods) == {uid("a")}
    files.gone("a")
    assert not source.current().pods
    assert not source.current().pods


def test_pods_come_change_and_go() -> None:
    files = Given()
    files.say("a", pod("web"))
    source = made(files)
    first = source.current()
    assert (first.version, set(first.changed), set(first.removed)) == (1, {uid("web")}, set())
    wanted = first.pods[uid("web")]
    assert (wanted.pod.key, wanted.manifest, wanted.grace_seconds) == ("default/web", "a", 30.0)
    assert wanted.spec.launches[0].argv == ("true",)
    assert [group.level for group in wanted.planned.groups] == ["pod", "container"]
    assert wanted.planned == first.plan.groups(uid("web"))

    again = source.current()
    assert (again.version, *told(again)) == (1, set(), set())
    assert again.pods == first.pods

    files.say("a", pod("web", cpu="200m"))
    files.say("b", pod("db", terminationGracePeriodSeconds=5))
    second = source.current()
    assert second.version == 2
    assert second.changed == {uid("web"), uid("db")}
    assert second.pods[uid("db")].grace_seconds == 5.0
    assert second.pods[uid("web")].spec == wanted.spec
    assert second.pods[uid("web")].planned != wanted.planned
    assert first.pods[uid("web")] is wanted, "an earlier answer stays as it was"

    files.gone("a")
    third = source.current()
    assert told(third) == (set(), {uid("web")})
    assert list(third.pods) == [uid("db")]


def test_a_pod_counts_until_the_loop_drops_it() -> None:
    files = Given()
    files.say("a", pod("web"))
    source = made(files)
    before = source.current().plan.upper()
    files.gone("a")
    desired = source.current()
    assert desired.plan.upper() == before
    desired.plan.remove(uid("web"))
    assert desired.plan.upper() != before


def test_what_is_read_again_unchanged_changes_nothing() -> None:
    files = Given()
    files.say("a", pod("web"), pod("db"))
    source = made(files)
    source.current()
    files.say("a", pod("db"), pod("web"))
    desired = source.current()
    assert told(desired) == (set(), set())


def test_a_pod_that_moves_to_another_file_stays() -> None:
    files = Given()
    files.say("a", pod("web"))
    source = made(files)
    before = source.current().pods[uid("web")]
    files.gone("a")
    files.say("b", pod("web"))
    desired = source.current()
    after = desired.pods[uid("web")]
    assert desired.removed == frozenset()
    assert after.manifest == "b"
    assert after.spec.digest() == before.spec.digest()
    assert [g.settings for g in after.planned.groups] == [g.settings for g in before.planned.groups]


def test_a_broken_file_keeps_its_pods_and_gives_a_row() -> None:
    files = Given()
    files.say("a", pod("web"))
    source = made(files)
    before = source.current()
    files.broken("a")
    files.broken("b")
    files.say("c", pod("db"))
    desired = source.current()
    assert told(desired) == ({uid("db")}, set())
    assert desired.pods[uid("web")] is before.pods[uid("web")]
    assert errors(desired) == ["f.yaml: broken YAML"] * 2
    files.gone("b")
    files.say("a", pod("web"))
    desired = source.current()
    assert desired.changed == frozenset()
    assert errors(desired) == []
    assert desired.version == 3


def test_another_uid_is_another_pod() -> None:
    files = Given()
    files.say("a", pod("web", "one"))
    source = made(files)
    assert set(source.current().pods) == {"one"}
    files.say("a", pod("web", "two"))
    assert told(source.current()) == ({"two"}, {"one"})
    files.say("a", pod("web", "three"))
    assert told(source.current()) == ({"three"}, {"two"})


def test_the_second_file_takes_the_place_of_the_first() -> None:
    files = Given()
    files.say("b", pod("web"))
    files.say("a", pod("web", cpu="200m"))
    source = made(files)
    desired = source.current()
    assert desired.pods[uid("web")].manifest == "a"
    assert errors(desired) == [
        "b: Pod default/web: metadata.name: default/web is also in a, which takes precedence"
    ]
    files.gone("a")
    desired = source.current()
    assert told(desired) == ({uid("web")}, set())
    assert desired.pods[uid("web")].manifest == "b"
    assert errors(desired) == []


def test_a_pod_that_may_not_run_is_wanted_without_groups() -> None:
    files = Given()
    files.say("a", pod("web", hostPID=False), pod("image", container={"command": []}))
    source = made(files)
    desired = source.current()
    refused = desired.pods[uid("image")]
    assert not refused.spec.runnable
    assert (refused.planned.groups, refused.planned.qos) == ((), "Burstable")
    assert refused.planned.pod == refused.pod
    assert uid("image") not in source.live
    assert any("no command" in line for line in errors(desired))
    assert desired.plan.plan().pods[0].pod.name == "web"

    files.say("a", pod("web"), pod("image"))
    desired = source.current()
    assert uid("image") in desired.changed
    assert desired.pods[uid("image")].planned.groups


def test_what_kubectl_debug_adds_to_a_pod_is_not_run() -> None:
    files = Given()
    debugger = {"name": "debugger", "image": "busybox", "targetContainerName": "c"}
    files.say("a", pod("web", ephemeralContainers=[debugger]))
    wanted = made(files).current().pods[uid("web")]
    planned = [one.container.name for one in wanted.planned.groups if one.container is not None]
    assert planned == [launch.name for launch in wanted.spec.launches] == ["c"]
    assert any("spec.ephemeralContainers[0]" in row.message for row in wanted.spec.problems)


def test_a_running_pod_that_may_not_run_any_more_counts_until_it_is_dropped() -> None:
    files = Given()
    files.say("a", pod("web"))
    source = made(files)
    source.current()
    files.say("a", pod("web", container={"command": []}))
    desired = source.current()
    assert desired.changed == {uid("web")}
    assert desired.pods[uid("web")].planned.groups == ()
    assert uid("web") in source.live


def test_pods_whose_cpus_change_with_another_have_changed() -> None:
    files = Given()
    whole = {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
    files.say("a", pod("shares"), pod("image", container={"command": []}))
    source = made(files, here(cpu_manager_policy="static", kube_reserved={"cpu": parse("1")}))
    shared = source.current().pods[uid("shares")].planned
    files.say("b", pod("takes", container=whole))
    desired = source.current()
    assert desired.changed == {uid("takes"), uid("shares")}
    assert desired.pods[uid("shares")].planned != shared
    assert desired.pods[uid("takes")].planned.others == frozenset()


def test_a_uid_stays_with_the_pod_that_runs() -> None:
    files = Given()
    files.say("b", pod("web", "u1"))
    source = made(files)
    assert source.current().pods["u1"].pod.name == "web"
    files.say("a", pod("db", "u1"))
    desired = source.current()
    assert (desired.pods["u1"].pod.name, told(desired)) == ("web", (set(), set()))
    assert errors(desired) == [
        "a: Pod default/db: metadata.uid: u1 is also the UID of default/web, in b"
    ]
    files.gone("b")
    assert source.current().pods["u1"].pod.name == "db"


class Store:
    """Assignments that nobody made."""

    def read(self) -> dict[str, bytes]:
        return {}

    def write(self, contents: Mapping[str, bytes]) -> bool:
        return True


def test_so_it_does_under_the_next_agent() -> None:
    """Which reads all files anew, and learns what runs from the runtime."""
    files = Given()
    files.say("a", pod("db", "u1"), pod("other"))
    files.say("b", pod("web", "u1"))
    source = made(files)
    source.take_up(
        Store(),
        "/state",
        {
            uid: RuntimePod(uid, key, "", 1.0, {})
            for uid, key in (("u1", "default/web"), ("gone", "default/gone"))
        },
    )
    desired = source.current()
    assert desired.pods["u1"].pod.name == "web"
    assert desired.plan.groups("u1").pod.name == "web"
    assert len(desired.pods) == 2
    assert any("default/db: metadata.uid" in line for line in errors(desired))
