"""The systemd driver, containers included; matches ``agent.ports.Driver``.

systemd ends a scope with its last process, and one that was given ``OOMPolicy=kill`` with the first
that is killed for memory. A process of ours in each keeps it over restarts; one that ended all the
same is gone for whoever looks, and made again by the next ``create``.

Source: systemd src/core/scope.c; systemd.scope(5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from shlex import quote

from qoslet.core.cgroup.names import SCOPE
from qoslet.core.cgroup.unit_properties import OOM_POLICY_SINCE, creation
from qoslet.core.cgroup.unit_properties import words as property_words
from qoslet.core.reconcile.steps import Step
from qoslet.host.cgroupfs.kill import kill
from qoslet.host.linux.openat import parent
from qoslet.host.systemd.scope_holders import ScopeHolders
from qoslet.host.systemd.unit_driver import Given, UnitDriver, is_unit, unit_of
from qoslet.host.systemd.units import Units


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
    ) -> None:
        super().__init__(hierarchy, mounts, root, units, own=own, files=files)
        self.holders = ScopeHolders()
        self.oom_ends_scopes = hierarchy == "v2" and units.version >= OOM_POLICY_SINCE

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
        return new

    def _let_go(self, path: str) -> None:
        """What kept a scope ends before it: no group of v1 could go with it in there."""
        self.holders.end(path)

    def members(self, path: str) -> set[int]:
        """The processes in the group itself but for the one that keeps a scope."""
        holder = self.holders.of(path)
        return super().members(path) - ({holder} if holder else set())

    def kill(self, path: str) -> bool:
        """End every process of the group and below; that of a scope's keeper stays with it."""
        holder = self.holders.of(path)
        return kill(self.layout, self._mine(path), (holder,) if holder else ())

    def shell(self, step: Step) -> str:
        """The shell line that would do ``step`` by hand, quoted."""
        if not is_unit(step.path):
            return super().shell(step)
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
