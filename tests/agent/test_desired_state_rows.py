"""What the desired state says of nodes, files and pods, and a real directory."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from qoslet.agent.desired_state import ManifestSource
from qoslet.agent.ports import DesiredPod, DesiredState
from qoslet.core.api.ids import generated_uid
from qoslet.core.api.manifest import Options
from qoslet.core.problem import Problem
from qoslet.core.quantity import parse
from qoslet.errors import BadInput, BadInputs
from qoslet.host.files.watched_manifests import ManifestFiles
from tests.agent.test_desired_state import ROOT, Given, errors, here, made, pod, uid


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


def test_rows_are_put_together_once_when_somebody_asks() -> None:
    files = Given()
    source = made(files)
    files.say("a", pod("web", cpu="100"))
    called: list[str] = []

    def follow(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals["__name__"] == "qoslet.core.plan.problems":
            called.append(frame.f_code.co_name)

    sys.setprofile(follow)
    try:
        desired = source.current()
        before = called.count("node_problems")
        rows = desired.problems
    finally:
        sys.setprofile(None)
    assert desired.changed == {uid("web")}
    assert (before, called.count("node_problems")) == (0, 1)
    assert any(row.message.startswith("the pods request 100 cpu") for row in rows)
    assert desired.problems is rows
    assert source.current().problems is rows


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
