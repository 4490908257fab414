"""Units of systemd: made, given properties, stopped; each refusal as one line.

Source: org.freedesktop.systemd1(5); systemd src/core/dbus-unit.c, dbus-manager.c.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence

from qoslet.core.cgroup.unit_properties import Signed, description
from qoslet.host.cgroupfs.write_errors import CgroupError
from qoslet.host.systemd.bus import PLACE, SYSTEMD, Bus, BusReply, variants

_EXISTS, _ABSENT = f"{SYSTEMD}.UnitExists", f"{SYSTEMD}.NoSuchUnit"
_FROZEN_ABOVE = f"{SYSTEMD}.FrozenByParent"
CONTROL = "/run/systemd/system.control"
_DENIED = ("only root can create and change units", "run as root")

STOP_SECONDS = 0.3
"""How long a new unit waits for one of its name that is being stopped; the loop waits with it."""

_RUNS = ("active", "activating", "reloading")

_MEANING: dict[str, tuple[int, str, str]] = {
    f"{SYSTEMD}.UnitExists": (
        errno.EEXIST,
        "a unit of that name exists, but no qoslet journal has it",
        "leave it alone if another program needs it, and use another --cgroup-root",
    ),
    f"{SYSTEMD}.NoSuchUnit": (
        errno.ENOENT,
        "the unit was stopped",
        "the next sync recreates it",
    ),
    f"{SYSTEMD}.UnitMasked": (errno.EPERM, "the unit is masked", "systemctl unmask it"),
    f"{SYSTEMD}.LoadFailed": (errno.EINVAL, "its unit file is faulty", "see systemctl status"),
    f"{SYSTEMD}.ShuttingDown": (
        errno.ESHUTDOWN,
        "the system is shutting down",
        "nothing is left to do",
    ),
    _FROZEN_ABOVE: (
        errno.EBUSY,
        "a slice above it is frozen",
        "systemctl thaw that slice",
    ),
    "org.freedesktop.DBus.Error.AccessDenied": (errno.EPERM, *_DENIED),
    "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired": (errno.EPERM, *_DENIED),
    "org.freedesktop.DBus.Error.InvalidArgs": (
        errno.EINVAL,
        "this systemd version rejects the value",
        "see qoslet explain",
    ),
    "org.freedesktop.DBus.Error.PropertyReadOnly": (
        errno.EINVAL,
        "this systemd version cannot change the property of a running unit",
        "it is set when the unit is recreated",
    ),
    "org.freedesktop.DBus.Error.LimitsExceeded": (
        errno.ENOSPC,
        "a limit of the bus or of systemd is reached",
        "stop unused units",
    ),
}

_JOBS = {
    "failed": "the job failed",
    "canceled": "the job was canceled",
    "timeout": "the job timed out",
    "waiting": "others come first, such as the stop of a slice above (systemctl list-jobs)",
    "dependency": "a unit that it needs failed",
    "skipped": "the job was skipped",
    "frozen": "it or a slice above it is frozen (systemctl thaw it)",
}


def object_path(unit: str) -> str:
    """The D-Bus object of a unit: other than letters and digits as ``_`` and two hex digits."""
    coded = [
        chr(byte) if chr(byte).isascii() and chr(byte).isalnum() else f"_{byte:02x}"
        for byte in unit.encode()
    ]
    return f"{PLACE}/unit/{''.join(coded)}"


def refusal(unit: str, deed: str, error: BusReply) -> CgroupError:
    """systemd's error in one line: the unit, what was tried, what the error means, and what to do."""
    number, meaning, advice = _MEANING.get(
        error.name, (0, error.name.rpartition(".")[2], f"see journalctl -u {unit}")
    )
    text = error.text.rstrip(".")
    said = f" ({text})" if text else ""
    return CgroupError(f"{unit}: systemd does not {deed}: {meaning}{said}; {advice}", number)


