"""Reads the configuration of a running node again, and takes of it what may change."""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.app.agent.parts import AgentRun
from qoslet.app.node import guard_of, node_of
from qoslet.app.options import RunOptions
from qoslet.core.cgroup.names import root_path
from qoslet.core.managers.container_manager import placing
from qoslet.errors import QosletError


def reload(options: RunOptions, made: AgentRun, root: str) -> None:
    """Read the node's configuration again; what cannot change while pods run is said and stays.
    Manifests are followed anyway."""
    note = made.reconciler.context.log_note
    old = made.source.live.node
    try:
        node, problems = node_of(options)
        moved = root_path(options.root, node.driver) != root or node.driver != old.driver
    except QosletError as error:
        said = "; ".join(str(error).splitlines())
        note(f"cannot reload the configuration: {said}; the last valid one stays in effect")
        return
    if (node, problems) == (old, made.source.problems):
        note("configuration reloaded: no change")
        return
    fixed = {
        "the cgroup driver": moved,
        "the hierarchy": node.hierarchy != old.hierarchy,
        "cgroupsPerQOS": node.kubelet.cgroups_per_qos != old.kubelet.cgroups_per_qos,
        "the settings of the CPU and memory managers": placing(node) != placing(old),
        "the runtime": node.profile.runtime != old.profile.runtime,
    }
    changed = [name for name, differs in fixed.items() if differs]
    if changed:
        note(f"{', '.join(changed)} cannot change while pods run: restart qoslet run")
        return
    before = old, made.source.problems
    made.source.configure(node, problems)
    wrong = made.source.first_node_error()
    if wrong is not None:
        made.source.configure(*before)
        said = f"{wrong.where}: {wrong.message}"
        note(f"configuration rejected: {said}; the last valid one stays in effect")
        return
    shared = made.reconciler.context
    shared.config = replace(shared.config, guard=guard_of(options, node))
    note("configuration reloaded")
