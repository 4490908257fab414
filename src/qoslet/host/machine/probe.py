"""What this machine is: capacity, hierarchy, kernel and systemd, from a few small files.

Reads only; whatever cannot be read stays unknown. ``root`` stands in front of every path, so
that a declared tree can be looked at like a machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from qoslet.core.node.fields import cpus as cpu_numbers
from qoslet.core.node.lookup import Probed
from qoslet.host.cgroupfs.mounted import CgroupMounts, cgroup_mounts, cgroups
from qoslet.host.linux.mountinfo import MountPoint as MountPoint
from qoslet.host.linux.mountinfo import mounts as mounts
from qoslet.host.linux.procfs import listed, text
from qoslet.host.machine.topology import layout, meminfo, numa

if TYPE_CHECKING:
    pass

_HUGE = "/sys/kernel/mm/hugepages"
_SYSTEMD_LIBRARIES = ("/lib/systemd", "/usr/lib/systemd", "/usr/lib64/systemd")


def _number(path: str) -> int | None:
    digits = (text(path) or "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() else None


def _own_cgroup(root: str) -> str:
    """The v2 cgroup of this process, ``/`` where not known."""
    for line in (text(f"{root}/proc/self/cgroup") or "").splitlines():
        if line.startswith("0::"):
            return line[3:]
    return "/"


def _children(directory: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield entry.path


def _below_root(root: str, groups: CgroupMounts) -> str | None:
    """A v2 cgroup other than the root, which has no limit files: ours, or the first one."""
    if groups.unified is None:
        return None
    top = root + groups.unified.point
    own = _own_cgroup(root).strip("/")
    if own and os.path.isdir(f"{top}/{own}"):
        return f"{top}/{own}"
    return next(_children(top), None)


def _swap_controller(root: str, groups: CgroupMounts) -> bool | None:
    """Whether swap can be limited. None where no cgroup shows it."""
    if groups.hierarchy == "v1":
        memory = groups.where.get("memory")
        if memory is None:
            return None
        return os.path.exists(f"{root}{memory}/memory.memsw.limit_in_bytes")
    group = _below_root(root, groups)
    if group is None or not os.path.exists(f"{group}/memory.max"):
        return None
    return os.path.exists(f"{group}/memory.swap.max")


def _rsvd(root: str, groups: CgroupMounts) -> bool | None:
    """Whether hugetlb reservations can be limited. None where no cgroup has hugetlb files."""
    if groups.hierarchy == "v1":
        point = groups.where.get("hugetlb")
        group = None if point is None else root + point
    else:
        group = _below_root(root, groups)
    files = [name for name in listed(group) if name.startswith("hugetlb.")] if group else []
    return any(".rsvd." in name for name in files) if files else None


def _controllers(root: str, groups: CgroupMounts) -> frozenset[str] | None:
    if groups.hierarchy == "v1":
        return frozenset(groups.where)
    if groups.unified is None:
        return None
    names = text(f"{root}{groups.unified.point}/cgroup.controllers")
    return None if names is None else frozenset(names.split())


def _mount_facts(groups: CgroupMounts) -> dict[str, str] | None:
    """v1: controller to mount point; v2: the options of the mount."""
    if groups.hierarchy == "v1":
        return dict(sorted(groups.where.items()))
    if groups.unified is None:
        return None
    pairs = (option.partition("=") for option in groups.unified.options)
    return {name: value for name, _, value in pairs}


def _hugepages(root: str) -> dict[int, int] | None:
    """Page size to bytes set aside; None where the kernel does not tell."""
    found = {}
    for name in listed(root + _HUGE):
        size = name.removeprefix("hugepages-").removesuffix("kB")
        count = _number(f"{root}{_HUGE}/{name}/nr_hugepages")
        if size.isdigit() and count is not None:
            found[int(size) * 1024] = count * int(size) * 1024
    return dict(sorted(found.items())) if os.path.isdir(root + _HUGE) else None


def _systemd_version(root: str) -> int | None:
    """The version in the name of systemd's own library; asking systemd itself is slow."""
    places = [
        *_SYSTEMD_LIBRARIES,
        *(f"/usr/lib/{name}/systemd" for name in listed(f"{root}/usr/lib") if "-linux-" in name),
    ]
    for place in places:
        for name in listed(root + place):
            if name.startswith("libsystemd-shared-") and name.endswith(".so"):
                digits = name.removeprefix("libsystemd-shared-")
                number = digits[: len(digits) - len(digits.lstrip("0123456789"))]
                if number:
                    return int(number)
    return None


def _runs_systemd(root: str) -> bool | None:
    """Whether PID 1 is systemd; None where /proc tells nothing."""
    first = text(f"{root}/proc/1/comm")
    if first is None:
        return None
    return first.strip() == "systemd" and os.path.isdir(f"{root}/run/systemd/system")


def _pid_limit(root: str) -> int | None:
    """The smaller of kernel.pid_max and kernel.threads-max."""
    names = ("pid_max", "threads-max")
    numbers = [_number(f"{root}/proc/sys/kernel/{name}") for name in names]
    return min((number for number in numbers if number is not None), default=None)


def _identity(root: str) -> dict[str, str]:
    """What names this machine, as an API Node does; only root can read its system UUID."""
    places = {
        "name": "/proc/sys/kernel/hostname",
        "machineID": "/etc/machine-id",
        "systemUUID": "/sys/class/dmi/id/product_uuid",
        "bootID": "/proc/sys/kernel/random/boot_id",
    }
    found = {name: (text(root + path) or "").strip() for name, path in places.items()}
    return {name: value for name, value in found.items() if value}


def probe(root: str = "", page_size: int | None = None) -> Probed:
    """Look at the machine below ``root``. ``page_size`` in bytes: the running kernel's if None."""
    memory = meminfo(text(f"{root}/proc/meminfo"))
    groups = cgroups(cgroup_mounts(root))
    online = (text(f"{root}/sys/devices/system/cpu/online") or "").strip() or None
    numbers = cpu_numbers(online) if online else None
    systemd = _runs_systemd(root)
    pressure = text(f"{root}/proc/pressure/memory") is not None
    return Probed(
        cpu=len(numbers) if numbers else None,
        memory=memory.get("MemTotal"),
        swap=memory.get("SwapTotal"),
        pid=_pid_limit(root),
        hugepages=_hugepages(root),
        hierarchy=groups.hierarchy,
        kernel=(text(f"{root}/proc/sys/kernel/osrelease") or "").strip() or None,
        page_size=page_size or os.sysconf("SC_PAGE_SIZE"),
        swap_controller=_swap_controller(root, groups),
        systemd=_systemd_version(root) if systemd else None,
        systemd_runs=systemd,
        controllers=_controllers(root, groups),
        hugetlb_rsvd=_rsvd(root, groups),
        psi=pressure if memory else None,
        mounts=_mount_facts(groups),
        unified=groups.unified.point if groups.unified is not None else None,
        numa=numa(root),
        cpus=online,
        layout=layout(root, numbers) if numbers else None,
        identity=_identity(root),
    )
