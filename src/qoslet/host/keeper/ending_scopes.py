"""Scopes that systemd ends after an OOM kill: no process is started in one of them.

With ``OOMPolicy=kill`` systemd ends what is in a scope some moments after the kernel's kill, what was
started since then, too. Only a scope that was created later is safe.

Source: systemd src/core/scope.c scope_notify_cgroup_oom_event, scope_enter_signal.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

ENDING_SECONDS = 10.0
"""How long a start waits for systemd to end a scope. Past that systemd did not see the kill, as
while it executes itself again."""

LOOK_SECONDS = 0.1
"""Between two looks at such a scope."""


class _Cgroups(Protocol):
    def identity(self, path: str) -> int | None:
        """What tells a cgroup from one that was created again under its path."""

    def ends_with_oom_kill(self, path: str) -> bool:
        """Whether systemd ends the cgroup after an OOM kill in it."""


class PendingCgroup(Exception):
    """A container's cgroup is not there yet. ``seconds``: when to look again."""

    def __init__(self, seconds: float) -> None:
        super().__init__("waiting for systemd to end the scope after the OOM kill")
        self.seconds = seconds


class _OomKill(Struct, frozen=True):
    """A scope of that identity; starts wait ``until`` then, in monotonic seconds."""

    identity: int
    until: float


class OomKillState:
    """Those of one pod's containers, by container name."""

    def __init__(self) -> None:
        self._found: dict[str, _OomKill] = {}

    def saw_oom_kill(
        self, groups: _Cgroups, name: str, path: str, ran_in: int | None, now: float
    ) -> None:
        """A container was killed for memory; ``ran_in`` is the identity of the cgroup it ran in."""
        if (
            ran_in is not None
            and groups.identity(path) == ran_in
            and groups.ends_with_oom_kill(path)
        ):
            self._found[name] = _OomKill(ran_in, now + ENDING_SECONDS)

    def check(self, groups: _Cgroups, name: str, path: str, now: float) -> None:
        """Raise ``PendingCgroup`` where a container's next process would get into such a scope."""
        found = self._found.get(name)
        if found is None:
            return
        if now < found.until and groups.identity(path) == found.identity:
            raise PendingCgroup(LOOK_SECONDS)
        del self._found[name]
