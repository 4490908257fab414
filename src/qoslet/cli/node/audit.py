"""``qoslet audit``: whether the cgroups of this node are what its pods and configuration say."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from qoslet.cli.cluster_options import (
    add_agent_namespace,
    add_cluster_arguments,
    is_plugin,
    node_named,
)
from qoslet.cli.parser import (
    add_bundle_argument,
    add_document_arguments,
    add_drawing_arguments,
    add_kubelet_arguments,
    add_node_arguments,
    add_output_argument,
    add_schema_argument,
    emit_lines,
    screen,
)
from qoslet.cli.times import span
from qoslet.errors import EXIT_CANNOT, EXIT_NO, EXIT_OK, BadInput, BadInputs, QosletError
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

    from qoslet.app.audit.machine import Audited
    from qoslet.app.cluster_access import ClusterAccess
    from qoslet.core.audit.finding import AuditReport

FORMS = ("table", "json", "yaml", "sarif", "junit")
USAGE = "[OPTION]... [POD[/CONTAINER]|/CGROUP|node/NAME]"
EPILOG = """\
examples:
  qoslet audit
  qoslet audit -f pods.json --node kubelet.yaml --node node.yaml
  qoslet audit web/app -f pods.json --node kubelet.yaml
  qoslet audit /sys/fs/cgroup/kubepods.slice -f pods.json --node kubelet.yaml
  qoslet audit -f pods.yaml --cgroup-root /qoslet -o json
  qoslet audit --only drift --only stale
  qoslet audit --fix --dry-run
  qoslet audit --watch -o json
  qoslet audit --bundle node1.tar.gz
  qoslet audit node/node-1 --context production

Without -f it audits the node of the kubelet that runs here, or of the agent of qoslet where none
does. It only reads unless --fix is given. It reads twice what differs: a change that is under way
is pending, not a fault. --fix writes values of planned cgroups; it ends no process, and creates
and removes no cgroup.

exit code: 0 as planned, 1 a finding of warning or above, 2 bad input or no pods, 3 nothing could
be read
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "target",
        metavar="POD[/CONTAINER]|/CGROUP|node/NAME",
        nargs="?",
        help="Print only what is found at a pod, a container, or a cgroup and below it; with --cluster, "
        "audit this node by its agent",
    )
    parser.add_argument("-n", "--namespace", metavar="NAME", help="Namespace of the pod")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="VERDICT|POD|PATH",
        help="Keep only the findings of a verdict, a pod or a cgroup (repeatable)",
    )
    _add_acting(parser)
    add_output_argument(parser, FORMS)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="Show derivation, source and possible writers"
    )
    add_schema_argument(parser, "audit")
    add_bundle_argument(parser)
    add_document_arguments(parser, positional=False, namespace=False)
    add_node_arguments(parser)
    add_kubelet_arguments(parser, live=True)
    add_agent_namespace(add_cluster_arguments(parser))
    add_drawing_arguments(parser, exact=False)


def _add_acting(parser: argparse.ArgumentParser) -> None:
    """The options of an audit that repairs, and of one that goes on."""
    parser.add_argument(
        "--fix",
        action="store_true",
        help="Write what its owner would write, then audit again; qoslet release undoes it",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="With --fix: print the commands and change nothing"
    )
    parser.add_argument(
        "--watch", action="store_true", help="Go on, and print findings that appear, change or go"
    )
    parser.add_argument(
        "--interval",
        type=span,
        default=10.0,
        metavar="SECONDS",
        help="With --watch: time between two audits at most (default: 10)",
    )


def run(args: argparse.Namespace) -> int:
    """Read, plan, compare and print; the exit code. Raises QosletError."""
    from qoslet.app.cluster_access import cluster_access, current

    is_node = (args.target or "").startswith("node/")
    access = cluster_access(args) or (current() if is_node and is_plugin() else None)
    if access is None:
        return _run_here(args, is_node=is_node)
    return _run_on_node(args, access)


def _run_here(args: argparse.Namespace, *, is_node: bool) -> int:
    """Audit what is here; ``is_node``: the target may have been meant as a node of a cluster. Raises
    QosletError."""
    try:
        return _run(args)
    except QosletError as error:
        if not is_node or isinstance(error, BadInputs) or args.filename or args.bundle:
            raise
        hint = f"for a node of a cluster: qoslet audit {args.target} --cluster"
        raise type(error)(error.message, where=error.where, hint=hint) from None


def _run_on_node(args: argparse.Namespace, access: ClusterAccess) -> int:
    """Audit a node of a cluster by a bundle that its agent makes. Raises QosletError."""
    name = node_named(args.target or "audit", "qoslet audit node/NAME --cluster")
    if args.filename or args.bundle or args.fix or args.dry_run or args.watch:
        message = (
            "takes no -f, --bundle, --fix, --dry-run or --watch: the agent makes a bundle of it"
        )
        raise BadInput(message, where=args.target)
    from contextlib import ExitStack

    from qoslet.app.bundle.of_node import bundle_of_node
    from qoslet.app.cluster_agents import ClusterAgents
    from qoslet.render.text.live.progress import working

    agents = ClusterAgents(access, args.agent_namespace)
    with ExitStack() as rest:
        with working(sys.stderr, f"asking the agent of {args.target}"):
            path = rest.enter_context(bundle_of_node(name, agents))
        args.bundle, args.target = path, None
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    """Audit this machine, documents or a bundle. Raises QosletError."""
    from qoslet.app.audit.node_audit import NodeAudit

    if args.fix or args.dry_run or args.watch:
        from qoslet.cli.node.audit_fix import check_arguments, fix

        check_arguments(args)
        if args.watch:
            from qoslet.cli.node.audit_watch import check_watch, run_watch

            check_watch(args)
            return run_watch(args, NodeAudit(args), partial(_chosen, args))
        return fix(args, NodeAudit(args), partial(_chosen, args), partial(_print, args))
    audited = NodeAudit(args).look()
    report = _chosen(args, audited)
    _print(args, audited, report)
    if any(one.counts for one in report.findings):
        return EXIT_NO
    return EXIT_OK if report.compared else EXIT_CANNOT


def _chosen(args: argparse.Namespace, audited: Audited) -> AuditReport:
    """The findings that the target and ``--only`` name. Raises BadInput for an unknown one."""
    plan, report = audited.plan, audited.report
    if args.target is None and not args.only:
        return report
    from qoslet.core.audit.target import narrowed, only

    if args.target is not None:
        report = only(report, plan, args.target, args.namespace)
    return narrowed(report, plan, args.only, args.namespace)


def _print(
    args: argparse.Namespace,
    audited: Audited,
    report: AuditReport,
    repair: dict[str, object] | None = None,
) -> None:
    plan = audited.plan
    if args.output == "table":
        from qoslet.render.text.audit.audit import draw

        emit_lines(draw(plan, report, screen(args), args.verbose), screen(args))
        return
    from qoslet.render.documents import audit as documents
    from qoslet.render.documents import encode, encoded

    if args.output == "junit":
        emit(documents.junit_document(report))
    elif args.output == "sarif":
        emit(encode(documents.sarif_document(report)))
    else:
        document = documents.audit_document(plan, report, repair)
        emit(encoded(document, args.output))
