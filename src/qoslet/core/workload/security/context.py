"""What a security context asks of a plain process: the identity to take, and what cannot be had.

Two answers are kept apart. *Refusals* are isolation that the pod asked for by name and would
not get. What every container gets without asking (its own file system, network and process
table) is no refusal; ``pod_reader`` says it once.

Source: core/v1 PodSecurityContext, SecurityContext; kubelet securitycontext util.go; the
default capabilities are those of containerd's oci.defaultUnixCaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from msgspec import Struct

_NAMES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP "
    "LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER "
    "SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE "
    "SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP "
    "MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF "
    "CHECKPOINT_RESTORE"
)
CAPABILITIES = {name: number for number, name in enumerate(_NAMES.split())}
"""Capability name without ``CAP_`` to its number in linux/capability.h."""

_DEFAULT_NAMES = (
    "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP "
    "NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE"
)
DEFAULT_CAPABILITIES = frozenset(CAPABILITIES[name] for name in _DEFAULT_NAMES.split())
ALL_CAPABILITIES = frozenset(CAPABILITIES.values())


class ProcessRights(Struct, frozen=True):
    """Who starts the containers. ``root`` tells whether identities can be changed at all."""

    uid: int = 0
    gid: int = 0
    root: bool = True


class Credentials(Struct, frozen=True):
    """Who the process is. ``capabilities`` bounds what it may ever hold."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    capabilities: frozenset[int]
    no_new_privileges: bool


class IsolationRefusal(Struct, frozen=True):
    """Isolation that was asked for and cannot be given: the field and what is missing. ``hint`` is
    a way on beside ``--unconfined`` alone, ``why`` the reason where it is no isolation."""

    field: str
    message: str
    hint: str = ""
    why: str = "the runtime cannot isolate it as requested"


_HANDLED_NAMES = (
    "runAsUser runAsGroup runAsNonRoot supplementalGroups supplementalGroupsPolicy fsGroup "
    "capabilities allowPrivilegeEscalation privileged readOnlyRootFilesystem seccompProfile "
    "appArmorProfile seLinuxOptions procMount fsGroupChangePolicy seLinuxChangePolicy"
)
_HANDLED = frozenset(_HANDLED_NAMES.split())

_APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


def confine(
    pod_context: Mapping[str, Any], context: Mapping[str, Any], field: str, powers: ProcessRights
) -> tuple[Credentials, list[IsolationRefusal]]:
    """The identity of a container at ``field`` and what it asked for in vain."""
    uid, gid = _ids(pod_context, context, powers)
    privileged = context.get("privileged") is True
    refusals = _profiles(pod_context, "spec.securityContext")
    refusals += _profiles(context, f"{field}.securityContext")
    if context.get("readOnlyRootFilesystem") is True:
        where = f"{field}.securityContext.readOnlyRootFilesystem"
        refusals.append(IsolationRefusal(where, "the host's file system stays writable"))
    if _either(pod_context, context, "runAsNonRoot") is True and uid == 0:
        refusals.append(
            IsolationRefusal(
                f"{field}.securityContext.runAsNonRoot", "the process would run as UID 0"
            )
        )
    if not powers.root and (uid, gid) != (powers.uid, powers.gid):
        where = f"{field}.securityContext.runAsUser"
        refusals.append(
            IsolationRefusal(where, f"UID {powers.uid} cannot start a process as {uid}:{gid}")
        )
    wanted = context.get("capabilities") or {}
    held, unknown = capabilities(wanted.get("add") or (), wanted.get("drop") or (), privileged)
    refusals += [
        IsolationRefusal(f"{field}.securityContext.capabilities", f"capability {name} is not known")
        for name in unknown
    ]
    identity = Credentials(
        uid=uid,
        gid=gid,
        groups=_groups(pod_context) if powers.root else (),
        capabilities=held,
        no_new_privileges=context.get("allowPrivilegeEscalation") is False or not powers.root,
    )
    return identity, refusals


def _either(pod_context: Mapping[str, Any], context: Mapping[str, Any], name: str) -> Any:
    """The container's word, else the pod's."""
    value = context.get(name)
    return pod_context.get(name) if value is None else value


def _ids(
    pod_context: Mapping[str, Any], context: Mapping[str, Any], powers: ProcessRights
) -> tuple[int, int]:
    """User and group. Without an image the default is who starts it; a group that is not
    given is 0, as runtimes do for a numeric user."""
    uid = _either(pod_context, context, "runAsUser")
    gid = _either(pod_context, context, "runAsGroup")
    default_gid = powers.gid if uid is None or not powers.root else 0
    return (
        uid if _is_id(uid) else powers.uid,
        gid if _is_id(gid) else default_gid,
    )


