"""cgroup v1: one group is a directory in each of several hierarchies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.write_errors import CgroupError, cgroup_error
from qoslet.host.linux.openat import MountedTree, parent

CONTROLLERS = ("memory", "cpu", "cpuacct", "cpuset", "pids", "freezer", "hugetlb")
"""Where a group is made, if mounted; the first one gives it its identity."""

_SPACE = ("cpuset.cpus", "cpuset.mems")
_CLONE = "cgroup.clone_children"
"""Inherited; where it is 1, the kernel gives a new cpuset what the one above has."""


class _Space(Struct, frozen=True, gc=False):
    """What a new cpuset takes from its parent; ``cloned``: the kernel does it by itself."""

    cpus: str
    mems: str
    cloned: bool


class HierarchiesV1:
    """The v1 hierarchies that matter. ``mounts`` is controller to mount point; controllers
    that share one are one hierarchy, which ``opened`` gives. Raises ``CannotDo`` where none is
    mounted."""

    name = "v1"

    def __init__(
        self, mounts: Mapping[str, str], opened: Callable[[str], MountedTree] = MountedTree
    ) -> None:
        trees: dict[str, MountedTree] = {}
        self.by_controller: dict[str, MountedTree] = {}
        for controller in CONTROLLERS:
            if controller in mounts:
                point = os.path.realpath(mounts[controller])
                self.by_controller[controller] = trees.get(point) or opened(point)
                trees[point] = self.by_controller[controller]
        if not trees:
            raise CannotDo(
                "no cgroup v1 controller is mounted", hint="see /proc/self/mountinfo; --simulate"
            )
        self.trees = tuple(trees.values())
        self.beside: tuple[str, ...] = ()
        """Mount points of other hierarchies, where container runtimes make groups of our names."""
        self._cpuset = self.by_controller.get("cpuset")
        self._spaces: dict[str, _Space] = {}

    def tree_of(self, controller: str) -> MountedTree | None:
        """The hierarchy of a controller, None if it is not mounted."""
        return self.by_controller.get(controller)

    def controllers_of(self, tree: MountedTree) -> tuple[str, ...]:
        """The controllers of a hierarchy."""
        return tuple(name for name, one in self.by_controller.items() if one is tree)

    def create(self, path: str) -> bool:
        """Make the group in every hierarchy, or in none. True if it was not complete before.

        Raises ``CgroupError``; FileNotFoundError where the group above is absent.
        """
        made: list[MountedTree] = []
        tree = self.trees[0]
        try:
            for tree in self.trees:
                new = tree.mkdir(path)
                if new:
                    made.append(tree)
                if tree is self._cpuset:
                    self._furnish(tree, path, new)
        except (OSError, CgroupError) as error:
            for other in reversed(made):
                # one that somebody uses already stays
                with suppress(OSError):
                    other.rmdir(path)
            if isinstance(error, CgroupError | FileNotFoundError):
                raise
            raise cgroup_error("create", tree.point + path, error.errno or 0) from error
        return bool(made)

    def _furnish(self, tree: MountedTree, path: str, new: bool) -> None:
        """Give a cpuset its parent's CPUs and nodes: empty ones take no process."""
        if not new and all(tree.read(path, file) for file in _SPACE):
            return
        above = parent(path)
        try:
            self._copy(tree, path, self._space(tree, above), new)
        except OSError:
            # What was remembered of the parent may have changed since.
            self._spaces.pop(above, None)
            space = self._space(tree, above)
            _write(tree, path, "cpuset.cpus", space.cpus)
            _write(tree, path, "cpuset.mems", space.mems)
            self._spaces[path] = space

    def _copy(self, tree: MountedTree, path: str, space: _Space, new: bool) -> None:
        """Write the space, and remember it as the group's own. Groups below one that is ours begin with
        theirs: a write makes the kernel look at all cpusets of the machine."""
        if not (new and space.cloned):
            tree.write(path, "cpuset.cpus", space.cpus)
            tree.write(path, "cpuset.mems", space.mems)
            if new:
                tree.write(path, _CLONE, "1")
        self._spaces[path] = replace(space, cloned=new)

    def _space(self, tree: MountedTree, path: str) -> _Space:
        """CPUs and nodes of a group, read once. Raises ``CgroupError`` where they are empty."""
        found = self._spaces.get(path)
        if found is None:
            found = _Space(
                tree.read(path, "cpuset.cpus"),
                tree.read(path, "cpuset.mems"),
                tree.read(path, _CLONE) == "1",
            )
            if not found.cpus or not found.mems:
                raise CgroupError(
                    f"{tree.point}{path}: cpuset.cpus or cpuset.mems is empty, so no child cgroup could run a process; write both there first"
                )
            self._spaces[path] = found
        return found

    def regain(self, path: str) -> bool:
        """Nothing can be switched off on v1."""
        return False

    def not_domain(self, path: str) -> str:
        """On v1 every group takes processes and values."""
        return ""

    def written(self, path: str, file: str) -> None:
        """A file was set by a step: what is remembered of the group no longer holds."""
        if file in _SPACE:
            self._spaces.pop(path, None)

    def removed(self, path: str) -> None:
        """The group is gone."""
        self._spaces.pop(path, None)
        for point in self.beside:
            # nobody made it there, or somebody uses it
            with suppress(OSError):
                os.rmdir(point + path)

    def make_lines(self, path: str) -> list[str]:
        """The shell commands of ``create``."""
        from shlex import quote

        lines = ["mkdir -p " + " ".join(quote(tree.point + path) for tree in self.trees)]
        if self._cpuset is not None:
            point = self._cpuset.point
            lines += [
                f'printf %s "$(cat {quote(f"{point}{parent(path)}/{file}")})"'
                f" > {quote(f'{point}{path}/{file}')}"
                for file in _SPACE
            ]
        return lines


def _write(tree: MountedTree, path: str, file: str, value: str) -> None:
    """Write, with the refusal explained."""
    try:
        tree.write(path, file, value)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise cgroup_error("set", tree.point + path, error.errno or 0, file, value) from error
