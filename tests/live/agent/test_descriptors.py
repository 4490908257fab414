"""An agent and a keeper that may open few files."""

from __future__ import annotations

import subprocess

import pytest

from tests.live.agent.run import PATIENCE, Held, One, held, manifest

__all__ = ["held"]

pytestmark = [pytest.mark.live, pytest.mark.timeout(3 * PATIENCE)]


@pytest.mark.parametrize("files", [48, 64, 100])
def test_seven_pods_run_with_few_open_files(held: Held, files: int) -> None:
    pods = [manifest(f"p{at}", One("c", "exec sleep 1000")) for at in range(7)]
    held.begin(*pods, options=["--interval", "0.5"], files=files)
    assert "internal error" not in held.errors.read_text()


def test_the_containers_keep_the_limit_that_the_agent_was_started_with(held: Held) -> None:
    """Raised is only the agent's own limit, and the keeper's."""
    held.begin(manifest("p", One("c", "ulimit -S -n; exec sleep 1000")), options=["--keep"])
    usual = subprocess.run(["sh", "-c", "ulimit -S -n"], capture_output=True, text=True, check=True)
    (pid,) = held.groups.members(held.path("p", "c"))
    soft = subprocess.run(
        ["prlimit", "--pid", str(pid), "--nofile", "--output=SOFT", "--noheadings"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert soft.stdout.strip() == usual.stdout.strip()


def test_too_few_are_refused_before_anything_is_made(held: Held) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        held.begin(manifest("p", One("c", "exec sleep 1000")), files=30)
    assert "raise it: ulimit -n 1024" in held.errors.read_text()
