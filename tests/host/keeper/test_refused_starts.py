"""Starts that this machine refuses: no failure of the container, and tried again ever more rarely."""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from qoslet.core.workload.life import begun
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.host.containers.log_files import ContainerLogs, LogLimits, Pipes
from qoslet.host.containers.spawn import Spawned, StartFailed, begin, settle
from qoslet.host.keeper.container_process import why
from qoslet.host.keeper.pod import MOST_SECONDS, ProcessPod
from tests.host.containers.full_disk import fill
from tests.host.keeper.test_process_runtime import ME, Bench, shell


def spawn(launch: ProcessSpec, joins: Sequence[int]) -> Spawned:
    birth = begin(launch, joins, 1)
    poller = select.poll()
    poller.register(birth.report, select.POLLIN)
    while (found := settle(birth)) is None:
        poller.poll(1000)
    return found


def test_a_cgroup_that_refuses_the_process_is_not_the_containers_fault() -> None:
    refusing = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(StartFailed, match="cgroup: No space left on device") as raised:
            spawn(shell("app", "true"), [refusing])
    finally:
        os.close(refusing)
    assert raised.value.temporary


def test_a_process_that_is_held_up_before_it_executes_is_not_the_containers_fault() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writer, True)
    birth = begin(shell("app", "true"), [writer], 1)
    birth.deadline = time.monotonic()
    try:
        with pytest.raises(StartFailed, match="did not start in 10 s") as raised:
            settle(birth)
    finally:
        os.close(reader)
        os.close(writer)
    os.waitpid(birth.pid, os.WNOHANG)
    assert raised.value.temporary


def test_a_program_that_is_missing_is_the_containers_fault() -> None:
    with pytest.raises(StartFailed) as raised:
        spawn(ProcessSpec("app", "regular", ("/no/such",), (), "/", ME, "Never"), [])
    assert not raised.value.temporary


@pytest.mark.parametrize("number", [errno.ENODEV, errno.ENOSPC, errno.EIO, errno.EROFS])
def test_errors_of_cgroups_and_disks_are_tried_again(number: int) -> None:
    error = OSError(number, os.strerror(number), "/sys/fs/cgroup/p")
    assert why(error) == f"{os.strerror(number)}: /sys/fs/cgroup/p"


def test_attempts_come_ever_more_rarely_until_one_was_long_ago() -> None:
    spec = PodSpec("u", "default/p", (shell("app", "true"),), 5.0, ())
    pod = ProcessPod(spec, "", {"app": "/g"})
    now, waits = 0.0, []
    for _ in range(7):
        pod.lives["app"] = begun(pod.lives["app"], now)
        pod.withdraw("app", "no process can be made", now)
        waits.append(pod.lives["app"].not_before - now)
        now = pod.lives["app"].not_before
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert pod.lives["app"].restarts == 0
    pod.withdraw("app", "no process can be made", now + 2 * MOST_SECONDS)
    assert pod.lives["app"].not_before == now + 2 * MOST_SECONDS + 1.0


def test_a_pod_starts_when_its_record_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, shell("app", "sleep 100"))
    fill(monkeypatch)
    bench.start()
    state = bench.states()["app"]
    assert not state.running
    assert "No space left on device" in state.reason
    monkeypatch.undo()
    assert bench.until(lambda states: states["app"].running)["app"].restarts == 0
    bench.end()


def test_a_first_start_that_no_record_knows_is_made_again(tmp_path: Path) -> None:
    first = Bench(tmp_path, shell("app", "exec sleep 100"))
    first.start()  # and no poll, which records the process
    path = first.paths["app"]
    while not first.groups.members(path):
        time.sleep(0.005)
    second = Bench(tmp_path, shell("app", "exec sleep 100"), groups=first.groups)
    second.runtime.take_up()
    state = second.until(lambda states: first.groups.members(path) == {states["app"].pid})["app"]
    assert (state.running, state.restarts, state.exit_code) == (True, 0, None)
    second.end()
    second.runtime.close()


def test_a_pipe_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "app.out").mkdir()
    log = ContainerLogs(str(tmp_path / "logs"), LogLimits()).file(
        str(tmp_path / "logs/0.log"), print
    )
    with pytest.raises(OSError, match=r"app\.out"):
        Pipes(str(tmp_path), "app", log).make((os.getuid(), os.getgid()))


def test_a_refusal_that_is_about_no_file_names_none() -> None:
    assert why(OSError(errno.ENOSPC, "No space left on device")) == "No space left on device"
    said = why(OSError(errno.ENOSPC, "No space left on device", "/x"))
    assert said == "No space left on device: /x"
