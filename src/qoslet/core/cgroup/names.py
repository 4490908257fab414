"""Names of cgroups: the abstract list of components, the cgroupfs path, the systemd unit.

Source: kubelet pkg/kubelet/cm cgroup_manager_linux.go (CgroupName, ToSystemd, ToCgroupfs,
ParseSystemdToCgroupName), pod_container_manager_linux.go; opencontainers/cgroups ExpandSlice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from qoslet.errors import BadInput

DriverName = Literal["cgroupfs", "systemd"]
Components = tuple[str, ...]

POD_PREFIX = "pod"
QOS_DIRECTORY = {"Guaranteed": "", "Burstable": "burstable", "BestEffort": "besteffort"}
SLICE = ".slice"
SCOPE = ".scope"
UNIT_ENDINGS = (SLICE, SCOPE, ".service", ".socket", ".mount", ".swap")
"""How the names of units end that have a cgroup. Source: systemd.resource-control(5)."""
DEFAULT_ROOT = "/qoslet"
"""The default of ``--cgroup-root``."""
DEFAULT_POINT = "/sys/fs/cgroup"
"""Where v2 is mounted if nothing else is said, and below which the hierarchies of v1 are."""


def extend(base: Sequence[str], *components: str) -> Components:
    """``base`` with further components. ValueError if one contains ``/`` or ``_``: the kubelet
    panics, because the systemd name could not be read back."""
    for component in components:
        if "/" in component or "_" in component:
            raise ValueError(f"cgroup name component {component!r} contains '/' or '_'")
    return (*base, *components)


def to_cgroupfs(name: Sequence[str]) -> str:
    """The path below the hierarchy's root. Empty components vanish."""
    return "/" + "/".join(component for component in name if component)


def from_cgroupfs(path: str) -> Components:
    """The components of a path: one leading slash is cut, the rest is split."""
    trimmed = path.removeprefix("/")
    return tuple(trimmed.split("/")) if trimmed else ()


def is_below(path: str, above: str) -> bool:
    """Whether a cgroup or file lies below another; ``/`` and the empty path are above all."""
    return path != above and path.startswith(f"{above.rstrip('/')}/")


def is_at_or_below(path: str, above: str) -> bool:
    """Whether a path is another one or lies below it."""
    return path == above or path.startswith(f"{above.rstrip('/')}/")


def parents(path: str) -> Iterator[str]:
    """The paths above a path, the nearest first, without the root."""
    above = path.rpartition("/")[0]
    while above:
        yield above
        above = above.rpartition("/")[0]


def escape(component: str) -> str:
    """A component as systemd spells it: ``-`` separates slices, so it becomes ``_``."""
    return component.replace("-", "_")


def to_systemd(name: Sequence[str]) -> str:
    """The path of nested slices; the root is ``/``."""
    if not name or (len(name) == 1 and not name[0]):
        return "/"
    parts = [escape(component) for component in name]
    slices = ["-".join(parts[: count + 1]) + SLICE for count in range(len(parts))]
    return "/" + "/".join(slices)


def unit_of(name: Sequence[str]) -> str:
    """The last slice of ``to_systemd``: the unit's name; ``/`` for the root."""
    return to_systemd(name).rsplit("/", 1)[1] or "/"


def from_systemd(path: str) -> Components:
    """The components of a slice: only the last path element counts."""
    base = path.rsplit("/", 1)[-1].removesuffix(SLICE)
    if not base:
        return ()
    return tuple(part.replace("_", "-") for part in base.split("-"))


def expand_slice(unit: str) -> str:
    """``a-b.slice`` to ``/a.slice/a-b.slice``; ValueError where it is not a slice name."""
    if not unit.endswith(SLICE) or unit == SLICE or "/" in unit:
        raise ValueError(f"{unit!r} is not a slice name")
    stem = unit.removesuffix(SLICE)
    if stem == "-":
        return "/"
    parts = stem.split("-")
    if not all(parts):
        raise ValueError(f"{unit!r} has an empty component")
    return "/" + "/".join("-".join(parts[: n + 1]) + SLICE for n in range(len(parts)))


