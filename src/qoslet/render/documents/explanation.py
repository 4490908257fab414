"""An explanation as a document: ``kind: Explanation`` of ``qoslet/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.render.documents import API_VERSION, Document, problem_row
from qoslet.render.documents.plan import Properties, guard_block, node_block

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qoslet.core.explain.explain import ExplainedCgroup, Explanation, Value
    from qoslet.core.explain.live_value import LiveValue

    Live = Mapping[tuple[str, str], LiveValue]


def explanation_document(explanation: Explanation, live: Live | None = None) -> Document:
    """The whole answer. ``value`` is null where a file is not written; ``live`` are this machine's
    values by cgroup name and file."""
    plan, pod = explanation.plan, explanation.pod
    properties = Properties(plan)
    return {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        "node": node_block(plan),
        "target": explanation.target,
        "pod": None
        if pod is None
        else {
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "where": pod.where,
            "qosClass": explanation.qos,
            "decidedBy": list(explanation.decided),
            "guard": guard_block(explanation.guard),
            "findings": [problem_row(row) for row in explanation.findings],
        },
        "cgroups": [_group(group, properties, live) for group in explanation.groups],
    }


def _group(group: ExplainedCgroup, properties: Properties, live: Live | None) -> Document:
    cgroup = group.cgroup
    return {
        "name": cgroup.name,
        "level": cgroup.level,
        "role": cgroup.role,
        "path": cgroup.path,
        "unit": cgroup.unit,
        "container": cgroup.container.name if cgroup.container is not None else None,
        "values": [
            _value(value, properties) | _found(live, cgroup.name, value.file)
            for value in group.values
        ],
    }


def _found(live: Live | None, name: str, file: str) -> Document:
    """What the file holds on this machine, where that was asked for."""
    found = None if live is None else live.get((name, file))
    if found is None:
        return {}
    return {
        "live": {
            "found": found.found,
            "error": found.error or None,
            "verdict": found.verdict,
            "property": found.property_text,
        }
    }


def _value(value: Value, properties: Properties) -> Document:
    return {
        "file": value.file,
        "value": value.value,
        "effective": value.effective,
        "writer": value.writer,
        "property": properties(value.file),
        "because": value.because,
        "rule": value.rule,
        "source": value.source,
        "inputs": [
            {"field": f.field, "given": f.given, "value": f.value, "where": f.where}
            for f in value.facts
        ],
        "profile": value.profile,
        "evidence": value.evidence,
        "written": value.when,
        "kept": value.overwritten,
        "worth": value.worth,
        "standing": value.standing,
        "alternatives": [
            {"axis": a.axis, "profiles": a.profiles, "value": a.value, "current": a.current}
            for a in value.alternatives
        ],
    }
