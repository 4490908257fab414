"""Findings of lint for people: by pod, gravest first, and rules one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from qoslet.core.lint.rule import rules
from qoslet.core.problem import GRAVEST_FIRST, plural
from qoslet.render.terminal import Terminal, pad, printable, wrap

if TYPE_CHECKING:
    from qoslet.core.lint.lint import LintFinding, LintReport
    from qoslet.core.lint.rule import LintRule

_STYLES = {"error": "red", "warning": "yellow", "info": "dim"}


def draw(report: LintReport, terminal: Terminal, verbose: bool) -> list[str]:
    """The whole answer; ``verbose`` adds the sources and what is suppressed."""
    shown = [one for one in report.findings if verbose or one.suppressed is None]
    places: dict[str, list[LintFinding]] = {}
    for one in shown:
        place = one.where.removesuffix(f": {one.field}")
        places.setdefault(place, []).append(one)
    drawn: list[str] = []
    for (first, *others), found in _alike(places, verbose):
        head = f"{first} and {len(others)} like it" if others else first
        drawn.append(terminal.paint(printable(head), "bold"))
        for one in sorted(found, key=lambda each: GRAVEST_FIRST.index(each.severity)):
            drawn += _finding(one, terminal, verbose)
        drawn.append("")
    return [*drawn, _summary(report)]


def _alike(
    places: Mapping[str, list[LintFinding]], verbose: bool
) -> Iterator[tuple[list[str], list[LintFinding]]]:
    """Places with their findings. Of pods of one maker in one file the same is said once, unless ``verbose``."""
    groups: dict[object, list[str]] = {}
    for place, found in places.items():
        pod = found[0].pod
        key: object = place
        if not verbose and pod is not None and pod.controller is not None:
            said = ((one.id, one.severity, one.field, one.message, one.hint) for one in found)
            key = (place.partition(": ")[0], pod.namespace, pod.controller, *said)
        groups.setdefault(key, []).append(place)
    for alike in groups.values():
        yield alike, places[alike[0]]


def _finding(one: LintFinding, terminal: Terminal, verbose: bool) -> Iterator[str]:
    head = terminal.paint(pad(one.severity, 7), _STYLES[one.severity])
    first, *rest = wrap(printable(f"{one.field}: {one.message}"), terminal.width - 18, "")
    yield f"  {head}  {one.id}  {first}"
    for line in rest:
        yield f"{'':18}{line}"
    texts = [one.hint]
    if verbose:
        texts.append(f"source: {one.source}")
        texts += [f"suppressed: {one.suppressed}"] if one.suppressed is not None else []
    for text in texts:
        for line in wrap(printable(text), terminal.width - 18, ""):
            yield terminal.paint(f"{'':18}{line}", "dim")


def _summary(report: LintReport) -> str:
    counts = [(report.count(one), one) for one in GRAVEST_FIRST]
    words = {"error": "error", "warning": "warning", "info": "note"}
    named = [plural(count, words[one]) for count, one in counts if count]
    suppressed = sum(one.suppressed is not None for one in report.findings)
    named += [f"{suppressed} suppressed"] if suppressed else []
    return ", ".join(named) if named else "no finding"


def list_rules(terminal: Terminal) -> Iterator[str]:
    """Every rule in a line."""
    for rule in rules().values():
        head = terminal.paint(pad(rule.severity, 7), _STYLES[rule.severity])
        yield f"{rule.id}  {head}  {rule.title}"


def explain_rule(rule: LintRule, terminal: Terminal) -> Iterator[str]:
    """A rule in full, with an example that fires and one that does not."""
    from qoslet.core.lint.examples import EXAMPLES

    yield terminal.paint(f"{rule.id}  {rule.severity}: {rule.title}", "bold")
    for text in (rule.why, f"Fix: {rule.fix}", f"Source: {rule.source}"):
        yield from wrap(text, terminal.width, "")
    example = EXAMPLES[rule.id]
    for title, text in (("fires", example.fires), ("does not fire", example.quiet)):
        yield ""
        yield f"An example that {title}:"
        yield from (f"  {line}" for line in text.strip().splitlines())
