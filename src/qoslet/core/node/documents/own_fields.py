"""The fields of qoslet's own Node document: what each takes, means, and is where it is absent."""

from __future__ import annotations

from msgspec import Struct


class OwnField(Struct, frozen=True):
    """One field. ``absent`` is what holds without it on a node that is this machine; of a described
    one see ``core/node/described``."""

    name: str
    takes: str
    means: str
    absent: str = "read from this machine"


OWN_FIELDS: tuple[OwnField, ...] = (
    OwnField("apiVersion", "`qoslet/v1`", "", "a fault"),
    OwnField("kind", "`Node`", "", "a fault"),
    OwnField("metadata.name", "a DNS subdomain", "the node's name, or which node of a List", "none"),
    OwnField("os", "`linux`, `windows`", "the operating system", "`linux`"),
    OwnField("capacity.cpu", "a quantity", "CPUs of the machine, at most 131072"),
    OwnField("capacity.memory", "a quantity", "memory in bytes"),
    OwnField("capacity.pid", "a quantity", "processes that the kernel allows"),
    OwnField("capacity.hugepages-SIZE", "a quantity", "bytes set aside for pages of this size"),
    OwnField("capacity.NAME", "a quantity", "any other resource, such as `ephemeral-storage`", "none"),
    OwnField("swap", "a quantity", "swap in bytes", "0 with `capacity.memory`, else read from this machine"),
    OwnField("kubernetes", "`1.6` to `1.37`, `design`", "the release, quoted", "the newest, with qoslet's Memory QoS"),
    OwnField("runtime", "`NAME-VERSION[+NAME-VERSION]`", "who writes the containers' files", "`runc-1.4.0`"),
    OwnField("memoryQos", "`1.22`, `1.27`, `1.36`, `1.37`, `design`, `qoslet`, `off`", "the variant of Memory QoS", "that of the release"),
    OwnField("numa", "a list of {id, cpus, memory, hugepages, distances}", "the NUMA nodes, at most 64"),
    OwnField("topology.sockets", "a list of CPU lists", "the CPUs of each socket"),
    OwnField("topology.cores", "a list of CPU lists", "the CPUs of each core"),
    OwnField("topology.caches", "a list of CPU lists", "the CPUs of each last-level cache"),
    OwnField("host.hierarchy", "`v1`, `v2`, `hybrid`", "the cgroup hierarchy; `hybrid` is `v1`, where its controllers are"),
    OwnField("host.kernel", "a version, quoted", "the version of the kernel"),
    OwnField("host.pageSize", "a quantity", "the size of a page"),
    OwnField("host.hugepageSizes", "a list of quantities", "the sizes of hugepages that the kernel has", "those of `capacity`, else read from this machine"),
    OwnField("host.swapController", "`true`, `false`", "whether cgroups can limit swap"),
    OwnField("host.systemd", "a version, `true`, `false`", "systemd as PID 1; `true`: of an unknown version", "none with `host.hierarchy`, else read from this machine"),
    OwnField("host.controllers", "a list of names", "the controllers of the hierarchy", "all with `host.hierarchy`, else read from this machine"),
    OwnField("host.hugetlbRsvd", "`true`, `false`", "whether cgroups can limit reservations of hugepages", "by the kernel with `host.hierarchy`, else read from this machine"),
    OwnField("host.psi", "`true`, `false`", "whether the kernel has PSI", "not known with `host.hierarchy`, else read from this machine"),
    OwnField("host.mounts", "a map", "v1: controller to mount point; v2: options of the mount", "none with `host.hierarchy`, else read from this machine"),
    OwnField("host.cpus", "a CPU list", "the numbers of the CPUs", "counted from `capacity.cpu`"),
)  # fmt: skip


def names(section: str = "") -> set[str]:
    """The names of the fields in ``section``, or of those at the top."""
    if section:
        start = f"{section}."
        found = (row.name.removeprefix(start) for row in OWN_FIELDS if row.name.startswith(start))
        return set(found)
    return {row.name.partition(".")[0] for row in OWN_FIELDS}
