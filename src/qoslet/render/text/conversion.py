"""A conversion for people: a line a file, what is refused, what is lost; and for shells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qoslet.core.cgroup.interface_files import controller
from qoslet.core.cgroup.names import DEFAULT_POINT
from qoslet.render.terminal import Terminal, display_width, pad, printable, wrap
from qoslet.render.text.shell import quoted

if TYPE_CHECKING:
    from qoslet.core.convert.convert import Conversion
    from qoslet.core.oci.result import BlockResult, Parity, Refusal, Row, Unsupported

_WIDEST = 44


def draw(conversion: Conversion, terminal: Terminal, verbose: bool) -> list[str]:
    """The whole answer; ``verbose`` adds every rule and source, and what v2 does not account."""
    drawn = [_heading(conversion, terminal)]
    for part in conversion.parts:
        drawn += ["", *_part(part, terminal, verbose)]
    if verbose and conversion.accounting:
        drawn += ["", terminal.paint("not accounted for on cgroup v2", "bold")]
        for row in conversion.accounting:
            drawn += _lost(row, terminal)
    return drawn


def _heading(conversion: Conversion, terminal: Terminal) -> str:
    request = conversion.request
    words = [request.runtime.name, f"cgroup {request.hierarchy}", request.driver]
    if request.to == "docker":
        words = [f"dockershim of 1.{request.dockershim}"]
    elif request.to == "windows":
        isolation = request.windows.isolation
        words = ["isolation by pod" if isolation == "by pod" else f"{isolation} isolation"]
        whose = "Docker's" if request.windows.percent else "the design's"
        words += [f"{whose} precedence"] if request.windows.precedence else []
    elif conversion.parts and all("windows" in (part.message or ()) for part in conversion.parts):
        words = ["Windows"]
    if request.update is not None:
        words.append("update")
    said = terminal.paint(f"{conversion.source} -> {request.to}", "bold")
    between = terminal.mark(" · ", ", ")
    return f"{said}  {printable(between.join(words))}"


def _part(part: BlockResult, terminal: Terminal, verbose: bool) -> Iterator[str]:
    if part.name:
        yield terminal.paint(printable(part.name), "bold")
    yield from _rows(part.rows, terminal, verbose)
    if part.message is not None and "oci" not in part.message:
        yield from _message(part.message)
    elif not part.rows and part.refusal is None and not part.parity:
        yield terminal.paint("  nothing written", "dim")
    if part.refusal is not None:
        yield from _refused(part.refusal, terminal, verbose)
    for row in part.lost:
        yield from _lost(row, terminal)
    yield from _parity(part.parity, terminal)


_COLOURS = {"enforced": "green", "approximated": "yellow", "absent": "red"}


def _parity(rows: tuple[Parity, ...], terminal: Terminal) -> Iterator[str]:
    """What Windows enforces, a line each: what is asked, the verdict, how, what helps instead."""
    first = max((display_width(f"{row.what} {row.asked}") for row in rows), default=0)
    for row in rows:
        what = pad(printable(f"{row.what} {row.asked}"), first)
        text = row.how + (f"; instead: {row.instead}" if row.instead else "")
        verdict = terminal.paint(f"{row.verdict:<12}", _COLOURS[row.verdict])
        indent = first + 18
        head, *rest = wrap(printable(text), max(terminal.width - indent, 30))
        yield f"  {what}  {verdict}  {head}"
        yield from (f"{'':<{indent}}{line}" for line in rest)


def _message(message: dict[str, object]) -> Iterator[str]:
    from qoslet.render.documents import encode

    for line in encode(message).decode().splitlines():
        yield f"  {printable(line)}"


def _rows(rows: tuple[Row, ...], terminal: Terminal, verbose: bool) -> Iterator[str]:
    cells = [(printable(row.file), _value(row), row) for row in rows]
    first = max((display_width(file) for file, _, _ in cells), default=0)
    second = min(max((display_width(value) for _, value, _ in cells), default=0), _WIDEST)
    indent = first + second + 6
    for file, value, row in cells:
        lines = wrap(printable(row.because), max(terminal.width - indent, 30))
        start = f"  {terminal.paint(pad(file, first), 'bold')}  "
        if display_width(value) > second:
            yield f"{start}{value}"
            yield from (f"{'':<{indent}}{terminal.paint(line, 'dim')}" for line in lines)
        else:
            head, *rest = lines
            yield f"{start}{pad(value, second)}  {terminal.paint(head, 'dim')}"
            yield from (f"{'':<{indent}}{terminal.paint(line, 'dim')}" for line in rest)
        if verbose:
            text = f"{row.field}; {row.rule}: {row.source}"
            yield from (
                terminal.paint(line, "dim") for line in wrap(text, terminal.width, "      ")
            )


def _value(row: Row) -> str:
    text = printable(row.value)
    return text if row.applied == row.value else f"{text} -> {printable(row.applied)}"


def _refused(refusal: Refusal, terminal: Terminal, verbose: bool) -> Iterator[str]:
    place = f" ({refusal.file})" if refusal.file else ""
    said = printable(f"{refusal.field}{place}: {refusal.message}")
    word = terminal.paint("refused", "red")
    first, *rest = wrap(said, max(terminal.width - 11, 30))
    yield f"  {word}  {first}"
    yield from (f"           {line}" for line in rest)
    yield from wrap(printable(refusal.because), terminal.width, "           ")
    if verbose:
        yield from wrap(f"{refusal.rule}: {refusal.source}", terminal.width, "           ")


def _lost(row: Unsupported, terminal: Terminal) -> Iterator[str]:
    word = {"refused": "refused", "elsewhere": "instead", "ignored": "ignored"}[row.fate]
    text = f"{row.field or row.what}: {row.why}; instead: {row.instead}"
    first, *rest = wrap(printable(text), max(terminal.width - 11, 30))
    yield f"  {terminal.paint(word, 'yellow')}  {first}"
    yield from (f"           {line}" for line in rest)


def pairs(conversion: Conversion) -> list[str]:
    """``file=value`` lines, a line for each line of a value; a name before them where several
    blocks are there."""
    found = []
    for part in conversion.parts:
        before = f"{part.name}/" if part.name else ""
        found += [
            printable(f"{before}{row.file}={line}")
            for row in part.rows
            for line in row.value.split("\n")
        ]
    return found


def refusals(conversion: Conversion) -> list[str]:
    """What the runtime or the kernel rejects, a line each, for outputs that hold only files."""
    found = []
    for part in conversion.parts:
        before = f"{part.name}: " if part.name else ""
        rows = [(row.field or row.what, row.why) for row in part.lost if row.fate == "refused"]
        if part.refusal is not None:
            rows.insert(0, (part.refusal.field, part.refusal.message))
        found += [f"{before}refused: {field}: {why}" for field, why in rows]
    return found


def shell(conversion: Conversion) -> list[str]:
    """The commands that write it by hand, below ``$GROUP`` or for ``$UNIT``."""
    request, found = conversion.request, []
    for part in conversion.parts:
        if part.name:
            found.append(f"# {printable(part.name)}")
        names = [row for row in part.rows if "." not in row.file]
        if names:
            text = " ".join(quoted(f"{row.file}={row.value}") for row in names)
            found.append(f'systemctl set-property --runtime "$UNIT" {text}')
        for row in part.rows:
            if "." in row.file:
                top = f"/{controller(row.file)}" if request.hierarchy == "v1" else ""
                place = f'"{DEFAULT_POINT}{top}/$GROUP"/{quoted(row.file)}'
                found += [f"printf '%s' {quoted(one)} > {place}" for one in row.value.split("\n")]
        if part.refusal is not None:
            found.append(f"# refused: {printable(part.refusal.field)}: "
                         f"{printable(part.refusal.message)}")  # fmt: skip
    return found
