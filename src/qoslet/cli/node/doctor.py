"""``qoslet doctor``: what this machine supports, what is missing, and how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.app import inspect
from qoslet.cli.parser import (
    add_bundle_argument,
    add_drawing_arguments,
    add_kubelet_arguments,
    add_output_argument,
    add_schema_argument,
    emit_lines,
    screen,
)
from qoslet.core.node.doctor.checks import can_write, findings
from qoslet.errors import EXIT_CANNOT, EXIT_OK
from qoslet.render.text.streams import emit

if TYPE_CHECKING:
    import argparse

    from qoslet.core.node.doctor.finding import DoctorFinding
    from qoslet.core.node.machine import Machine

USAGE = "[OPTION]..."
EPILOG = """\
examples:
  qoslet doctor
  qoslet doctor -o json
  qoslet doctor --bundle node1.tar.gz

It only reads, and asks a kubelet that runs here what this user may see of it.

exit code: 0 qoslet can create cgroups there, 2 bad input, 3 it cannot
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    add_output_argument(parser, ("text", "json"))
    add_schema_argument(parser, "doctor")
    add_bundle_argument(parser)
    add_kubelet_arguments(parser)
    add_drawing_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Look, judge and print; the exit code."""
    machine, rows, able = _looked_at(args)
    if args.output == "json":
        from qoslet.render.documents import encode
        from qoslet.render.documents.doctor import doctor_document

        emit(encode(doctor_document(machine, rows, able=able)))
    else:
        from qoslet.render.text.doctor import draw

        emit_lines(draw(rows, screen(args)), screen(args))
    return EXIT_OK if able else EXIT_CANNOT


def _looked_at(args: argparse.Namespace) -> tuple[Machine, list[DoctorFinding], bool]:
    """The machine, what is to be said of it, and whether qoslet can make cgroups there: of this one
    or of a bundle. Raises QosletError."""
    if args.bundle is not None:
        from qoslet.app.bundle.inputs import BundleInputs

        return BundleInputs(args.bundle).doctor()
    machine, kubelet = inspect.kubelet(inspect.machine(), args)
    return machine, findings(machine, kubelet), can_write(machine)
