"""Values of steps as unit properties, and whether the kernel got them.

systemd writes to the kernel after it has answered, and goes on where the kernel refuses: so every
file is read back.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from qoslet.core.cgroup import unit_properties
from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.interface_files import UNMANAGED, controller, property_of, released
from qoslet.core.cgroup.unit_properties import Signed
from qoslet.core.reconcile.steps import Step
from qoslet.core.reconcile.unit_jobs import Piece
from qoslet.host.cgroupfs.layout import CgroupLayout
from qoslet.host.cgroupfs.write_errors import CgroupError, cgroup_error
from qoslet.host.linux.descriptors import owned
from qoslet.host.linux.openat import parent

_QUOTA, _PERIOD, _DEFAULT_PERIOD = "cpu.cfs_quota_us", "cpu.cfs_period_us", "100000"
_LISTS = ("cpuset.cpus", "cpuset.mems")
_OOM_GROUP = "memory.oom.group"
_QUOTAS = ("cpu.max", _QUOTA)
_IN_SCOPE = ".scope/"


class UnitProperties:
    """The values of one hierarchy under one version of systemd."""

    def __init__(self, layout: CgroupLayout, version: int) -> None:
        self._layout = layout
        self._version = version
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._sent: dict[str, dict[str, object]] = {}

    def by_property(self, step: Step) -> bool:
        """Whether systemd writes the file of a ``set``; not where the controller is absent, nor below a
        scope, where a runtime or a program made the cgroup."""
        if self._layout.tree_of(controller(step.file)) is None or _IN_SCOPE in step.path:
            return False
        return unit_properties.carried(step.file, self._layout.name, self._version)

    def at_creation(self, step: Step) -> bool:
        """Whether the value can be given with the unit. Quotas of v1 have an order between
        groups that the steps keep, so they come afterwards."""
        if step.file == _OOM_GROUP:
            return self.fixed(step)
        return self.by_property(step) and step.file not in (_QUOTA, _PERIOD)

    def fixed(self, step: Step) -> bool:
        """Whether the value is one that a unit is given with its creation only."""
        scope = step.path.endswith(".scope")
        since = unit_properties.OOM_POLICY_SINCE
        return scope and step.file == _OOM_GROUP and self._version >= since

    def rewritten(self, work: Iterable[Piece]) -> dict[tuple[str, str], str]:
        """The values that systemd writes beside a property, by path and file: memory.oom.group of the groups that
        get one, and of the scopes beside them, and their quotas, which a runtime or kubelet wrote more exactly
        than a property says; nothing where there is no such file. To be read before any is sent: of pieces
        that run side by side each would take for its own what systemd has written for another."""
        steps = [(one.path, step) for one in work for _, step in one.steps]
        paths = {path for path, step in steps if self.by_property(step)}
        places = {(one, file) for one in paths for file in _QUOTAS}
        places -= {(path, step.file) for path, step in steps}
        tree = self._layout.tree_of("memory")
        for above in {parent(path) for path in paths}:
            if tree is None:
                break
            with suppress(OSError), owned(tree.directory(above)) as directory:
                names = os.listdir(directory)
                paths |= {f"{above}/{name}" for name in names if name.endswith(".scope")}
        places |= {(one, _OOM_GROUP) for one in paths}
        found = {place: self._read(*place) for place in places}
        return {place: text.strip() for place, text in found.items() if text is not None}

    def keep(
        self, values: Mapping[tuple[str, str], str], written: Mapping[str, Mapping[str, Step]]
    ) -> None:
        """Write values again that systemd has set otherwise than they were, or memory.oom.group was ``written``
        since: with each property of a unit it writes its quota, in whole percents, and what its OOMPolicy says,
        after a daemon-reload for the units beside it, too. Source: systemd core/cgroup.c; seen with 257."""
        for (path, file), had in values.items():
            tree, step = self._layout.tree_of(controller(file)), written.get(path, {}).get(file)
            value = had if step is None else step.value
            if tree is not None and self._read(path, file) not in (value, None):
                with suppress(CgroupError, OSError):
                    tree.write(path, file, value)

    def empty_lists(self, steps: Iterable[Step]) -> None:
        """Write to its file each list that is unset and that the kernel still has: systemd leaves cpuset.* of
        a unit without a list as they are, so no reload brings the old one back. Source: systemd
        core/cgroup.c cgroup_context_get_mask; seen with 257, after another process's AllowedCPUs=."""
        tree = self._layout.tree_of("cpuset")
        for step in steps:
            if tree is not None and step.file in _LISTS and not step.value:
                with suppress(CgroupError, OSError):
                    tree.write(step.path, step.file, "")

    def properties(self, path: str, steps: Sequence[Step]) -> list[Signed]:
        """The properties of values of one group. Raises ``CgroupError`` for a value that is none."""
        files = {step.file: step.value for step in steps}
        found: list[Signed] = []
        if _OOM_GROUP in files:
            policy = unit_properties.oom_policy(files.pop(_OOM_GROUP))
            found.append(("OOMPolicy", "s", policy))
        lists = {file: files.pop(file) for file in _LISTS if files.get(file) == ""}
        found += [(_property(file), "ay", b"") for file in lists]
        try:
            if self._layout.name == "v1":
                values = unit_properties.properties_v1(files, self._version, self._period(path))
            else:
                values = unit_properties.properties(files, self._version)
        except ValueError as error:
            raise CgroupError(f"{path}: {error}", errno.EINVAL) from None
        return found + unit_properties.signed(values)

    def unsent(self, path: str, steps: Sequence[Step]) -> list[Signed]:
        """Of the properties of ``steps`` those that have to be sent: not what systemd was told
        and the kernel has."""
        due = [step for step in steps if not self._is_current(path, step)]
        return self.properties(path, due) if due else []

    def _is_current(self, path: str, step: Step) -> bool:
        """Whether the value was sent before and is in the kernel."""
        sent = self._sent.get(path, {})
        if not sent:
            return False
        told = all(sent.get(name) == value for name, _, value in self.properties(path, [step]))
        return told and self.unlike(path, step) is None

    def sent(self, path: str, properties: Sequence[Signed]) -> None:
        """Remember what systemd was told."""
        told = self._sent.setdefault(path, {})
        told.update({name: value for name, _, value in properties})

    def forget(self, path: str) -> None:
        """The unit is gone, and its properties with it."""
        self._sent.pop(path, None)

    def unlike(self, path: str, step: Step) -> CgroupError | None:
        """Why the kernel's file is not what a value becomes; None if it is."""
        tree = self._layout.tree_of(controller(step.file))
        point = (tree or self._layout.trees[0]).point
        found = self._read(path, step.file)
        if found is None:
            if step.value == released(step.file, self._layout.name):
                return None
            return cgroup_error("set", point + path, errno.ENOENT, step.file, step.value)
        wanted = unit_properties.written_by_systemd(step.file, step.value, self._period(path))
        if step.file == _PERIOD and self._read(path, _QUOTA) == "-1":
            wanted = _DEFAULT_PERIOD
        if same(step.file, wanted, found, self._page):
            return None
        named = property_of(step.file, self._layout.name, self._version) or ""
        first = unit_properties.FIRST_V1.get(named)
        advice = f"unset {first}= of the unit, which takes precedence, or " if first else ""
        return CgroupError(
            f"{point}{path}/{step.file}: systemd accepted {step.value!r}, but the kernel has {found!r}; "
            f"{advice}see journalctl -u {path.rpartition('/')[2]} for the kernel's error",
            errno.EINVAL,
        )

    def written(self, steps: Iterable[Step]) -> Iterator[Step]:
        """The steps with the values that systemd writes for those that it is told of."""
        periods: dict[str, int] = {}
        for step in steps:
            if step.kind != "set" or not self.by_property(step):
                yield step
                continue
            try:
                if step.file == _PERIOD:
                    periods[step.path] = int(step.value)
                period = periods.get(step.path) or self._period(step.path)
                yield replace(
                    step, value=unit_properties.written_by_systemd(step.file, step.value, period)
                )
            except ValueError:
                yield step  # it is refused when it is done

    def _period(self, path: str) -> int:
        """The period of a v1 quota, in microseconds: as systemd was told, else as it stands."""
        if self._layout.name != "v1":
            return int(_DEFAULT_PERIOD)
        told = self._sent.get(path, {}).get("CPUQuotaPeriodUSec")
        return int(str(told or self._read(path, _PERIOD) or _DEFAULT_PERIOD))

    def _read(self, path: str, file: str) -> str | None:
        """A file, None where it is not there."""
        tree = self._layout.tree_of(controller(file))
        try:
            return None if tree is None else tree.read(path, file)
        except OSError:
            return None

    def enable(self, path: str, file: str) -> None:
        """Give a v2 group a controller that systemd leaves alone. Raises ``CgroupError``."""
        name = controller(file)
        if self._layout.name != "v2" or name not in UNMANAGED:
            return
        tree = self._layout.trees[0]
        parts = parent(path).split("/")
        for group in ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1)):
            control = "cgroup.subtree_control"
            try:
                if name not in tree.read(group, control).split():
                    tree.write(group, control, f"+{name}")
            except OSError as error:
                number = error.errno or 0
                raise cgroup_error(
                    "enable", tree.point + group, number, control, f"+{name}"
                ) from error


def _property(file: str) -> str:
    """The property of a list."""
    return "AllowedCPUs" if file == "cpuset.cpus" else "AllowedMemoryNodes"
