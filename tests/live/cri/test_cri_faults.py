"""``qoslet run --with containerd`` through what may happen to a real containerd, its images and sandboxes."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.live.agent.agents import SLOW
from tests.live.agent.test_run import ended
from tests.live.cri.containerd import IMAGE, Containerd, need_containerd
from tests.live.cri.pods import Cri, amounts, container, pod
from tests.live.cri.roots import containerd as containerd
from tests.live.cri.roots import cri as cri

pytestmark = [pytest.mark.live, pytest.mark.timeout(240 * SLOW)]


def test_pods_outlive_the_agent_and_are_recognised(cri: Cri) -> None:
    cri.put(pod("a"), pod("b", container("app", "exit 7"), restartPolicy="Never"), pod("c"))
    first = cri.service()
    cri.until(lambda: cri.running("a", "c") and cri.pods()["b"]["phase"] == "Failed", 60 * SLOW)
    kept = cri.pid("a")
    first.kill()
    first.communicate()
    (cri.manifests / "c.yaml").unlink()
    second = cri.service()
    cri.until(lambda: cri.answers() and cri.running("a") and "c" not in cri.pods(), 60 * SLOW)
    assert cri.pid("a") == kept
    assert cri.states("a")["app"]["restarts"] == 0
    assert cri.states("b")["app"]["exitCode"] == 7
    cri.stop(second)
    assert cri.release().count(": stopped") >= 1
    cri.nothing_left()


def test_a_lost_state_folder_is_read_from_the_runtime(cri: Cri) -> None:
    cri.put(pod("a"))
    first = cri.service()
    cri.up("a")
    kept = cri.pid("a")
    first.kill()
    first.communicate()
    shutil.rmtree(cri.folder / "cri")
    second = cri.service()
    cri.up("a")
    assert cri.pid("a") == kept
    cri.stop(second)
    cri.release()
    cri.nothing_left()


@pytest.mark.parametrize("lost", ["cri", "cri/a-uid"])
def test_release_ends_the_pods_whose_records_are_lost(cri: Cri, lost: str) -> None:
    cri.put(pod("a"), pod("b", restartPolicy="Never"))
    first = cri.service()
    cri.up("a", "b")
    first.kill()
    first.communicate()
    shutil.rmtree(cri.folder / lost)
    other = cri.begin("--keep", "--with", "process")
    assert "continue with qoslet run --with containerd" in "".join(ended(other, 3))
    said = cri.release()
    assert (said.count(": stopped"), "killed" in said) == (2, False)
    cri.nothing_left()


def test_release_where_others_ended_all_leaves_nothing_in_the_runtime(cri: Cri) -> None:
    cri.put(pod("a"))
    first = cri.service()
    cri.up("a")
    first.kill()
    first.communicate()

    def is_over() -> bool:
        known = cri.containerd.ctr("containers", "ls", "-q").stdout.split()
        for words in (("tasks", "rm", "--force"), ("containers", "rm")):
            cri.containerd.ctr(*words, *known, check=False)
        return not known

    cri.soon(is_over)
    cri.containerd.kill()
    cri.containerd.begin()
    shutil.rmtree(cri.folder / "cri")
    cri.release()
    cri.nothing_left()


def test_a_lost_journal_leaves_no_cgroup_behind(cri: Cri) -> None:
    cri.put(pod("a"))
    first = cri.service()
    cri.up("a")
    kept = cri.pid("a")
    first.kill()
    first.communicate()
    journal = cri.folder / "journal"
    journal.write_bytes(bytes(journal.stat().st_size))
    second = cri.service()
    cri.up("a")
    assert cri.pid("a") == kept
    cri.stop(second)
    cri.release()
    cri.nothing_left()


def test_containerd_killed_and_back_changes_nothing_that_runs(cri: Cri) -> None:
    cri.put(
        pod("a"),
        pod(
            "b",
            container("app", "while [ ! -e /tmp/go ]; do sleep 0.1; done; exit 3"),
            restartPolicy="Never",
        ),
    )
    run = cri.begin()
    cri.up("a", "b")
    pids = cri.pid("a"), cri.pid("b")
    cri.containerd.kill()
    Path(f"/proc/{pids[1]}/root/tmp/go").touch()
    cri.put(pod("c"))
    time.sleep(2)
    assert run.poll() is None
    assert cri.answers()
    assert cri.states("a")["app"]["running"], "what is not known is not made up"
    cri.containerd.begin()
    # from 1.7 on containerd says 255 for a code that it did not learn while it was away
    codes = (3,) if cri.containerd.version.startswith("1.6.") else (3, 255)
    cri.soon(lambda: cri.states("b")["app"]["exitCode"] in codes, 30)
    cri.soon(lambda: cri.running("c"), 30)
    assert cri.pid("a") == pids[0]
    assert cri.states("a")["app"]["restarts"] == 0
    said = cri.ends(run, 1)
    assert "the container runtime answers again" in said


def test_containerd_gone_while_a_pod_ends(cri: Cri) -> None:
    cri.put(pod("a"), pod("b"))
    run = cri.begin()
    cri.up("a", "b")
    cri.containerd.kill()
    (cri.manifests / "a.yaml").unlink()
    cri.soon(lambda: cri.pods()["a"]["phase"] == "Terminating", 30)
    cri.containerd.begin()
    cri.soon(lambda: "a" not in cri.pods(), 30)
    cri.ends(run)


def test_a_slow_containerd_holds_up_nobody_else(cri: Cri) -> None:
    cri.put(pod("a"))
    run = cri.begin()
    cri.up("a")
    process = cri.containerd.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        cri.put(pod("b"))
        time.sleep(2)
        assert cri.answers(), "the loop turns"
        assert cri.states("a")["app"]["running"]
        assert cri.pods()["b"]["phase"] == "Pending"
    finally:
        process.send_signal(signal.SIGCONT)
    cri.up("a", "b")
    cri.ends(run)


def test_a_containerd_that_hangs_ends_no_container_before_it_was_asked_to_end(cri: Cri) -> None:
    ending = "trap 'sleep 0.5; exit 7' TERM; while :; do sleep 0.1; done"
    cri.put(pod("a", container("app", ending)), pod("b", container("app", ending)))
    run = cri.service()
    cri.up("a", "b")
    process = cri.containerd.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        (cri.manifests / "a.yaml").unlink()
        cri.soon(lambda: cri.pods()["a"]["phase"] == "Terminating", 30)
        time.sleep(6 * SLOW)
    finally:
        process.send_signal(signal.SIGCONT)
    cri.soon(lambda: "a" not in cri.pods(), 30)
    assert cri.running("b")
    assert "default/a/app: exited with 7" in cri.stop(run)
    cri.release()


def test_a_containerd_that_hangs_fails_no_probe(cri: Cri) -> None:
    seconds = int(2 * SLOW)
    asked = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1}
    cri.put(pod("a", container("app", livenessProbe={**asked, "timeoutSeconds": seconds})))
    run = cri.begin()
    cri.up("a")
    kept = cri.pid("a")
    process = cri.containerd.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(seconds + 8)
    finally:
        process.send_signal(signal.SIGCONT)
    time.sleep(3 * SLOW)
    assert (cri.pid("a"), cri.states("a")["app"]["restarts"]) == (kept, 0)
    cri.ends(run)


def hold_back(cri: Cri, name: str) -> str:
    """As another process that keeps a pod from ending: freeze it, and throttle what ends it."""
    (group,) = (path for path in cri.groups() if path.endswith(f"/pod{name}-uid"))
    files = {"cgroup.freeze": "1", "memory.high": "4096", "pids.max": "0"}
    if not cri.v2:
        files = {"freezer.state": "FROZEN", "pids.max": "0"}
    for file, value in files.items():
        tree = cri.tree.layout.tree_of(file.partition(".")[0])
        assert tree is not None
        tree.write(group, file, value)
    return group


def test_a_pod_that_another_process_holds_back_ends_all_the_same(cri: Cri) -> None:
    cri.put(pod("a"), pod("b"))
    run = cri.service()
    cri.up("a", "b")
    groups = {name: hold_back(cri, name) for name in ("a", "b")}
    (cri.manifests / "a.yaml").unlink()
    cri.soon(lambda: "a" not in cri.pods(), 40)
    assert f"{groups['a']}: its pids.max of 0 kept it from ending" in cri.stop(run)
    assert f"{groups['b']}: it was frozen, which kept it from ending" in cri.release()
    cri.nothing_left()


def test_a_resize_is_done_when_containerd_has_written_it(cri: Cri) -> None:
    cri.put(pod("a", container("app", resources=amounts("50m", "32Mi", "100m", "64Mi"))))
    run = cri.begin()
    cri.up("a")
    process = cri.containerd.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        cri.put(pod("a", container("app", resources=amounts("50m", "32Mi", "100m", "96Mi"))))
        cri.soon(lambda: cri.pods()["a"]["resize"] == "InProgress", 30)
        time.sleep(2 * SLOW)
        row = cri.pods()["a"]
        assert (row["resize"], row["resizeReason"]) == (
            "InProgress",
            "app: waiting for the runtime to update it",
        )
    finally:
        process.send_signal(signal.SIGCONT)
    cri.soon(lambda: cri.pods()["a"]["resize"] == "Done", 30)
    count, wrong = cri.compared()
    assert count > 10
    assert not wrong
    cri.ends(run)


@pytest.mark.parametrize("moment", [0.05, 0.2, 0.4, 0.7, 1.2])
def test_containerd_killed_at_any_moment_of_a_pods_life(cri: Cri, moment: float) -> None:
    cri.put(
        pod(
            "a",
            container("app"),
            container("side"),
            initContainers=[container("init", "sleep 0.2")],
        )
    )
    run = cri.begin()
    cri.soon(cri.answers)
    time.sleep(moment * SLOW)
    cri.containerd.kill()
    time.sleep(0.3)
    cri.containerd.begin()
    cri.soon(
        lambda: {n for n, one in cri.states("a").items() if one["running"]} == {"app", "side"}, 60
    )
    (cri.manifests / "a.yaml").unlink()
    time.sleep(moment * SLOW)
    cri.containerd.kill()
    time.sleep(0.3)
    cri.containerd.begin()
    cri.soon(lambda: "a" not in cri.pods(), 60)
    cri.ends(run)


def test_a_missing_image_is_said_and_waited_for(cri: Cri) -> None:
    name = "localhost/qoslet/later:1"
    cri.put(pod("a", container("app") | {"image": name}), pod("b"))
    run = cri.begin()
    cri.up("b")
    cri.soon(lambda: cri.pods()["a"]["reason"] == "ErrImageNeverPull")
    item = cri.pods()["a"]
    assert item["phase"] == "Pending"
    assert name in item["message"]
    cri.containerd.ctr("images", "tag", IMAGE, name)
    try:
        cri.soon(lambda: cri.running("a"), 60)
        assert not cri.pods()["a"]["reason"]
        cri.ends(run)
    finally:
        cri.containerd.ctr("images", "rm", name)


def test_a_sandbox_that_cannot_start_is_said_and_tried_again(cri: Cri) -> None:
    wrong = pod("a", runtimeClassName="none-such")
    alone = pod("alone")
    del alone["spec"]["hostNetwork"]
    cri.put(wrong, alone, pod("b"))
    run = cri.begin()
    cri.up("b")
    cri.soon(lambda: cri.pods()["a"]["reason"] == "FailedCreatePodSandBox")
    assert "none-such" in cri.pods()["a"]["message"]
    cri.soon(lambda: cri.pods()["alone"]["reason"] == "NetworkNotReady")
    cri.put(pod("a"))
    cri.soon(lambda: cri.running("a"), 40)
    cri.ends(run, 1)


def test_a_killed_sandbox_is_made_anew(cri: Cri) -> None:
    cri.put(pod("a"))
    run = cri.begin()
    cri.up("a")
    before = cri.record("a")["sandbox"]
    [pause] = cri.tree.members(cri.sandbox_group("a"))
    os.kill(pause, signal.SIGKILL)
    cri.soon(lambda: cri.record("a").get("sandbox", "") not in ("", before), 60)
    cri.soon(lambda: cri.running("a"), 60)
    cri.ends(run)


def test_another_driver_is_refused(cri: Cri) -> None:
    cri.put(pod("a"))
    run = cri.begin("--cgroup-driver", "systemd", "--for", "1")
    out, err = run.communicate(timeout=60 * SLOW)
    assert run.returncode == 3, (out, err)
    assert "containerd uses the cgroupfs cgroup driver, the node uses systemd" in err
    assert not cri.groups()


def test_no_runtime_there_is_said(cri: Cri) -> None:
    cri.put(pod("a"))
    words = ["--with", "containerd", "--container-runtime-endpoint", "unix:///run/none-such.sock"]
    run = cri.begin(*words, "--for", "1")
    _, err = run.communicate(timeout=60 * SLOW)
    assert run.returncode == 3, err
    assert "the container runtime does not answer" in err
    assert "Traceback" not in err


def test_another_runtime_does_not_take_up_its_pods(cri: Cri) -> None:
    cri.put(pod("a"))
    run = cri.service()
    cri.up("a")
    cri.stop(run)
    process = cri.begin("--with", "process", "--for", "1")
    _, err = process.communicate(timeout=60 * SLOW)
    assert process.returncode == 3, err
    assert "pods of this root run with unix://" in err
    cri.release()
    cri.nothing_left()


def test_containers_that_containerd_lost_do_not_run_beside_the_next_ones(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="needs the extra qoslet[cri]")
    need_containerd()
    # what it cannot know any more stays mounted: nobody else's tests may meet that
    with Containerd(Path(mkdtemp(prefix="qoslet-cri-", dir="/tmp"))) as containerd:
        cri = Cri(tmp_path, containerd)
        try:
            cri.put(pod("web"))
            cri.begin()
            cri.up("web")
            before = cri.pid("web")
            containerd.kill(signal.SIGTERM)
            for place in (containerd.folder / "root").glob("io.containerd.*"):
                shutil.rmtree(place, ignore_errors=True)
            containerd.begin()
            containerd.import_images()
            cri.soon(lambda: cri.states("web").get("app", {}).get("pid") not in (before, None), 40)
            cri.soon(lambda: cri.running("web"), 40)
            assert not Path(f"/proc/{before}").exists()
        finally:
            cri.clean()
