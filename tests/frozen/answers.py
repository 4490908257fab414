"""A command asked of this source tree, as it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.frozen.compare import Difference, differences, lines_of
from tests.frozen.program import ask
from tests.frozen.store import Asked

REFUSED, MACHINE = "refused", "machine"


def answer(argv: Sequence[str], stdin: str = "") -> Asked:
    """What the program says now; it runs in the folder of the input files."""
    data = Path(stdin).read_bytes() if stdin else b""
    code, out, _ = ask(argv, data)
    form, value = _read(out, argv)
    return Asked(list(argv), code, form, value, stdin)


def refusal(argv: Sequence[str], stdin: str = "") -> Asked:
    """The same where only the exit code counts, and whether anything is printed."""
    code, out, _ = ask(argv)
    return Asked(list(argv), code, "printed" if out else "silent", "", stdin)


def asked(group: str, argv: Sequence[str], stdin: str = "") -> Asked:
    """An answer as its group keeps it."""
    return (refusal if group == REFUSED else answer)(argv, stdin)


def _read(out: bytes, argv: Sequence[str]) -> tuple[str, Any]:
    if out.startswith(b"{"):
        value = msgspec.json.decode(out)
        usual = msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
        return "pretty" if usual == out else "json", value
    if "yaml" in argv and out:
        documents = list(yaml.load_all(out, Loader=_Loader))
        return "yaml", documents[0] if len(documents) == 1 else documents
    return "text", out.decode("utf-8", "backslashreplace")


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def compared(was: Asked, now: Asked) -> list[Difference]:
    """Where the answer of today is another one, wording included."""
    if msgspec.json.encode(was) == msgspec.json.encode(now):
        return []
    found = [
        Difference(name, getattr(was, name), getattr(now, name))
        for name in ("code", "form")
        if getattr(was, name) != getattr(now, name)
    ]
    if was.form == "text" and now.form == "text":
        old, new = lines_of(was.out), lines_of(now.out)
        if old != new:
            lines = [pair for pair in zip(old, new, strict=False) if pair[0] != pair[1]]
            found.append(Difference("output", *(lines[0] if lines else (len(old), len(new)))))
    elif not found:
        found += differences(was.out, now.out)
    return found
