"""The kubelet's state files: its checksums, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.managers.checkpoint import checkpoint_files, restore_managers
from qoslet.core.managers.container_manager import Managers
from qoslet.errors import CannotDo
from tests.core.managers.fixtures import CPU_STATE, MEMORY_STATE, gib, managers, pod

SEEN = (
    '{"policyName":"static","defaultCpuSet":"0-1","checksum":1636926438}',
    '{"policyName":"static","defaultCpuSet":"0-63","checksum":1058907510}',
    '{"policyName":"static","defaultCpuSet":"1,3-15,17,19-31","checksum":1902567528}',
    (
        '{"policyName":"static","defaultCpuSet":"0,10-15,25-31","entries":'
        '{"777870b5-c64f-42f5-9296-688b9dc212ba":{"container-1":"16-24"},'
        '"fb15e10a-b6a5-4aaa-8fcd-76c1aa64e6fd":{"container-1":"1-9"}},"checksum":318470969}'
    ),
    (
        '{"policyName":"static","defaultCpuSet":"0-1,6-11","entries":'
        '{"4aec46af-22b7-4e26-babb-d15383ac9151":{"mysqld":"2-3"},'
        '"60008d73-6f6f-4467-96c5-cd0a1eeadf23":{"mysqld2":"4-5"}},"checksum":2764424633}'
    ),
)
"""Files of real kubelets, 1.26 to 1.34, from public documents."""


def _cpus(text: str) -> str:
    numbers = max(int(part) for part in text.replace("-", ",").split(","))
    return f"0-{numbers}"


@pytest.mark.parametrize("text", SEEN)
def test_a_real_kubelets_file_is_taken_up_and_written_the_same(text: str) -> None:
    document = json.loads(text)
    every = [document["defaultCpuSet"]]
    every += [cpus for own in document.get("entries", {}).values() for cpus in own.values()]
    cpus = _cpus(",".join(every))
    strict = document["defaultCpuSet"].startswith("1,")
    made = managers(
        cpus=cpus,
        reserved_system_cpus="0,2,16,18" if strict else "0",
        cpu_manager_options={"strict-cpu-reservation": strict},
    )
    restore_managers(made, {CPU_STATE: text.encode()}, "/run")
    assert checkpoint_files(made)[CPU_STATE].decode() == text


def test_the_checksum_of_memory_is_the_kubelets() -> None:
    """Source: memorymanager/state/state_checkpoint_test.go, the v1 row: 4215593881."""
    text = (
        '{"policyName":"Static","machineState":{"0":{"numberOfAssignments":0,"memoryMap":'
        '{"memory":{"total":2048,"systemReserved":512,"allocatable":1536,"reserved":512,'
        '"free":1024}},"cells":[]}},"entries":{"pod":{"container1":[{"numaAffinity":[0],'
        '"type":"memory","size":512}]}},"checksum":4215593881}'
    )
    made = managers(memory=True)
    with pytest.raises(CannotDo, match="is damaged"):
        restore_managers(made, {MEMORY_STATE: text.encode()}, "/run")
    small = text.replace('"Static"', '"static"')
    with pytest.raises(CannotDo, match="has another policy"):
        restore_managers(made, {MEMORY_STATE: small.encode()}, "/run")


def _placed() -> Managers:
    made = managers(memory=True)
    made.admit(pod("a", "2", gib(1)), "Guaranteed")
    made.admit(pod("b", "3", gib(3)), "Guaranteed")
    return made


def test_what_was_written_is_taken_up_whole() -> None:
    made, fresh = _placed(), managers(memory=True)
    files = checkpoint_files(made)
    restore_managers(fresh, files, "/run")
    assert fresh.kept() == made.kept()
    assert checkpoint_files(fresh) == files
    assert fresh.admit(pod("a", "2", gib(1)), "Guaranteed") == made.given("a")


CHANGES: dict[str, dict[str, Any]] = {
    "cpus": {"cpus": "0-5"},
    "reserved": {"reserved_system_cpus": "0-7"},
    "memory": {"sizes": (4 << 30, 2 << 30)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_of_another_node_is_refused(change: str) -> None:
    other = managers(memory=True, **CHANGES[change])
    with pytest.raises(CannotDo) as error:
        restore_managers(other, checkpoint_files(_placed()), "/run/x")
    assert error.value.where.startswith("/run/x/")
    assert "remove the file" in error.value.hint
    assert not other.kept().cpus


NODES = {"numaAffinity": [0, 9], "type": "memory", "size": 1}
WRONG: dict[str, tuple[dict[str, Any], ...]] = {
    CPU_STATE: (
        {"defaultCpuSet": "0-99999", "checksum": 0},
        {"defaultCpuSet": "0-7", "checksum": 0},
        {"entries": {"a": {"c": "0"}}, "defaultCpuSet": "1-7", "checksum": 0},
        {"entries": {"a": {"c": "4"}, "b": {"c": "4"}}, "defaultCpuSet": "0-3,5-7", "checksum": 0},
    ),
    MEMORY_STATE: (
        {"machineState": {"x": None}},
        {"machineState": {}},
        {"entries": {"a": {"c": [NODES]}}},
        {"entries": {"a": {"c": [{**NODES, "size": -1}]}}},
    ),
}


def test_hostile_content_is_refused() -> None:
    files = checkpoint_files(_placed())
    for name, content in files.items():
        document = json.loads(content)
        for spoiled in (
            b"",
            b"{",
            b"[" * 100_000,
            b'{"policyName":7}',
            content[:-5],
            content.replace(b'"b"', b'"z"', 1),
            json.dumps({**document, "checksum": 1}).encode(),
            json.dumps({**document, "checksum": "x"}).encode(),
            json.dumps({**document, "entries": {"a": {"c": "-"}}, "checksum": 0}).encode(),
            *(json.dumps({**document, **wrong}).encode() for wrong in WRONG[name]),
        ):
            made = managers(memory=True)
            with pytest.raises(CannotDo):
                restore_managers(made, {name: spoiled}, "/run")
            assert not made.kept().cpus
            assert not made.kept().memory


def test_without_entries_none_are_named() -> None:
    made = managers(memory=True)
    assert all(b"entries" not in content for content in checkpoint_files(made).values())
    fresh = managers(memory=True)
    restore_managers(fresh, {}, "/run")
    assert fresh.kept() == made.kept()


def test_given_values_are_not_shared() -> None:
    one = managers()
    assert replace(one.kept(), cpus={}) == one.kept()
