"""Pods that a runtime does not end are named with their cgroups and processes."""

from __future__ import annotations

import os
from typing import cast

from qoslet.app.teardown import PODS_TOLD, do_not_stop
from qoslet.app.tree import OwnedTree
from qoslet.core.workload.pod_status import RuntimePod


class Driver:
    """Each cgroup has one below, with this process in it."""

    def below(self, path: str) -> list[str]:
        return [f"{path}/monitor", path]

    def members(self, path: str) -> set[int]:
        return {os.getpid()} if path.endswith("monitor") else set()

    def kill(self, path: str) -> bool:
        return False


class Tree:
    driver = Driver()


def said(*names: str, top: str = "/q/pod") -> str:
    tops = (top,) if top else ()
    left = [RuntimePod(n, f"default/{n}", "", 1.0, {}, top_cgroups=tops) for n in names]
    return str(do_not_stop(cast("OwnedTree", Tree()), left, "unix:///run/c.sock"))


def test_a_pod_is_named_with_its_cgroup_and_who_is_in_it() -> None:
    words = said("web")
    assert words.startswith("unix:///run/c.sock: Pod default/web does not stop (/q/pod: process ")
    assert f"process {os.getpid()} (" in words
    assert "release again" in words
    assert "(no cgroup: no process is left)" in said("web", top="")


def test_of_many_some_are_named() -> None:
    words = said(*(f"p{number}" for number in range(PODS_TOLD + 2)))
    assert words.count("does not stop") == PODS_TOLD
    assert "2 more do not" in words
