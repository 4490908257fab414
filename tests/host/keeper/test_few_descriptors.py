"""What a keeper does that lacks descriptors, and what it starts."""

from __future__ import annotations

import errno
import gc
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from qoslet.core.workload.process_spec import ProcessSpec
from qoslet.core.workload.security.context import DEFAULT_CAPABILITIES, Credentials
from qoslet.host.containers.log_files import LogFile, LogLimits
from qoslet.host.keeper import server
from qoslet.host.keeper.container_process import ContainerProcess, fork
from tests.host.keeper.sessions import Sessions
from tests.host.keeper.test_process_runtime import Bench, ended, shell

ME = Credentials(os.getuid(), os.getgid(), (), DEFAULT_CAPABILITIES, os.getuid() != 0)


def _open() -> list[int]:
    """The descriptors of this process, without the one that lists them."""
    listed = [int(name) for name in os.listdir("/proc/self/fd")]
    return sorted(number for number in listed if os.path.lexists(f"/proc/self/fd/{number}"))


@pytest.fixture
def one(tmp_path: Path) -> Iterator[ContainerProcess]:
    log = LogFile(str(tmp_path / "0.log"), LogLimits(), lambda line: None, lambda _: 1 << 20)
    one = ContainerProcess(str(tmp_path / "c"), log)
    yield one
    if one.pid:
        os.waitpid(one.pid, 0)


@pytest.mark.parametrize("free", [0, 1])
def test_a_start_without_descriptors_closes_its_pipes_and_is_tried_again(
    one: ContainerProcess, tmp_path: Path, free: int
) -> None:
    """``free``: what is left for the pipe of the child's report, which needs two."""
    launch = ProcessSpec("c", "regular", ("/bin/true",), (), "/", ME, "Never")
    gc.collect()  # else what tests before this one left may be closed meanwhile
    before = _open()
    writers = one.pipes.make((os.getuid(), os.getgid()))
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(_open())
    fill = [os.open("/dev/null", os.O_RDONLY) for _ in range(highest + 1 - len(_open()))]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + free, usual[1]))
        with pytest.raises(OSError) as caught:
            fork(launch, [], writers, one)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
        for descriptor in (*fill, *writers):
            os.close(descriptor)
    assert caught.value.errno == errno.EMFILE
    assert _open() == before
    assert os.listdir(tmp_path) == ["0.log"]


class _Exhausted(Sessions):
    """Groups that cannot be looked at after their containers have ended; ``part`` fails for ``left`` looks."""

    def __init__(self, part: str) -> None:
        self.part, self.left = part, 0

    def _look(self, part: str) -> None:
        if part == self.part and self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, "Too many open files")

    def strike(self, path: str) -> bool:
        self._look("strike")
        return super().strike(path)

    def oom_kills(self, path: str) -> int | None:
        self._look("oom_kills")
        return super().oom_kills(path)


@pytest.mark.parametrize("part", ["strike", "oom_kills"])
def test_how_a_container_ended_is_kept_while_its_cgroup_cannot_be_read(
    tmp_path: Path, part: str
) -> None:
    groups = _Exhausted(part)
    pod = Bench(tmp_path, shell("app", "sleep 600 & exit 3"), groups=groups)
    pod.start()
    pod.until(lambda states: states["app"].pid is not None)
    groups.left = 2
    state = pod.until(ended)["app"]
    assert (state.exit_code, state.reason, groups.left) == (3, "Error", 0)
    assert not groups.members(pod.paths["app"])


def test_what_a_real_time_agent_starts_is_not_real_time() -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
            server._prepare_children()
            code = int(os.sched_getscheduler(0) != os.SCHED_OTHER)
        except PermissionError:
            code = 77
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 77:
        pytest.skip("may not be real-time")
    assert code == 0
