"""``qoslet audit --watch``: what an audit finds, as it comes and goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.app.audit.watch import watch
from qoslet.cli.parser import screen
from qoslet.cli.times import check_interval
from qoslet.errors import EXIT_OK, BadInput
from qoslet.render.text.streams import emit, note

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from qoslet.app.audit.machine import Audited
    from qoslet.app.audit.node_audit import NodeAudit
    from qoslet.core.audit.events import FindingEvent
    from qoslet.core.audit.finding import AuditReport

FORMS = ("table", "json")


def check_watch(args: argparse.Namespace) -> None:
    """Raise BadInput for what cannot be watched so."""
    if args.output not in FORMS:
        hint = f"one of {', '.join(FORMS)}"
        raise BadInput(f"--watch prints no {args.output}", where="-o", hint=hint)
    check_interval(args, 1)


def run_watch(
    args: argparse.Namespace, audit: NodeAudit, choose: Callable[[Audited], AuditReport]
) -> int:
    """Watch until it is told to end; the exit code. Raises QosletError."""
    from qoslet.render.documents.audit import event_line
    from qoslet.render.text.audit.events import event_lines

    terminal = screen(args)

    def tell(at: float, told: tuple[FindingEvent, ...]) -> None:
        if args.output == "json":
            emit(b"".join(event_line(at, one) for one in told))
        else:
            lines = [line for one in told for line in event_lines(at, one, terminal)]
            emit("".join(f"{line}\n" for line in lines).encode())

    try:
        watch(audit.look, choose, tell, note, args.interval)
    except BrokenPipeError:
        # its reader has had enough: what was asked for was done
        import os

        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
    return EXIT_OK
