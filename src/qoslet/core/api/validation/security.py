"""Rules for the security contexts of a pod and of its containers.

Source: ValidatePodSecurityContext (validatePodSpecSecurityContext), ValidateSecurityContext,
validateSeccompProfileField, ValidateAppArmorProfileField, validateSysctls, validateLinux,
validateWindows.
"""

from __future__ import annotations

import re
from typing import Any

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.schema import shown
from qoslet.core.api.validation import names
from qoslet.core.api.validation.fields import Fields

_ID_MAX = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")

_LINUX_ONLY_OF_POD = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
]
_LINUX_ONLY = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
]


def pod_context(value: Any, path: str, faults: list[FieldFault]) -> None:
    """``spec.securityContext``."""
    given = _context(value, path, faults)
    if given is None:
        return
    _identity(given)
    given.between("fsGroup", 0, _ID_MAX, 64)
    groups = given.value.get("supplementalGroups")
    for index, group in enumerate(groups if isinstance(groups, list) else ()):
        item = Fields({"group": group}, "", [])
        if item.between("group", 0, _ID_MAX, 64) is None or item.faults:
            place = f"{given.path}.supplementalGroups[{index}]"
            message = f"{shown(str(group), 40)} is not a group ID"
            faults.append(FieldFault(place, message, f"use 0 to {_ID_MAX}"))
    given.choose("fsGroupChangePolicy", ("OnRootMismatch", "Always"))
    given.choose("supplementalGroupsPolicy", ("Merge", "Strict"))
    seen: set[str] = set()
    for sysctl in given.items("sysctls"):
        name = sysctl.need("name")
        sysctl.text("value")
        if name and (len(name) > 253 or not _SYSCTL.fullmatch(name)):
            hint = "such as net.core.somaxconn"
            sysctl.refuse("name", f"{shown(name)!r} is not a sysctl name", hint)
        elif name and name in seen:
            sysctl.refuse("name", f"{name} occurs twice", "remove one")
        seen.add(name)


def container_context(value: Any, path: str, faults: list[FieldFault]) -> None:
    """``securityContext`` of a container."""
    given = _context(value, path, faults)
    if given is None:
        return
    _identity(given)
    privileged = given.flag("privileged")
    given.flag("readOnlyRootFilesystem")
    given.choose("procMount", ("Default", "Unmasked"))
    capabilities = given.inside("capabilities")
    added = capabilities.texts("add") if capabilities else []
    if capabilities:
        capabilities.texts("drop")
    if given.flag("allowPrivilegeEscalation") is False:
        cause = "privileged: true" if privileged else ""
        cause = cause or ("capability CAP_SYS_ADMIN" if "CAP_SYS_ADMIN" in added else "")
        if cause:
            hint = "remove one of them"
            given.refuse("allowPrivilegeEscalation", f"false cannot stand beside {cause}", hint)


def _context(value: Any, path: str, faults: list[FieldFault]) -> Fields | None:
    above, _, name = path.rpartition(".")
    return Fields({name: value}, above, faults).inside(name)


def _identity(given: Fields) -> None:
    """What both contexts have."""
    given.between("runAsUser", 0, _ID_MAX, 64)
    given.between("runAsGroup", 0, _ID_MAX, 64)
    given.flag("runAsNonRoot")
    given.inside("seLinuxOptions")
    given.inside("windowsOptions")
    for name in ("seccompProfile", "appArmorProfile"):
        profile = given.inside(name)
        if profile is None:
            continue
        kind = profile.need("type")
        profile.choose("type", _PROFILES)
        local = profile.text("localhostProfile")
        has_local = profile.value.get("localhostProfile") is not None
        if kind == "Localhost" and not (has_local if name == "seccompProfile" else local.strip()):
            profile.refuse("localhostProfile", "is missing", "name the profile on the node")
        elif kind in _PROFILES and kind != "Localhost" and has_local:
            message = f"cannot stand beside type {kind}"
            profile.refuse("localhostProfile", message, "remove it, or set type Localhost")
        elif name == "seccompProfile" and not names.is_local_path(local):
            message = f"{shown(local)!r} leaves the profiles' directory"
            profile.refuse("localhostProfile", message, "use a relative path without ..")


def by_system(value: Any, path: str, faults: list[FieldFault], system: str, *, pod: bool) -> None:
    """What cannot be set where ``spec.os.name`` is ``system``."""
    given = _context(value, path, [])
    if given is None:
        return
    forbidden = _LINUX_ONLY_OF_POD if pod else _LINUX_ONLY
    if pod and given.value.get("sysctls"):
        forbidden = [*forbidden, "sysctls"]
    if system == "linux":
        forbidden = ["windowsOptions"]
    other = "Linux" if system == "windows" else "Windows"
    kind = "Windows" if system == "windows" else "Linux"
    for name in forbidden:
        if given.value.get(name) is not None:
            place = f"{given.path}.{name}"
            message = f"cannot be set: it is for {other}, the pod is for {kind}"
            faults.append(FieldFault(place, message, "remove it, or correct spec.os.name"))


def host_process(value: Any, path: str) -> bool | None:
    """``windowsOptions.hostProcess`` of a context; None where it is absent."""
    given = _context(value, path, [])
    options = given.inside("windowsOptions") if given is not None else None
    return options.flag("hostProcess") if options is not None else None
