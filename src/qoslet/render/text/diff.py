"""A difference for people: by what it means, who loses first, by names of pods and workloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.core.diff.aspects import ASPECTS, CPU_SHARE, NEUTRAL
from qoslet.core.diff.diff import percents
from qoslet.core.problem import plural
from qoslet.render.documents.plan import node_block
from qoslet.render.terminal import Terminal, display_width, pad, printable, wrap

if TYPE_CHECKING:
    from qoslet.core.api.pod import Pod
    from qoslet.core.diff.diff import Change, Diff, Direction, Share
    from qoslet.core.resources.cgroup_tree import Cgroup, Plan

ROWS = 20
"""Lines of a section that are shown without ``-v``."""

_TITLES = {
    "stands": "the second side cannot stand",
    CPU_SHARE: "CPU share when all compete",
    **{aspect.id: aspect.title for aspect in ASPECTS},
}
_STYLES = {"worse": "red", "better": "green", "same": "dim"}
_ORDER: tuple[Direction, ...] = ("worse", "better", "same")


class _Line(Struct, frozen=True):
    who: str
    what: str
    direction: Direction


def draw(diff: Diff, terminal: Terminal, verbose: bool) -> list[str]:
    """The whole answer; ``verbose`` adds every file with the rules of both sides."""
    drawn = [*_heading(diff, terminal)]
    for aspect, title in _titles(diff).items():
        lines = _lines(diff, aspect, terminal)
        if lines:
            drawn += ["", terminal.paint(title, "bold"), *_section(lines, terminal, verbose)]
    drawn += _hints(diff, terminal)
    drawn += _warnings(diff, terminal, verbose)
    if verbose:
        drawn += _files(diff, terminal)
    elif silent := sum(_is_silent(change) for change in diff.changes):
        files = "file differs" if silent == 1 else "files differ"
        drawn += ["", f"{silent} more {files} without taking or giving anything: -v lists them"]
    return drawn


def _heading(diff: Diff, terminal: Terminal) -> Iterator[str]:
    count = len(diff.changes)
    if count or diff.shares:
        yield f"{plural(count, 'change')}: {diff.worse} worse, {diff.better} better"
    else:
        yield "no difference"
    before, after = _facts(diff.before), _facts(diff.after)
    for key in ("name", "kubernetes", "runtime", "hierarchy", "driver", "memoryQos"):
        if before[key] != after[key]:
            text = f"  {key}: {before[key]} {terminal.mark('→', '->')} {after[key]}"
            yield terminal.paint(printable(text), "dim")


def _facts(plan: Plan) -> dict[str, object]:
    """What the heading compares, as the plan of either side begins."""
    block = node_block(plan)
    in_force = block["memoryQos"] if block["memoryQosInForce"] else "off"
    return {**block, "name": block["name"] or "this node", "memoryQos": in_force}


def _titles(diff: Diff) -> dict[str, str]:
    """The sections in their order; sizes of huge pages have one each."""
    pages = {one.aspect for one in diff.changes if one.aspect.startswith("hugepages-")}
    titles = {one: one.replace("hugepages-hugetlb.", "huge pages of ") for one in sorted(pages)}
    return {**_TITLES, **titles, "cgroups": "cgroups"}


def _lines(diff: Diff, aspect: str, terminal: Terminal) -> list[_Line]:
    if aspect == CPU_SHARE:
        shares = [(share.cgroup, _parts(share, terminal), share.direction) for share in diff.shares]
        return _merged(shares)
    changes = [one for one in diff.changes if one.aspect == aspect]
    if aspect == "cgroups":
        gone = {one.name for one in changes}
        changes = [one for one in changes if one.name.rpartition("/")[0] not in gone]
    shown = [one for one in changes if not _is_silent(one)]
    title = f"{_TITLES.get(aspect, '')}: "
    return _merged([(one.cgroup, one.meaning.removeprefix(title), one.direction) for one in shown])


def _parts(share: Share, terminal: Terminal) -> str:
    before, after = percents(share.before, share.after)
    return f"{before} {terminal.mark('→', '->')} {after}"


def _is_silent(change: Change) -> bool:
    """Whether only ``-v`` shows it."""
    return change.direction == "same" and change.aspect not in ("cgroups", *NEUTRAL)


def _merged(rows: Sequence[tuple[Cgroup | None, str, Direction]]) -> list[_Line]:
    """Pods of one workload to which the same happens are one line; losers come first."""
    counts: dict[_Line, int] = {}
    for cgroup, what, direction in rows:
        line = _Line(_who(cgroup), what, direction)
        counts[line] = counts.get(line, 0) + 1
    lines = [
        _Line(line.who if count == 1 else f"{line.who} ({count} pods)", line.what, line.direction)
        for line, count in counts.items()
    ]
    return sorted(lines, key=lambda line: _ORDER.index(line.direction))


def _who(cgroup: Cgroup | None) -> str:
    """A pod by the workload that made it, with its container; a cgroup of no pod by its name."""
    if cgroup is None:
        return ""
    if cgroup.pod is None:
        return cgroup.name
    owner = _owner(cgroup.pod)
    if cgroup.level == "sandbox":
        return f"{owner} (sandbox)"
    return owner if cgroup.container is None else f"{owner}/{cgroup.container.name}"


def _owner(pod: Pod) -> str:
    kind, name = pod.controller or ("", pod.name)
    return f"{pod.namespace}/{kind.lower()}/{name}" if kind else pod.key


def _section(lines: Sequence[_Line], terminal: Terminal, verbose: bool) -> Iterator[str]:
    shown = lines if verbose else lines[:ROWS]
    width = min(40, max(display_width(printable(line.who)) for line in shown))
    for line in shown:
        word = "" if line.direction == "same" else line.direction
        head = pad(word, 6)
        who = printable(line.who)
        text = f"{pad(who, width)}  {printable(line.what)}" if who else printable(line.what)
        first, *rest = wrap(text, terminal.width - 10, "")
        yield f"  {terminal.paint(head, _STYLES[line.direction])}  {first}"
        yield from (f"          {more}" for more in rest)
    if len(lines) > len(shown):
        yield f"  and {len(lines) - len(shown)} more: -v lists them"


def _hints(diff: Diff, terminal: Terminal) -> Iterator[str]:
    """Programs that may not see their limits, by workload."""
    said = {
        f"{_owner(hint.pod)}/{hint.container} ({hint.image}): {hint.message}" for hint in diff.hints
    }
    if said:
        yield ""
        yield terminal.paint("programs", "bold")
    for text in sorted(said):
        yield from wrap(printable(text), terminal.width - 4, "  ")


def _warnings(diff: Diff, terminal: Terminal, verbose: bool) -> Iterator[str]:
    """What the plan of the second side warns of, and that of the first does not."""
    if not diff.warnings:
        return
    yield ""
    yield terminal.paint("new warnings", "bold")
    shown = diff.warnings if verbose else diff.warnings[:ROWS]
    for row in shown:
        hint = f" ({row.hint})" if row.hint else ""
        yield from wrap(printable(f"{row.where}: {row.message}{hint}"), terminal.width - 4, "  ")
    if len(diff.warnings) > len(shown):
        yield f"  and {len(diff.warnings) - len(shown)} more: -v lists them"


def _files(diff: Diff, terminal: Terminal) -> Iterator[str]:
    """Every file, by cgroup, with both values and both rules."""
    arrow, last = terminal.mark("→", "->"), ""
    for change in diff.changes:
        if change.file is None:
            continue
        if change.name != last:
            last = change.name
            yield ""
            who = _who(change.cgroup)
            named = last if who == last else f"{last}  {who}"
            yield terminal.paint(printable(named), "bold")
        before, after = change.before, change.after
        left = "-" if before is None else before.beside(after)
        right = "-" if after is None else after.beside(before)
        rules = [one.rule or "-" if one is not None else "-" for one in (before, after)]
        rule = rules[0] if rules[0] == rules[1] else f"{rules[0]} {arrow} {rules[1]}"
        yield f"  {change.file}: {printable(left)} {arrow} {printable(right)}  [{rule}]"
        yield from wrap(printable(change.meaning), terminal.width - 6, "      ")
