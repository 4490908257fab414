"""The program ``qoslet``: picks the command, turns failures into one line and an exit code.

Starting must cost no more than the command uses, so only the chosen command's module is imported
and only its parser is built. Nothing above this module prints or exits.
"""

from __future__ import annotations

import os
import sys

from qoslet.cli.commands import COMMANDS, module_of, overview, parser_of
from qoslet.cli.lean_imports import import_argparse, import_importlib, import_msgspec
from qoslet.cli.own_modules import find_own_modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from qoslet.errors import QosletError

_EXIT_BAD_INPUT = 2
_EXIT_CANNOT = 3
_EXIT_INTERRUPTED = 130
_EXIT_PIPE = 141

_ELSEWHERE = {
    **dict.fromkeys(("get", "list", "ls", "pods", "status"), "ps"),
    **dict.fromkeys(("delete", "down", "rm", "stop", "uninstall", "undo"), "release"),
    **dict.fromkeys(("start", "up"), "run"),
    "describe": "explain",
    "log": "logs",
}
"""What other programs call a command."""


def main() -> None:
    """The console script: run the command and end the process with its exit code.

    Short commands leave without the interpreter's teardown, which would only cost time.
    """
    _open_closed()
    find_own_modules("qoslet")
    arguments = sys.argv[1:]
    short = bool(arguments) and arguments[0] != "run"
    if short:
        import gc

        gc.disable()
    code = run(arguments)
    _flush()
    if short:
        os._exit(code)
    sys.exit(code)


def _open_closed() -> None:
    """Open the standard descriptors that are closed on /dev/null, so that no other file gets their
    numbers; ``sys.stdout`` and the others stay None."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            try:
                null = os.open(os.devnull, os.O_RDWR)
            except OSError:
                return
            if null == descriptor:
                os.set_inheritable(null, True)
            else:
                os.dup2(null, descriptor)
                os.close(null)


def _flush() -> None:
    """Write out what was printed; the interpreter would exit with 120 where it cannot."""
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            _silence(descriptor)


def run(arguments: Sequence[str]) -> int:
    """The whole program without the process: arguments in, exit code out, never an exception."""
    try:
        return _dispatch(arguments)
    except BrokenPipeError:
        _silence(1)
        return _EXIT_PIPE
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0
    except Exception as error:  # noqa: BLE001 - a user never sees a traceback
        return _failed(error)


def _dispatch(arguments: Sequence[str]) -> int:
    if not arguments:
        from qoslet.render.text.streams import complain

        complain(overview())
        return _EXIT_BAD_INPUT
    command, *rest = arguments
    if command in ("-h", "--help") or (command == "help" and not rest):
        from qoslet.render.text.streams import emit

        emit(overview().encode())
        return 0
    if command == "--version":
        command = "version"
    if command not in COMMANDS:
        raise _unknown(command)
    import_msgspec()
    import_argparse()
    import_importlib()
    args = parser_of(command).parse_args(rest)
    if getattr(args, "schema", None):
        return _print_schema(args)
    code: int = module_of(command).run(args)
    return code


def _print_schema(args: argparse.Namespace) -> int:
    from qoslet.render.text.streams import emit
    from qoslet.schema import text

    kind, by_output = args.schema
    emit(text(by_output.get(args.output, kind)).encode())
    return 0


def _unknown(command: str) -> QosletError:
    from qoslet.errors import BadInput

    if command.startswith("-"):
        return BadInput(f"unknown option {command}", hint="qoslet --help lists the commands")
    from difflib import get_close_matches

    near = get_close_matches(command, COMMANDS, 1, 0.6)
    near = [_ELSEWHERE[command]] if command in _ELSEWHERE else near
    hint = f"did you mean {near[0]}?" if near else "qoslet --help lists the commands"
    return BadInput(f"unknown command {command}", hint=hint)


def _silence(descriptor: int) -> None:
    """Point a descriptor at nothing, so that no later flush fails again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    except OSError:
        pass


def _failed(error: Exception) -> int:
    if isinstance(error, ModuleNotFoundError) and error.name == "msgspec":
        # what prints messages needs it, too
        os.write(2, b"qoslet: msgspec is not installed for this Python (pip install qoslet)\n")
        return _EXIT_CANNOT
    from qoslet.errors import QosletError
    from qoslet.render.terminal import printable
    from qoslet.render.text.streams import complain

    if isinstance(error, QosletError):
        complain("".join(f"qoslet: {printable(str(fault))}\n" for fault in error.faults))
        return error.exit_code
    if os.environ.get("QOSLET_DEBUG") == "1":
        from traceback import format_exception

        complain("".join(format_exception(error)))
        return _EXIT_CANNOT
    detail = printable(f"{type(error).__name__}: {error}")[:300]
    hint = _hint_of_machine(error)
    if hint:
        complain(f"qoslet: this machine cannot do it: {detail} ({hint})\n")
    else:
        debug = "please report it; QOSLET_DEBUG=1 shows where it happened"
        complain(f"qoslet: internal error: {detail} ({debug})\n")
    return _EXIT_CANNOT


def _hint_of_machine(error: BaseException | None) -> str:
    """What to do about a failure that is this machine's, not the program's; empty for another."""
    from errno import ENOMEM

    from qoslet.errors import MACHINE_HINTS

    if error is None:
        return ""
    if isinstance(error, MemoryError):
        return MACHINE_HINTS[ENOMEM]
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "qoslet":
        return "another version is being installed, or is incomplete: start qoslet again"
    if isinstance(error, ImportError) and "failed to map segment" in str(error):
        return MACHINE_HINTS[ENOMEM]
    if isinstance(error, OSError):
        return MACHINE_HINTS.get(error.errno or 0, "")
    return _hint_of_machine(error.__cause__)
