"""The kubelet's part of a node: fields of a KubeletConfiguration and flags, with its defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct

from qoslet.core.node import fields as read
from qoslet.core.node import manager_config as managers
from qoslet.core.node.documents.sources import Fields
from qoslet.core.node.faults import Faults, shown
from qoslet.core.node.node import Kubelet
from qoslet.core.quantity import from_int
from qoslet.core.versions.kubernetes import Profile

EVICTION = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
"""The hard eviction thresholds of a kubelet on Linux. Source: pkg/kubelet/eviction/defaults_linux.go."""
_EVICTION_WINDOWS = {
    "memory.available": "500Mi",
    "nodefs.available": "10%",
    "imagefs.available": "15%",
}

SWAP_BEHAVIORS = ("", "NoSwap", "LimitedSwap", "UnlimitedSwap")
RESERVATION_POLICIES = ("None", "TieredReservation")


def cgroup_name(faults: Faults, where: str, value: Any) -> str | None:
    """The name of a cgroup: no ``.`` or ``..`` in it, so that it stays below the hierarchy."""
    found = read.text(faults, where, value)
    if found and any(part in (".", "..") for part in found.split("/")):
        faults.add(where, f"is {shown(found)}, must not contain . or ..")
        return None
    return found


def _root(faults: Faults, where: str, value: Any) -> str | None:
    found = cgroup_name(faults, where, value)
    if found and not found.startswith("/"):
        hint = f'such as "/{found[:40]}"'
        faults.add(where, f"is {shown(found)}, must be absolute", hint)
        return None
    return found or None


def _policy(faults: Faults, where: str, value: Any) -> str | None:
    return read.choice(faults, where, value, ("none", "static")) if value != "" else None


def _reservation(faults: Faults, where: str, value: Any) -> str | None:
    return read.choice(faults, where, value, RESERVATION_POLICIES) if value != "" else None


def _swap(faults: Faults, where: str, value: Any) -> str | None:
    given = read.mapping(faults, where, value)
    if given is None or given.get("swapBehavior") is None:
        return None
    place = where if where.startswith("--") else f"{where}.swapBehavior"
    return read.choice(faults, place, given["swapBehavior"], SWAP_BEHAVIORS)


def _pids(faults: Faults, where: str, value: Any) -> int | None:
    return read.integer(faults, where, value, low=-1)


def _count(faults: Faults, where: str, value: Any) -> int | None:
    return read.integer(faults, where, value, low=0, high=2**31 - 1)


def _seconds(faults: Faults, where: str, value: Any) -> int | None:
    """evictionMaxPodGracePeriod; a negative one leaves it to the pod."""
    return read.integer(faults, where, value, low=-(2**31), high=2**31 - 1)


def _files(faults: Faults, where: str, value: Any) -> int | None:
    """Source: kubelet apis/config/validation, containerLogMaxFiles must be greater than 1."""
    return read.integer(faults, where, value, low=2, high=2**31 - 1)


def _score(faults: Faults, where: str, value: Any) -> int | None:
    return read.integer(faults, where, value, low=-1000, high=1000)


def _system_cgroups(faults: Faults, where: str, value: Any) -> str | None:
    found = cgroup_name(faults, where, value)
    if found == "/":
        faults.add(where, "must not be /", "name a cgroup below /")
    return found


def _evictions(name: str) -> Callable[[Faults, str, Any], Any]:
    """A reader of ``eviction_fields``, which is imported where a configuration has thresholds."""

    def read_it(faults: Faults, where: str, value: Any) -> Any:
        from qoslet.core.node import eviction_fields

        return getattr(eviction_fields, name)(faults, where, value)

    return read_it


READERS: Mapping[str, tuple[str, Callable[[Faults, str, Any], Any]]] = {
    "cgroupsPerQOS": ("cgroups_per_qos", read.boolean),
    "cgroupRoot": ("cgroup_root", _root),
    "cpuCFSQuota": ("cpu_cfs_quota", read.boolean),
    "cpuCFSQuotaPeriod": ("cpu_cfs_quota_period_us", read.period),
    "podPidsLimit": ("pod_pids_limit", _pids),
    "cpuManagerPolicy": ("cpu_manager_policy", _policy),
    "cpuManagerPolicyOptions": ("cpu_manager_options", managers.cpu_options),
    "memoryManagerPolicy": ("memory_manager_policy", managers.memory_policy),
    "reservedMemory": ("reserved_memory", managers.reserved_memory),
    "topologyManagerPolicy": ("topology_manager_policy", managers.topology_policy),
    "topologyManagerScope": ("topology_manager_scope", managers.topology_scope),
    "topologyManagerPolicyOptions": ("topology_manager_options", managers.topology_options),
    "enforceNodeAllocatable": ("enforce_node_allocatable", read.options),
    "kubeReserved": ("kube_reserved", read.reserved),
    "systemReserved": ("system_reserved", read.reserved),
    "kubeReservedCgroup": ("kube_reserved_cgroup", cgroup_name),
    "systemReservedCgroup": ("system_reserved_cgroup", cgroup_name),
    "reservedSystemCPUs": ("reserved_system_cpus", read.cpu_list),
    "evictionHard": ("eviction_hard", _evictions("thresholds")),
    "featureGates": ("feature_gates", read.gates),
    "memorySwap": ("swap_behavior", _swap),
    "memoryThrottlingFactor": ("memory_throttling_factor", read.factor),
    "memoryReservationPolicy": ("memory_reservation_policy", _reservation),
    "singleProcessOOMKill": ("single_process_oom_kill", read.boolean),
    "qosReserved": ("qos_reserved", read.percent),
    "failCgroupV1": ("fail_cgroup_v1", read.boolean),
    "failSwapOn": ("fail_swap_on", read.boolean),
    "maxPods": ("max_pods", _count),
    "containerLogMaxSize": ("container_log_max_size", read.size),
    "containerLogMaxFiles": ("container_log_max_files", _files),
}
"""KubeletConfiguration field to the attribute of ``Kubelet`` and the reader of its value."""

UNUSED: Mapping[str, Callable[[Faults, str, Any], Any]] = {
    "oomScoreAdj": _score,
    "systemCgroups": _system_cgroups,
    "evictionSoft": _evictions("thresholds"),
    "evictionSoftGracePeriod": _evictions("grace_periods"),
    "evictionMinimumReclaim": _evictions("minimum_reclaims"),
    "evictionMaxPodGracePeriod": _seconds,
    "evictionPressureTransitionPeriod": read.duration,
    "mergeDefaultEvictionSettings": read.boolean,
    "podsPerCore": _count,
    "seccompDefault": read.boolean,
}
"""Fields that are read, but decide about no cgroup by themselves."""


class KubeletRead(Struct):
    """What was given for the kubelet, before defaults that depend on release and host."""

    values: dict[str, Any]
    origins: dict[str, str]
    unused: dict[str, Any]
    null_factor: bool = False
    """memoryThrottlingFactor is there and null."""
    adds_thresholds: bool = False
    """The default hard eviction thresholds stand beside those given, as reading ``--config`` sets them
    before a drop-in adds its own; a flag replaces all."""

    def tell_entries(self, entries: Mapping[str, Mapping[str, str]], documents: Fields) -> None:
        """Take the places of entries, by field, unless a flag overrides the field."""
        for field, places in entries.items():
            where = documents[field][1]
            for name, place in places.items():
                known = self.origins.get(f"{field}.{name}", self.origins.get(field, ""))
                if known in (where, f"{where}.{name}"):
                    self.origins[f"{field}.{name}"] = place

    def where(self, field: str) -> str:
        """The place to name in a message about ``field``."""
        return self.origins.get(field, f"{field} (default)")


def kubelet_read(
    faults: Faults,
    fields: Fields | None,
    flags: Fields,
    gates: tuple[Any, str] | None = None,
    entries: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    *,
    over_defaults: bool = False,
) -> KubeletRead:
    """Read each field from its flag, else from the document; feature gates merge by name, with
    ``gates`` between document and flags. ``entries`` are places of parts of a field.
    ``over_defaults``: only drop-ins give hard eviction thresholds."""
    documents = fields or {}
    found = KubeletRead({}, {}, {})
    for field, (attribute, reader) in READERS.items():
        if field == "featureGates":
            between = {} if gates is None else {"featureGates": gates}
            _gates(faults, (documents, between, flags), found)
            continue
        value, where = flags.get(field) or documents.get(field) or (None, "")
        if value is None:
            if where:
                found.null_factor = True
                found.origins[field] = where
            continue
        parsed = reader(faults, where, value)
        if parsed is not None:
            found.values[attribute] = parsed
            found.origins[field] = where
    for field, reader in UNUSED.items():
        value, where = documents.get(field, (None, ""))
        if value is not None:
            found.unused[field] = reader(faults, where, value)
            found.origins[field] = where
    if "evictionSoft" in documents:
        periods = documents.get("evictionSoftGracePeriod", (None, ""))[0]
        from qoslet.core.node.eviction_fields import check_soft

        check_soft(faults, *documents["evictionSoft"], periods)
    if "evictionHard" not in flags:
        asked = bool(found.unused.get("mergeDefaultEvictionSettings"))
        found.adds_thresholds = asked or over_defaults
    found.tell_entries(entries, documents)
    return found


def _gates(faults: Faults, sources: Sequence[Fields], found: KubeletRead) -> None:
    """A gate of a flag wins over the same gate of the document, as in the kubelet."""
    merged: dict[str, bool] = {}
    for source in sources:
        if "featureGates" in source:
            value, where = source["featureGates"]
            given = read.gates(faults, where, value) or {}
            merged.update(given)
            found.origins["featureGates"] = where
            found.origins.update({f"featureGates.{name}": f"{where}.{name}" for name in given})
    found.values["feature_gates"] = merged


def kubelet_of(
    found: KubeletRead, profile: Profile, os: str, hierarchy: Literal["v1", "v2"]
) -> Kubelet:
    """The kubelet with its defaults; ``found.origins`` learns where derived values come from.

    Source: kubelet config v1beta1 SetDefaults_KubeletConfiguration; reservedSystemCPUs replaces
    the CPU of both reservations: kubelet app run.
    """
    values = dict(found.values)
    values["pods_per_core"] = found.unused.get("podsPerCore") or 0
    values["seccomp_default"] = bool(found.unused.get("seccompDefault"))
    defaults = _EVICTION_WINDOWS if os == "windows" else EVICTION
    if "eviction_hard" not in values:
        values["eviction_hard"] = defaults
    elif found.adds_thresholds:
        given = values["eviction_hard"]
        values["eviction_hard"] = {**defaults, **given}
        missing = defaults.keys() - given.keys()
        found.origins.update({f"evictionHard.{name}": "default" for name in missing})
    if "fail_cgroup_v1" not in values:
        values["fail_cgroup_v1"] = profile.choices.fail_cgroup_v1
    if "single_process_oom_kill" not in values:
        values["single_process_oom_kill"] = hierarchy == "v1" or not profile.choices.oom_group
    if reserved := read.cpus(values.get("reserved_system_cpus", "")):
        kube = dict(values.get("kube_reserved", {}))
        kube.pop("cpu", None)
        values["kube_reserved"] = kube
        system = {**values.get("system_reserved", {}), "cpu": from_int(len(reserved))}
        values["system_reserved"] = system
        found.origins["systemReserved.cpu"] = found.origins["reservedSystemCPUs"]
    return Kubelet(**values)
