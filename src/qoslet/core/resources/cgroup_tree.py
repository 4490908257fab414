"""The shape of a plan: cgroups, the settings of each, and the reason of each value.

A ``Setting`` holds the numbers that went into its rule, not prose: ``because`` is put together
only when somebody looks, so planning a whole cluster pays for no sentence that nobody reads.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from qoslet.core.api.pod import Container, Pod, QosClass, Role
from qoslet.core.node.node import Node
from qoslet.core.problem import Problem
from qoslet.core.rules.catalog import Reasoned, Rule

Level = Literal["node", "qos", "pod", "sandbox", "container"]
Writer = Literal["kubelet", "runtime", "qoslet"]


class Setting(Struct, Reasoned, frozen=True, gc=False):
    """One file of a cgroup and the value that its writer writes there in the steady state.

    ``effective`` is what the driver or the kernel turns the value into, None where it stands
    as written. ``rule`` names a row of ``rules.catalog.RULES``; ``inputs`` are its numbers.
    """

    file: str
    value: str
    rule: str
    inputs: tuple[object, ...]
    writer: Writer
    effective: str | None = None

    @property
    def applied(self) -> str:
        """The value that is expected back from the kernel."""
        return self.value if self.effective is None else self.effective

    def is_like(self, other: Setting) -> bool:
        """Whether the other has the same value, whatever its rule."""
        return self.value == other.value and self.applied == other.applied


class Cgroup(Struct, frozen=True, gc=False):
    """One planned group.

    ``name`` is the abstract name from the hierarchy's root, ``path`` and ``unit`` the concrete
    ones of the driver (None for a container whose id is not known).
    """

    name: str
    level: Level
    settings: tuple[Setting, ...]
    path: str | None = None
    unit: str | None = None
    pod: Pod | None = None
    container: Container | None = None
    role: Role | None = None
    oom_score_adj: int | None = None
    oom_rule: str | None = None
    oom_inputs: tuple[object, ...] = ()

    @property
    def by_file(self) -> dict[str, Setting]:
        """Its settings by their files."""
        return {setting.file: setting for setting in self.settings}

    @property
    def applied(self) -> dict[str, str]:
        """The values that are expected back from the kernel, by their files."""
        return {setting.file: setting.applied for setting in self.settings}

    @property
    def by_runtime(self) -> bool:
        """Whether a runtime makes it, with its values, and removes it."""
        settings = self.settings if self.level == "container" else ()
        return bool(settings) and all(setting.writer == "runtime" for setting in settings)

    def __repr__(self) -> str:
        """The cgroup in one line: its name, level and values."""
        values = ", ".join(f"{setting.file}={setting.value}" for setting in self.settings)
        return f"Cgroup({self.name!r}, {self.level!r}, {values})"


class PlannedPod(Struct, frozen=True, gc=False):
    """A pod that is part of the plan, with its class."""

    pod: Pod
    qos: QosClass


class Plan(Struct, frozen=True):
    """The whole answer: parents stand before their children in ``cgroups``."""

    node: Node
    pods: tuple[PlannedPod, ...]
    cgroups: tuple[Cgroup, ...]
    problems: tuple[Problem, ...]

    @property
    def is_valid(self) -> bool:
        """Whether no problem is an error."""
        return all(problem.severity != "error" for problem in self.problems)

    @property
    def stands(self) -> bool:
        """Deprecated name of ``is_valid``."""
        return self.is_valid

    def __repr__(self) -> str:
        """The plan in one short line."""
        node = f"node={self.node.name!r}, kubernetes={self.node.profile.kubernetes!r}"
        sizes = f"pods={len(self.pods)}, cgroups={len(self.cgroups)}, problems={len(self.problems)}"
        return f"Plan({node}, {sizes}, is_valid={self.is_valid})"

    def is_windows(self, cgroup: Cgroup) -> bool:
        """Whether a row of ``cgroups`` is that of a Windows container: Windows has job objects, no
        cgroups, and the settings are fields of a message, not files."""
        return self.node.os == "windows" or (cgroup.pod is not None and cgroup.pod.os == "windows")

    @property
    def files(self) -> frozenset[str]:
        """Every file that the plan writes somewhere."""
        return frozenset(setting.file for cgroup in self.cgroups for setting in cgroup.settings)


__all__ = ["Cgroup", "Level", "Plan", "PlannedPod", "Rule", "Setting", "Writer"]


def key_of(cgroup: Cgroup) -> str:
    """The group's name, made unique where containers of many pods stand side by side."""
    if cgroup.container is None or cgroup.pod is None:
        return cgroup.name
    return f"{cgroup.name}\0{cgroup.pod.uid}"


def named(key: str) -> str:
    """The group's name of its key."""
    return key.partition("\0")[0]
