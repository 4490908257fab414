"""``qoslet explain``: why a value is what it is, or why a file is not written."""

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
from qoslet.errors import EXIT_OK
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from qoslet.app.inputs import Inputs
    from qoslet.core.explain.explain import Explanation
    from qoslet.core.explain.live_value import LiveValue

    LiveValues = Mapping[tuple[str, str], LiveValue]

FORMS = ("text", "json", "yaml")
USAGE = "[OPTION]... POD[/CONTAINER]|/CGROUP [CGROUP-FILE] -f FILE"
EPILOG = """\
examples:
  qoslet explain web -f pods.yaml --node kubelet.yaml --node node.yaml
  qoslet explain web/app memory.high -f pods.yaml --node node.yaml
  qoslet explain deployment/web memory.max -f deployment.yaml --node node.yaml
  qoslet explain -n shop web/app -f pods.yaml --node node.yaml -o json
  qoslet explain --live web/app memory.high
  qoslet explain --live --bundle node1.tar.gz web/app memory.high
  qoslet explain /sys/fs/cgroup/kubepods.slice/memory.max --live
  qoslet explain /kubepods/burstable cpu.weight -f pods.yaml --node node.yaml

exit code: 0 done, 2 bad input, or an unknown or ambiguous name, 3 not possible here
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "target",
        metavar="POD[/CONTAINER]|/CGROUP",
        nargs="?",
        help="A pod, a container, or a cgroup whose name begins with /",
    )
    parser.add_argument(
        "file",
        metavar="CGROUP-FILE",
        nargs="?",
        help="Explain one file only, such as memory.high or oom_score_adj",
    )
    parser.add_argument("-n", "--namespace", metavar="NAME", help="Namespace of the pod")
    add_output_argument(parser, FORMS)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="Show every detail of each value"
    )
    add_schema_argument(parser, "explanation")
    add_bundle_argument(parser)
    add_document_arguments(parser, positional=False, namespace=False)
    add_node_arguments(parser)
    add_kubelet_arguments(parser, live=True)
    add_drawing_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Read, plan, explain and print; the exit code. Raises QosletError."""
    if args.target is None:
        from qoslet.errors import BadInput

        hint = "qoslet explain web/app memory.high -f pods.yaml"
        raise BadInput("name a pod, a container or a cgroup", where="POD", hint=hint)
    from qoslet.core.explain.explain import explain

    made = _inputs(args).plan()
    file = args.file or _file_of(args.target, made.node.hierarchy)
    answer = explain(made, args.target, file, args.namespace)
    found = _live(answer, args) if args.given_live else None
    if args.output == "text":
        from qoslet.render.text.explanation import draw

        shown = screen(args)
        emit_lines(draw(answer, shown, args.verbose or file is not None, args.exact, found), shown)
        return EXIT_OK
    from qoslet.render.documents import encoded
    from qoslet.render.documents.explanation import explanation_document

    document = explanation_document(answer, found)
    emit(encoded(document, args.output))
    return EXIT_OK


def _inputs(args: argparse.Namespace) -> Inputs:
    """What is read; ``given_live`` keeps whether the values of the machine are asked for, or those of
    a bundle."""
    args.given_live = args.live
    args.live = args.live and args.bundle is None
    if args.live:
        from qoslet.app.live_values import live_inputs

        return live_inputs(args)
    from qoslet.app.inputs import read

    return read(args, args.filename)


def _file_of(target: str, hierarchy: str) -> str | None:
    """The file that a path below the mount ends in."""
    from qoslet.core.cgroup.mount_path import cgroup_of

    return cgroup_of(target, hierarchy)[1] or None


def _live(answer: Explanation, args: argparse.Namespace) -> LiveValues:
    from qoslet.app.inputs import bundle_of
    from qoslet.app.live_values import live_values

    return live_values(answer, bundle_of(args))