def parse(text: str, driver: DriverName) -> Components:
    """A configured cgroup (``--system-reserved-cgroup``) as the driver reads it."""
    return from_systemd(text) if driver == "systemd" else from_cgroupfs(text)


def concrete(name: Sequence[str], driver: DriverName) -> str:
    """The path that the driver makes of an abstract name."""
    return to_systemd(name) if driver == "systemd" else to_cgroupfs(name)


def root_of(cgroup_root: str, cgroups_per_qos: bool) -> Components:
    """The cgroup of all pods: ``<cgroup root>/kubepods``, or the root without QoS cgroups.
    Source: NodeAllocatableRoot."""
    base = from_cgroupfs(cgroup_root)
    return extend(base, "kubepods") if cgroups_per_qos else base


_PREFIX = {"containerd": "cri-containerd", "cri-o": "crio", "docker": "docker"}
"""What a CRI runtime puts before the id of a container in its scope."""


def is_pod(path: str) -> bool:
    """Whether a cgroup has the name of a pod's."""
    leaf = path.rpartition("/")[2]
    if leaf.endswith(SLICE):
        return f"-{POD_PREFIX}" in leaf
    return leaf.startswith(POD_PREFIX) and len(leaf) > len(POD_PREFIX)


def pod_uid(path: str) -> str:
    """The UID in the name of the pod's cgroup that ``path`` is or is in, with ``-`` where systemd's driver
    writes ``_``; empty without one."""
    for part in reversed(path.split("/")):
        before, word, after = part.removesuffix(SLICE).rpartition(POD_PREFIX)
        if word and (not before or before.endswith("-")):
            return after.replace("_", "-")
    return ""


def container_leaf(cri: str | None, id: str, slice_parent: bool) -> str:
    """The last path element of a container's cgroup, by the program that makes it.

    Source: containerd cri getCgroupsPath, CRI-O cgmgr, moby daemon oci_linux.go, runc systemd driver.
    """
    if cri == "cri-o":
        return f"crio-{id}.scope" if slice_parent else f"crio-{id}"
    if slice_parent:
        return f"{_PREFIX.get(cri or '', 'runc')}-{id}.scope"
    return id


def without_parent(cri: str | None, root: str) -> str:
    """Where a runtime makes containers whose kubelet names no cgroup above them, as without QoS cgroups:
    containerd below its own namespace, whatever the cgroup ``root``.

    Source: kubelet podContainerManagerNoop.GetPodContainerName; containerd oci.GenerateSpec. Seen with
    1.36.2 and 1.6.20.
    """
    return "/k8s.io" if cri == "containerd" else root


HOLDER = "read _ # keeps a scope of qoslet"
"""The script of the process that keeps such a scope from before its container to after it."""


def process_leaf(parent: str, name: str) -> str:
    """The scope of a container whose processes qoslet starts itself, in the pod's slice
    ``parent``. Units are known to systemd by their last name only, so it holds the pod's."""
    return f"{parent.rsplit('/', 1)[-1].removesuffix(SLICE)}-{name}.scope"


_MONITORS = "monitor"
"""No container has such an ID."""
MONITORS = ("containerd-shim", "conmon", "crio-conmon", "cri-o-conmon")
"""How the programs begin that a container runtime has beside containers."""


def monitors_of(parent: str) -> str:
    """The group below a pod's, ``parent``, to which qoslet has such programs charged."""
    if parent.endswith(SLICE):
        return f"{parent}/{process_leaf(parent, _MONITORS)}"
    return f"{parent.rstrip('/')}/{_MONITORS}"


