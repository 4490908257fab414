"""``config.json`` of a bundle: a container as an OCI runtime is told to make it.

The resources are those of ``plan -o oci``; besides them only devices are said, for every runtime
allows all where nothing is. Source: OCI runtime-spec 1.0.2; containerd cri container_create_linux.go
and oci/spec.go, whose defaults for mounts, capabilities, masked and read-only paths are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from qoslet.core.cgroup.names import DEFAULT_POINT
from qoslet.core.cgroup.unit_properties import (
    OOM_POLICY_SINCE,
    oom_policy,
    properties,
    properties_v1,
)
from qoslet.core.rules.cpu import QUOTA_PERIOD_US
from qoslet.core.workload.container_spec import ContainerSpec, PlannedBlock, Sandbox
from qoslet.core.workload.env import DEFAULT_PATH
from qoslet.core.workload.oci.image import Execution, command_of
from qoslet.core.workload.oci.oci_spec import Kind
from qoslet.core.workload.process_spec import ProcessSpec
from qoslet.core.workload.security.context import ALL_CAPABILITIES, CAPABILITIES, capabilities
from qoslet.core.workload.volumes import VolumeMount

SPEC_VERSION = "1.0.2"
STOP_SIGNAL = "org.opencontainers.image.stopSignal"
"""The annotation that keeps the image's stop signal (OCI image-spec annotations.md)."""
_NO_SUBGROUP = "run.oci.systemd.subgroup"
"""crun's: the group below the scope that it would make; none, so that limits and processes meet."""

_PROPERTY = "org.systemd.property."
"""Before a property of the scope, in D-Bus's text form. Source: runc docs/systemd.md; crun(1)."""

_FLAGS = ("nosuid", "noexec", "nodev")
_MASKED = (
    "/proc/acpi /proc/asound /proc/kcore /proc/keys /proc/latency_stats /proc/timer_list "
    "/proc/timer_stats /proc/sched_debug /sys/firmware /proc/scsi /sys/devices/virtual/powercap"
)
_READ_ONLY = "/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger"

_Made = dict[str, Any]


class User(Struct, frozen=True):
    """Who a container runs as, numbers all."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class PreparedContainer(Struct, frozen=True):
    """What a bundle needs besides the plan, known once the container's image was found."""

    execution: Execution
    """What the image says of its process."""
    user: User
    root: str
    """The directory of the container's file tree."""
    spaces: Mapping[Kind, str]
    """The paths of the namespaces that the pod's containers share."""
    files: Mapping[str, str]
    """The paths of hosts, hostname and resolv.conf by their place in the container."""
    mounts: Sequence[VolumeMount]
    """Volumes whose sources exist and can be bound."""
    able: frozenset[int] = ALL_CAPABILITIES
    """The capabilities of the process that makes the container, which can give no others."""
    systemd: int | None = None
    """The version of the systemd that makes the container's scope; None if none does."""
    untold: tuple[str, ...] = ()
    """Files whose values the runtime does not pass on to systemd."""


def bundle_config(
    pod: Sandbox, launch: ProcessSpec, planned: PlannedBlock, found: PreparedContainer, *, v2: bool
) -> _Made:
    """The whole document. Raises ValueError where nothing would be executed."""
    asked = launch.contained
    assert asked is not None
    argv = command_of(found.execution, asked.command, asked.args)
    if not argv:
        raise ValueError("no command: neither the manifest nor the image has one")
    process: _Made = {
        "terminal": False,
        "user": _user(found.user),
        "args": list(argv),
        "env": _environment(found.execution, asked.env),
        "cwd": asked.cwd or found.execution.working_dir or "/",
        "capabilities": _capabilities(asked, found.able),
        "noNewPrivileges": asked.no_new_privileges,
    }
    if launch.oom_score_adj is not None:
        process["oomScoreAdj"] = launch.oom_score_adj
    made: _Made = {
        "ociVersion": SPEC_VERSION,
        "process": process,
        "root": {"path": found.root, "readonly": asked.read_only_root},
        "mounts": _mounts(pod, asked, found),
        "annotations": _annotations(found.execution, launch) | _scope(planned.resources, found, v2),
        "linux": _linux(pod, asked, planned, found, v2),
    }
    return made


def _user(user: User) -> _Made:
    made: _Made = {"uid": user.uid, "gid": user.gid}
    if user.groups:
        made["additionalGids"] = list(user.groups)
    return made


def _environment(image: Execution, env: Sequence[tuple[str, str]]) -> list[str]:
    """The image's variables, those of the manifest over them."""
    own = [text.partition("=") for text in image.env or ()]
    merged = {"PATH": DEFAULT_PATH} | {name: value for name, _, value in own if name}
    merged |= dict(env)
    return [f"{name}={value}" for name, value in merged.items()]


def _capabilities(asked: ContainerSpec, able: frozenset[int]) -> _Made:
    """All means all that there are here; one that was named and is not there is the runtime's to
    refuse."""
    held, _ = capabilities(asked.add, asked.drop, asked.privileged)
    if asked.privileged or "ALL" in asked.add:
        held &= able
    names = [f"CAP_{name}" for name, number in CAPABILITIES.items() if number in held]
    return dict.fromkeys(("bounding", "effective", "permitted"), names)


