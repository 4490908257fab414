"""Many pods come and go under one agent on this machine's kernel: its descriptors and its memory
stay as they were, and nothing is left."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.live.adoption.test_agent_killed import Machine
from tests.live.agent.agents import SLOW, Agent
from tests.live.agent.test_run import EMULATED

LONG = os.environ.get("QOSLET_LONG") == "1"
PODS = 2000 if LONG else 120 if EMULATED else 300
"""``QOSLET_LONG=1`` for two thousand."""
BATCH = 30
PATIENCE = 120.0 * SLOW
GROWTH = 3 << 20
"""Bytes that a process may have more at the end than after its first batches."""

pytestmark = [pytest.mark.live, pytest.mark.timeout(2400)]

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: p{number}, uid: p{number}0}}
spec:
  restartPolicy: {policy}
  terminationGracePeriodSeconds: 5
  containers:
    - name: app
      command: {command}
      resources: {{requests: {{cpu: 1m, memory: 1Mi}}, limits: {{memory: 16Mi}}}}
"""


def write(agent: Agent, number: int) -> None:
    """Every third ends by itself."""
    ends = number % 3 == 0
    command = "['true']" if ends else "[sleep, '1000']"
    text = POD.format(number=number, policy="Never" if ends else "Always", command=command)
    new = agent.manifests / f".p{number}"
    new.write_text(text)
    new.rename(agent.manifests / f"p{number}.yaml")


def uses(pid: int) -> tuple[int, int]:
    """Descriptors and resident bytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return len(os.listdir(f"/proc/{pid}/fd")), int(resident.split()[1]) << 10


def test_pods_come_and_go_and_nothing_grows(tmp_path: Path, record_property) -> None:
    machine = Machine(tmp_path)
    begun = machine.service()
    told: list[dict[str, tuple[int, int]]] = []
    try:
        for first in range(0, PODS, BATCH):
            batch = range(first, first + BATCH)
            stay = sum(number % 3 != 0 for number in batch)
            for number in batch:
                write(machine, number)
            machine.eventually(lambda n=stay: len(machine.pids()) >= n, PATIENCE)  # type: ignore[misc]
            # what ends by itself is over and has given its group back
            machine.eventually(lambda n=stay: len(machine.apps()) == n, PATIENCE)  # type: ignore[misc]
            for number in batch:
                (machine.manifests / f"p{number}.yaml").unlink()
            machine.eventually(lambda: not machine.apps(), PATIENCE)
            machine.eventually(lambda: not kept(machine), PATIENCE)
            keeper = machine.keeper()
            assert keeper is not None
            told.append({"agent": uses(begun.pid), "keeper": uses(keeper)})
        assert begun.poll() is None
        for who in ("agent", "keeper"):
            files, bytes_ = zip(*(one[who] for one in told), strict=True)
            record_property(
                who, f"{files[1]} then {files[-1]} files, {bytes_[1]} then {bytes_[-1]} bytes"
            )
            # by then as many directories are kept open as may be
            assert files[-1] <= files[2] + 1, (who, files)
            assert bytes_[-1] <= bytes_[1] + GROWTH, (who, bytes_)
        assert not machine.pids()
        assert not [path for path in machine.groups() if "/pod" in path]
        machine.eventually(machine.named, PATIENCE)
        record_property("compared", len(told) * 4)
        machine.stop(begun)
        machine.release()
        assert not machine.groups()
        assert not machine.folder.exists(), list(machine.folder.iterdir())
    finally:
        if begun.poll() is None:
            begun.kill()
            begun.communicate()
        if (machine.folder / "journal").exists():
            machine.release("--force")
        time.sleep(0.1)
        machine.clean()


def kept(machine: Machine) -> list[str]:
    """Pods of which the keeper has a record or a log."""
    folders = [machine.folder / name for name in ("keeper", "logs", "volumes")]
    return [one.name for folder in folders if folder.is_dir() for one in folder.iterdir()]
