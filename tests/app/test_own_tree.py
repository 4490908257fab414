"""Whose pods are meant where none are given."""

from __future__ import annotations

from argparse import Namespace

import pytest

from qoslet.app.own_tree import choose_source, choose_tree
from qoslet.errors import CannotDo
from qoslet.host.kubelet.processes import KubeletProcess


@pytest.mark.parametrize(("pid", "agent"), [(None, "/q"), (812, None)])
def test_a_kubelet_that_is_named_counts_beside_an_agent(
    monkeypatch: pytest.MonkeyPatch, pid: int | None, agent: str | None
) -> None:
    monkeypatch.setattr("qoslet.app.node.running_agent.running_agent", lambda wanted: "/q")
    args = Namespace(filename=[], cgroup_root=None, runtime=None, live=False, kubelet_pid=pid)
    choose_source(args)
    assert (args.agent, args.cgroup_root, args.live) == (agent, agent, True)


@pytest.mark.parametrize("shares", [True, False, None])
def test_the_cgroups_of_a_kubelet_that_is_named_are_those_that_are_mounted_here(
    monkeypatch: pytest.MonkeyPatch, shares: bool | None
) -> None:
    # as of a node of kind: /kubepods of its kubelet is not /kubepods of the machine
    found = [KubeletProcess(812, "kubelet", "/proc/812", ())]
    monkeypatch.setattr(
        "qoslet.host.kubelet.processes.kubelet_processes", lambda named: (found, [])
    )
    monkeypatch.setattr("qoslet.host.kubelet.processes.shares_cgroups", lambda one: shares)
    args = Namespace(filename=[], cgroup_root=None, runtime=None, live=False, kubelet_pid=812)
    choose_source(args)
    if shares is not False:
        choose_tree(args)
        return
    with pytest.raises(CannotDo, match=r"kubelet \(process 812\) has other cgroups"):
        choose_tree(args)
