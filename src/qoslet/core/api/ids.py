"""UIDs of pods and IDs of containers: generated and checked, and what a status says of them.

Both become directory and unit names, so what may stand in them is decided here, before any
path is built from them.
"""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.api.annotations import is_static
from qoslet.core.api.container_resources import ContainerResources, FieldFault, ResourceDecoder
from qoslet.core.api.pod import NO_RESOURCES, LastExit
from qoslet.core.api.schema import (
    ContainerStatusShape,
    Metadata,
    PodSpecShape,
    PodStatusShape,
    shown,
)

UID_NAMESPACE = "59097973-9a69-57c5-aa1b-ae312efd0fa4"
"""Generated UIDs are the UUIDv5 of ``NAMESPACE/NAME`` in this one (UUIDv5 of DNS name qoslet)."""

_NAMESPACE_BYTES = bytes.fromhex(UID_NAMESPACE.replace("-", ""))
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

UID_MAX = 252
"""``pod<UID>`` is one directory name: 255 bytes (NAME_MAX)."""

CONTAINER_ID_MAX = 128


def generated_uid(namespace: str, name: str) -> str:
    """The UID of a pod whose document has none: the same for the same name, everywhere."""
    try:
        # hashlib would load OpenSSL, which costs more than everything else here
        from _sha1 import sha1  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha1
    text = f"{namespace}/{name}".encode(errors="surrogatepass")
    value = bytearray(sha1(_NAMESPACE_BYTES + text).digest()[:16])
    value[6] = value[6] & 0x0F | 0x50
    value[8] = value[8] & 0x3F | 0x80
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def uid_fault(uid: str) -> tuple[str, str] | None:
    """Message and hint where ``uid`` cannot be part of a cgroup name."""
    if len(uid) > UID_MAX:
        return f"has {len(uid)} characters", f"use at most {UID_MAX}, the limit of a directory name"
    if uid.isascii() and uid.replace("-", "").isalnum() and uid[0] != "-" and uid[-1] != "-":
        return None
    if not uid.strip(_LETTERS + "-.") and ".." not in uid and uid[0] not in "-.":
        return None if uid[-1] not in "-." else (f"{shown(uid)!r} ends in {uid[-1]!r}", _UID_HINT)
    if "_" in uid:
        hint = "use letters, digits and -; a kubelet panics on _ in a cgroup name"
        return f"{shown(uid)!r} contains _", hint
    return f"{shown(uid)!r} cannot name a cgroup", _UID_HINT


_UID_HINT = "use a UUID, or leave it out: qoslet derives one from namespace and name"


def bundle_id(uid: str, name: str) -> str:
    """How an OCI runtime knows a container, restarts included. Below systemd it names a unit of
    the whole machine, so it holds the pod's UID."""
    return f"{uid}-{name}"


def container_id_fault(identity: str) -> str | None:
    """What is wrong with a runtime's container id, None where nothing is."""
    if identity.isalnum() and identity.isascii() and len(identity) <= CONTAINER_ID_MAX:
        return None
    good = not identity.strip(_LETTERS + "-_.") and identity[:1] not in ("", "-", ".")
    if good and ".." not in identity and len(identity) <= CONTAINER_ID_MAX:
        return None
    return f"{shown(identity)!r} is not a container ID"


def status_lists(
    status: PodStatusShape,
) -> tuple[tuple[str, list[ContainerStatusShape] | None], ...]:
    """The lists of container statuses, each with its field."""
    return (
        ("containerStatuses", status.container_statuses),
        ("initContainerStatuses", status.init_container_statuses),
        ("ephemeralContainerStatuses", status.ephemeral_container_statuses),
    )


class ContainerStates(Struct, frozen=True, gc=False):
    """What a status says of containers, by name: the runtime's IDs, whether each runs now, which were
    started again, why those that wait do, and how they ended the last time."""

    ids: dict[str, str]
    running: dict[str, bool]
    restarted: set[str]
    waiting: dict[str, str]
    exits: dict[str, LastExit]


def container_states(status: PodStatusShape, faults: list[FieldFault]) -> ContainerStates:
    """What every list of the status says; an ID that cannot be one is a fault."""
    found = ContainerStates({}, {}, set(), {}, {})
    for field, statuses in status_lists(status):
        if not statuses:
            continue
        for index, one in enumerate(statuses):
            if not one.name:
                continue
            if one.container_id:
                identity = one.container_id.rpartition("://")[2]
                if fault := container_id_fault(identity):
                    path = f"status.{field}[{index}].containerID"
                    faults.append(FieldFault(path, fault, "the form is RUNTIME://ID"))
                found.ids[one.name] = identity
            if one.state and isinstance(one.state, dict):
                found.running[one.name] = "running" in one.state
                found.waiting[one.name] = _word(one.state.get("waiting"), "reason")
            if (last := _last_exit(one)) is not None:
                found.exits[one.name] = last
            if isinstance(one.restart_count, int) and one.restart_count > 0:
                found.restarted.add(one.name)
    return found


def _word(found: object, name: str) -> str:
    """A field of an object that may be none; empty where it is no text."""
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""


def _last_exit(status: ContainerStatusShape) -> LastExit | None:
    """The end of a container that does not run, else the one before it was started again."""
    for state in (status.state, status.last_state):
        ended = state.get("terminated") if state and isinstance(state, dict) else None
        if isinstance(ended, dict):
            code = ended.get("exitCode")
            reason, finished = _word(ended, "reason"), _word(ended, "finishedAt")
            return LastExit(reason, code if isinstance(code, int) else 0, finished)
    return None


def may_be_resized(
    meta: Metadata,
    annotations: dict[str, str],
    spec: PodSpecShape,
    status: PodStatusShape,
    decoder: ResourceDecoder,
) -> bool:
    """Whether the pod may have other resources than its spec asks for. Where no resize is on its way a
    status has what another process wrote: kubelet_pods.go generateAPIPodStatus reads the pod's cgroup,
    and asks the runtime for those of containers. Releases before 1.34 do not tell. A kubelet that has just
    started has no condition of a resize yet, but tells what it allocated."""
    if is_static(annotations):
        return False
    seen = status.observed_generation
    if seen is None or seen != meta.generation or b'"PodResize' in bytes(status.conditions):
        return True
    return seen != 1 and _allocates_others(spec, status, decoder)


def _allocates_others(spec: PodSpecShape, status: PodStatusShape, decoder: ResourceDecoder) -> bool:
    """Whether the pod or a container asks for other CPU or memory than the kubelet has allocated."""
    granted_pod = decoder.amounts(status.allocated_resources)
    if spec.resources and _differs(decoder.pod(spec.resources), granted_pod):
        return True
    granted = {
        one.name: decoder.amounts(one.allocated_resources)
        for _, statuses in status_lists(status)
        for one in statuses or ()
    }
    return any(
        _differs(decoder.container(one.resources), granted[one.name])
        for one in (*(spec.containers or ()), *(spec.init_containers or ()))
        if one.name in granted
    )


def _differs(asked: ContainerResources, granted: ContainerResources) -> bool:
    """Whether other CPU or memory is asked for than was granted, where both tell."""
    wants, has = (one.resources or NO_RESOURCES for one in (asked, granted))
    return any(
        name in wants.requests
        and name in has.requests
        and wants.requests[name] != has.requests[name]
        for name in ("cpu", "memory")
    )
