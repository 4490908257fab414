"""A plan for people: the tree, a table, and the files with their values.

Lines in, lines out, drawn for a ``Terminal``; nothing here prints. In the tree a column that
says nothing anywhere is left out, and what a narrow terminal has no room for is named below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.core.cgroup.names import QOS_DIRECTORY
from qoslet.core.node.node import allocatable, enforced
from qoslet.core.resources.cgroup_tree import key_of, named
from qoslet.render.terminal import Terminal, cut, display_width, pad, printable, wrap
from qoslet.render.text.columns import (
    COLUMNS,
    DRAWN,
    GROUPS,
    cut_protection,
    heading,
    label,
    protected_bytes,
)
from qoslet.render.text.problems import place_of
from qoslet.render.units import size

if TYPE_CHECKING:
    from qoslet.core.api.pod import QosClass
    from qoslet.core.node.node import Hierarchy
    from qoslet.core.plan.effective_memory import FullNodeCgroup
    from qoslet.core.problem import Problem
    from qoslet.core.quantity import Quantity
    from qoslet.core.resources.cgroup_tree import Cgroup, Plan

QOS_STYLE = {"Guaranteed": "green", "Burstable": "yellow", "BestEffort": "cyan"}
_TIER_STYLE = {"burstable": "yellow", "besteffort": "cyan"}
_FIRST_DROPPED = ("oom", "swap", "pids", "weight", "low", "min", "worth", "high")
"""Columns that a narrow terminal does without, the first ones first."""

_LABEL_MIN = 22
_ZERO_SAYS_NOTHING = ("min", "low", "swap")


class Line(Struct, frozen=True):
    """One group of the tree: the branches before it, its name, its cells by column; ``margin``
    stands before further lines about it."""

    cgroup: Cgroup
    trunk: str
    margin: str
    label: str
    style: tuple[str, ...]
    cells: dict[str, str]
    others: tuple[str, ...]


def classes(plan: Plan) -> dict[str, QosClass]:
    """The class of each pod by its UID."""
    return {row.pod.uid: row.qos for row in plan.pods}


def _style(cgroup: Cgroup, qos: str | None) -> tuple[str, ...]:
    if cgroup.level == "pod":
        return (QOS_STYLE.get(qos or "", "bold"), "bold")
    if cgroup.level == "qos":
        return (_TIER_STYLE.get(cgroup.name.rsplit("/", 1)[-1], "bold"),)
    if cgroup.level == "node":
        return ("bold",)
    return ("dim",) if cgroup.level == "sandbox" else ()


def _children(cgroups: Sequence[Cgroup]) -> dict[str, list[Cgroup]]:
    """Groups by their parent's name, "" for those whose parent is not planned; tiers last."""
    names = {cgroup.name for cgroup in cgroups}
    found: dict[str, list[Cgroup]] = {}
    for cgroup in cgroups:
        parent = cgroup.name.rpartition("/")[0]
        found.setdefault(parent if parent in names else "", []).append(cgroup)
    for below in found.values():
        below.sort(key=lambda cgroup: cgroup.level == "qos")
    return found


def lines_of(plan: Plan, terminal: Terminal, exact: bool, verbose: bool) -> list[Line]:
    """The tree's lines in their order, sandboxes only when ``verbose``."""
    shown = [c for c in plan.cgroups if verbose or c.level != "sandbox"]
    children, qos, known = _children(shown), classes(plan), standings_of(plan)
    fork, last = terminal.mark("├─ ", "|- "), terminal.mark("└─ ", "`- ")
    bar = terminal.mark("│  ", "|  ")
    arrow = terminal.mark("→", "->")
    found: list[Line] = []
    waiting = [(cgroup, "", "") for cgroup in reversed(children.get("", []))]
    while waiting:
        cgroup, trunk, below = waiting.pop()
        rows = cgroup.by_file
        own = qos.get(cgroup.pod.uid) if cgroup.pod else None
        cells = {name: cell(cgroup, rows, exact).replace("→", arrow) for name, cell in COLUMNS}
        standing = known.get(key_of(cgroup))
        cells["worth"] = cut_protection(standing, exact)
        others = tuple(f"{s.file} = {s.value}" for s in cgroup.settings if s.file not in DRAWN)
        others += _first_limit(standing)
        others += _vm(plan, cgroup)
        alone = not trunk and cgroup.pod is not None
        text = printable(label(cgroup, own, alone))
        nested = children.get(cgroup.name, [])
        margin = below + (bar if nested else "   ")
        found.append(Line(cgroup, trunk, margin, text, _style(cgroup, own), cells, others))
        for index, child in reversed(list(enumerate(nested))):
            final = index == len(nested) - 1
            tail = below + ("   " if final else bar)
            waiting.append((child, below + (last if final else fork), tail))
    return found


