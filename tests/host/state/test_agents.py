"""Agents that have their root and do not listen: they start or end, and are told from none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qoslet.errors import CannotDo
from qoslet.host.questions.http_client import BusyAgent, ask
from qoslet.host.state.agents import left_roots, pod_roots, pods_elsewhere, silent_roots
from qoslet.host.state.folder import CRI, JOURNAL
from qoslet.host.state.resume import lock_root


@contextmanager
def _locked(state: Path, verb: str | None) -> Iterator[Path]:
    journal, _ = lock_root("/pods", "v2", state=str(state), verb=verb)
    folder = state / "pods"
    (folder / CRI).mkdir()
    (folder / CRI / "pod").touch()
    (folder / JOURNAL).touch()
    try:
        yield folder
    finally:
        journal.close(gone=False)


@pytest.mark.parametrize("verb", ["run", "agent"])
def test_an_agent_that_starts_is_told_from_none(tmp_path: Path, verb: str) -> None:
    with _locked(tmp_path, verb) as folder:
        assert silent_roots(str(tmp_path)) == ["/pods"]
        assert left_roots(str(tmp_path)) == []
        assert pod_roots(str(tmp_path)) == ["/pods"]
        with pytest.raises(BusyAgent, match=rf"starting or ending \(process {os.getpid()}\)"):
            ask(str(folder), "/v1/pods")
        with pytest.raises(CannotDo, match=r"runs here \(process"):
            lock_root("/pods", "v2", state=str(tmp_path), verb="run")
    # the lock that stays names a process that has it no longer
    assert (folder / "lock").read_text() == f"{os.getpid()} {verb}\n"
    assert silent_roots(str(tmp_path)) == []
    assert left_roots(str(tmp_path)) == ["/pods"]
    assert pod_roots(str(tmp_path)) == ["/pods"]
    with pytest.raises(CannotDo, match="no agent is running"):
        ask(str(folder), "/v1/pods")


@pytest.mark.parametrize("verb", ["apply", None])
def test_who_applies_or_releases_is_no_agent(tmp_path: Path, verb: str | None) -> None:
    with _locked(tmp_path, verb) as folder:
        assert silent_roots(str(tmp_path)) == []
        with pytest.raises(CannotDo, match="no agent is running"):
            ask(str(folder), "/v1/pods")


def test_copies_of_its_pods_below_other_roots_are_named(tmp_path: Path) -> None:
    for place in (
        "own/keeper/u1",
        "pods/cri/u1",
        "a%2Fb/keeper/u1",
        "a%2Fb/keeper/u2",
        "x/keeper/u9",
    ):
        (tmp_path / place).mkdir(parents=True)
    lines = pods_elsewhere(str(tmp_path / "own"), {"u1": "shop/web", "u2": "shop/db", "u3": "d/c"})
    assert lines == [
        "shop/db and 1 more: --cgroup-root /a/b has copies already, and this run makes its own: qoslet release --cgroup-root /a/b ends the others",
        "shop/web: --cgroup-root /pods has copies already, and this run makes its own: qoslet release --cgroup-root /pods ends the others",
    ]
    assert pods_elsewhere(str(tmp_path / "own"), {"u3": "d/c"}) == []
