"""The agent on this machine's kernel: what it keeps, follows, reads again and gives back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.live.agent.agents import SLOW, Agent, _command, identities
from tests.live.agent.agents import agent as agent
from tests.live.agent.test_run import ENVIRONMENT, PATIENCE, ended, pod

pytestmark = [pytest.mark.live, pytest.mark.timeout(2 * PATIENCE + 10)]


def test_what_runs_outlives_the_agent_and_release_undoes_it(agent: Agent) -> None:
    for name in "ab":
        agent.write(name, pod(name, "exec sleep 1000"))
    first = agent.service()
    agent.until(lambda: len(agent.pids()) == 2)
    out = agent.stop(first)
    assert "2 pods kept" in out
    pids, groups = agent.pids(), identities(agent)
    assert len(pids) == 2
    second = agent.service()
    agent.until(agent.answers)
    assert (agent.pids(), identities(agent)) == (pids, groups)
    out = agent.stop(second)
    assert "2 pods, 2 of 2 containers running; the tree is as planned" in out
    said = agent.release("--dry-run")
    assert "would be stopped first" in said
    assert agent.pids() == pids
    said = agent.release()
    assert said.count(": stopped") == 2
    assert not agent.groups()
    assert not agent.alive(pids)
    assert not agent.folder.exists(), list(agent.folder.iterdir())


def test_release_says_for_which_grace_period_it_waits(agent: Agent) -> None:
    agent.write("stubborn", pod("stubborn", "trap '' TERM; sleep 1000 & wait"))
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 2)
    agent.stop(run)
    said = agent.release()
    assert "waiting for Pod default/stubborn to stop, grace period 3 s" in said
    assert "default/stubborn: stopped" in said


def test_a_second_agent_is_told_who_has_the_root(agent: Agent) -> None:
    agent.write("a", pod("a", "exec sleep 1000"))
    first = agent.service()
    agent.until(lambda: len(agent.pids()) == 1)
    _, err = ended(agent.begin(), 3)
    assert f"another qoslet runs here (process {first.pid})" in err
    said = agent.release(code=3)
    assert f"process {first.pid}" in said
    agent.runs.pop()
    assert len(agent.pids()) == 1


def test_release_after_both_were_killed(agent: Agent) -> None:
    agent.write("a", pod("a", "sleep 1000 & sleep 1000"))
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 3)
    keeper = {
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and agent.root in _command(entry) and "keeper" in _command(entry)
    }
    assert len(keeper) == 1
    pids = agent.pids()
    for pid in (run.pid, *keeper):
        os.kill(pid, signal.SIGKILL)
    run.communicate()
    agent.release()
    assert not agent.groups()
    assert not agent.alive(pids)


def test_a_killed_agent_is_followed_by_one_that_restarts_nobody(agent: Agent) -> None:
    for name in "abcd":
        agent.write(name, pod(name, "exec sleep 1000"))
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 4)
    kept = agent.pids()
    for round_ in range(6):
        run.kill()
        run.communicate()
        (agent.manifests / f"{'abcd'[round_ % 4]}.yaml").unlink(missing_ok=True)
        agent.write(f"n{round_}", pod(f"n{round_}", "exec sleep 1000"))
        run = agent.service()
        # a different moment each time
        time.sleep(0.12 * SLOW * (round_ + 1))
    agent.eventually(lambda: len(agent.pids()) == 6 and len(agent.apps()) == 6)
    agent.stop(run)
    assert not agent.pids() & kept, "all four are gone by now"
    assert len(agent.apps()) == 6


def test_pods_outside_pod_groups_are_brought_in_or_fail(agent: Agent) -> None:
    out = ("--cgroups-per-qos=false", "--enforce-node-allocatable=none")
    agent.write("a", pod("a", "exec sleep 1000"))
    agent.write("b", pod("b", "exec sleep 1000", "Never"))
    run = agent.service(*out)
    agent.until(lambda: len(agent.pids()) == 2)
    assert not [path for path in agent.groups() if "kubepods" in path]
    agent.stop(run)
    run = agent.service()
    agent.until(lambda: len(agent.apps()) == 1 and len(agent.pids()) == 1)
    (app,) = agent.apps()
    assert "/kubepods/burstable/pod" in app
    out_text = agent.stop(run)
    assert "restartPolicy Never" in out_text
    agent.release()
    assert not agent.groups()


def test_orphans_are_found_by_the_journal_and_removed(agent: Agent) -> None:
    for name in "ab":
        agent.write(name, pod(name, "exec sleep 1000"))
    run = agent.service()
    agent.until(lambda: len(agent.pids()) == 2)
    agent.stop(run)
    (agent.folder / "keeper.lock").exists()
    # the records of one pod are lost with their keeper
    for entry in (agent.folder / "keeper").iterdir():
        entry.unlink() if entry.is_file() else None
    (agent.manifests / "a.yaml").unlink()
    (agent.manifests / "b.yaml").unlink()
    run = agent.service()
    agent.until(lambda: not agent.apps(), 30 * SLOW)
    out = agent.stop(run)
    assert not agent.pids()
    agent.release()
    assert out


def test_a_hang_up_reads_the_configuration_again(agent: Agent) -> None:
    node = agent.manifests.parent / "kubelet.yaml"
    text = (
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "failCgroupV1: false\nfailSwapOn: false\ncgroupDriver: cgroupfs\n"
    )
    node.write_text(text)
    agent.write("a", pod("a", "exec sleep 1000"))
    run = agent.service("--node", str(node))
    agent.until(lambda: len(agent.pids()) == 1)
    pids = agent.pids()
    (app,) = agent.apps()
    quota = "cpu.max" if agent.v2 else "cpu.cfs_quota_us"
    assert agent.read(app, quota).startswith("20000")
    node.write_text(f"{text}cpuCFSQuota: false\n")
    run.send_signal(signal.SIGHUP)
    agent.until(lambda: agent.read(app, quota).split()[0] in ("-1", "max"))
    node.write_text("{broken")
    run.send_signal(signal.SIGHUP)
    time.sleep(SLOW)
    assert agent.pids() == pids
    out = agent.stop(run)
    assert "the last valid one stays in effect" in out


def test_a_node_file_that_changes_is_read_by_itself(agent: Agent) -> None:
    node = agent.manifests.parent / "kubelet.yaml"
    text = (
        "apiVersion: qoslet/v1\nkind: Node\ncapacity: {memory: 8Gi}\n---\n"
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "failCgroupV1: false\nfailSwapOn: false\ncgroupDriver: cgroupfs\n"
    )

    def becomes(more: str) -> None:
        """The file is replaced, as a configuration management does it."""
        new = node.with_suffix(".new")
        new.write_text(text + more)
        os.rename(new, node)

    def turned() -> None:
        """A turn has begun and ended since."""
        for _ in range(2):
            agent.until(agent.answers)

    becomes("")
    agent.write("a", pod("a", "exec sleep 1000"))
    run = agent.service("--node", str(node))
    agent.until(lambda: len(agent.pids()) == 1)
    pids = agent.pids()
    (app,) = agent.apps()
    quota = "cpu.max" if agent.v2 else "cpu.cfs_quota_us"
    for _ in range(2):
        becomes("cpuCFSQuota: false\n")
        agent.until(lambda: agent.read(app, quota).split()[0] in ("-1", "max"))
        becomes("")
        agent.until(lambda: agent.read(app, quota).startswith("20000"))
    for wrong in ("cpuCFSQuota: 7\n", "cpuCFSQuota: false\nkubeReserved: {memory: 8Gi}\n"):
        becomes(wrong)
        turned()
    node.unlink()
    turned()
    assert agent.read(app, quota).startswith("20000")
    assert agent.pids() == pids
    out = agent.stop(run)
    assert "configuration reloaded" in out
    said = [
        line for line in out.splitlines() if line.endswith("the last valid one stays in effect")
    ]
    for why in ("cpuCFSQuota", "a kubelet refuses to start", "does not exist"):
        assert any(why in line for line in said), said
    assert "Traceback" not in out


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_typo_and_a_restart_end_no_pod(agent: Agent, how: int) -> None:
    good = pod("a", "exec sleep 1000") + "---" + pod("b", "exec sleep 1000")
    agent.write("ab", good)
    agent.write("c", pod("c", "exec sleep 1000"))
    agent.write("d", pod("d", "exec sleep 1000"))
    first = agent.service()
    agent.until(lambda: len(agent.pids()) == 4)
    pids = agent.pids()
    agent.write("ab", good.replace("memory: 32Mi}", "memory: 32Mib}", 1))
    first.send_signal(how)
    first.communicate(timeout=PATIENCE)
    (agent.manifests / "d.yaml").unlink()
    second = agent.service()
    agent.until(lambda: agent.answers() and len(agent.pids()) == 3)
    assert agent.pids() < pids, "a and b of the file with the fault, and c"
    agent.write("ab", good)
    agent.until(lambda: "cannot be read" not in json.dumps(agent.rows()))
    assert agent.pids() < pids
    out = agent.stop(second)
    assert out.count("/ab.yaml cannot be read: the pod stays as it is") == 2
    assert "default/d: " in out
    assert "/d.yaml no longer has it: stopping it" in out


def test_an_empty_directory_in_place_of_another_ends_no_pod_of_the_next_agent(
    agent: Agent,
) -> None:
    """A mount with manifests went, and the agent was started again."""
    agent.write("a", pod("a", "exec sleep 1000"))
    first = agent.service()
    agent.until(lambda: len(agent.pids()) == 1 and agent.answers())
    pids = agent.pids()
    agent.stop(first)
    away = agent.manifests.with_name("away")
    agent.manifests.rename(away)
    agent.manifests.mkdir(mode=0o755)
    second = agent.service()
    agent.until(lambda: [row["reason"] for row in agent.rows()] == ["ManifestUnread"])
    agent.manifests.rmdir()
    away.rename(agent.manifests)
    agent.until(lambda: [row["reason"] for row in agent.rows()] != ["ManifestUnread"])
    assert agent.pids() == pids
    (agent.manifests / "a.yaml").unlink()
    agent.until(lambda: not agent.pids())
    out = agent.stop(second)
    assert "is another directory now, and empty" in out
    assert "default/a: stopping: " in out
    assert "a.yaml no longer has it" in out


def _sleeping(agent: Agent) -> int | None:
    """The one process that executes its command; another pod's is begun again and again."""
    words = {pid: _command(Path(f"/proc/{pid}")).split() for pid in agent.pids()}
    found = [pid for pid, own in words.items() if own[:1] == ["sleep"]]
    return found[0] if len(found) == 1 else None