def _first_limit(standing: FullNodeCgroup | None) -> tuple[str, ...]:
    """The limit that a group meets first, as a line about it."""
    if standing is None or standing.binds is None:
        return ()
    first = standing.binds
    place = "" if first.path == standing.claim.path else f" of {named(first.path)}"
    return (f"limited by: {first.file} {first.limit}{place}",)


def _vm(plan: Plan, cgroup: Cgroup) -> tuple[str, ...]:
    """How a Windows container is isolated, where that is not in its job object alone."""
    if cgroup.pod is None or not plan.is_windows(cgroup):
        return ()
    # imported for Windows containers
    from qoslet.core.resources.node_policy import node_policy
    from qoslet.core.resources.windows_isolation import hyperv, on_host

    policy = node_policy(plan.node)
    if on_host(policy, cgroup.pod):
        return ("on the host itself",)
    return ("Hyper-V isolation",) if hyperv(policy, cgroup.pod) else ()


def _speaks(lines: Sequence[Line], name: str, verbose: bool) -> bool:
    """Whether a column has anything to say."""
    silent = ("",) if verbose or name not in _ZERO_SAYS_NOTHING else ("", "0")
    return any(line.cells[name] not in silent for line in lines)


class PlanLayout(Struct, frozen=True):
    """Which columns are drawn and how wide, and which found no room."""

    label: int
    widths: dict[str, int]
    gap: str
    dropped: tuple[str, ...]


def layout(lines: Sequence[Line], width: int, verbose: bool) -> PlanLayout:
    """Fit the columns into ``width``: closer together, then names are cut, then columns go."""
    widths = {
        name: max(len(name), *(display_width(line.cells[name]) for line in lines))
        for name, _ in COLUMNS
        if _speaks(lines, name, verbose)
    }
    wanted = max(display_width(line.trunk) + display_width(line.label) for line in lines)
    least = min(wanted, _LABEL_MIN if width >= 60 else 14)
    gap = 2 if wanted + _span(widths, 2) <= width else 1
    dropped: list[str] = []
    for name in _FIRST_DROPPED:
        if least + _span(widths, gap) <= width:
            break
        if widths.pop(name, None) is not None:
            dropped.append(name)
    room = max(min(wanted, width - _span(widths, gap)), least)
    return PlanLayout(room, widths, " " * gap, tuple(dropped))


def _span(widths: dict[str, int], gap: int) -> int:
    return sum(width + gap for width in widths.values())


def _headings(fit: PlanLayout, terminal: Terminal, hierarchy: Hierarchy) -> list[str]:
    top, names = pad("", fit.label), pad("", fit.label)
    for name, width in fit.widths.items():
        title = next((title for title, members in GROUPS if _leads(name, members, fit)), "")
        top += fit.gap + pad(title, width, right=title == "CPU" and name == "weight")
        wide = name == "cpu" and width >= 13
        shown = "request/limit" if wide else heading(name, hierarchy)
        names += fit.gap + pad(shown, width, right=name != "cpu")
    return [terminal.paint(line.rstrip(), "dim") for line in (top, names) if line.strip()]


def _leads(name: str, members: tuple[str, ...], fit: PlanLayout) -> bool:
    return next((member for member in members if member in fit.widths), None) == name


