"""``qoslet apply``: one pass that creates the cgroups of pods and writes their values."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qoslet.cli.parser import (
    add_document_arguments,
    add_node_arguments,
    add_output_argument,
    add_schema_argument,
    add_shrink_argument,
    emit_lines,
)
from qoslet.core.cgroup.names import DEFAULT_ROOT
from qoslet.errors import EXIT_NO, EXIT_OK, BadInput
from qoslet.render.text.problems import print_problems
from qoslet.render.text.streams import emit, note

if TYPE_CHECKING:
    import argparse

    from qoslet.app.inputs import Inputs
    from qoslet.app.tree import OwnedTree
    from qoslet.core.resources.cgroup_tree import Plan

USAGE = "[OPTION]... [FILE]..."
EPILOG = """\
examples:
  qoslet apply pods.yaml --node node.yaml
  qoslet apply -f pods/ --cgroup-root /qoslet --dry-run
  systemd-run --user -p Delegate=yes -p DelegateSubgroup=main sleep infinity
  qoslet apply pods.yaml --cgroup-root /user.slice/.../run-r1.service/qoslet

The cgroups stay until qoslet release removes them. Applying again writes only what differs.

exit code: 0 the cgroups are as planned, 1 something still differs or the plan has an error,
2 bad input, 3 not possible on this machine
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_pass_arguments(parser)
    add_shrink_argument(parser)
    add_schema_argument(parser, "apply")
    add_document_arguments(parser, positional=True)
    add_node_arguments(
        parser,
        root=f"Root of the tree (default: {DEFAULT_ROOT}; for a user, qoslet in its delegated cgroup)",
    )


def add_pass_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of every pass over an existing tree."""
    add_output_argument(parser, ("text", "json"))
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="List every step and difference"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="Print the commands and change nothing"
    )


def run(args: argparse.Namespace) -> int:
    """Read, plan, write, say what was done; the exit code. Raises QosletError."""
    from qoslet.app import tree as owned_tree
    from qoslet.app.inputs import read

    paths = [*args.filename, *args.paths]
    if not paths:
        raise BadInput(
            "no manifests given", hint="name files or directories: qoslet apply examples/"
        )
    args.cgroup_root = owned_tree.chosen_root(args.cgroup_root)
    plan = _plan(read(args, paths, writes=True))
    print_problems(plan.problems)
    if not plan.is_valid:
        return EXIT_NO
    return _pass(args, plan)


def _plan(inputs: Inputs) -> Plan:
    """The plan; what a kubelet would refuse on this machine concerns only a kubelet, unless it was
    asked for."""
    from qoslet.core.node.validation.unasked_refusals import unasked_refusals

    unasked = unasked_refusals(inputs.node)
    rows = tuple(row for row in inputs.problems if row not in unasked)
    return replace(inputs, problems=rows).plan()


def _pass(args: argparse.Namespace, plan: Plan) -> int:
    """The one pass; the exit code."""
    from qoslet.app.apply import apply_plan

    node = plan.node
    with apply_plan(plan, args.cgroup_root, args.shrink, dry_run=args.dry_run) as result:
        done, lost, missing = result.done, result.lost, result.tree.reach.missing
        said = describe(result.tree, node.driver, args.dry_run)
        root = result.tree.place.root
    if args.output == "json":
        from qoslet.render.documents import encode
        from qoslet.render.documents.apply import apply_document

        emit(encode(apply_document(said, done, lost, missing, result.commands)))
    elif args.dry_run:
        if not result.commands:
            note(f"{root} · {node.hierarchy} · {node.driver}: nothing to do")
        emit("".join(f"{line}\n" for line in result.commands).encode())
    else:
        from qoslet.render.text.apply import apply_lines

        title = f"{root} · {node.hierarchy} · {node.driver}"
        lines = apply_lines(title, done, lost, missing, args.verbose)
        show(lines)
    if args.dry_run:
        return EXIT_OK
    return EXIT_NO if done.remaining or done.failures or lost else EXIT_OK


def describe(tree: OwnedTree, driver: str, dry_run: bool) -> dict[str, object]:
    """Where a pass worked, for its document."""
    return {
        "root": tree.place.root,
        "hierarchy": tree.place.hierarchy,
        "driver": driver,
        "dryRun": dry_run,
        "notes": list(tree.notes),
    }


def show(lines: list[str]) -> None:
    """Text for people; nothing in it may steer a terminal."""
    from qoslet.render.terminal import printable, terminal

    emit_lines([printable(line) for line in lines], terminal(sys.stdout, os.environ))
