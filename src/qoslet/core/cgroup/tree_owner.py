"""Whose cgroups a tree looks like, by its names.

Source: kubelet cm/cgroup_manager_linux.go (``kubepods``); containerd, CRI-O, Docker and Podman name
a container's scope ``PREFIX-ID.scope``; systemd.special(7).
"""

from __future__ import annotations

from collections.abc import Iterable

from qoslet.core.cgroup import names
from qoslet.core.cgroup.kernel_numbers import LatePattern

KUBELET = "a kubelet"

_RUNTIMES = {
    "cri-containerd": "containerd",
    "crio": "CRI-O",
    "docker": "Docker",
    "libpod": "Podman",
}
_SCOPE = LatePattern(rf"({'|'.join(_RUNTIMES)})-[0-9a-f]{{64}}\.scope")
_SYSTEMD = ("system.slice", "user.slice", "machine.slice", "init.scope")
_ROOTS = {"docker": "Docker", "libpod_parent": "Podman", "k8s.io": "containerd"}
_KUBELETS = LatePattern(r"(kubelet(-[0-9a-z]+)?-)?kubepods|([^/]+-)?kubepods\.slice")
"""With systemd the names of the cgroups above are in that of the slice."""


def tree_owner(root: str, below: Iterable[str] = ()) -> str:
    """Who else makes such a tree: ``a kubelet``, ``containerd``, ``systemd`` and others; empty where
    the names do not tell. ``root`` and the cgroups ``below`` it are paths."""
    parts = [part for part in root.split("/") if part]
    if any(_KUBELETS.fullmatch(part) for part in parts):
        return KUBELET
    if parts and parts[0] in _SYSTEMD:
        return "systemd"
    if parts and parts[0] in _ROOTS:
        return _ROOTS[parts[0]]
    # below a root of qoslet there is a kubepods, too
    ours = bool(parts) and parts[0].startswith("qoslet")
    for path in below:
        leaf = path.rpartition("/")[2]
        if path == f"{root.rstrip('/')}/{leaf}" and _KUBELETS.fullmatch(leaf) and not ours:
            return KUBELET
        scope = _SCOPE.fullmatch(leaf)
        if scope is not None:
            return _RUNTIMES[scope[1]]
    return ""


_UNUSED = "use another --cgroup-root; if this one is unused, stop its processes and rmdir it"
_UNUSED_UNIT = "use another --cgroup-root, or systemctl stop the unit if it is unused"


def advice(root: str, below: Iterable[str] = ()) -> str:
    """What to do about a tree at ``root`` that no journal of qoslet names. What is left of a slice is
    a unit's: removed by hand, its name is still taken."""
    unused = _UNUSED_UNIT if root.endswith(names.SLICE) else _UNUSED
    return _advice(tree_owner(root, below), unused)


def unit_advice(path: str) -> str:
    """What to do about the cgroup of a unit that no journal of qoslet names."""
    return _advice(tree_owner(path), _UNUSED_UNIT)


def _advice(owner: str, unused: str) -> str:
    if owner:
        return f"it looks like {owner}'s: leave it alone, and use another --cgroup-root"
    return unused