class Units:
    """The units of one manager. ``version`` is systemd's; ``control`` is where it keeps
    properties of units that are not transient, in a directory for each."""

    def __init__(self, bus: Bus, version: int, control: str = CONTROL) -> None:
        self.bus = bus
        self.version = version
        self.control = control
        self.stop_seconds = STOP_SECONDS
        self._kept: set[str] = set()

    async def make(self, unit: str, properties: Sequence[Signed], *, ours: bool) -> bool:
        """Start a transient unit; False if it runs already. A running unit is refused unless it is
        ``ours``, or was made by an earlier run of qoslet that did not come to write it down.

        A unit that failed or was stopped and that systemd remembers is cleared first. Raises
        ``CgroupError``.
        """
        await self.revert(unit)
        for last in (False, True):
            try:
                await self._job(
                    unit,
                    "make the unit",
                    "StartTransientUnit",
                    "ssa(sv)a(sa(sv))",
                    unit,
                    "replace",
                    variants(properties),
                    [],
                )
            except BusReply as error:
                if error.name != _EXISTS:
                    raise refusal(unit, "make the unit", error) from None
                runs = await self._state_at_rest(unit) in _RUNS
                ours = (
                    ours or error.again or await self._get(unit, "Description") == description(unit)
                )
                if (runs or last) and not ours:
                    raise refusal(unit, "make the unit", error) from None
                if runs:
                    return False
                if last:
                    await self._start(unit)
                    return False
                await self.clear(unit)
            else:
                return True
        return True

    async def _start(self, unit: str) -> None:
        """Start a unit of ours that systemd remembers by its settings. Raises ``CgroupError``."""
        try:
            await self._job(unit, "start the unit", "StartUnit", "ss", unit, "replace")
        except BusReply as error:
            raise refusal(unit, "start the unit", error) from None

    async def change(self, unit: str, properties: Sequence[Signed]) -> None:
        """Set properties, those and no others, until the next boot. Raises ``CgroupError``."""
        before = self._keeps(unit)
        try:
            await self.bus.call("SetUnitProperties", "sba(sv)", unit, True, variants(properties))
        except BusReply as error:
            names = ", ".join(name for name, _, _ in properties)
            raise refusal(unit, f"set {names}", error) from None
        finally:
            if not before and self._keeps(unit):
                self._kept.add(unit)

    def _keeps(self, unit: str) -> bool:
        """Whether systemd keeps properties of a unit for the next unit of that name, as it does if the
        unit is not transient or has been stopped."""
        return os.path.isdir(f"{self.control}/{unit}.d")

    async def stale(self, unit: str) -> bool:
        """Whether the unit was stopped before our properties came, so that systemd keeps them for the next
        unit of that name; then they are reverted. The unit's cgroup may still exist for a moment. Raises
        ``CgroupError``."""
        if unit not in self._kept or await self.state(unit) in _RUNS:
            return False
        await self.revert(unit)
        return True

    async def revert(self, unit: str) -> None:
        """Let systemd forget what it keeps of a unit since our own calls. Raises ``CgroupError``."""
        if unit not in self._kept:
            return
        try:
            await self.bus.call("RevertUnitFiles", "as", [unit])
        except BusReply as error:
            raise refusal(unit, "forget the unit's properties", error) from None
        self._kept.discard(unit)

    async def stop(self, unit: str, above: Sequence[str] = ()) -> None:
        """Stop a unit and forget that it failed; an absent unit counts as stopped. A frozen unit is thawed
        first, since no write to its cgroup undoes ``systemctl freeze``. Raises ``CgroupError``, which
        names those of the slices ``above`` that are frozen."""
        try:
            result = await self.bus.job("StopUnit", "ss", unit, "replace")
            if result == "frozen":
                await self.bus.call("ThawUnit", "s", unit)
                result = await self.bus.job("StopUnit", "ss", unit, "replace")
            _expect_done(unit, "stop the unit", result)
        except BusReply as error:
            if error.name == _FROZEN_ABOVE and (frozen := await self._frozen(above)):
                raise CgroupError(
                    f"{unit}: systemd does not stop the unit: above it {' and '.join(frozen)}"
                    f" {'are' if frozen[1:] else 'is'} frozen; systemctl thaw {' '.join(frozen)}",
                    errno.EBUSY,
                ) from None
            if error.name != _ABSENT:
                raise refusal(unit, "stop the unit", error) from None
        await self.revert(unit)
        if unit.endswith(".slice"):
            await self._forget_failed(unit.removesuffix(".slice"))

    async def _frozen(self, units: Sequence[str]) -> list[str]:
        """Those of the units that are frozen themselves."""
        return [one for one in units if await self._get(one, "FreezerState") == "frozen"]

    async def _forget_failed(self, stem: str) -> None:
        """Forget the scopes of a slice that systemd ended after an OOM kill: they would keep it loaded, and
        nobody could make one of its name. Systemd before 230 does not list them."""
        try:
            (found,) = await self.bus.call("ListUnitsByPatterns", "asas", ["failed"], ["*.scope"])
        except BusReply:
            return
        for name, *_ in found:
            if name.startswith(f"{stem}-"):
                await self.clear(name)

    async def clear(self, unit: str) -> None:
        """Forget that a unit failed."""
        try:
            await self.bus.call("ResetFailedUnit", "s", unit)
        except BusReply as error:
            if error.name != _ABSENT:
                raise refusal(unit, "forget that the unit failed", error) from None

    async def state(self, unit: str) -> str:
        """ActiveState of a unit; ``inactive`` where there is none, or where it cannot be read."""
        return await self._get(unit, "ActiveState") or "inactive"

    async def _get(self, unit: str, name: str) -> str:
        """A property of a unit; empty where it cannot be read."""
        try:
            return str(await self.bus.get(object_path(unit), f"{SYSTEMD}.Unit", name) or "")
        except BusReply:
            return ""

    async def _state_at_rest(self, unit: str) -> str:
        """ActiveState of a unit once it is not being stopped any more, at most ``stop_seconds`` on: a
        scope is, for a while after an OOM kill. Raises ``CgroupError``."""
        pause, waited = 0.01, 0.0
        while (found := await self.state(unit)) == "deactivating":
            if waited > self.stop_seconds:
                raise CgroupError(
                    f"{unit}: systemd is still stopping the unit; the next attempt creates it again",
                    errno.EAGAIN,
                )
            await asyncio.sleep(pause)
            waited += pause
            pause = min(pause * 2, 0.2)
        return found

    async def _job(self, unit: str, deed: str, member: str, signature: str, *body: object) -> None:
        """A job, done. Raises ``BusReply``; ``CgroupError`` where its result is another."""
        _expect_done(unit, deed, await self.bus.job(member, signature, *body))


def _expect_done(unit: str, deed: str, result: str) -> None:
    """Raise ``CgroupError`` where the result of a job is another."""
    if result != "done":
        raise CgroupError(
            f"{unit}: systemd does not {deed}: the job is {result}, "
            f"{_JOBS.get(result, 'the job failed')}; see journalctl -u {unit}",
            errno.EAGAIN if result in ("timeout", "waiting") else 0,
        )
