"""``qoslet apply``: one pass that makes a tree of cgroups true and leaves it standing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from qoslet.errors import EXIT_NO, EXIT_OK, BadInput
from qoslet.surfaces.cli.common import add_document_arguments, add_node_arguments, note
from qoslet.surfaces.cli.problems import tell
from qoslet.surfaces.cli.streams import emit

if TYPE_CHECKING:
    import argparse

    from qoslet.core.tree import Plan
    from qoslet.surfaces.cli.inputs import Inputs
    from qoslet.surfaces.cli.wireonce import Tree

EPILOG = """\
examples:
  qoslet apply pods.yaml --node node.yaml
  qoslet apply -f pods/ --cgroup-root /qoslet --dry-run
  systemd-run --user -p Delegate=yes -p DelegateSubgroup=main sleep infinity
  qoslet apply pods.yaml --cgroup-root /user.slice/.../run-r1.service/qoslet

The tree stays until qoslet release. Applying again adopts it and writes what is off.

exit code: 0 the tree is as planned, 1 something still differs or the plan cannot stand,
2 bad input, 3 this machine cannot do it
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    add_pass_arguments(parser)
    parser.add_argument(
        "--shrink",
        choices=("converge", "refuse", "force"),
        default="converge",
        metavar="HOW",
        help="a memory limit below what is in use: converge (go near it), refuse, force",
    )
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of the output")
    add_document_arguments(parser, positional=True)
    add_node_arguments(parser)


def add_pass_arguments(parser: argparse.ArgumentParser) -> None:
    """What every pass over a standing tree takes."""
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="the form")
    parser.add_argument("-v", "--verbose", action="store_true", help="every step and difference")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, do nothing")


def checked_root(root: str) -> str:
    """A root of one's own. Raises BadInput."""
    parts = [part for part in root.split("/") if part]
    if not root.startswith("/") or not parts or any(p in (".", "..") for p in parts):
        hint = "such as /qoslet: everything below it is made and removed"
        raise BadInput(f"{root!r} is no root of one's own", where="--cgroup-root", hint=hint)
    return f"/{'/'.join(parts)}"


def run(args: argparse.Namespace) -> int:
    """Read, plan, write, say what was done; the exit code. Raises QosletError."""
    if args.schema:
        from qoslet.schema import text

        emit(text("apply").encode())
        return EXIT_OK
    from qoslet.surfaces.cli import wireonce
    from qoslet.surfaces.cli.inputs import read

    paths = [*args.filename, *args.paths]
    if not paths:
        raise BadInput("no manifests", hint="give files or directories: qoslet apply examples/")
    args.cgroup_root = checked_root(args.cgroup_root or wireonce.default_root())
    plan = _plan(read(args, paths, writes=True))
    tell(plan.problems)
    if not plan.stands:
        return EXIT_NO
    return _pass(args, plan)


def _plan(inputs: Inputs) -> Plan:
    """The plan; what a kubelet would refuse on this machine concerns only a kubelet."""
    from qoslet.core.nodechecks import host_refusals

    if not inputs.node.kubelet_given:
        kubelets = list(host_refusals(inputs.node))
        rows = tuple(row for row in inputs.problems if row not in kubelets)
        inputs = replace(inputs, problems=rows)
    return inputs.plan()


def _pass(args: argparse.Namespace, plan: Plan) -> int:
    """The one pass; the exit code."""
    from functools import partial

    from qoslet.agent.apply import Pass, perform, prepare, reduced, startless
    from qoslet.core.journal import CONTROL
    from qoslet.surfaces import passes
    from qoslet.surfaces.cli import wireonce

    node = plan.node
    place = wireonce.place_of(args.cgroup_root, node.hierarchy, node.driver)
    with wireonce.tree(place, write=not args.dry_run) as tree:
        for text in tree.notes:
            note(text)
        plan, lost = reduced(plan, tree.reach.missing)
        if place.driver == "systemd":
            plan = startless(plan, tree.stands)
        tree.watch(plan.files | {file for _, file in tree.ledger.files if file != CONTROL})
        look = partial(prepare, plan, place.root, tree.ledger, tree, args.shrink)
        work = look()
        tree.meet(work.others)
        done, commands = Pass(work, (), work.differences), list[str]()
        if tree.journal is None:
            commands = [tree.driver.shell(step) for step in work.steps]
        else:
            made = any(step.kind == "create" for step in work.steps)
            enabled = made and (tree.enable() or place.driver == "systemd")
            done = perform(work, look, tree.driver, tree.journal)
            if enabled and done.left and not done.failures:
                # groups of others have files that they had not
                more = perform(look(), look, tree.driver, tree.journal)
                done = Pass(work, (*done.outcomes, *more.outcomes), more.left)
        for text in done.before.notes:
            note(text)
        missing = tree.reach.missing
        said = describe(tree, node.driver, args.dry_run)
    if args.output == "json":
        from qoslet.surfaces.jsonout import encode

        emit(encode(passes.apply_document(said, done, lost, missing, commands)))
    elif args.dry_run:
        emit("".join(f"{line}\n" for line in commands).encode())
    else:
        title = f"{place.root} · {node.hierarchy} · {node.driver}"
        lines = passes.apply_lines(title, done, lost, missing, args.verbose)
        show(lines)
    if args.dry_run:
        return EXIT_OK
    return EXIT_NO if done.left or done.failures or lost else EXIT_OK


def describe(tree: Tree, driver: str, dry_run: bool) -> dict[str, object]:
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
    from qoslet.surfaces.style import printable

    emit("".join(f"{printable(line)}\n" for line in lines).encode())
