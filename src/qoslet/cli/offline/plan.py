"""``qoslet plan``: the cgroups that pods get on a node, in the format that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from qoslet.errors import EXIT_NO, EXIT_OK
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

    from qoslet.core.resources.cgroup_tree import Plan

OUTPUTS = ("tree", "table", "json", "yaml", "files", "shell", "oci", "cri")

USAGE = "[OPTION]... [FILE]..."
EPILOG = """\
examples:
  qoslet plan pods.yaml --node kubelet.yaml --node node.yaml
  kubectl get pods -o json | qoslet plan -f - --node node.yaml -o json
  qoslet plan pods/ --node node.yaml --kubernetes 1.37 --memory-qos qoslet
  qoslet plan pods.yaml --node node.yaml -o shell
  qoslet plan --live --kubelet-token token

exit code: 0 done, 1 the plan has an error, 2 bad input, 3 not possible here
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_output_argument(parser, OUTPUTS)
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="List sandboxes, huge pages and every file (tree and table)",
    )
    add_schema_argument(parser, "plan", oci="oci", cri="cri")
    add_bundle_argument(parser)
    add_document_arguments(parser, positional=True)
    add_node_arguments(parser)
    add_kubelet_arguments(parser, live=True)
    add_drawing_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Read, plan and print; the exit code. Raises QosletError."""
    made = _planned(args)
    _print(made, args)
    _print_plan_problems(made, args.output)
    return EXIT_OK if made.is_valid else EXIT_NO


def _planned(args: argparse.Namespace) -> Plan:
    """The plan of documents, or of what runs here. Raises QosletError."""
    from qoslet.app.inputs import read

    args.filename, args.paths = [*args.filename, *args.paths], []
    if not args.live or args.bundle is not None:
        return read(args, args.filename).plan()
    from qoslet.app.own_tree import choose_source, own_containers

    choose_source(args)
    plan = read(args, args.filename).plan()
    return plan if args.agent is None else own_containers(plan)


def _print_plan_problems(made: Plan, output: str) -> None:
    """Errors and warnings on standard error where the output has no room for them; of documents,
    which have them, the errors that decide the exit code."""
    told = {"tree": (), "json": ("error",), "yaml": ("error",)}.get(output, ("error", "warning"))
    rows = [row for row in made.problems if row.severity in told]
    if rows:
        from qoslet.render.text.problems import print_problems

        print_problems(rows)
    if output != "files":
        return
    if any(made.is_windows(one) for one in made.cgroups):
        from qoslet.render.text.streams import note

        note("Windows containers have job objects, no cgroup files: see -o cri")
    nameless = sum(
        one.path is None and bool(one.settings) and not made.is_windows(one) for one in made.cgroups
    )
    if nameless:
        from qoslet.render.text.streams import note

        many = nameless > 1
        what = f"{nameless} cgroups have" if many else "1 cgroup has"
        names = "their names stand" if many else "its name stands"
        note(
            f"{what} no path before the runtime creates {'them' if many else 'it'}: {names} for it"
        )


def _print(made: Plan, args: argparse.Namespace) -> None:
    if args.output in ("json", "yaml", "oci", "cri"):
        from qoslet.render.documents import encoded, plan

        documents = {"oci": plan.oci_document, "cri": plan.cri_document}
        document = documents.get(args.output, plan.plan_document)(made)
        emit(encoded(document, args.output))
        return
    shown = screen(args)
    if args.output == "shell":
        from qoslet.render.text.shell import lines

        emit_lines(lines(made), shown)
        return
    from qoslet.render.text import plan as drawing

    match args.output:
        case "files":
            drawn = drawing.files(made)
        case "table":
            drawn = drawing.table(made, shown, args.exact, args.verbose)
        case _:
            drawn = drawing.tree(made, shown, args.exact, args.verbose)
    emit_lines(drawn, shown)
