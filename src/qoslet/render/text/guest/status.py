"""The status of the agent beside a kubelet for people, from its document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from qoslet.core.problem import plural
from qoslet.render.terminal import printable

if TYPE_CHECKING:
    from qoslet.render.terminal import Terminal

SHOWN = 10
"""Rows of a list, without ``verbose``."""


def status_lines(document: Mapping[str, Any], terminal: Terminal, verbose: bool) -> list[str]:
    """The whole status."""
    lines = list(_head(document))
    lines += _list("errors", document["errors"], terminal, verbose)
    lines += _list("notes", document["notes"], terminal, verbose)
    lines += _list("waiting", document["waiting"], terminal, verbose)
    contested = [
        f"{one['cgroup']}/{one['file']}: {one['wanted']}, another process wrote {one['found']} "
        f"({one['resets']} times, written again {one['rewrites']} times{_retry(one)})"
        for one in document["contested"]
    ]
    lines += _list("contested", contested, terminal, verbose)
    held = [
        f"{one['cgroup']}/{one['file']}: {one['value']}, before {_before(one)}"
        for one in document["held"]
    ]
    lines += _list("held", held, terminal, verbose)
    findings = [
        f"{one['verdict']} {one['path']}{'/' + one['file'] if one['file'] else ''}: {one['message']}"
        for one in document["findings"]
        if verbose or one["severity"] != "info"
    ]
    lines += _list("findings", findings, terminal, verbose)
    guard = [
        f"{one['cgroup']}: memory.high {_bytes(one['highBytes'])} instead of {one['plannedHighBytes']}: {one['because']}"
        for one in document["guard"]["overrides"]
    ]
    return [printable(line) for line in lines + _list("raised", guard, terminal, verbose)]


def _head(document: Mapping[str, Any]) -> Iterator[str]:
    source, counts = document["source"], document["counts"]
    may = ", ".join(document["files"]) or "nothing"
    names = document.get("namespaces")
    of = "" if names is None else f" of pods in {', '.join(names)}"
    node = f"node {document['node']}, " if document["node"] else ""
    yield (
        f"{node}{document['root']}, cgroup {document['hierarchy']}, {document['driver']} driver: "
        f"mode {document['mode']}, Memory QoS {document['memoryQos']}, writes {may}{of}"
    )
    whole = "" if source["complete"] else ", not all of them"
    why = f" ({source['reason']})" if source["reason"] else ""
    pods = plural(document["pods"], "pod")
    yield f"{pods} from {source['place']}{whole}, {source['ageSeconds']:.0f} s ago{why}"
    count = len([one for one in document["findings"] if one["severity"] != "info"])
    yield f"{document['compared']} values compared, {plural(count, 'finding')}"
    if document["files"] or counts["writes"]:
        yield (
            f"{len(document['held'])} files held, {counts['writes']} writes, {counts['resets']} resets "
            f"by others, {counts['failures']} failures"
        )


def _list(title: str, rows: list[str], terminal: Terminal, verbose: bool) -> list[str]:
    """A heading and its rows; nothing where there is none."""
    if not rows:
        return []
    shown = rows if verbose else rows[:SHOWN]
    more = [f"  ... and {len(rows) - len(shown)} more (-v)"] if len(shown) < len(rows) else []
    return [terminal.paint(f"{title}:", "bold"), *(f"  {row}" for row in shown), *more]


def _retry(one: Mapping[str, Any]) -> str:
    return "" if one["retrySeconds"] is None else f", again in {one['retrySeconds']:.0f} s"


def _before(one: Mapping[str, Any]) -> str:
    return "unknown" if one["before"] is None else one["before"]


def _bytes(value: int | None) -> str:
    return "max" if value is None else str(value)
