"""``qoslet audit --fix``: write what the owner would write, and say what remains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.errors import EXIT_CANNOT, EXIT_NO, EXIT_OK, BadInput
from qoslet.render.text.streams import emit, note

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from qoslet.app.audit.machine import Audited
    from qoslet.app.audit.node_audit import NodeAudit
    from qoslet.app.audit.repair import Repaired
    from qoslet.core.audit.finding import AuditReport


def check_arguments(args: argparse.Namespace) -> None:
    """Raise BadInput for options that do not go together."""
    if args.dry_run and not args.fix:
        raise BadInput("needs --fix", where="--dry-run")
    option = "--fix" if args.fix else "--watch" if args.watch else ""
    if args.fix and args.watch:
        raise BadInput("repairs once, --watch only tells", where="--fix", hint="leave one out")
    if option and args.bundle is not None:
        raise BadInput("a bundle does not change", where=option, hint="leave --bundle out")
    if option and ("-" in args.filename or "-" in args.node):
        raise BadInput("the input is read again", where=option, hint="name a file instead of -")


def fix(
    args: argparse.Namespace,
    audit: NodeAudit,
    choose: Callable[[Audited], AuditReport],
    show: Callable[[Audited, AuditReport, dict[str, object] | None], None],
) -> int:
    """Repair and print; the exit code. Raises QosletError."""
    from qoslet.app.audit.repair import repair

    done = repair(audit.look, choose, dry_run=args.dry_run)
    for text in done.notes:
        note(text)
    if args.output == "table":
        _print(args, done)
        if not args.dry_run:
            show(done.audited, done.report, None)
    else:
        from qoslet.render.documents.audit import repair_block

        show(done.audited, done.report, repair_block(done, args.dry_run))
    if not done.report.compared:
        return EXIT_CANNOT
    return EXIT_OK if done.is_done else EXIT_NO


def _print(args: argparse.Namespace, done: Repaired) -> None:
    """What was done and what is left to others; of a dry run, the commands."""
    from qoslet.render.terminal import printable
    from qoslet.render.text.audit.repair import left_lines, repair_lines

    if args.dry_run:
        emit("".join(f"{printable(line)}\n" for line in done.commands).encode())
        if not done.commands:
            note(f"{done.root}: nothing to write")
        for line in left_lines(done.left):
            note(line)
        return
    emit("".join(f"{printable(line)}\n" for line in repair_lines(done)).encode())
