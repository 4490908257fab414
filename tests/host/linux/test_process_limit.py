"""A start that is refused a process: which limit it was, and that it is none of the container's."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys

import pytest

from qoslet.core.workload.process_spec import ProcessSpec
from qoslet.core.workload.security.context import Credentials
from qoslet.host.containers.spawn import StartFailed, begin
from qoslet.host.keeper.container_process import why
from qoslet.host.linux.capabilities import last_capability
from qoslet.host.linux.mount_syscalls import library
from qoslet.host.linux.processes.limit import reason_of
from tests.cli.fixtures import environment
from tests.paths import REPO

NOBODY = 65534


def _without_processes() -> str:
    """What a start says of a user that may have no process more."""
    # another user may not read this Python's files: what is needed is loaded before
    why(OSError(errno.EAGAIN, ""))
    last_capability()
    library()
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    if os.geteuid() == 0:
        os.setresuid(NOBODY, NOBODY, NOBODY)
    me = Credentials(os.geteuid(), os.getegid(), (), frozenset(), True)
    try:
        begin(ProcessSpec("c", "regular", ("/bin/true",), (), "/", me, "Never"), [], 1)
    except (OSError, StartFailed) as error:
        return f"{type(error).__name__}: {why(error)}"
    return "started"


def test_a_fork_beyond_the_limit_is_not_the_containers_fault() -> None:
    """In a process of its own: threads of other tests' libraries would be refused, too."""
    line = f"from {__name__} import _without_processes; import os; os.write(1, _without_processes().encode() + b'\\n')"
    done = subprocess.run(
        [sys.executable, "-c", line], cwd=REPO, env=environment(), capture_output=True, text=True
    )
    user = os.geteuid() or NOBODY
    assert done.stdout == (
        f"BlockingIOError: no process can be made: user {user} may have 0 processes"
        " (raise ulimit -u, or LimitNPROC= of the unit)\n"
    ), done.stderr


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
def test_what_passes_is_a_sentence_and_no_failure(number: int) -> None:
    assert isinstance(why(OSError(number, os.strerror(number))), str)
    assert reason_of(number).startswith("no process can be made: ")
