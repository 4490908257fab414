"""``qoslet release``: undo an apply or a run: stop pods, restore values, remove cgroups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from qoslet.cli.node.apply import add_pass_arguments, describe, show
from qoslet.cli.parser import add_schema_argument
from qoslet.errors import EXIT_NO, EXIT_OK
from qoslet.render.text.streams import emit, note

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from qoslet.app.tree import OwnedTree
    from qoslet.core.reconcile.restore import RestorePlan, TreeState
    from qoslet.core.reconcile.steps import Outcome

USAGE = "[OPTION]..."
EPILOG = """\
examples:
  qoslet release
  qoslet release --cgroup-root /qoslet --dry-run

Release stops the pods of a run first, in their grace periods. Then it checks everything: if another
process changed a value, or runs in a cgroup that apply created, release changes nothing and lists
each place. In a kubelet's tree it restores each file by itself, and lists those that it leaves.

exit code: 0 nothing is left to undo, 1 refused, not finished, or left a value of another process,
2 bad input, 3 not possible on this machine, or a journal was damaged
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_pass_arguments(parser)
    parser.add_argument("--cgroup-root", metavar="NAME", help="Root of the tree (default: /qoslet)")
    parser.add_argument(
        "--cgroup-driver",
        choices=("cgroupfs", "systemd"),
        metavar="DRIVER",
        help="Driver that created the tree: cgroupfs or systemd (default: from the journal)",
    )
    parser.add_argument(
        "--force", action="store_true", help="Keep values that another process changed since"
    )
    add_schema_argument(parser, "release")


def run(args: argparse.Namespace) -> int:
    """Look, judge, undo, say what was done; the exit code. Raises QosletError."""
    from qoslet.app import teardown
    from qoslet.app import tree as owned_tree
    from qoslet.app.guest.plugin_values import take_over
    from qoslet.app.tree_driver import driver_of
    from qoslet.core.reconcile.restore import restore

    root = owned_tree.chosen_root(args.cgroup_root)
    kind = "systemd" if args.cgroup_driver == "systemd" else driver_of(root)
    place = owned_tree.place_of(root, None, kind)
    with owned_tree.tree(place, write=not args.dry_run, verb=None) as tree:
        for text_of_note in tree.notes:
            note(text_of_note)
        take_over(tree)
        pods = tree.verb == "run" or teardown.has_leftovers(tree)
        ended = pods and _end_pods(tree, args.dry_run)
        what = restore(
            tree.ledger,
            _emptied(tree) if pods and args.dry_run else tree.standing(),
            hierarchy=place.hierarchy,
            page_size=owned_tree.page_size(),
            force=args.force,
            by_file=teardown.by_file(tree),
        )
        outcomes: list[Outcome] = []
        if not what.refusals and not args.dry_run:
            outcomes = teardown.perform(tree, what)
        _print(args, tree, what, outcomes, ended=ended)
        if tree.damage is not None:
            raise tree.damage
    left = any(row.kind == "held" or not args.force for row in what.left)
    wrong = left or what.refusals or any(one.error is not None for one in outcomes)
    return EXIT_NO if wrong else EXIT_OK


def _end_pods(tree: OwnedTree, dry_run: bool) -> bool:
    """End the pods of a run, or say which would be ended; whether any was. Raises CannotDo."""
    from qoslet.app.runtimes.end_pods import end_pods, pods_left

    lines = pods_left(tree) if dry_run else end_pods(tree, note)
    for line in lines:
        note(line)
    return bool(lines) and not dry_run


def _emptied(tree: OwnedTree) -> TreeState:
    """What stands, as it is once the pods have ended and their runtime has removed what it made."""
    from qoslet.app.runtimes.runtime_cgroups import runtime_cgroups

    seen, gone = tree.standing(), {*runtime_cgroups(tree)}
    groups = {
        path: replace(one, pids=()) for path, one in seen.tree.cgroups.items() if path not in gone
    }
    return replace(seen, tree=replace(seen.tree, cgroups=groups))


def _print(
    args: argparse.Namespace,
    tree: OwnedTree,
    what: RestorePlan,
    outcomes: Sequence[Outcome],
    *,
    ended: bool,
) -> None:
    commands = [tree.driver.shell(step) for step in what.steps] if args.dry_run else []
    if args.output == "json":
        from qoslet.render.documents import encode
        from qoslet.render.documents.apply import release_document

        said = describe(tree, tree.place.driver, args.dry_run)
        emit(encode(release_document(said, what, outcomes, commands)))
    elif args.dry_run and not what.refusals:
        for row in what.left:
            note(f"left: {row.message}")
        if not commands and not what.left and tree.damage is None:
            note(f"{tree.place.root} · {tree.place.hierarchy}: nothing to undo")
        emit("".join(f"{line}\n" for line in commands).encode())
    else:
        from qoslet.render.text.apply import release_lines

        title = f"{tree.place.root} · {tree.place.hierarchy}"
        lines = release_lines(title, what, outcomes, args.verbose, ended)
        is_known = what.steps or what.left or tree.damage is None
        show(lines if is_known else lines[:-1])
