"""``qoslet metrics``: what an agent exports, and a dashboard and alerts for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.cli.parser import add_drawing_arguments, add_output_argument, emit_lines, screen
from qoslet.errors import EXIT_OK
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

FORMS = ("table", "grafana", "rules")
USAGE = "[OPTION]..."
EPILOG = """\
examples:
  qoslet metrics
  qoslet metrics -o grafana >dashboard.json
  qoslet metrics -o rules >qoslet-rules.yaml; promtool check rules qoslet-rules.yaml
  qoslet metrics --agent -o rules

An agent exports them: qoslet help run says where, with --agent qoslet help agent.

exit code: 0 done, 2 bad input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    what = "Print a table, a Grafana dashboard or Prometheus alerting rules: table, grafana, rules"
    add_output_argument(parser, FORMS, what)
    parser.add_argument(
        "--agent", action="store_true", help="What qoslet agent exports, instead of qoslet run"
    )
    add_drawing_arguments(parser, exact=False)


def run(args: argparse.Namespace) -> int:
    """Print; the exit code."""
    from qoslet.render.documents import encode, encode_yaml, monitoring

    of = monitoring.BESIDE_KUBELETS if args.agent else monitoring.OF_PODS
    if args.output == "grafana":
        emit(encode(monitoring.dashboard(of)))
    elif args.output == "rules":
        emit(encode_yaml(monitoring.rules(of)))
    else:
        shown = screen(args)
        rows = list(monitoring.metrics(of))
        lines = []
        for name, labels, help in rows:
            lines.append(shown.paint(name, "bold") + (f"  {{{labels}}}" if labels else ""))
            lines.append(f"  {help}")
        emit_lines(lines, shown)
    return EXIT_OK
