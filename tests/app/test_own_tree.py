"""Whose pods are meant where none are given."""

from __future__ import annotations

from argparse import Namespace

import pytest

from qoslet.app.own_tree import choose_source


@pytest.mark.parametrize(("pid", "agent"), [(None, "/q"), (812, None)])
def test_a_kubelet_that_is_named_counts_beside_an_agent(
    monkeypatch: pytest.MonkeyPatch, pid: int | None, agent: str | None
) -> None:
    monkeypatch.setattr("qoslet.app.node.running_agent.running_agent", lambda wanted: "/q")
    args = Namespace(filename=[], cgroup_root=None, runtime=None, live=False, kubelet_pid=pid)
    choose_source(args)
    assert (args.agent, args.cgroup_root, args.live) == (agent, agent, True)
