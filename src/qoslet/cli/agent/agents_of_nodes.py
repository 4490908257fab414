"""``qoslet agent --cluster``: a line for each node of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from qoslet.cli.parser import emit_lines, screen
from qoslet.errors import EXIT_CANNOT, EXIT_NO, EXIT_OK, BadInput
from qoslet.render.text.streams import emit, note

if TYPE_CHECKING:
    import argparse

    from qoslet.app.cluster_access import ClusterAccess
    from qoslet.app.cluster_agents import ClusterAgents, Progress
    from qoslet.app.guest.ask_cluster import NodeAnswer
    from qoslet.app.guest.run import GuestOptions

    Ask = Callable[[ClusterAgents, Progress], Sequence[NodeAnswer]]


def status_of_nodes(args: argparse.Namespace, access: ClusterAccess) -> int:
    """What the agents of a cluster do; the exit code. Raises QosletError."""
    from qoslet.app.guest import ask_cluster
    from qoslet.render.text.guest.nodes import nodes_lines

    if args.output == "json":
        hint = "ask a node: kubectl exec POD -- qoslet agent --status -o json"
        raise BadInput("prints lines only, with --cluster", where="-o json", hint=hint)
    found = _asked(args, access, ask_cluster.status_of_nodes)
    told = {one.node: one.document for one in found if one.document is not None}
    emit_lines(list(nodes_lines(told, screen(args))), screen(args))
    return _exit_code(found)


def dry_run_of_nodes(args: argparse.Namespace, options: GuestOptions) -> int:
    """What the agents of a cluster would write and may end; the exit code. Raises QosletError."""
    from qoslet.app.cluster_access import current
    from qoslet.app.guest import ask_cluster

    found = _asked(
        args,
        options.access or current(),
        lambda agents, progress: ask_cluster.dry_run_of_nodes(
            agents, options.policy, options.policy_flags, progress
        ),
    )
    told = {one.node: one.document for one in found if one.document is not None}
    if args.output == "json":
        from qoslet.render.documents import encode

        rows = [{"node": one.node, **(one.document or {})} for one in found]
        emit(encode({"nodes": rows}))
        return _exit_code(found)
    from qoslet.render.text.guest.nodes import dry_run_lines

    for name, one in told.items():
        if one["note"]:
            note(f"node/{name}: {one['note']}")
    emit_lines(list(dry_run_lines(told, screen(args), args.verbose)), screen(args))
    return _exit_code(found)


def _asked(args: argparse.Namespace, access: ClusterAccess, ask: Ask) -> Sequence[NodeAnswer]:
    """The answers of all nodes; those that do not answer are said on standard error."""
    from qoslet.app.cluster_agents import ClusterAgents
    from qoslet.render.text.live.progress import Progress

    with Progress(sys.stderr) as progress:
        found = ask(ClusterAgents(access, args.agent_namespace), progress)
    for one in found:
        if one.fault:
            note(one.fault)
    return found


def _exit_code(found: Sequence[NodeAnswer]) -> int:
    answered = [one for one in found if one.document is not None]
    if len(answered) == len(found):
        return EXIT_OK
    return EXIT_NO if answered else EXIT_CANNOT
