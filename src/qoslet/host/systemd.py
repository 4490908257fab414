"""The systemd driver, containers included: ``agent.ports.Driver`` and what a runtime needs.

systemd ends a scope with its last process, and one that was given ``OOMPolicy=kill`` with the first
that is killed for memory. A process of ours in each keeps it over restarts; one that ended all the
same is made again, as it was, for the next process that is to join.

Source: systemd src/core/scope.c; systemd.scope(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote

from qoslet.core.steps import Step
from qoslet.core.unitprops import creation
from qoslet.core.unitprops import words as property_words
from qoslet.host.cgroupkill import kill, members
from qoslet.host.refusals import Refused
from qoslet.host.safefs import parent
from qoslet.host.scopes import Holders
from qoslet.host.slow import SlowWrites
from qoslet.host.unitdriver import SCOPE, Given, UnitDriver, unit_of
from qoslet.host.units import Units


class Systemd(UnitDriver):
    """The driver for one root. ``holders`` are the processes that keep scopes."""

    def __init__(
        self,
        hierarchy: str,
        mounts: Mapping[str, str] | str,
        root: str,
        units: Units,
        *,
        own: Sequence[str] = (),
        files: Iterable[str] = (),
        slow: SlowWrites | None = None,
    ) -> None:
        super().__init__(hierarchy, mounts, root, units, own=own, files=files, slow=slow)
        self.holders = Holders()
        self._kept: dict[str, dict[str, Step]] = {}
        self._kills: dict[str, tuple[int, int]] = {}

    def _stands(self, step: Step) -> None:
        """Remember what a scope has, to make it again."""
        if step.path.endswith(SCOPE):
            self._kept.setdefault(step.path, {})[step.file] = step

    async def _begin(self, path: str, unit: str, above: str, given: Given, ours: bool) -> bool:
        """Start the unit; False if it runs already. A scope gets the process that keeps it."""
        if not unit.endswith(SCOPE):
            return await super()._begin(path, unit, above, given, ours)
        if ours and self.holders.alive(path) and self._alive(path):
            return False
        pid = self.holders.begin(path)
        new = False
        try:
            new = await self.units.make(unit, [*creation(unit, above, [pid]), *given], ours=ours)
        finally:
            if not new:
                self.holders.end(path)
        self._kills[path] = (sum(self._kills.get(path, (0, 0))), 0)
        self._kept.setdefault(path, {})
        return new

    async def _take_away(self, path: str) -> None:
        """Stop a unit in which nothing is left; what kept it goes, too."""
        await super()._take_away(path)
        self.holders.end(path)
        self._kept.pop(path, None)
        self._kills.pop(path, None)

    def members(self, path: str) -> set[int]:
        """The processes in the group itself but for the one that keeps a scope."""
        holder = self.holders.of(path)
        return super().members(path) - ({holder} if holder else set())

    def kill(self, path: str) -> bool:
        """End every process of the group and below; that of a scope's keeper stays with it."""
        holder = self.holders.of(path)
        return kill(self.layout, self._mine(path), (holder,) if holder else ())

    def oom_kills(self, path: str) -> int | None:
        """How many processes of the group the kernel killed for memory, over all scopes that
        the container had; None if unknown."""
        found = super().oom_kills(path)
        if path not in self._kept:
            # of a scope that a runtime made systemd alone remembers what ended it
            alone = found is None and path.endswith(SCOPE)
            return 1 if alone and self._ended(path) == "oom-kill" else found
        before, last = self._kills.get(path, (0, 0))
        if found is None:
            found = max(last, 1) if self._ended(path) == "oom-kill" else last
        self._kills[path] = (before, found)
        return before + found

    def _ended(self, path: str) -> str:
        """How systemd says that a unit ended."""
        return self.units.bus.run(self.units.result(unit_of(path)))

    def join_fds(self, path: str) -> list[int]:
        """``cgroup.procs`` of the group in every hierarchy, open for writing. A scope that ended
        (systemd ends one whose processes were killed for memory) is made again first."""
        group = self._mine(path)
        if group in self._kept:
            self._revive(group)
        opened = super().join_fds(group)
        try:
            for tree in self._own:
                opened.append(tree.open_to_write(group, "cgroup.procs"))
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            raise
        return opened

    procs_fds = join_fds

    def _revive(self, path: str) -> None:
        """Make a scope again that systemd has ended or is ending. Raises ``Refused``."""
        if self._alive(path) and not self._ends(path):
            return
        self.units.bus.run(self._gone(path))
        steps = [Step("create", path), *self._kept[path].values()]
        self._values.forget(path)
        for outcome in self.perform(steps):
            if outcome.error is not None:
                raise Refused(outcome.error)

    def _ends(self, path: str) -> bool:
        """Whether systemd is about to end a scope."""
        policy = self._kept[path].get("memory.oom.group")
        if policy is not None and policy.value == "1" and self._values.fixed(policy):
            return bool(super().oom_kills(path)) or not self.holders.alive(path)
        return not self.holders.alive(path) and not members(self.layout, [path])

    def shell(self, step: Step) -> str:
        """The shell line that would do ``step`` by hand, quoted."""
        unit = quote(unit_of(step.path))
        match step.kind:
            case "create" if step.path.endswith(SCOPE):
                above = quote(parent(step.path).rpartition("/")[2])
                made = f"systemd-run --scope --unit={unit} --slice={above} -p Delegate=yes"
                return f"{made} sleep infinity &"
            case "create":
                return f"systemctl start {unit}"
            case "remove":
                return f"systemctl stop {unit}"
            case "set" if self._values.by_property(step):
                given = self._values.properties(step.path, [step])
                pairs = [(n, v) for n, _, v in given if isinstance(v, int | bytes)]
                words = " ".join(quote(word) for word in property_words(pairs))
                return f"systemctl set-property --runtime {unit} {words}"
        return super().shell(step)

    def close(self) -> None:
        """Leave the bus and close every descriptor; scopes without processes end."""
        self.holders.close()
        super().close()
