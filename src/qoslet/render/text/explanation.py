"""An explanation for people: short for many values, in full for one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qoslet.render.terminal import UNLIMITED, Terminal, display_width, pad, printable, wrap
from qoslet.render.text.columns import label
from qoslet.render.text.plan import QOS_STYLE, problems
from qoslet.render.units import memory

if TYPE_CHECKING:
    from qoslet.core.explain.alternatives import Alternative
    from qoslet.core.explain.explain import ExplainedCgroup, Explanation, Value
    from qoslet.core.explain.fact import Fact
    from qoslet.core.explain.live_value import LiveValue

    Live = Mapping[tuple[str, str], LiveValue]

_AXES = {
    "kubernetes": "other releases",
    "memoryQos": "other variants of Memory QoS",
    "runtime": "other runtimes",
}
_KEY = 9
"""Columns of the words before the lines of one value."""


def draw(
    explanation: Explanation,
    terminal: Terminal,
    full: bool,
    exact: bool,
    live: Live | None = None,
) -> list[str]:
    """The whole answer; ``full`` gives every detail of each value. ``live`` are this machine's values
    by cgroup name and file."""
    single = full and all(len(group.values) == 1 for group in explanation.groups)
    drawn = _pod(explanation, terminal, with_facts=not single)
    for group in explanation.groups:
        if group.cgroup.level == "sandbox" and _is_left_out(group, full):
            continue
        drawn += ["", *_heading(group, terminal, explanation.plan.is_windows(group.cgroup))]
        if not full:
            drawn += _short(group, terminal, exact, live)
        for value in group.values if full else ():
            drawn += ["", *_full(value, terminal, exact, _found(live, group, value))]
        if not group.values:
            drawn.append(terminal.paint("  no file is written", "dim"))
    return drawn[1:] if drawn and not drawn[0] else drawn


def _is_left_out(group: ExplainedCgroup, full: bool) -> bool:
    """Whether a sandbox is not shown: where values are short, and where it gets none of the files."""
    return not full or all(value.value is None for value in group.values)


def _pod(explanation: Explanation, terminal: Terminal, with_facts: bool) -> list[str]:
    pod, qos = explanation.pod, explanation.qos
    if pod is None or qos is None:
        return []
    name = terminal.paint(printable(pod.key), "bold")
    drawn = [f"{name}  {terminal.paint(qos, QOS_STYLE[qos])}", f"  {printable(pod.where)}"]
    if not with_facts:
        return drawn
    for fact in explanation.decided:
        drawn += wrap(printable(fact), terminal.width, "  ")
    guard = explanation.guard
    if guard is not None:
        text = f"guard of qoslet run: {guard.mode}, {printable(guard.because)}"
        drawn += wrap(text, terminal.width, "  ")
    inner = replace(terminal, width=terminal.width - 2)
    for row in explanation.findings:
        drawn += [f"  {line}" for line in problems([row], inner)[1:]]
    return drawn


def _heading(group: ExplainedCgroup, terminal: Terminal, windows: bool) -> list[str]:
    cgroup = group.cgroup
    title = printable(label(cgroup, group.qos, alone=cgroup.level != "pod"))
    place = printable(cgroup.path or cgroup.name)
    if windows:
        place = "a job object, no cgroup"
    elif cgroup.path is None and cgroup.pod is not None:
        place += " (path unknown until the container is created)"
    return [
        f"{terminal.paint(cgroup.level, 'dim')} {terminal.paint(title, 'bold')}",
        *wrap(place, terminal.width, "  "),
    ]


def human(value: Value, exact: bool) -> str:
    """The value as it is written, with human units behind a byte count."""
    if value.value is None:
        return "not written"
    text = printable(value.value)
    if value.effective is not None and value.effective != value.value:
        text += f", in effect {printable(value.effective)}"
    short = _units(value.file, value.value)
    return f"{text} ({short})" if short and not exact else text


def _units(file: str, text: str) -> str:
    """``243Mi`` for a byte count that is not clear by itself."""
    if not file.startswith(("memory.", "hugetlb.")) or not text.isdigit() or len(text) < 4:
        return ""
    return memory(text)


def _found(live: Live | None, group: ExplainedCgroup, value: Value) -> str:
    """What the file holds on this machine, in a few words; empty where that was not asked for."""
    found = None if live is None else live.get((group.cgroup.name, value.file))
    if found is None:
        return ""
    text = "the file does not exist" if found.found is None else printable(found.found)
    if found.error:
        return printable(found.error)
    judged = f": {found.verdict}, see qoslet audit" if found.verdict else ": as planned"
    if found.property_text is not None:
        judged += f" (systemd has {printable(found.property_text)})"
    return f"{text}{judged}"


def _brief(group: ExplainedCgroup, exact: bool, live: Live | None) -> list[tuple[str, str]]:
    """``file = value`` and its reason; hugepage files of one value are one line."""
    found: list[tuple[str, str]] = []
    huge: dict[str, list[Value]] = {}
    for value in group.values:
        if value.file.startswith("hugetlb.") and not exact:
            huge.setdefault(human(value, exact), []).append(value)
        else:
            because = value.because if value.lost is None else f"{value.because}; {value.lost}"
            there = _found(live, group, value)
            there = there.rpartition(": ")[2] if there.endswith(": as planned") else there
            because = f"{because}; on this node {there}" if there else because
            found.append((f"{value.file} = {human(value, exact)}", printable(because)))
    for text, same in huge.items():
        name = same[0].file if len(same) == 1 else f"hugetlb.* ({len(same)} files)"
        found.append((f"{name} = {text}", printable(same[0].because)))
    return found


def _short(
    group: ExplainedCgroup, terminal: Terminal, exact: bool, live: Live | None
) -> Iterator[str]:
    rows = _brief(group, exact, live)
    width = max((display_width(head) for head, _ in rows), default=0)
    beside = terminal.width >= UNLIMITED or width + 40 <= terminal.width
    for head, because in rows:
        if beside:
            first, *rest = wrap(because, terminal.width - width - 4)
            yield f"  {pad(head, width)}  {terminal.paint(first, 'dim')}"
            for line in rest:
                yield f"  {' ' * width}  {terminal.paint(line, 'dim')}"
        else:
            yield f"  {head}"
            for line in wrap(because, terminal.width, "      "):
                yield terminal.paint(line, "dim")


def _rows(key: str, texts: Sequence[str], terminal: Terminal) -> Iterator[str]:
    """Lines behind a dim word, wrapped beside it; spaces before a text indent it."""
    first = True
    for text in texts:
        lead = " " * (len(text) - len(text.lstrip(" ")))
        for line in wrap(text.lstrip(" "), terminal.width, " " * (_KEY + 2) + lead):
            head = terminal.paint(pad(key, _KEY), "dim") if first else " " * _KEY
            yield f"  {head}{line[_KEY + 2 :]}"
            first = False


def _full(value: Value, terminal: Terminal, exact: bool, live: str) -> Iterator[str]:
    style = ("bold", "yellow") if value.value is None else ("bold",)
    sign = ":" if value.value is None else " ="
    yield f"  {terminal.paint(f'{value.file}{sign} {human(value, exact)}', *style)}"
    yield from _rows("because", [printable(value.because)], terminal)
    if live:
        yield from _rows("live", [live], terminal)
    if value.standing is not None:
        yield from _rows("effect", [printable(value.standing)], terminal)
    yield from _rows("from", list(_facts(value.facts)), terminal)
    if value.rule is not None:
        yield from _rows("rule", [f"{value.rule}: {printable(value.source or '')}"], terminal)
    evidence = f" ({value.evidence})" if value.evidence else ""
    yield from _rows("chosen", [printable(value.profile + evidence)], terminal)
    if value.writer is not None:
        writer = value.writer if value.writer == "qoslet" else f"the {value.writer}"
        yield from _rows("written", [f"by {writer}, {value.when}"], terminal)
        yield from _rows("edited", [value.overwritten or ""], terminal)
    for axis, title in _AXES.items():
        rows = [row for row in value.alternatives if row.axis == axis]
        if rows:
            yield from _alternatives(title, rows, value, terminal, exact)


def _facts(facts: Sequence[Fact]) -> Iterator[str]:
    """Each place once, the fields that stood there below it."""
    before = None
    for fact in facts:
        where = fact.where.removesuffix(f": {fact.field}")
        if where != before:
            yield printable(where) or "further"
            before = where
        given = f" = {fact.given}" if fact.given else ""
        value = f" = {fact.value}" if fact.value not in ("", fact.given) else ""
        yield f"  {printable(f'{fact.field}{given}{value}')}"


def _alternatives(
    title: str, rows: Sequence[Alternative], value: Value, terminal: Terminal, exact: bool
) -> Iterator[str]:
    """``1.22-1.26: 205Mi · 1.27-1.37: 243Mi``, the present one marked, broken between rows."""
    dot = terminal.mark(" · ", ", ")
    texts = [f"{row.profiles}: {_other(value.file, row.value, exact)}" for row in rows]
    yield f"  {terminal.paint(title, 'dim')}"
    line, plain = "", ""
    for row, text in zip(rows, texts, strict=True):
        shown = terminal.paint(text, "bold") if row.current else text
        mark = terminal.mark("▸", ">") if row.current else ""
        if plain and display_width(f"    {plain}{dot}{mark}{text}") > terminal.width:
            yield f"    {line}"
            line = plain = ""
        line = f"{line}{dot}{mark}{shown}" if line else f"{mark}{shown}"
        plain = f"{plain}{dot}{mark}{text}" if plain else f"{mark}{text}"
    yield f"    {line}"


def _other(file: str, text: str | None, exact: bool) -> str:
    if text is None:
        return "not written"
    return printable(text if exact else _units(file, text) or text)
