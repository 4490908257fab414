"""What the plugin of the runtime has set is the agent's to keep and to give back."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.core.reconcile.journal import JournalState, Set
from tests.agent.guest.beside import Beside, Kubelet, Source, kubelet_pod, planned, policy, texts
from tests.agent.world import World

PODS = (kubelet_pod("a"), kubelet_pod("b"))


class Node:
    """Two pods of a kubelet; in the containers the plugin has set what is planned."""

    def __init__(self, state: Path) -> None:
        self.state, self.world = state, World("v2")
        Kubelet(self.world).run(*PODS)
        self.before = texts(self.world)
        self.source = Source(PODS)
        self.plugin = JournalState()
        for cgroup in self.source.plan.cgroups:
            for row in cgroup.settings if cgroup.level == "container" else ():
                if row.file in ("memory.low", "memory.high"):
                    path = cgroup.path or ""
                    self.plugin.add([Set(path, row.file, None, row.value)])
                    self.world.kernel.write(path, row.file, row.value)
        self.beside = Beside(self.world, state, self.source)
        self.beside.files._plugin = lambda: self.plugin

    @property
    def held(self) -> set[tuple[str, str]]:
        return {(one.path, one.file) for one in self.beside.status.held}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_agent_holds_what_the_plugin_has_set(node: Node) -> None:
    node.beside.settle()
    assert node.held >= node.plugin.files.keys()
    assert node.beside.files.rewrites.resets == 0, "nobody has reset anything"
    again = node.beside.sync(70.0)
    assert (again.written, again.restored) == ({}, {})
    node.beside.agent.release()
    assert texts(node.world) == node.before


@pytest.mark.parametrize("is_known", [True, False])
def test_what_the_plugin_sets_as_a_container_is_resized_stays(node: Node, is_known: bool) -> None:
    node.beside.settle()
    resized = planned([kubelet_pod("a", "memory=32Mi", "memory=512Mi"), PODS[1]], "qoslet")
    path, new = next(
        (one.path or "", {row.file: row.value for row in one.settings})
        for one in resized.cgroups
        if one.level == "container"
    )
    key = path, "memory.high"
    old = texts(node.world)[path]["memory.high"].strip()
    node.plugin.add([Set(*key, None, new["memory.high"])])
    node.world.kernel.write(*key, new["memory.high"])
    assert node.beside.sync(70.0).written == {}, "its pods may be newer"
    if is_known:
        node.source.latest = [kubelet_pod("a", "memory=32Mi", "memory=512Mi"), PODS[1]]
    written = node.beside.sync(3.0).written
    assert node.source.refreshes > 0
    expected = new["memory.high"] if is_known else old
    assert texts(node.world)[path]["memory.high"].strip() == expected
    assert (key in written) is not is_known


def test_a_policy_that_watches_gives_them_back(node: Node) -> None:
    policy(node.source, mode="watch")
    node.beside.settle()
    assert texts(node.world) == node.before
    assert node.held == set()
    node.beside.settle()
    assert texts(node.world) == node.before


def test_an_agent_that_is_killed_leaves_them_to_release(node: Node) -> None:
    node.beside.settle()
    node.beside.leave()
    Beside(node.world, node.state, node.source).released()
    assert texts(node.world) == node.before


def test_what_somebody_else_has_written_since_is_not_taken_over(node: Node) -> None:
    policy(node.source, mode="watch")
    (path, file), *_ = node.plugin.files
    node.world.kernel.write(path, file, "8192")
    node.beside.settle()
    assert texts(node.world)[path][file].strip() == "8192"
    assert (path, file) not in node.held


def test_a_container_that_is_gone_is_nobodys(node: Node) -> None:
    gone = "/nowhere/pod/c"
    node.plugin.add([Set(gone, "memory.high", None, "1")])
    node.beside.settle()
    assert gone not in {path for path, _ in node.held}