def _annotations(image: Execution, launch: ProcessSpec) -> dict[str, str]:
    """``launch`` has the default where the manifest gives no signal: the image's goes before that."""
    given = launch.stop_signal != "SIGTERM"
    signal = launch.stop_signal if given else image.stop_signal
    return {_NO_SUBGROUP: ""} | ({STOP_SIGNAL: signal} if signal else {})


def _scope(resources: Mapping[str, Any], found: PreparedContainer, v2: bool) -> dict[str, str]:
    """What systemd has to know of the scope from its creation on, for it writes files anew from
    what it knows: memory.oom.group, which it takes then only (systemd.scope(5)), and the amounts
    of which the runtime does not tell it."""
    if found.systemd is None:
        return {}
    made: dict[str, str] = {}
    group = (resources.get("unified") or {}).get("memory.oom.group")
    if group is not None and found.systemd >= OOM_POLICY_SINCE:
        made["OOMPolicy"] = f"'{oom_policy(group)}'"
    files = {file: text for file, text in _limits(resources, v2).items() if file in found.untold}
    told = (properties if v2 else properties_v1)(files, found.systemd)
    made |= {name: f"uint64 {value!r}" for name, value in told}
    return {f"{_PROPERTY}{name}": text for name, text in made.items()}


def _limits(resources: Mapping[str, Any], v2: bool) -> dict[str, str]:
    """The files of what is set of CPU, memory and processes, those of the unified map too."""
    made: dict[str, str] = {}
    memory = resources.get("memory") or {}
    limit, both = memory.get("limit") or 0, memory.get("swap") or 0
    if limit > 0:
        made["memory.max" if v2 else "memory.limit_in_bytes"] = str(limit)
    if v2 and 0 < limit <= both:
        made["memory.swap.max"] = str(both - limit)
    pids = (resources.get("pids") or {}).get("limit") or 0
    if pids > 0:
        made["pids.max"] = str(pids)
    cpu = resources.get("cpu") or {}
    quota, period_us = cpu.get("quota") or 0, cpu.get("period") or QUOTA_PERIOD_US
    if quota > 0 and v2:
        made["cpu.max"] = f"{quota} {period_us}"
    elif quota > 0:
        made |= {"cpu.cfs_period_us": str(period_us), "cpu.cfs_quota_us": str(quota)}
    return made | (resources.get("unified") or {})


def _mount(where: str, kind: str, *options: str, source: str = "") -> _Made:
    return {"destination": where, "type": kind, "source": source or kind, "options": [*options]}


def _mounts(pod: Sandbox, asked: ContainerSpec, found: PreparedContainer) -> list[_Made]:
    """The system's first, then files and volumes, those inside others after them."""
    access = "rw" if asked.privileged else "ro"
    made = [_mount("/proc", "proc", *_FLAGS)]
    if asked.privileged:
        made.append(_mount("/dev", "bind", "rbind", "rslave", "rw", source="/dev"))
    else:
        tmpfs = ("nosuid", "strictatime", "mode=755", "size=65536k")
        pts = ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5")
        made += [
            _mount("/dev", "tmpfs", *tmpfs),
            _mount("/dev/pts", "devpts", *pts),
            _mount("/dev/mqueue", "mqueue", *_FLAGS),
        ]
    made += [
        _mount("/sys", "sysfs", *_FLAGS, access),
        _mount(DEFAULT_POINT, "cgroup", *_FLAGS, "relatime", access),
    ]
    if pod.host_ipc and not asked.privileged:
        made.append(_mount("/dev/shm", "bind", "rbind", "rw", source="/dev/shm"))
    taken = {one.path for one in found.mounts}
    made += [
        _mount(path, "bind", "rbind", "rprivate", "rw", source=source)
        for path, source in found.files.items()
        if path not in taken
    ]
    made += [
        _mount(one.path, "bind", "rbind", "rprivate", _access(one), source=one.source)
        for one in sorted(found.mounts, key=lambda one: one.path.count("/"))
    ]
    return made


def _access(one: VolumeMount) -> str:
    return "ro" if one.read_only else "rw"


def _linux(
    pod: Sandbox, asked: ContainerSpec, planned: PlannedBlock, found: PreparedContainer, v2: bool
) -> _Made:
    made: _Made = {
        "cgroupsPath": planned.path,
        "namespaces": _namespaces(pod, asked, found, v2),
        "resources": {
            **planned.resources,
            "devices": [{"allow": asked.privileged, "access": "rwm"}],
        },
        "rootfsPropagation": "rslave",
    }
    if pod.sysctls:
        made["sysctl"] = dict(pod.sysctls)
    if not asked.privileged:
        made["maskedPaths"] = _MASKED.split()
        made["readonlyPaths"] = _READ_ONLY.split()
    return made


def _namespaces(
    pod: Sandbox, asked: ContainerSpec, found: PreparedContainer, v2: bool
) -> list[dict[str, str]]:
    """Mounts are each container's own, PIDs too unless the pod is on the host's; of control groups
    a namespace of its own on v2, as CRI runtimes give it, but not to a privileged one."""
    made = [{"type": "mount"}]
    if not pod.host_pid:
        made.append({"type": "pid"})
    if v2 and not asked.privileged:
        made.append({"type": "cgroup"})
    return [*made, *({"type": kind, "path": path} for kind, path in found.spaces.items())]