def test_the_log_tells_when_a_pod_died(agent: Agent) -> None:
    agent.write("web", pod("web", "exec sleep 1000"))
    agent.write("typo", pod("typo", "exec sleep 1000").replace("[sh, -c,", "[/nosuch, -c,"))
    log = agent.manifests.parent / "log"
    command = agent.verb("run", str(agent.manifests), "--keep", "-v", "--log-format", "json")
    with open(log, "w") as out:
        run = subprocess.Popen(command, env=ENVIRONMENT, stdout=out, stderr=out, text=True)
    agent.runs.append(run)

    def rows(name: str, pod: str = "web") -> list[dict[str, Any]]:
        found = [json.loads(line) for line in log.read_text().splitlines()]
        assert all(row["time"] for row in found)
        return [row for row in found if row.get("event") == name and row.get("pod", pod) == pod]

    agent.eventually(
        lambda: bool(rows("ContainerStarted") and rows("ContainerStartFailed", "typo"))
    )
    assert "No such file" in rows("ContainerStartFailed", "typo")[0]["message"]
    # no note of the runtime says it once more
    rest = [row for row in map(json.loads, log.read_text().splitlines()) if "event" not in row]
    assert not [row for row in rest if "/nosuch" in row["message"]]
    agent.eventually(lambda: _sleeping(agent) is not None)
    pid = _sleeping(agent)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    agent.eventually(lambda: bool(rows("ContainerExited")))
    [row] = rows("ContainerExited")
    assert (row["namespace"], row["container"], row["exitCode"]) == ("default", "app", 137)
    assert (row["signal"], row["level"]) == ("SIGKILL", "warning")
    assert row["restartInSeconds"] is None, "the first restart is at once"
    agent.write("web", pod("web", "exec sleep 1000").replace("cpu: 100m", "cpu: 150m"))
    agent.eventually(lambda: any("resize Done" in row["message"] for row in rows("PodResize")))
    (agent.manifests / "web.yaml").unlink()
    agent.eventually(lambda: bool(rows("PodRemoved")))
    actions = {row["action"] for row in rows("CgroupAction")}
    assert actions == {"create", "set", "remove"}
    (agent.manifests / "typo.yaml").unlink()
    agent.eventually(lambda: not agent.apps())
    run.send_signal(signal.SIGTERM)
    assert run.wait(PATIENCE) == 0
    agent.release()
