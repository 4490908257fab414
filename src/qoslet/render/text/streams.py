"""Standard output and standard error, each written in one go.

Help and a wrong command use nothing else, so what only failures and notes need is imported there:
``errors`` costs an import of ``enum``, ``terminal`` one of msgspec.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qoslet.errors import CannotDo


def emit(data: bytes) -> None:
    """Write all of ``data`` to standard output at once.

    Raises BrokenPipeError where nobody reads any more, CannotDo where it cannot be written.
    """
    stream = sys.stdout
    if stream is None:
        raise _cannot("standard output is closed", hint="redirect it to a file or /dev/null")
    try:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _cannot(f"cannot be written: {reason}", where="standard output") from None


def _cannot(message: str, *, where: str = "", hint: str = "") -> CannotDo:
    from qoslet.errors import CannotDo

    return CannotDo(message, where=where, hint=hint)


def spelled(text: str, encoding: str | None) -> str:
    """``text`` for this encoding: in one without them, the marks of sentences are ASCII."""
    if (encoding or "utf-8").lower().startswith("utf") or text.isascii():
        return text
    return text.replace(" · ", ", ").replace("…", "...")


def complain(text: str) -> None:
    """Write to standard error; there is nobody to tell where that fails."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(spelled(text, sys.stderr.encoding))
            sys.stderr.flush()
    except (OSError, ValueError):
        pass


def note(text: str) -> None:
    """One line about the work, on standard error."""
    from qoslet.render.terminal import printable

    complain(f"qoslet: {printable(text)}\n")