def _is_id(value: object) -> TypeGuard[int]:
    """Whether ``value`` is a user or group number."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32 - 1


def _malformed(context: Mapping[str, Any], where: str) -> list[IsolationRefusal]:
    """Identities that are no numbers: running as somebody else instead is no answer."""
    return [
        IsolationRefusal(f"{where}.{name}", f"{context[name]!r} is not a user or group ID")
        for name in ("runAsUser", "runAsGroup", "fsGroup")
        if context.get(name) is not None and not _is_id(context[name])
    ]


def _groups(pod_context: Mapping[str, Any]) -> tuple[int, ...]:
    """Supplemental groups; ``fsGroup`` is one of them (kubelet, GetExtraSupplementalGroups)."""
    asked = [*(pod_context.get("supplementalGroups") or ()), pod_context.get("fsGroup")]
    return tuple(dict.fromkeys(group for group in asked if _is_id(group)))


def fs_group(pod_context: Mapping[str, Any]) -> int | None:
    """The group that owns the pod's volumes, None where none is asked for."""
    group = pod_context.get("fsGroup")
    return group if _is_id(group) else None


def capabilities(
    add: Iterable[object], drop: Iterable[object], privileged: bool
) -> tuple[frozenset[int], list[str]]:
    """The capabilities of a container that asks so, and the dropped names that nobody knows."""
    if privileged:
        return ALL_CAPABILITIES, []
    added, dropped = [*map(_capability_name, add)], [*map(_capability_name, drop)]
    held = frozenset() if "ALL" in dropped else DEFAULT_CAPABILITIES
    if "ALL" in added:
        held = ALL_CAPABILITIES
    unknown = [name for name in dropped if name != "ALL" and name not in CAPABILITIES]
    held -= {CAPABILITIES[name] for name in dropped if name in CAPABILITIES}
    held |= {CAPABILITIES[name] for name in added if name in CAPABILITIES}
    return held, unknown


def _capability_name(name: object) -> str:
    """``NET_ADMIN`` for every way to write it."""
    return str(name).upper().removeprefix("CAP_")


def _profiles(context: Mapping[str, Any], where: str) -> list[IsolationRefusal]:
    """Kernel confinement that a plain process does not get."""
    refusals = _malformed(context, where)
    for name, title in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        kind = (context.get(name) or {}).get("type")
        if kind not in (None, "Unconfined"):
            way = "run it --with runc, crun or containerd; --unconfined runs it without"
            message = f"the {title} profile ({kind}) is not loaded"
            hint = way if title == "seccomp" else ""
            refusals.append(IsolationRefusal(f"{where}.{name}", message, hint))
    if context.get("seLinuxOptions"):
        refusals.append(IsolationRefusal(f"{where}.seLinuxOptions", "the SELinux label is not set"))
    return refusals


def pod_refusals(document: Mapping[str, Any]) -> list[IsolationRefusal]:
    """Isolation that the pod as a whole asks for and does not get."""
    spec = document.get("spec") or {}
    refusals = []
    if spec.get("hostUsers") is False:
        refusals.append(IsolationRefusal("spec.hostUsers", "no user namespace is created"))
    if spec.get("runtimeClassName"):
        name = spec["runtimeClassName"]
        refusals.append(IsolationRefusal("spec.runtimeClassName", f"{name!r} does not run it"))
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    for key, value in annotations.items():
        if str(key).startswith(_APPARMOR_ANNOTATION) and value != "unconfined":
            refusals.append(
                IsolationRefusal(
                    f"metadata.annotations[{key}]", f"the AppArmor profile ({value}) is not loaded"
                )
            )
    return refusals


def unknown_additions(context: Mapping[str, Any]) -> list[str]:
    """The capabilities that a container asks for and nobody knows."""
    wanted = context.get("capabilities")
    asked = wanted.get("add") if isinstance(wanted, Mapping) else None
    names = map(_capability_name, asked if isinstance(asked, list) else ())
    return [name for name in names if name != "ALL" and name not in CAPABILITIES]


def unhandled(context: Mapping[str, Any], where: str) -> list[str]:
    """Fields of a security context that nothing here reads, such as ``sysctls``."""
    return [f"{where}.{name}" for name in context if name not in _HANDLED]
