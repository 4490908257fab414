"""Reads the configuration of a running node again, and takes of it what may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from qoslet.app.agent.parts import AgentRun
from qoslet.app.node.node import as_delegated, guard_of, node_of
from qoslet.app.options import RunOptions
from qoslet.core.managers.container_manager import placing
from qoslet.core.node.node import Node, seccomp_default
from qoslet.errors import QosletError

STAYS = "the last valid one stays in effect"

_FIXED: Mapping[str, Callable[[Node], object]] = {
    "the node's name": lambda node: node.name,
    "the cgroup driver": lambda node: node.driver,
    "the hierarchy": lambda node: node.hierarchy,
    "cgroupsPerQOS": lambda node: node.kubelet.cgroups_per_qos,
    "the settings of the CPU and memory managers": placing,
    "the runtime": lambda node: node.profile.runtime,
}
"""What pods that run depend on."""

_KEPT: Mapping[str, Callable[[Node], object]] = {
    "containerLogMaxSize": lambda node: node.kubelet.container_log_max_size,
    "containerLogMaxFiles": lambda node: node.kubelet.container_log_max_files,
}
"""What the keeper is started with, which lives as long as its pods."""

_BY_CRI: Mapping[str, Callable[[Node], object]] = {"seccompDefault": seccomp_default}
"""What the client of a container runtime is started with."""


class Reloading:
    """Reads the configuration again when it changes and when somebody asks, which ``is_asked``
    tells, and gives ``note`` a line. One and the same fault is told once; who asks gets an answer
    all the same. ``read`` does it."""

    def __init__(
        self, read: Callable[[], str], note: Callable[[str], None], is_asked: Callable[[], bool]
    ) -> None:
        self._read, self._note, self._is_asked = read, note, is_asked
        self._last = ""

    def __call__(self) -> None:
        """Read it again, and say how that went."""
        said = self._read()
        if said != self._last or not said.endswith(STAYS):
            self._note(said)
        elif self._is_asked():
            self._note(f"configuration not reloaded: the fault is the same; {STAYS}")
        self._last = said


def reload(options: RunOptions, made: AgentRun) -> str:
    """Read the node's configuration again; what cannot change while pods run stays. Manifests are
    followed anyway. Returns the line that says so."""
    old = made.source.live.node
    try:
        node, problems = as_delegated(*node_of(options), made.undelegated)
    except QosletError as error:
        said = "; ".join(str(error).splitlines())
        return f"cannot reload the configuration: {said}; {STAYS}"
    if (node, problems) == (old, made.source.problems):
        return "configuration reloaded: no change"
    changed = _changed(_FIXED, old, node)
    if changed:
        return f"{', '.join(changed)} cannot change while pods run: restart qoslet run"
    before = old, made.source.problems
    made.source.configure(node, problems)
    wrong = made.source.first_node_error()
    if wrong is not None:
        made.source.configure(*before)
        said = f"{wrong.where}: {wrong.message}"
        return f"configuration rejected: {said}; {STAYS}"
    shared = made.reconciler.context
    shared.config = replace(shared.config, guard=guard_of(options, node))
    late = _changed({**_KEPT, **(_BY_CRI if options.by_cri else {})}, old, node)
    if late:
        return f"configuration reloaded; {', '.join(late)}: restart qoslet run once no pod runs to apply"
    return "configuration reloaded"


def _changed(fields: Mapping[str, Callable[[Node], object]], old: Node, new: Node) -> list[str]:
    """The names of the fields whose values differ."""
    return [name for name, value in fields.items() if value(old) != value(new)]
