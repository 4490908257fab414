"""cgroup v2: one hierarchy; a group has the controllers that the group above gives to it."""

from __future__ import annotations

from collections.abc import Callable

from qoslet.core.cgroup.controllers import WANTED_V2
from qoslet.core.cgroup.names import DEFAULT_POINT
from qoslet.host.cgroupfs.write_errors import cgroup_error
from qoslet.host.linux.openat import MountedTree, parent


class HierarchyV2:
    """The v2 hierarchy at its mount point. Of the controllers that are ``wanted``, those that
    the root has are enabled on the way down to every group that is made; ``opened`` gives it."""

    name = "v2"

    def __init__(
        self,
        point: str = DEFAULT_POINT,
        wanted: frozenset[str] = WANTED_V2,
        opened: Callable[[str], MountedTree] = MountedTree,
    ) -> None:
        self.wanted = wanted
        self.tree = opened(point)
        self.trees: tuple[MountedTree, ...] = (self.tree,)
        self._given: set[str] = set()

    def tree_of(self, controller: str) -> MountedTree | None:
        """The one hierarchy."""
        return self.tree

    def controllers_of(self, tree: MountedTree) -> tuple[str, ...]:
        """Not by hierarchy on v2."""
        return ()

    def create(self, path: str) -> bool:
        """Make the group, with the controllers of all groups above. True if it is new.

        Raises ``Refused``; FileNotFoundError where the group above is absent.
        """
        above = parent(path)
        if above not in self._given:
            self._give_down_to(above)
        try:
            return self.tree.mkdir(path)
        except FileNotFoundError:
            self._given.clear()
            raise
        except OSError as error:
            raise cgroup_error("create", self.tree.point + path, error.errno or 0) from error

    def _give_down_to(self, path: str) -> None:
        """Enable controllers from the hierarchy's root down to ``path``."""
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            group = "/".join(parts[:depth])
            if group not in self._given:
                self._give(group)
                self._given.add(group)

    def _give(self, path: str) -> None:
        """Enable in one group what is there and not enabled yet: in one write, or if the
        kernel refuses, one by one."""
        there = self.tree.read(path, "cgroup.controllers").split()
        given = self.tree.read(path, "cgroup.subtree_control").split()
        wanted = [name for name in there if name in self.wanted and name not in given]
        if not wanted:
            return
        try:
            self._control(path, wanted)
            return
        except FileNotFoundError:
            raise
        except OSError as error:
            first = error
        wrong = [name for name in wanted if not self._one(path, name)]
        if wrong:
            raise cgroup_error(
                "enable",
                self.tree.point + path,
                first.errno or 0,
                "cgroup.subtree_control",
                " ".join(f"+{name}" for name in wrong),
            ) from first

    def _one(self, path: str, name: str) -> bool:
        """Enable one controller; whether it worked."""
        try:
            self._control(path, [name])
        except OSError:
            return False
        return True

    def _control(self, path: str, names: list[str]) -> None:
        """Write ``+name`` for each."""
        text = " ".join(f"+{name}" for name in names)
        self.tree.write(path, "cgroup.subtree_control", text)

    def regain(self, path: str) -> bool:
        """Enable again what somebody switched off above a group; whether it has more now.

        Raises ``Refused`` where that cannot be; False where the group is gone.
        """
        self._given.clear()
        try:
            before = self.tree.read(path, "cgroup.controllers")
            self._give_down_to(parent(path))
            return self.tree.read(path, "cgroup.controllers") != before
        except OSError:
            return False

    def not_domain(self, path: str) -> str:
        """The type of a group that is no domain, such as ``threaded``; empty for others."""
        try:
            text = self.tree.read(path, "cgroup.type")
        except OSError:
            return ""
        return text if text in ("threaded", "domain invalid") else ""

    def written(self, path: str, file: str) -> None:
        """A file was set by a step."""

    def removed(self, path: str) -> None:
        """The group is gone."""
        self._given.discard(path)

    def make_lines(self, path: str) -> list[str]:
        """The shell commands of ``create``; the controllers are those that the root has now."""
        from shlex import quote

        try:
            there = self.tree.read("", "cgroup.controllers").split()
        except OSError:
            there = sorted(self.wanted)
        text = " ".join(f"+{name}" for name in there if name in self.wanted)
        above = f"{self.tree.point}{parent(path)}/cgroup.subtree_control"
        give = [f"printf %s {quote(text)} > {quote(above)}"] if text else []
        return [*give, f"mkdir -p {quote(self.tree.point + path)}"]
