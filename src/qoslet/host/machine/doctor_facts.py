"""One look at this machine for ``doctor``: reads only, makes no group, asks no daemon; of programs it asks
runc and crun for their versions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from qoslet.core.node.lookup import Probed
from qoslet.core.node.machine import KUBELET_CONFIG, Controller, Layout, Machine, OciProgram
from qoslet.host.linux.procfs import text
from qoslet.host.linux.programs import find_program
from qoslet.host.machine.node_programs import (
    agent_roots,
    agent_states,
    bfq_devices,
    device_bpf,
    kubelet_trees,
    node_programs,
    oci_programs,
)
from qoslet.host.machine.probe import MountPoint, mounts, probe
from qoslet.host.machine.runc_fix import RuncFix, runc_fix
from qoslet.host.state.agents import left_roots, silent_roots

CAPABILITIES = {
    1: "CAP_DAC_OVERRIDE",
    5: "CAP_KILL",
    6: "CAP_SETGID",
    7: "CAP_SETUID",
    21: "CAP_SYS_ADMIN",
    24: "CAP_SYS_RESOURCE",
}
"""Bits of CapEff that matter here (linux/capability.h)."""

_SYSTEM_BUS = "/run/dbus/system_bus_socket"


def _runc_fix(programs: Iterable[OciProgram]) -> RuncFix:
    """Of the runc that was found; none needs no fix."""
    runc = next((one for one in programs if one.name == "runc"), None)
    program = find_program("runc")
    return "fixed" if runc is None or program is None else runc_fix(program, runc.version)


def _own(root: str) -> dict[str, str]:
    """Own cgroup by v1 controller list; the empty name is v2."""
    found = {}
    for line in (text(f"{root}/proc/self/cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            found[parts[1]] = parts[2]
    return found


def _capabilities(root: str) -> frozenset[str] | None:
    for line in (text(f"{root}/proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            bits = int(line.split()[1], 16)
            return frozenset(name for bit, name in CAPABILITIES.items() if bits >> bit & 1)
    return None


def _delegated(top: str, own: str) -> frozenset[str] | None:
    """Controllers that every v2 group from the root down to ours hands to its children."""
    parts = [part for part in own.split("/") if part]
    reach: frozenset[str] | None = None
    for count in range(len(parts) + 1):
        handed = text("/".join((top, *parts[:count], "cgroup.subtree_control")))
        if handed is None:
            return reach
        # The last group need not hand on yet: what it has, it can enable.
        if count == len(parts) and count:
            handed = text("/".join((top, *parts, "cgroup.controllers"))) or ""
        names = frozenset(handed.split())
        reach = names if reach is None else reach & names
    return reach


def _unified(root: str, mount: MountPoint, own: str, alone: bool) -> list[Controller]:
    """The controllers of a v2 mount. Root may enable whatever the mount has."""
    top = root + mount.point
    names = (text(f"{top}/cgroup.controllers") or "").split()
    at_root = os.access(f"{top}/cgroup.subtree_control", os.W_OK)
    place = top if at_root else top + own
    reach = frozenset(names) if at_root else _delegated(top, own)
    writable = os.access(f"{place}/cgroup.procs", os.W_OK) and os.access(place, os.W_OK)
    return [
        Controller(
            name,
            mount.point,
            "v2",
            None if reach is None else name in reach,
            writable if alone or at_root else False,
        )
        for name in names
    ]


def _files(root: str, mount: MountPoint | None) -> frozenset[str]:
    """Optional files of v2 groups, seen in the first group below the root."""
    if mount is None:
        return frozenset()
    try:
        with os.scandir(root + mount.point) as entries:
            group = next((e.path for e in entries if e.is_dir(follow_symlinks=False)), None)
        return frozenset(os.listdir(group)) if group else frozenset()
    except OSError:
        return frozenset()


def _dying(root: str, mount: MountPoint | None) -> int | None:
    stat = text(f"{root}{mount.point}/cgroup.stat") if mount is not None else None
    for line in (stat or "").splitlines():
        name, _, number = line.partition(" ")
        if name == "nr_dying_descendants" and number.isdecimal():
            return int(number)
    return None


def _lru_gen(root: str) -> bool | None:
    """The main switch. Source: Documentation/admin-guide/mm/multigen_lru.rst."""
    try:
        return bool(int(text(f"{root}/sys/kernel/mm/lru_gen/enabled") or "", 16) & 1)
    except ValueError:
        return None


def _controllers(
    root: str, probed: Probed, v2: MountPoint | None, own_group: str
) -> Iterator[Controller]:
    """The controllers of all hierarchies, and whether this process may use them."""
    if probed.hierarchy == "v1":
        for name, point in (probed.mounts or {}).items():
            yield Controller(name, point, "v1", True, os.access(root + point, os.W_OK))
    if v2 is not None:
        yield from _unified(root, v2, own_group, probed.hierarchy == "v2")


def look(root: str = "") -> Machine:
    """Everything ``doctor`` wants to know; ``root`` stands in front of every path."""
    probed = probe(root)
    table = mounts(root)
    unified = sorted((m for m in table if m.type == "cgroup2"), key=lambda m: len(m.point))
    v2 = unified[0] if unified else None
    own = _own(root)
    layout: Layout | None = probed.hierarchy
    if layout == "v1" and v2 is not None:
        layout = "hybrid"
    states = agent_states(root)
    cgroup_mounts = [mount for mount in table if mount.type in ("cgroup", "cgroup2")]
    return Machine(
        probed=probed,
        layout=layout,
        controllers=tuple(_controllers(root, probed, v2, own.get("", "/"))),
        options=v2.options if v2 is not None else (),
        own_cgroup=own,
        user=os.geteuid(),
        capabilities=_capabilities(root),
        bus=os.access(root + _SYSTEM_BUS, os.W_OK) if probed.systemd_runs else None,
        user_bus=os.path.exists(f"{root}/run/user/{os.geteuid()}/bus"),
        files=_files(root, v2),
        read_only=any("ro" in m.options for m in cgroup_mounts) if cgroup_mounts else None,
        lru_gen=_lru_gen(root),
        dying=_dying(root, v2),
        programs=node_programs(root),
        oci_programs=(programs := oci_programs(root)),
        runc_fix=_runc_fix(programs),
        kubelet_trees=kubelet_trees([root + mount.point for mount in cgroup_mounts]),
        kubelet_config=os.access(root + KUBELET_CONFIG, os.R_OK)
        if os.path.lexists(root + KUBELET_CONFIG)
        else None,
        agents=agent_roots(states),
        left_roots=tuple(one for state in states for one in left_roots(state)),
        silent_roots=tuple(one for state in states for one in silent_roots(state)),
        bfq=bfq_devices(root),
        device_bpf=device_bpf(root, probed.kernel or "") if layout == "v2" else None,
        cgroup_namespaces=os.path.exists(f"{root}/proc/self/ns/cgroup")
        if os.path.isdir(f"{root}/proc/self/ns")
        else None,
    )
