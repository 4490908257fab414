"""The node and the pods of a bundle, for the commands that take one instead of a machine."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.schema import DECODE_ERRORS, shown
from qoslet.core.bundle.kubelet_state import KubeletState
from qoslet.core.bundle.live import BundledTree
from qoslet.core.bundle.machine_facts import described, doctor_view, read_facts
from qoslet.core.bundle.parts import (
    BUNDLE,
    CGROUPS,
    DOCTOR,
    KUBELET,
    MACHINE,
    NODE,
    NODE_PARTS,
    PODS,
    UNITS,
    Bundle,
)
from qoslet.core.bundle.rows import cgroup_rows, running_containers, unit_rows
from qoslet.core.node.documents.sources import OWN_API
from qoslet.core.node.flags import NO_FLAGS
from qoslet.core.problem import Problem
from qoslet.core.versions.kubernetes import NEWEST
from qoslet.errors import BadInput
from qoslet.host.files.bounds import BUNDLED
from qoslet.host.files.bundle import read_bundle
from qoslet.host.files.manifests import load_text
from qoslet.host.files.node import load_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qoslet.core.api.manifest import Loaded, Options
    from qoslet.core.api.pod import System
    from qoslet.core.managers.container_manager import Assignments
    from qoslet.core.node.doctor.finding import DoctorFinding
    from qoslet.core.node.flags import Flags
    from qoslet.core.node.machine import Machine
    from qoslet.core.node.node import Node
    from qoslet.core.node.running_kubelet.work import KubeletWork


MAKE = "make the bundle again with qoslet bundle"


class _Unread(Struct):
    path: str = ""
    file: str = ""
    error: str = ""


class _About(Struct):
    """What is read of ``bundle.json``."""

    api_version: str = msgspec.field(name="apiVersion", default=OWN_API)
    time: str = ""
    unread: list[_Unread] = []
    least_oom_score_adj: int | None = msgspec.field(name="leastOomScoreAdj", default=None)
    kubelet: KubeletState | None = None


class BundleInputs:
    """The bundle at ``path`` as what ``plan`` reads. Raises BadInput."""

    def __init__(self, path: str) -> None:
        self.bundle: Bundle = read_bundle(path)

    def node(
        self, paths: Sequence[str], flags: Flags, system: System | None = None
    ) -> tuple[Node, list[Problem]]:
        """The node of the bundle, with the documents at ``paths`` and ``flags`` over it; nothing is
        read from this machine. Raises BadInput, BadInputs."""
        if flags.probe == "always":
            hint = "leave out --probe, or --bundle"
            raise BadInput("reads this machine, --bundle is another", where="--probe", hint=hint)
        parts = self.bundle.parts
        if not paths and MACHINE not in parts and NODE not in parts:
            message = f"has no {MACHINE}: what machine it is from is unknown"
            raise BadInput(message, where=self.bundle.name, hint="describe the machine with --node")
        node, problems = load_node(
            paths,
            replace(flags, probe="never"),
            bounds=BUNDLED,
            system=system,
            texts=self.bundle.texts(*NODE_PARTS),
        )
        return node, [*self._notes(flags), *problems]

    def other_releases(self, paths: Sequence[str], flags: Flags) -> dict[str, Node]:
        """The node with each release that its kubelet may be, which did not tell its own; none where ``flags``
        give it. Raises BadInput, BadInputs."""
        names = self._releases(flags)
        return {one: self.node(paths, replace(flags, kubernetes=one))[0] for one in names}

    def _releases(self, flags: Flags) -> list[str]:
        state = self._about().kubelet
        return [] if state is None or flags.kubernetes is not None else state.releases

    def pods(self, options: Options) -> Loaded:
        """The pods of the bundle. Raises BadInput, BadInputs."""
        for name, text in self.bundle.texts(PODS):
            return load_text(text, options, name=name, bounds=BUNDLED)
        raise BadInput(f"has no {PODS}", where=self.bundle.name, hint="give the pods with -f")

    def doctor(self) -> tuple[Machine, list[DoctorFinding], bool]:
        """The machine, what is to be said of it, and whether qoslet can make cgroups there. Raises
        BadInput, BadInputs, CannotDo."""
        for where, text in self.bundle.texts(DOCTOR):
            can_audit = {CGROUPS, PODS} <= self.bundle.parts.keys()
            audit = f"qoslet audit --bundle {shlex.quote(self.bundle.name)}" if can_audit else ""
            return doctor_view(read_facts(text, where), audit)
        from qoslet.core.node.node import needs_linux

        node, _ = self.node((), NO_FLAGS)
        needs_linux(node)
        return described(node)

    def running(self) -> set[tuple[str, str]]:
        """Pods and containers that ran, by their names."""
        return running_containers(self.bundle.parts.get(PODS, b"{}"))

    def tree(self, hierarchy: str) -> BundledTree:
        """The cgroups and units of the bundle, as an audit reads them. Raises BadInput."""
        parts = dict(self.bundle.texts(CGROUPS, UNITS))
        where = self.bundle.place(CGROUPS)
        if where not in parts:
            message = f"has no {CGROUPS}: nothing can be compared"
            raise BadInput(message, where=self.bundle.name, hint=MAKE)
        units = parts.get(self.bundle.place(UNITS))
        rows = cgroup_rows(parts[where], where)
        if rows and not any((row.hierarchy == "v2") == (hierarchy == "v2") for row in rows):
            other = "v1" if hierarchy == "v2" else "v2"
            message = f"has cgroups of {other} only, its node has cgroup {hierarchy}"
            raise BadInput(
                message, where=where, hint="check the documents of --node, and --hierarchy"
            )
        about = self._about()
        return BundledTree(
            hierarchy,
            rows,
            None if units is None else unit_rows(units, self.bundle.place(UNITS)),
            {(one.path, one.file): shown(one.error) for one in about.unread},
            about.least_oom_score_adj,
        )

    def made_at(self) -> float | None:
        """When the bundle was made, in seconds since 1970; None where it does not tell. Raises BadInput."""
        try:
            return datetime.fromisoformat(self._about().time).timestamp()
        except (ValueError, OverflowError, OSError):
            return None

    def kubelet_work(self) -> KubeletWork | None:
        """What the kubelet of the node was about to do; None where none was asked. Raises BadInput."""
        state = self._about().kubelet
        return None if state is None else state.work()

    def held(self) -> dict[tuple[str, str], str]:
        """The values that the agent beside that kubelet kept, by path and file. Raises BadInput."""
        state = self._about().kubelet
        rows = () if state is None else state.held
        return {(one.path, one.file): one.value for one in rows}

    def assignments(self, node: Node) -> Assignments | None:
        """The CPUs and memory that the kubelet had handed out, as far as they fit a node. Raises BadInput."""
        state = self._about().kubelet
        if state is None or not state.assigned:
            return None
        from qoslet.core.managers.told import fitting

        return fitting(node, state.assignments())

    def _about(self) -> _About:
        """What ``bundle.json`` says. Raises BadInput."""
        for where, text in self.bundle.texts(BUNDLE):
            try:
                about = msgspec.json.decode(text, type=_About)
            except DECODE_ERRORS as error:
                raise BadInput(
                    f"cannot be read: {shown(str(error))}", where=where, hint=MAKE
                ) from None
            if about.api_version != OWN_API:
                message = f"has apiVersion {shown(about.api_version)}, this qoslet reads {OWN_API}"
                raise BadInput(message, where=where, hint="read it with the qoslet that made it")
            return about
        return _About()

    def _notes(self, flags: Flags) -> list[Problem]:
        """What the bundle lacks and what of it is ignored."""
        name, found = self.bundle.name, []
        if KUBELET not in self.bundle.parts:
            message = f"has no {KUBELET}: the kubelet's defaults are taken"
            hint = "give the configuration with --node where there is one"
            found.append(Problem("info", name, message, hint))
        if self._releases(flags):
            message = f"the kubelet did not tell its release: rules of 1.{NEWEST} are used"
            found.append(Problem("info", name, message, "give --kubernetes"))
        if self.bundle.unknown:
            message = f"{', '.join(self.bundle.unknown[:5])}: not a part of a bundle, ignored"
            found.append(Problem("info", name, message, "a newer qoslet may read it"))
        return found
