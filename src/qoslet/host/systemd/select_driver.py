"""The systemd driver of this machine: opened, or refused with the reason and the remedy; and whether a
container runtime uses the same driver as the node."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from qoslet.core.cgroup.names import DEFAULT_POINT, DriverName
from qoslet.core.cgroup.unit_properties import version_of
from qoslet.errors import CannotDo
from qoslet.host.linux.mountinfo import mounts, systemds_own

if TYPE_CHECKING:
    from qoslet.host.systemd.bus import Bus
    from qoslet.host.systemd.driver import Systemd
    from qoslet.host.systemd.units import Units

_CGROUPFS = "--cgroup-driver cgroupfs"


def systemd_driver(
    hierarchy: str,
    where: Mapping[str, str],
    root: str,
    *,
    files: Iterable[str] = (),
    attend: Callable[[Bus], None] = lambda _: None,
) -> Systemd:
    """The driver for ``root``, a path as ``root_path`` gives it, by this user's manager: the system's for
    root. ``where`` is as for ``layout.layout_of``, ``files`` as for ``Cgroupfs``. ``attend`` is given
    the bus before anything is asked. Raises ``CannotDo`` where it does not fit this machine."""
    if (first := _first_process()) != "systemd":
        raise CannotDo(
            f"the systemd driver needs systemd as PID 1, but PID 1 is {first or 'unknown'}",
            where="--cgroup-driver",
            hint=_CGROUPFS,
        )
    user = os.geteuid() != 0
    if user and hierarchy == "v1":
        raise CannotDo(
            "systemd delegates no cgroup v1 controller to users",
            where="--cgroup-driver",
            hint="run as root, or boot with cgroup v2",
        )
    # asyncio and D-Bus are costly: only who uses systemd pays for them
    from qoslet.host.systemd.bus import SYSTEM_BUS, Bus, runtime_directory, user_bus
    from qoslet.host.systemd.driver import Systemd

    bus = Bus(user_bus() if user else SYSTEM_BUS)
    attend(bus)
    try:
        units, above = bus.run(_manager(bus))
        if user:
            units.control = f"{runtime_directory()}/systemd/user.control"
            where = {"unified": f"{where.get('unified', DEFAULT_POINT)}{above}"}
        own = systemds_own(mounts()) if hierarchy == "v1" else []
        return Systemd(hierarchy, where, root, units, own=own, files=files)
    except BaseException:
        bus.close()
        raise


def fits_runtime(kind: DriverName, runtime: str, told: DriverName | None) -> None:
    """Raise ``CannotDo`` where a container runtime makes its groups with the other driver:
    its containers would then not be below the pods' groups. ``told`` is what it says of itself,
    None if it does not."""
    if told is None or told == kind:
        return
    setting = {
        "containerd": f"SystemdCgroup = {'true' if kind == 'systemd' else 'false'} in the "
        "options of the runtime in config.toml",
        "cri-o": f'cgroup_manager = "{kind}" in crio.conf',
    }.get(runtime, f"{runtime} with the {kind} driver")
    raise CannotDo(
        f"{runtime} uses the {told} cgroup driver, the node uses {kind}",
        where="--cgroup-driver",
        hint=f"--cgroup-driver {told}, or {setting}",
    )


def _first_process() -> str:
    """The name of PID 1; empty where /proc tells nothing."""
    try:
        with open("/proc/1/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


async def _manager(bus: Bus) -> tuple[Units, str]:
    """The manager's units, and the group that all of them are in. Raises ``CannotDo``."""
    from qoslet.host.systemd.bus import MANAGER, PLACE, BusReply
    from qoslet.host.systemd.units import Units

    try:
        version = version_of(str(await bus.get(PLACE, MANAGER, "Version")))
        above = str(await bus.get(PLACE, MANAGER, "ControlGroup"))
    except (BusReply, ValueError) as error:
        raise CannotDo(
            f"cannot read the systemd version: {error}", where=bus.address, hint=_CGROUPFS
        ) from None
    return Units(bus, version), above.rstrip("/")