def _drawn(line: Line, fit: PlanLayout, terminal: Terminal) -> str:
    room = max(fit.label - display_width(line.trunk), 1)
    name = cut(line.label, room, terminal.mark("…", "~"))
    text = terminal.paint(line.trunk, "dim") + terminal.paint(name, *line.style)
    text += " " * max(0, room - display_width(name))
    for column, width in fit.widths.items():
        cell = pad(line.cells[column], width, right=column != "cpu")
        text += fit.gap + (terminal.paint(cell, "dim") if line.cells[column] == "0" else cell)
    return text.rstrip()


def tree(plan: Plan, terminal: Terminal, exact: bool = False, verbose: bool = False) -> list[str]:
    """The plan as a tree: the node, each group with its numbers, then the problems."""
    drawn = header(plan, terminal, exact)
    lines = lines_of(plan, terminal, exact, verbose)
    if lines:
        fit = layout(lines, terminal.width, verbose)
        drawn += ["", *_headings(fit, terminal, plan.node.hierarchy)]
        for line in lines:
            drawn.append(_drawn(line, fit, terminal))
            if verbose or plan.is_windows(line.cgroup):
                margin = terminal.paint(line.margin, "dim")
                drawn += [margin + terminal.paint(printable(o), "dim") for o in line.others]
        if fit.dropped:
            names = ", ".join(heading(name, plan.node.hierarchy) for name in fit.dropped)
            left = f"no room for {names}: widen the terminal, or -o table"
            drawn += [terminal.paint(text, "dim") for text in wrap(left, terminal.width)]
    else:
        drawn += ["", "no pods, no cgroups"]
    return drawn + problems(plan.problems, terminal)


def header(plan: Plan, terminal: Terminal, exact: bool = False) -> list[str]:
    """The node in a line, and what it has, offers and enforces."""
    title = printable(plan.node.name or "this node")
    facts = [printable(fact) for fact in _node_facts(plan)]
    drawn = _joined(title, facts, terminal.mark(" · ", ", "), terminal.width)
    drawn[0] = terminal.paint(title, "bold") + drawn[0].removeprefix(title)
    return drawn + _resources(plan, terminal, exact)


def _node_facts(plan: Plan) -> Iterator[str]:
    """What decides about the values of the plan."""
    node = plan.node
    is_windows, runtime = node.os == "windows", node.profile.runtime.name
    yield from ("windows",) if is_windows else (f"cgroup {node.hierarchy}", node.driver)
    yield f"Kubernetes {node.profile.kubernetes}"
    # runc is assumed where no runtime is named, and runs no Windows containers
    if not is_windows or not runtime.startswith(("runc", "crun")):
        yield runtime
    if is_windows and node.isolation:
        yield f"{node.isolation} isolation"
    elif not is_windows:
        yield f"Memory QoS {memory_qos(plan)}"


def _resources(plan: Plan, terminal: Terminal, exact: bool) -> list[str]:
    """The node's resources as a table, as many as the terminal has room for."""
    node = plan.node
    rows = {"capacity": node.capacity, "allocatable": allocatable(node)}
    if node.os != "windows":
        rows["enforced"] = enforced(node)
    names = [n for n in node.capacity if n in ("cpu", "memory", "pid") or _huge(plan, n)]
    text = {title: {n: _amount(n, row.get(n), exact) for n in names} for title, row in rows.items()}
    widths = {n: max(len(n), *(len(row[n]) for row in text.values())) for n in names}
    while len(names) > 1 and 11 + sum(widths[n] + 2 for n in names) > terminal.width:
        names.pop()

    def cells(row: Mapping[str, str]) -> str:
        return "".join(f"  {pad(row[n], widths[n], right=True)}" for n in names)

    head = terminal.paint(f"{'':<11}{cells({n: n for n in names})}", "dim")
    body = [terminal.paint(f"{title:<11}", "dim") + cells(row) for title, row in text.items()]
    return [line.rstrip() for line in (head, *body)]


def _amount(name: str, quantity: Quantity | None, exact: bool) -> str:
    """A resource of the node, bytes in the unit of the tree below; ``exact`` as it was written."""
    if quantity is None:
        return "-"
    in_bytes = name == "memory" or name.startswith("hugepages-")
    return size(quantity.value) if in_bytes and not exact else str(quantity)


