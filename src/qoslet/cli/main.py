"""The program ``qoslet``: picks the verb, turns failures into one line and an exit code.

Starting must cost no more than the verb uses, so only the chosen verb's module is imported and
only its parser is built. Nothing above this module prints or exits.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from qoslet.errors import QosletError

VERBS = {
    "plan": "which cgroups the pods need on a node, and every value in them",
    "explain": "why a value is what it is, or why a file is not written",
    "convert": "what a resource block of the OCI, the CRI or a pod turns into",
    "config": "what is in force on a node, where each value came from, and whether it can be run",
    "doctor": "what this machine offers, what is missing, and how to get it",
    "run": "make the cgroups on this machine and keep them true",
    "ps": "the pods of a running agent, and why each is where it is",
    "logs": "what the containers of an agent printed",
    "apply": "make the cgroups on this machine once and leave them standing",
    "release": "undo an apply or a run: restore what was there, remove what was made",
}

_GROUPS = {
    **dict.fromkeys(("plan", "explain", "convert", "config"), "offline"),
    **dict.fromkeys(("doctor", "apply", "release"), "node"),
    **dict.fromkeys(("run", "ps", "logs"), "agent"),
}

_USAGE = "usage: qoslet VERB [OPTION]..."
_EXIT_BAD_INPUT = 2
_EXIT_CANNOT = 3
_EXIT_INTERRUPTED = 130
_EXIT_PIPE = 141


def main() -> None:
    """The console script: run the verb and end the process with its exit code.

    Short verbs leave without the interpreter's teardown, which would only cost time.
    """
    arguments = sys.argv[1:]
    short = bool(arguments) and arguments[0] != "run"
    if short:
        import gc

        gc.disable()
    code = run(arguments)
    if short:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            pass
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """The whole program without the process: arguments in, exit code out, never an exception."""
    try:
        return _dispatch(arguments)
    except BrokenPipeError:
        _silence_stdout()
        return _EXIT_PIPE
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0
    except Exception as error:  # noqa: BLE001 - a user never sees a traceback
        return _failed(error)


def _dispatch(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return _overview(to_stdout=bool(arguments))
    verb = arguments[0]
    if verb == "--version":
        from qoslet.render.text.streams import emit
        from qoslet.version import VERSION

        emit(f"qoslet {VERSION}\n".encode())
        return 0
    if verb not in VERBS:
        raise _unknown(verb)
    _import_msgspec()
    module = _verb_module(verb)
    parser = _parser(verb, module)
    code: int = module.run(parser.parse_args(arguments[1:]))
    return code


def _verb_module(verb: str) -> ModuleType:
    from importlib import import_module

    return import_module(f"qoslet.cli.{_GROUPS[verb]}.{verb}")


def _import_msgspec() -> None:
    """Import msgspec without ``typing_extensions``, of which it would use one alias, and without
    ``platform``, of which ``uuid`` wants the name of the system (Python 3.11 and 3.12).

    Where the first happens to be installed, its import takes as long as the interpreter's own
    start; msgspec takes the alias from ``typing`` when the import fails.
    """
    apart = {"typing_extensions": None, "platform": _System()}
    if "msgspec" in sys.modules or apart.keys() & sys.modules.keys():
        return
    sys.modules.update(apart)  # type: ignore[arg-type]
    try:
        import msgspec  # noqa: F401
    finally:
        for name in apart:
            del sys.modules[name]


class _System:
    """What ``uuid`` asks of ``platform``."""

    def system(self) -> str:
        """The name of the system."""
        return os.uname().sysname


def _parser(verb: str, module: ModuleType):  # type: ignore[no-untyped-def]
    from qoslet.cli.parser import Parser

    parser = Parser(
        prog=f"qoslet {verb}",
        usage=getattr(module, "USAGE", "[OPTION]... FILE..."),
        description=VERBS[verb][0].upper() + VERBS[verb][1:] + ".",
        epilog=getattr(module, "EPILOG", None),
    )
    module.add_arguments(parser)
    return parser


def _overview(to_stdout: bool) -> int:
    from qoslet.render.text.streams import complain, emit

    rows = "\n".join(f"  {verb:<9} {about}" for verb, about in VERBS.items())
    text = f"{_USAGE}\n\n{rows}\n\nqoslet VERB -h says more; qoslet --version is the version.\n"
    if to_stdout:
        emit(text.encode())
        return 0
    complain(text)
    return _EXIT_BAD_INPUT


def _unknown(verb: str) -> QosletError:
    from qoslet.errors import BadInput

    kind = "option" if verb.startswith("-") else "verb"
    return BadInput(f"there is no {kind} {verb}", hint=f"the verbs are {', '.join(VERBS)}")


def _silence_stdout() -> None:
    """Point stdout at nothing, so that no later flush meets the closed pipe again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass


def _failed(error: Exception) -> int:
    from qoslet.errors import BadInputs, QosletError
    from qoslet.render.terminal import printable
    from qoslet.render.text.streams import complain

    if isinstance(error, QosletError):
        faults = error.faults if isinstance(error, BadInputs) else [error]
        complain("".join(f"qoslet: {printable(str(fault))}\n" for fault in faults))
        return error.exit_code
    if os.environ.get("QOSLET_DEBUG") == "1":
        from traceback import format_exception

        complain("".join(format_exception(error)))
        return _EXIT_CANNOT
    what = "out of memory" if isinstance(error, MemoryError) else "internal error"
    detail = printable(f"{type(error).__name__}: {error}")[:300]
    complain(
        f"qoslet: {what}: {detail} (please report it; QOSLET_DEBUG=1 shows where it happened)\n"
    )
    return _EXIT_CANNOT
