"""``qoslet ps``: the agent's pods with status and reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qoslet.app import inspect
from qoslet.cli.parser import (
    add_drawing_arguments,
    add_output_argument,
    add_schema_argument,
    emit_lines,
    screen,
)
from qoslet.core.cgroup.names import DEFAULT_ROOT
from qoslet.errors import EXIT_OK, CannotDo
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

USAGE = "[OPTION]... [POD]..."
STATS_SECONDS = 0.5
"""Between the two samples from which usage is computed."""

EPILOG = """\
examples:
  qoslet ps
  qoslet ps -n shop -o wide
  qoslet ps web -o json
  qoslet ps -o stats

exit code: 0 done, 2 bad input, 3 no agent answers, or a named pod does not exist
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("pods", nargs="*", metavar="POD", help="Names of pods (default: all)")
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="List pods of this namespace only"
    )
    add_output_argument(
        parser,
        ("table", "wide", "json", "stats"),
        "Print as table, wide or json, or usage as CRI stats",
    )
    parser.add_argument(
        "--cgroup-root",
        default=DEFAULT_ROOT,
        metavar="NAME",
        help=f"Root of the agent's tree (default: {DEFAULT_ROOT}, or the only one that has an agent)",
    )
    add_schema_argument(parser, "podstates", stats="podstats")
    add_drawing_arguments(parser, exact=False)


def run(args: argparse.Namespace) -> int:
    """Ask the agent and print; the exit code. Raises QosletError."""
    # what a user types is another object, also where it is the same text
    root = inspect.agent_root(None if args.cgroup_root is DEFAULT_ROOT else args.cgroup_root)
    document = inspect.pod_states(root)
    if args.output == "wide" or (args.output == "json" and _is_first(document)):
        import time

        time.sleep(STATS_SECONDS)
        document = inspect.pod_states(root)
    items = _chosen(document, args.pods, args.namespace)
    if args.output == "stats":
        from qoslet.render.documents import encode

        emit(encode({"stats": inspect.pod_stats(items, STATS_SECONDS)}))
        return EXIT_OK
    if args.output == "json":
        from qoslet.render.documents import encode
        from qoslet.render.documents.agent.pod_filter import only

        emit(encode(only(document, items)))
        return EXIT_OK
    import time

    from qoslet.render.terminal import printable
    from qoslet.render.text.pods import stale_line, table

    if not items:
        why = document.get("summary") or "the agent has none"
        if args.namespace and document.get("items"):
            why = f"the agent has none in namespace {args.namespace}"
        emit_lines([f"no pods: {printable(why)}"], screen(args))
        return EXIT_OK
    spaces = args.namespace is None and {item.get("namespace") for item in items} != {"default"}
    memory = document.get("memory")
    lines = table(items, time.time(), screen(args), args.output == "wide", spaces, memory)
    lines += stale_line(document.get("lastSyncSeconds"), screen(args))
    emit_lines(lines, screen(args))
    return EXIT_OK


def _is_first(document: dict[str, Any]) -> bool:
    """Whether no question came before this one: the agent has no rates yet."""
    used = [item.get("usage") for item in document.get("items", ())]
    return any(isinstance(one, dict) and one.get("seconds") is None for one in used)


def _is_named(item: dict[str, Any], name: str) -> bool:
    """Whether ``web``, ``shop/web``, ``pod/web`` or ``deployment/web`` is the pod, or has made it."""
    called = str(item.get("name"))
    if name in (called, f"{item.get('namespace')}/{called}"):
        return True
    if "/" not in name:
        return False
    from qoslet.cli.agent.log_choice import is_of
    from qoslet.core.api.input.kubectl_names import target_of

    target = target_of(name)
    return target is not None and not target.container and is_of(item, target)


def _chosen(
    document: dict[str, Any], names: list[str], namespace: str | None
) -> list[dict[str, Any]]:
    """The pods that were asked for. Raises CannotDo for a name that none has."""
    items = [item for item in document.get("items", []) if isinstance(item, dict)]
    if namespace is not None:
        items = [item for item in items if item.get("namespace") == namespace]
    for name in names:
        if not any(_is_named(item, name) for item in items):
            known = ", ".join(sorted({str(item.get("name")) for item in items})) or "none"
            name = name.removeprefix("pod/")
            raise CannotDo(f"pod {name} does not exist", hint=f"pods: {known}")
    return [item for item in items if not names or any(_is_named(item, name) for name in names)]