def cgroups_path(cri: str | None, parent: str, id: str) -> str:
    """``linux.cgroupsPath`` of the OCI config: ``slice:prefix:id`` below a slice, else a path."""
    unit = parent.rsplit("/", 1)[-1]
    if unit.endswith(SLICE):
        prefix = _PREFIX.get(cri or "", "runc")
        return f"{unit}:{prefix}:{id}"
    leaf = container_leaf(cri, id, slice_parent=False)
    return f"{parent.rstrip('/')}/{leaf}"


USE_SYSTEMD = "set SystemdCgroup = true for its runtime in containerd's configuration"
"""What ends that containers are where ``strayed`` says."""


def strayed(path: str, hierarchy: str) -> tuple[str, str]:
    """Where the container of the scope ``path`` is if its OCI runtime does not use the systemd driver though
    the kubelet does: ``slice:prefix:id`` is then a path, from the cgroup of containerd for runc, from
    the root for crun. containerd is taken to be a service of the system.

    Source: runc libcontainer/cgroups fs/paths.go, fs2/defaultpath.go; seen with containerd 1.7.24 and
    2.1.9, runc 1.1.15 and crun 1.21 without ``SystemdCgroup``.
    """
    parent, _, leaf = path.rpartition("/")
    prefix, _, id = leaf.removesuffix(SCOPE).rpartition("-")
    above = "/system.slice/containerd.service" if hierarchy == "v1" else "/system.slice"
    name = f"/{parent.rpartition('/')[2]}:{prefix}:{id}"
    return f"{above}{name}", name


def container_path(text: str) -> str:
    """The cgroup of a container by its ``linux.cgroupsPath``: ``slice:prefix:id`` or a path. ValueError
    for anything else."""
    parts = text.split(":")
    if len(parts) == 3 and parts[2] and "/" not in parts[1] + parts[2]:
        return f"{expand_slice(parts[0])}/{parts[1]}-{parts[2]}.scope"
    if len(parts) != 1 or not text.startswith("/") or {"", ".", ".."} & {*text[1:].split("/")}:
        raise ValueError(f"{text!r} names no cgroup of a container")
    return text


def checked_root(root: str | None) -> str:
    """What ``--cgroup-root`` names, a cgroup below the root of the hierarchy, without needless
    slashes; ``DEFAULT_ROOT`` where it is not given. An empty one is refused: an unset variable of a
    script must not name that tree. Raises ``BadInput``."""
    root = DEFAULT_ROOT if root is None else root
    parts = [part for part in root.split("/") if part]
    if not root.startswith("/") or not parts or any(part in (".", "..") for part in parts):
        hint = f"such as {DEFAULT_ROOT}: qoslet creates and removes everything below it"
        raise BadInput(f"{root!r} must be a cgroup below /", where="--cgroup-root", hint=hint)
    return f"/{'/'.join(parts)}"


def given_root(path: str) -> str:
    """The ``--cgroup-root`` of a path that ``root_path`` has made."""
    return to_cgroupfs(from_systemd(path)) if path.endswith(SLICE) else path


def names_root(text: str, root: str) -> bool:
    """Whether a ``--cgroup-root`` means the tree ``root``, whichever driver made it."""
    return f"/{text.strip('/')}" in (root, given_root(root))


def root_path(root: str, driver: DriverName) -> str:
    """The path that a driver has for ``--cgroup-root``: ``/a/b`` is ``/a.slice/a-b.slice`` with
    systemd. Raises ``BadInput`` for a name that it cannot have."""
    if driver == "cgroupfs":
        return root
    try:
        parts = extend((), *from_cgroupfs(root.rstrip("/")))
    except ValueError as error:
        raise BadInput(
            str(error),
            where="--cgroup-root",
            hint="use letters, digits and -; systemd reads - as a level and _ as -",
        ) from None
    if any(part.endswith((SLICE, SCOPE)) for part in parts):
        plain = "/".join(part.removesuffix(SLICE) for part in parts)
        raise BadInput(
            f"{root!r} contains a unit name",
            where="--cgroup-root",
            hint=f"give cgroup names, not units: /{plain}",
        )
    return to_systemd(parts)
