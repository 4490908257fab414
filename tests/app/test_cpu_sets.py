"""Who has which CPUs outlives a run: taken up at the start, kept before anybody is put there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qoslet.agent.ports import DesiredPod
from qoslet.core.workload.pod_status import RuntimePod
from qoslet.errors import CannotDo
from qoslet.host.state.manager_checkpoint import ManagerFiles
from tests.agent.test_desired_state import Given, here, made, pod


def whole(name: str, cpu: str) -> dict[str, Any]:
    limits = {"cpu": cpu, "memory": "64Mi"}
    return pod(name, name, container={"resources": {"limits": limits}})


def static(**more: Any) -> Any:
    return here(cpu_manager_policy="static", reserved_system_cpus="0", **more)


def cpus(wanted: DesiredPod) -> str:
    (group,) = [one for one in wanted.planned.groups if one.level == "container"]
    return next(row.value for row in group.settings if row.file == "cpuset.cpus")


def test_pods_have_the_same_cpus_after_a_restart_in_another_order(tmp_path: Path) -> None:
    first = Given()
    source = made(first, static())
    source.take_up(ManagerFiles(str(tmp_path)), str(tmp_path), {})
    first.say("b.yaml", whole("b", "2"))
    assert cpus(source.current().pods["b"]) == "1-2"
    first.say("a.yaml", whole("a", "3"))
    before = {uid: cpus(one) for uid, one in source.current().pods.items()}
    assert before == {"b": "1-2", "a": "3-5"}
    state = json.loads((tmp_path / "cpu_manager_state").read_text())
    assert state["entries"] == {"a": {"c": "3-5"}, "b": {"c": "1-2"}}
    again = Given()
    again.say("a.yaml", whole("a", "3"))
    again.say("b.yaml", whole("b", "2"))
    source = made(again, static())
    assert cpus(source.current().pods["a"]) == "1-3"
    source.take_up(ManagerFiles(str(tmp_path)), str(tmp_path), {})
    assert {uid: cpus(one) for uid, one in source.current().pods.items()} == before


def test_what_nobody_wants_and_nothing_runs_by_is_given_back(tmp_path: Path) -> None:
    source = made(files := Given(), static())
    source.take_up(ManagerFiles(str(tmp_path)), str(tmp_path), {})
    files.say("a.yaml", whole("a", "2"), whole("b", "2"))
    source.current()
    source = made(Given(), static())
    source.take_up(
        ManagerFiles(str(tmp_path)), str(tmp_path), {"a": RuntimePod("a", "default/a", "", 1.0, {})}
    )
    assert source.live.managers is not None
    assert source.live.managers.holders() == ("a",)
    assert source.live.remove("a") == frozenset()
    assert source.live.managers.holders() == ()


def test_a_state_of_another_policy_is_refused_if_anybody_has_anything(tmp_path: Path) -> None:
    source = made(files := Given(), static())
    source.take_up(ManagerFiles(str(tmp_path)), str(tmp_path), {})
    source.current()
    made(Given()).take_up(ManagerFiles(str(tmp_path)), str(tmp_path), {})
    files.say("a.yaml", whole("a", "2"))
    source.current()
    with pytest.raises(CannotDo, match="the node has none"):
        made(Given()).take_up(ManagerFiles(str(tmp_path)), str(tmp_path), {})


def test_a_state_that_cannot_be_written_is_said_once_and_holds_up_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    source = made(files := Given(), static())
    source.take_up(ManagerFiles(str(folder)), str(folder), {})
    files.say("a.yaml", whole("a", "2"))
    desired = source.current()
    assert cpus(desired.pods["a"]) == "1-2"
    (row,) = [row for row in desired.problems if row.where == "managers"]
    assert row.severity == "warning"
    assert source.current().version == desired.version
    folder.mkdir()
    assert not [row for row in source.current().problems if row.where == "managers"]


def test_a_pod_without_a_place_gets_no_groups_until_there_is_one(tmp_path: Path) -> None:
    source = made(files := Given(), static())
    files.say("a.yaml", whole("a", "5"))
    files.say("b.yaml", whole("b", "4"))
    desired = source.current()
    refused = desired.pods["b"].rejection
    assert refused is not None
    assert refused[0] == "UnexpectedAdmissionError"
    assert desired.pods["b"].planned.groups == ()
    files.gone("a.yaml")
    assert source.current().pods["b"].rejection is not None
    assert any("UnexpectedAdmissionError" in row.message for row in source.current().problems)
    assert source.live.remove("a") == {"b"}
    assert source.live.groups("b").refused is None
    assert not any("Unexpected" in row.message for row in source.current().problems)
