"""Which agent of qoslet a ``--cgroup-root`` means."""

from __future__ import annotations

import pytest

from qoslet.app.node import running_agent


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("/a", "/a"),
        ("/a/", "/a"),
        ("/b-c", None),
        ("/b/c", "/b/c"),
        ("/b.slice/b-c.slice", "/b/c"),
        ("/", None),
        ("/other", None),
    ],
)
def test_a_root_is_named_as_for_run(
    wanted: str, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = ["/a", "/b.slice/b-c.slice"]
    monkeypatch.setattr(running_agent, "running_roots", lambda state: roots)
    assert running_agent.running_agent(wanted) == found
