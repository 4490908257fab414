"""A plan and its documents to findings: every rule on every pod, and on the node that was given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.memory_annotations import LINT_IGNORE
from qoslet.core.api.pod import Pod
from qoslet.core.lint.rule import (
    SUPPRESSION,
    LintPlace,
    LintRule,
    NodeSubject,
    PodSubject,
    rules,
)
from qoslet.core.node.node import Node
from qoslet.core.plan.effective_memory import standings
from qoslet.core.problem import GRAVEST_FIRST, Severity
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.resources.node_policy import node_policy

Level = Literal["error", "warning", "info", "off"]
_ORDER: Sequence[Severity] = ("info", "warning", "error")


class LintFinding(Struct, frozen=True):
    """A trap in a document. ``pod`` is None for one of the node; ``suppressed`` is the reason that
    somebody gave for leaving it so."""

    id: str
    severity: Severity
    where: str
    pod: Pod | None
    container: str | None
    field: str
    message: str
    hint: str
    source: str
    suppressed: str | None = None

    def fails(self, at: Severity) -> bool:
        """Whether it is not suppressed, and at least as grave as ``at``."""
        return self.suppressed is None and _ORDER.index(self.severity) >= _ORDER.index(at)


class LintReport(Struct, frozen=True):
    """All findings, by pod in the order of the documents, then by id."""

    findings: tuple[LintFinding, ...]

    def count(self, severity: Severity) -> int:
        """How many findings of a severity are not suppressed."""
        return sum(one.severity == severity and one.suppressed is None for one in self.findings)

    def fails(self, at: Severity) -> bool:
        """Whether a finding is at least as grave as ``at``."""
        return any(one.fails(at) for one in self.findings)

    def __repr__(self) -> str:
        """The report in one short line."""
        numbers = ", ".join(f"{one}={self.count(one)}" for one in GRAVEST_FIRST)
        return f"LintReport({numbers})"


def lint(
    plan: Plan,
    documents: Mapping[str, Mapping[str, Any]],
    *,
    node: str = "",
    severities: Mapping[str, Level] | None = None,
) -> LintReport:
    """What the rules find. ``documents`` are the pods' by UID (``Loaded.raw``); ``node`` names the
    documents of a node that somebody described, and is empty without one; ``severities`` override
    those of rules."""
    active = _active(severities or {})
    found: list[LintFinding] = []
    if node and is_configured(plan.node):
        found += _of_node(plan, node, active)
    by_pod = _by_pod(plan)
    policy, known = node_policy(plan.node), standings(plan)
    for row in plan.pods:
        document = documents.get(row.pod.uid, {})
        spec = document.get("spec")
        subject = PodSubject(
            row.pod,
            row.qos,
            policy,
            spec if isinstance(spec, Mapping) else {},
            by_pod.get(row.pod.uid, {}),
            known,
            bool(node),
        )
        found += _of_pod(subject, document, active, plan.node.os == "windows")
    return LintReport(tuple(found))


def _active(severities: Mapping[str, Level]) -> list[LintRule]:
    """The rules that are on, with their severities."""
    chosen = []
    for rule in rules().values():
        level = severities.get(rule.id, rule.severity)
        if level != "off":
            chosen.append(rule if level == rule.severity else replace(rule, severity=level))
    return chosen


def _by_pod(plan: Plan) -> Mapping[str, Mapping[str, Cgroup]]:
    found: dict[str, dict[str, Cgroup]] = {}
    for cgroup in plan.cgroups:
        if cgroup.pod is None or cgroup.level == "sandbox":
            continue
        name = "" if cgroup.container is None else cgroup.container.name
        found.setdefault(cgroup.pod.uid, {})[name] = cgroup
    return found


def is_configured(node: Node) -> bool:
    """Whether somebody says how the kubelet is configured: kubectl's Node does not."""
    flags = (field for field, place in node.origins.items() if place.startswith("--"))
    return node.kubelet_given or any(
        "." not in field and field not in ("kubernetes", "runtime") for field in flags
    )


def _of_node(plan: Plan, where: str, active: Sequence[LintRule]) -> Iterator[LintFinding]:
    named = {cgroup.name: cgroup for cgroup in plan.cgroups}
    subject = NodeSubject(node_policy(plan.node), where, named)
    for rule in active:
        if rule.node is not None and plan.node.os == "linux":
            for place in rule.node(subject):
                found = _finding(rule, place, where, None)
                # the document that says it, where one does
                said = plan.node.origins.get(place.field, "")
                given = said.endswith(f": {place.field}")
                yield replace(found, where=said) if given else found


def _of_pod(
    subject: PodSubject,
    document: Mapping[str, Any],
    active: Sequence[LintRule],
    windows_node: bool,
) -> Iterator[LintFinding]:
    pod = subject.pod
    meta = document.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, Mapping) else None
    text = annotations.get(LINT_IGNORE, "") if isinstance(annotations, Mapping) else ""
    reasons, wrong = _suppressed(str(text)) if text else ({}, [])
    wrong += [(one.message, one.hint) for one in pod.memory.findings if one.key == LINT_IGNORE]
    for rule in active if wrong else ():
        if rule.id == SUPPRESSION:
            for message, hint in wrong:
                place = LintPlace(f"metadata.annotations[{LINT_IGNORE}]", message)
                yield replace(_finding(rule, place, pod.where, pod), hint=hint)
    windows = windows_node or pod.os == "windows"
    partial = is_patch(pod)
    for rule in active:
        if rule.pod is None or (rule.missing and partial):
            continue
        if rule.windows == windows:
            for place in rule.pod(subject):
                made = _finding(rule, place, pod.where, pod)
                yield replace(made, suppressed=reasons.get(rule.id))


def is_patch(pod: Pod) -> bool:
    """Whether a template is completed by somebody else, as by Kustomize: the API server takes no
    container without an image."""
    return pod.controller is not None and any(one.image is None for one in pod.containers)


def _finding(rule: LintRule, place: LintPlace, where: str, pod: Pod | None) -> LintFinding:
    return LintFinding(
        rule.id,
        rule.severity,
        f"{where}: {place.field}",
        pod,
        place.container,
        place.field,
        place.message,
        rule.fix,
        rule.source,
    )


def _suppressed(text: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """``QL001: reason; QL002: reason`` as reasons by id, and what is wrong with it."""
    found: dict[str, str] = {}
    wrong: list[tuple[str, str]] = []
    for part in filter(None, (one.strip() for one in re.split(r"[;\n]", text))):
        id, _, reason = part.partition(":")
        id, reason = id.strip(), reason.strip()
        if id not in rules() or id == SUPPRESSION:
            wrong.append((f"unknown rule {id[:40]!r}", "qoslet lint --rules lists them"))
        elif not reason:
            wrong.append((f"{id} is suppressed without a reason", f"write {id}: why it is meant"))
        else:
            found[id] = reason
    return found, wrong
