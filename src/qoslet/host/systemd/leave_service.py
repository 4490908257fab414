"""Moves a process that outlives a service out of the service's cgroup, into a scope of its own.

systemd warns of each process that is left in a unit's cgroup when the unit stops and when it starts
again. Source: systemd.kill(5) KillMode=; org.freedesktop.systemd1(5) StartTransientUnit.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from qoslet.errors import CannotDo

if TYPE_CHECKING:
    from qoslet.host.systemd.bus import Bus

SECONDS = 5.0
"""How long systemd may take; the loop waits, and the watchdog with it."""


def left_over(own: str, other: str) -> bool:
    """Whether a process shares the cgroup of a service with us; both texts are of
    ``/proc/PID/cgroup``."""
    places = [_place(text) for text in (own, other)]
    return places[0] == places[1] != "" and places[0].endswith(".service")


def _place(text: str) -> str:
    """The cgroup in systemd's own hierarchy."""
    rows = [line.split(":", 2) for line in text.splitlines()]
    known = {row[1]: row[2] for row in rows if len(row) == 3}
    return known.get("name=systemd") or known.get("", "")


def leave_service(pid: int) -> str:
    """Move process ``pid`` into a scope where it shares the cgroup of our service; why it could not
    be moved, else empty."""
    own, other = (_read(f"/proc/{one}/cgroup") for one in ("self", str(pid)))
    if not left_over(own, other):
        return ""
    # asyncio and D-Bus are costly: only a service pays for them
    import asyncio

    from qoslet.host.systemd.bus import SYSTEM_BUS, Bus, BusReply, user_bus

    try:
        bus = Bus(user_bus() if os.geteuid() else SYSTEM_BUS, back_seconds=1.0)
        try:
            bus.run(asyncio.wait_for(_moved(bus, pid), SECONDS))
        finally:
            bus.close()
    except TimeoutError:
        return f"systemd does not answer within {SECONDS:.0f} s"
    except (BusReply, CannotDo, OSError) as error:
        return str(error)
    return ""


async def _moved(bus: Bus, pid: int) -> None:
    from qoslet.host.systemd.bus import variants

    properties = (
        ("Description", "s", "qoslet's keeper of containers"),
        ("PIDs", "au", [pid]),
        ("CollectMode", "s", "inactive-or-failed"),
    )
    name = f"qoslet-keeper-{pid}.scope"
    await bus.job("StartTransientUnit", "ssa(sv)a(sa(sv))", name, "fail", variants(properties), [])


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
