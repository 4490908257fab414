"""Sandboxes outside their pods' cgroups: of a runtime with another driver, or moved by another process."""

from __future__ import annotations

import os
from pathlib import Path

from tests.host.cri.test_runtime import PARENT, Hand, hand, server, spec_of

__all__ = ["hand", "server"]


def test_a_sandbox_that_starts_outside_its_pods_cgroup_is_removed(hand: Hand) -> None:
    hand.server.sandbox_pid = os.getpid()
    hand.runtime.start(spec_of(), {})
    hand.until(lambda: hand.state("app").reason == "CgroupDriverMismatch")
    asked = [method for method, _ in hand.server.asked]
    assert not {"CreateContainer", "StartContainer"}.intersection(asked), "nothing ran outside"
    hand.ends()


def test_a_sandbox_that_was_moved_out_of_its_pods_cgroup_ends_no_adopted_pod(
    hand: Hand, tmp_path: Path
) -> None:
    hand.runtime.start(spec_of(), {})
    hand.running("app")
    id = hand.server.id("app")
    hand.runtime.close()
    hand.server.sandbox_pid = os.getpid()
    again = Hand(hand.server, tmp_path)
    moved = f"default/web: another process moved its sandbox out of {PARENT}: leaving it"
    again.until(lambda: again.runtime.poll() and moved in again.runtime.notes)
    again.running("app")
    assert hand.server.id("app") == id
    assert again.state("app").restarts == 0
    again.ends()
    hand.runtime = again.runtime