def _joined(title: str, facts: Sequence[str], dot: str, width: int) -> list[str]:
    """The facts behind the title, broken between facts only."""
    found = [f"{title}  {facts[0]}"]
    for fact in facts[1:]:
        longer = f"{found[-1]}{dot}{fact}"
        if display_width(longer) <= width:
            found[-1] = longer
        else:
            found.append(fact)
    return found


def _huge(plan: Plan, name: str) -> bool:
    return name.startswith("hugepages-") and plan.node.capacity[name].nano > 0


def standings_of(plan: Plan) -> dict[str, FullNodeCgroup]:
    """What the memory values are worth, by ``key_of``; empty where Memory QoS is off."""
    if memory_qos(plan) == "off":
        return {}
    from qoslet.core.plan.effective_memory import standings

    return standings(plan)


def memory_qos(plan: Plan) -> str:
    """The variant of Memory QoS that is in force on the plan's node."""
    from qoslet.core.resources.node_policy import node_policy

    return node_policy(plan.node).memory_qos


_MARKS = {"error": ("✗", "x", "red"), "warning": ("!", "!", "yellow"), "info": ("i", "i", "blue")}


def problems(rows: Sequence[Problem], terminal: Terminal) -> list[str]:
    """What to know about the plan, the worst first; the same row of many places once."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for severity in _MARKS:
        for row in rows:
            if row.severity == severity:
                key = (row.severity, row.message, row.hint)
                places.setdefault(key, []).append(row.where)
    drawn: list[str] = []
    for (severity, message, hint), where in places.items():
        nice, plain, color = _MARKS[severity]
        place = f"{printable(place_of(where))}: " if where[0] else ""
        first, *rest = wrap(f"{place}{printable(message)}", terminal.width - 2)
        drawn.append(f"{terminal.paint(terminal.mark(nice, plain), color, 'bold')} {first}")
        drawn += [f"  {line}" for line in rest]
        if hint:
            advice = wrap(f"{terminal.mark('→', '->')} {printable(hint)}", terminal.width - 2)
            drawn += [terminal.paint(f"  {line}", "dim") for line in advice]
    return ["", *drawn] if drawn else []


def table(plan: Plan, terminal: Terminal, exact: bool = False, verbose: bool = False) -> list[str]:
    """One line for each group, always the same columns; nothing is cut."""
    qos, known = classes(plan), standings_of(plan)
    names = [heading(name, plan.node.hierarchy).upper() for name, _ in COLUMNS]
    heads = ("LEVEL", "CLASS", "POD", "CONTAINER", *names, "NAME")
    arrow = terminal.mark("→", "->")
    rows = [heads]
    for cgroup in plan.cgroups:
        if cgroup.level == "sandbox" and not verbose:
            continue
        settings = cgroup.by_file
        pod = cgroup.pod
        words = (
            cgroup.level,
            qos[pod.uid] if pod else _class_of(cgroup),
            pod.key if pod else "",
            cgroup.container.name if cgroup.container else "",
            *(
                protected_bytes(known.get(key_of(cgroup)), exact)
                if name == "worth"
                else cell(cgroup, settings, exact).replace("→", arrow)
                for name, cell in COLUMNS
            ),
            cgroup.path or cgroup.name,
        )
        rows.append(tuple(printable(word) or "-" for word in words))
    widths = [max(display_width(row[index]) for row in rows) for index in range(len(heads))]
    drawn = [
        "  ".join(pad(word, width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    drawn[0] = terminal.paint(drawn[0], "dim")
    return drawn


def _class_of(cgroup: Cgroup) -> str:
    """The class of the pods below a QoS cgroup; empty for another."""
    leaf = cgroup.name.rpartition("/")[2]
    classes = {leaf: qos for qos, leaf in QOS_DIRECTORY.items()}
    return classes.get(leaf, "") if cgroup.level == "qos" else ""


def files(plan: Plan) -> list[str]:
    """``path=value`` for every file, in the plan's order; a path that is not known before the
    container runs is the abstract name. Windows containers have no files."""
    return [
        printable(f"{(cgroup.path or cgroup.name).rstrip('/')}/{setting.file}={setting.value}")
        for cgroup in plan.cgroups
        if not plan.is_windows(cgroup)
        for setting in cgroup.settings
    ]
