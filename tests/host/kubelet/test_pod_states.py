"""A resize is seen by the files that a kubelet writes for it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from qoslet.core.node.command_line.parse import CommandLine
from qoslet.core.node.running_kubelet.listed_pods import ListedPod, listed_pods
from qoslet.host.kubelet.pod_states import has_ended, was_assigned, was_resized
from qoslet.host.kubelet.processes import KubeletProcess


def pods(started: float, generation: object = 1) -> Sequence[ListedPod]:
    at = datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    statuses = [{"name": "a", "state": {"running": {"startedAt": at}}}]
    items = [
        {"status": {"containerStatuses": statuses}, "metadata": {"generation": generation}},
        {},
    ]
    return listed_pods(json.dumps({"items": items}).encode())


@pytest.mark.parametrize(
    ("file", "age", "started_ago", "resized"),
    [
        ("actuated_pods_state", 5, 500, True),
        ("allocated_pods_state", 5, 500, True),
        ("pod_status_manager_state", 5, 500, True),
        ("actuated_pods_state", 5, 5, False),  # the pod has just started
        ("actuated_pods_state", 500, 900, False),
        ("other", 5, 500, False),
    ],
)
def test_what_was_written_without_a_start_is_a_resize(
    tmp_path: Path, file: str, age: float, started_ago: float, resized: bool
) -> None:
    folder = tmp_path / "root" / "k"
    folder.mkdir(parents=True)
    now = time.time()
    (folder / file).touch()
    os.utime(folder / file, (now - age, now - age))
    process = KubeletProcess(1, "kubelet", str(tmp_path), ())
    command = CommandLine(others={"root-dir": "/k"})
    assert was_resized(process, command, pods(now - started_ago)) is resized
    # seen beside a real kubelet: a pod was resized while the container of another one started
    recent = file != "other" and age < 75
    assert was_resized(process, command, pods(now - started_ago, 2)) is recent
    assert was_resized(process, command, pods(now - started_ago, "2")) is resized


@pytest.mark.parametrize(("age", "assigned"), [(3, True), (19, True), (30, False), (-60, False)])
def test_cpus_were_assigned_when_their_file_was_written(
    tmp_path: Path, age: float, assigned: bool
) -> None:
    process = KubeletProcess(1, "kubelet", str(tmp_path), ())
    command = CommandLine(others={"root-dir": "/k"})
    assert not was_assigned(process, command)
    file = tmp_path / "root" / "k" / "cpu_manager_state"
    file.parent.mkdir(parents=True)
    file.touch()
    os.utime(file, (time.time() - age, time.time() - age))
    assert was_assigned(process, command) is assigned


def test_what_is_no_list_of_pods_says_nothing(tmp_path: Path) -> None:
    process = KubeletProcess(1, "kubelet", str(tmp_path), ())
    assert not was_resized(process, CommandLine(), listed_pods(b"[]"))


@pytest.mark.parametrize(
    ("phase", "age", "ended"),
    [
        ("Failed", 26, True),  # seen beside a real kubelet: burstable still counted the pod
        ("Succeeded", 70, True),
        ("Failed", 90, False),
        ("Failed", -60, False),
        ("Running", 5, False),  # a container ended, and is started again
    ],
)
def test_a_pod_that_is_still_named_ended(phase: str, age: float, ended: bool) -> None:
    at = datetime.fromtimestamp(time.time() - age, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    statuses = [{"name": "a", "state": {"terminated": {"exitCode": 137, "finishedAt": at}}}]
    items = [{"status": {"phase": phase, "containerStatuses": statuses}}, {}]
    assert has_ended(listed_pods(json.dumps({"items": items}).encode())) is ended
    assert has_ended(listed_pods(b'{"items": 1}')) is False
