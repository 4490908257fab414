"""The node that a run is for: documents, flags, this machine, and the runtime that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.core.node.node import needs_linux
from qoslet.core.node.validation.unasked_refusals import unasked_refusals
from qoslet.core.problem import Problem
from qoslet.core.resources.node_policy import node_policy
from qoslet.host.files.bounds import NODE
from qoslet.host.files.node import load_node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qoslet.app.options import RunOptions
    from qoslet.core.node.node import Node
    from qoslet.core.pressure.guard_mode import Mode


def guard_of(options: RunOptions, node: Node) -> Mode:
    """What was asked for, or what goes with the variant of Memory QoS in force."""
    # imported for those who guard: apply asks here, too
    from qoslet.core.pressure.guard_mode import default_mode

    return options.guard or default_mode(node_policy(node).memory_qos)


def described_node(options: RunOptions) -> tuple[Node, list[Problem]]:
    """The node before the runtime that was asked for is told. Raises BadInputs."""
    acts = not options.simulate
    return load_node(
        options.nodes, options.flags, root_check=acts, bounds=NODE, acts=acts, own_tree=True
    )


def node_of(options: RunOptions) -> tuple[Node, tuple[Problem, ...]]:
    """The node that documents, flags and this machine describe. Raises CannotDo for one of Windows."""
    node, problems = described_node(options)
    needs_linux(node)
    if options.by_oci:
        from qoslet.app.runtimes.oci_run import escape_rows, naming

        node = naming(node)
        problems = [*problems, *escape_rows(options.runs_with)]
    unasked = unasked_refusals(node)
    return node, tuple(row for row in problems if row not in unasked)


def as_delegated(
    node: Node, problems: tuple[Problem, ...], undelegated: Mapping[str, str]
) -> tuple[Node, tuple[Problem, ...]]:
    """The same without the controllers that cgroups of the root do not get, which have a reason each."""
    if not undelegated:
        return node, problems
    # imported for few roots
    from qoslet.core.node.missing_files import without_undelegated

    node, rows = without_undelegated(node, undelegated)
    return node, (*problems, *rows)
