"""``qoslet lint``: traps in manifests and kubelet configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.cli.parser import (
    add_document_arguments,
    add_drawing_arguments,
    add_node_arguments,
    add_output_argument,
    add_schema_argument,
    emit_lines,
    screen,
)
from qoslet.errors import EXIT_NO, EXIT_OK, BadInput
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

    from qoslet.core.lint.lint import LintReport

FORMS = ("table", "json", "sarif", "junit")
USAGE = "[OPTION]... [FILE]..."
EPILOG = """\
examples:
  qoslet lint pods/ --fail-on warning
  helm template . | qoslet lint -
  qoslet lint deployment.yaml --node kubelet.yaml --node node.yaml
  qoslet lint chart/ -R -o sarif
  qoslet lint --explain QL029

exit code: 0 done, 1 a finding is an error (or what --fail-on says), 2 bad input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_output_argument(parser, FORMS)
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning", "info"),
        default="error",
        metavar="SEVERITY",
        help="Exit with 1 from this severity on: error, warning or info (default: error)",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="Read severities of rules from a LintConfiguration"
    )
    parser.add_argument("--rules", action="store_true", help="List the rules")
    parser.add_argument("--explain", metavar="ID", help="Explain one rule, with examples")
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="Show sources, what is suppressed, and each of the pods that are alike",
    )
    add_schema_argument(parser, "lint")
    add_document_arguments(parser, positional=True)
    add_node_arguments(parser)
    add_drawing_arguments(parser, exact=False)


def run(args: argparse.Namespace) -> int:
    """Read, check and print; the exit code. Raises QosletError."""
    if args.rules or args.explain:
        _about(args)
        return EXIT_OK
    from qoslet.app.lint import lint_files

    report = lint_files(args, [*args.filename, *args.paths])
    _print(report, args)
    return EXIT_NO if report.fails(args.fail_on) else EXIT_OK


def _about(args: argparse.Namespace) -> None:
    """What rules there are, or one of them. Raises BadInput."""
    from qoslet.core.lint.rule import rules
    from qoslet.render.text.lint import explain_rule, list_rules

    shown = screen(args)
    if not args.explain:
        emit_lines(list(list_rules(shown)), shown)
        return
    rule = rules().get(args.explain.upper())
    if rule is None:
        hint = "qoslet lint --rules lists them"
        raise BadInput(f"unknown rule {args.explain!r}", where="--explain", hint=hint)
    emit_lines(list(explain_rule(rule, shown)), shown)


def _print(report: LintReport, args: argparse.Namespace) -> None:
    if args.output == "table":
        from qoslet.render.text.lint import draw

        shown = screen(args)
        emit_lines(draw(report, shown, args.verbose), shown)
        return
    from qoslet.render.documents import encode
    from qoslet.render.documents import lint as documents

    if args.output == "junit":
        emit(documents.junit_document(report, args.fail_on))
    elif args.output == "sarif":
        from qoslet.app.lint import field_line

        emit(encode(documents.sarif_document(report, field_line())))
    else:
        emit(encode(documents.lint_document(report)))
