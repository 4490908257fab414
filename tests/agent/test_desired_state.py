"""What ``run`` wants, as its manifests come, change and go."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qoslet.agent.desired_state import SLICE, ManifestSource
from qoslet.agent.ports import DesiredPod, DesiredState, Source
from qoslet.core.api.documents import value_document
from qoslet.core.api.ids import generated_uid
from qoslet.core.api.manifest import Options
from qoslet.core.api.manifest_set import FileChange
from qoslet.core.node.node import Node
from qoslet.core.problem import Problem
from qoslet.core.quantity import parse
from qoslet.core.workload.security.context import ProcessRights
from qoslet.errors import BadInput, BadInputs
from qoslet.host.files.watched_manifests import ManifestFiles
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


def test_another_uid_is_another_pod_that_waits_for_the_first() -> None:
    files = Given()
    files.say("a", pod("web", "one"))
    source = made(files)
    assert source.current().pods["one"].predecessors == frozenset()
    files.say("a", pod("web", "two"))
    desired = source.current()
    assert told(desired) == ({"two"}, {"one"})
    assert desired.pods["two"].predecessors == {"one"}
    files.say("a", pod("web", "three"))
    desired = source.current()
    assert desired.pods["three"].predecessors == {"one", "two"}
    desired.plan.remove("one")
    files.say("a", pod("web", "four"))
    assert source.current().pods["four"].predecessors == {"two", "three"}


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


def test_rows_about_paths_are_told_when_they_change() -> None:
    files = Given()
    source = made(files)
    assert source.current().version == 1
    files.said = [Problem("warning", "manifests", "not watched", "")]
    desired = source.current()
    assert (desired.version, desired.problems[0].message) == (2, "not watched")
    assert source.current().version == 2


def test_rows_are_those_of_node_files_pods_and_plan() -> None:
    files = Given()
    files.say("a", pod("web", cpu="100"))
    of_node = Problem("info", "node", "probed", "")
    desired = made(files, problems=(of_node,)).current()
    messages = [row.message for row in desired.problems]
    assert messages[0] == "probed"
    assert any(line.startswith("runs as plain processes") for line in messages)
    assert any(line.startswith("the pods request 100 cpu") for line in messages)


def test_only_an_error_of_the_node_makes_it_unsound() -> None:
    files = Given()
    files.say("a", pod("web", container={"command": []}), pod("db"))
    files.broken("b")
    source = made(files)
    assert len(errors(source.current())) == 2
    assert source.sound
    assert not made(Given(), problems=(Problem("error", "node", "none", ""),)).sound
    no_memory = here(kube_reserved={"memory": parse("8Gi")})
    assert not made(Given(), no_memory).sound


def test_a_directory_without_pods_is_told() -> None:
    files = Given()
    source = made(files)
    assert [row.message for row in source.current().problems] == ["no pods yet"]
    files.say("a", pod("web"))
    assert "no pods yet" not in [row.message for row in source.current().problems]


def test_another_node_plans_everything_anew() -> None:
    files = Given()
    files.say("a", pod("web"), pod("db"))
    source = made(files)
    before = source.current()
    source.configure(here(cgroups_per_qos=False))
    desired = source.current()
    assert desired.plan is not before.plan
    assert desired.version > before.version
    assert desired.changed == before.changed
    assert [group.level for group in desired.pods[uid("db")].planned.groups] == ["container"]
    assert desired.plan.node.kubelet.cgroups_per_qos is False


def test_documents_of_pods_are_there_while_they_are_wanted() -> None:
    files = Given()
    files.say("a", pod("web"))
    source = made(files)
    assert source.document(uid("web"))["spec"]["containers"][0]["name"] == "c"
    assert source.document("nobody") == {}


# --- what is an error at once -----------------------------------------------------------------


def test_a_fault_of_a_named_file_is_an_error_at_once() -> None:
    files = Given()
    files.broken("a", given=True)
    files.faults.append(BadInput("does not exist", where="b"))
    with pytest.raises(BadInputs) as caught:
        made(files)
    assert [fault.message for fault in caught.value.faults] == ["does not exist", "broken YAML"]


def test_a_fault_in_a_directory_is_a_row() -> None:
    files = Given()
    files.broken("a")
    assert errors(made(files).current()) == ["f.yaml: broken YAML"]


def test_named_files_without_any_pod_are_an_error_and_an_empty_directory_is_not() -> None:
    files = Given()
    files.say("a", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}, given=True)
    with pytest.raises(BadInputs, match="no pod in the input"):
        made(files)
    assert made(Given()).current().pods == {}


def test_a_fault_of_a_named_file_that_comes_later_is_a_row() -> None:
    files = Given()
    files.say("a", pod("web"), given=True)
    source = made(files)
    files.broken("a", given=True)
    desired = source.current()
    assert list(desired.pods) == [uid("web")]
    assert errors(desired) == ["f.yaml: broken YAML"]


# --- with real files --------------------------------------------------------------------------


@pytest.fixture
def real(tmp_path: Path) -> Iterator[tuple[Path, ManifestSource]]:
    files = ManifestFiles([str(tmp_path)], time.monotonic)
    yield tmp_path, ManifestSource(files, Options(), here(), ROOT)
    files.close()


def put(folder: Path, name: str, cpu: str) -> None:
    text = (
        "apiVersion: v1\nkind: Pod\n"
        f"metadata: {{name: {name}}}\n"
        "spec: {containers: [{name: c, command: [sleep, inf], "
        f"resources: {{requests: {{cpu: {cpu}}}}}}}]}}\n"
    )
    (folder / f".{name}").write_text(text)
    os.rename(folder / f".{name}", folder / f"{name}.yaml")


def request(wanted: DesiredPod) -> str:
    return str(wanted.pod.containers[0].resources.requests["cpu"])


def test_a_directory_is_followed(real: tuple[Path, ManifestSource]) -> None:
    folder, source = real
    assert source.current().pods == {}
    for number in range(20):
        put(folder, f"p{number}", f"{number + 1}m")
    assert len(source.current().changed) == 20
    for number in range(20):
        put(folder, f"p{number}", f"{number + 100}m")
        desired = source.current()
        assert desired.changed == {uid(f"p{number}")}
        assert request(desired.pods[uid(f"p{number}")]) == f"{number + 100}m"
    for number in range(20):
        (folder / f"p{number}.yaml").unlink()
    desired = source.current()
    assert len(desired.removed) == 20
    assert desired.pods == {}


def test_churn_leaves_nothing_behind(real: tuple[Path, ManifestSource]) -> None:
    folder, source = real
    for number in range(300):
        put(folder, f"p{number}", f"{number + 1}m")
        desired = source.current()
        (folder / f"p{number}.yaml").unlink()
        desired = source.current()
        for gone in desired.removed:
            desired.plan.remove(gone)
    assert source.current().pods == {}
    assert source.live.uids == ()
    assert source.live.planner.templates.count == 0


def test_it_says_which_files_cannot_be_read() -> None:
    files = Given()
    files.say("/m/a.yaml", pod("a"))
    files.broken("/m/b.yaml")
    files.broken("/n/c.yaml")
    source = made(files)
    unread = source.current().unread
    assert unread.fault_of("/m/b.yaml") == "/m/b.yaml"
    assert unread.fault_of("/m/a.yaml") == "", "it was read"
    assert unread.fault_of("/m/z.yaml") == "", "it is gone from a directory that was read"
    assert unread.fault_of("/n/z.yaml") == ""
    assert unread.fault_of("") == "/m/b.yaml", "who knows where it comes from"
    assert unread.fault_of("/elsewhere/z.yaml") == "/m/b.yaml"
    files.say("/m/b.yaml", pod("b"))
    files.gone("/n/c.yaml")
    assert source.current().unread.fault_of("") == ""


def test_a_file_that_is_being_written_when_the_agent_starts_is_not_read_yet(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    with file.open("w"):
        files = ManifestFiles([str(tmp_path)], time.monotonic)
        source = ManifestSource(files, Options(), here(), ROOT)
        assert source.current().unread.fault_of(str(file)) == str(file)
    files.close()


def test_a_directory_that_may_not_be_read_any_more_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir(mode=0o755)
    clock = [0.0]
    files = ManifestFiles([str(folder)], lambda: clock[0], strict=True)
    source = ManifestSource(files, Options(), here(), ROOT)
    folder.chmod(0o777)
    clock[0] += 100.0
    assert source.current().unread.fault_of(f"{folder}/a.yaml") == str(folder)
    folder.chmod(0o755)
    clock[0] += 100.0
    assert source.current().unread.fault_of(f"{folder}/a.yaml") == ""
    folder.rmdir()
    clock[0] += 100.0
    assert source.current().unread.fault_of(f"{folder}/a.yaml") == str(folder), "it may come back"
    files.close()


def with_variable(name: str, namespace: str = "default") -> dict[str, Any]:
    """A pod with a variable from the key ``k`` of ConfigMap ``c``."""
    made = pod(name)
    made["metadata"]["namespace"] = namespace
    source = {"configMapKeyRef": {"name": "c", "key": "k"}}
    made["spec"]["containers"][0]["env"] = [{"name": "A", "valueFrom": source}]
    return made


def config(text: str, namespace: str = "default") -> dict[str, Any]:
    """ConfigMap ``c``."""
    meta = {"name": "c", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": text}}


def variable(desired: DesiredState, name: str) -> str | None:
    spec = desired.pods[generated_uid("default", name)].spec
    return None if spec.unmet else dict(spec.launches[0].env)["A"]


def test_pods_change_with_the_config_map_that_they_name_and_no_others() -> None:
    files = Given()
    files.say("a.yaml", with_variable("a"), pod("b"))
    files.say("c.yaml", with_variable("c", "other"))
    source = made(files)
    first = source.current()
    assert first.pods[generated_uid("default", "a")].spec.unmet
    assert [row.severity for row in first.problems if "not found" in row.message] == ["warning"] * 2
    files.say("z.yaml", config("1"))
    second = source.current()
    assert (variable(second, "a"), set(second.changed)) == ("1", {generated_uid("default", "a")})
    digest = second.pods[generated_uid("default", "a")].spec.digest()
    files.say("z.yaml", config("2"))
    third = source.current()
    assert (variable(third, "a"), set(third.changed)) == ("2", {generated_uid("default", "a")})
    assert third.pods[generated_uid("default", "a")].spec.digest() == digest
    files.say("z.yaml", config("2"), config("3", "elsewhere"))
    assert source.current().changed == frozenset()
    files.broken("z.yaml")
    assert variable(source.current(), "a") == "2", "a bad edit does not count"
    files.gone("z.yaml")
    assert variable(source.current(), "a") is None
