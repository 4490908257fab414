"""What ``qoslet lint`` reads: pods, the node that they are for, and severities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from qoslet.core.api.documents import options_of
from qoslet.core.api.schema import nearest, shown
from qoslet.core.lint.lint import Level, LintReport, is_configured, lint
from qoslet.core.lint.rule import rules
from qoslet.core.node.documents.sources import OWN_API
from qoslet.core.node.flags import flags_of
from qoslet.core.plan.plan import plan
from qoslet.core.problem import ProblemCode
from qoslet.errors import BadInput, BadInputs, FaultCode
from qoslet.host.files.manifest_names import manifest_files
from qoslet.host.files.manifests import load, values_of
from qoslet.host.files.node import load_node
from qoslet.render.text.problems import print_problems

if TYPE_CHECKING:
    import argparse

    from qoslet.core.api.loaded import Loaded

ANY_NODE = b"""\
apiVersion: qoslet/v1
kind: Node
os: linux
capacity: {cpu: "1024", memory: 16Ti, pid: "4194304"}
host: {hierarchy: v2}
"""
"""The node of manifests that are for no node in particular: large, on cgroup v2."""
_LEVELS = ("error", "warning", "info", "off")


def lint_files(args: argparse.Namespace, paths: Sequence[str]) -> LintReport:
    """Lint the pods of ``paths`` and the node of ``args``. Raises BadInput, BadInputs."""
    if not paths and not args.node:
        hint = "qoslet lint chart/, helm template . | qoslet lint -, or --node kubelet.yaml"
        raise BadInput("nothing to look at", where="-f", hint=hint)
    severities = _severities(args.config) if args.config else {}
    texts = () if args.node else (("any node", ANY_NODE),)
    faults: list[BadInput] = []
    try:
        node, _ = load_node(args.node, flags_of(args), texts=texts)
    except BadInputs as error:
        faults += error.faults
    try:
        parts = _parts(args, paths)
    except BadInputs as error:
        faults += error.faults
    if faults:
        raise BadInputs(faults)
    if not parts and not is_configured(node):
        where, hint = f"--node {args.node[0]}", "give a KubeletConfiguration, or pods with -f"
        raise BadInput("does not say how a kubelet is configured", where=where, hint=hint)
    if not args.node:
        rows = (row for part in parts for row in part.problems)
        print_problems(row for row in rows if row.code is ProblemCode.NODE_AMONG_PODS)
    reports = [
        lint(plan(pods, node), documents, node=", ".join(args.node), severities=severities)
        for pods, documents in [(part.pods, part.raw) for part in parts] or [([], {})]
    ]
    first, *others = (report.findings for report in reports)
    # what is about the node stands in each report
    of_other_pods = (one for findings in others for one in findings if one.pod is not None)
    return LintReport((*first, *of_other_pods))


def field_line() -> Callable[[str, str, str], int | None]:
    """A function that finds the line of a field, by the file, the object's name and the field."""
    from qoslet.host.files.field_lines import FieldLines

    return FieldLines().line


def _parts(args: argparse.Namespace, paths: Sequence[str]) -> list[Loaded]:
    """The pods that are planned together: all, or, if several files have the same objects and are thus
    variants of each other, those of each file by themselves. Raises BadInputs."""
    if not paths:
        return []
    options = replace(options_of(args, args.node_name), keep_raw=True)
    try:
        return [load(paths, options, recursive=args.recursive)]
    except BadInputs as error:
        same = any(fault.fault_code is FaultCode.SAME_OBJECT for fault in error.faults)
        if not same or "-" in paths:
            raise
    parts: list[Loaded] = []
    faults: list[BadInput] = []
    for file in dict.fromkeys(manifest_files(paths, args.recursive)):
        try:
            parts.append(load([file], options))
        except BadInputs as error:
            faults += (one for one in error.faults if one.fault_code is not FaultCode.NO_POD)
    if faults:
        raise BadInputs(faults)
    return parts


def _severities(path: str) -> Mapping[str, Level]:
    """The severities of a configuration. Raises BadInput, BadInputs."""
    found: dict[str, Level] = {}
    for where, document in values_of(path):
        found |= _read(where, document)
    return found


def _read(where: str, document: Any) -> dict[str, Level]:
    if not isinstance(document, dict) or document.get("kind") != "LintConfiguration":
        hint = "kind: LintConfiguration, with severities: {QL022: error}"
        raise BadInput("expected a LintConfiguration", where=where, hint=hint)
    if document.get("apiVersion", OWN_API) != OWN_API:
        message = f"is {shown(str(document['apiVersion']), 60)!r}, not {OWN_API}"
        raise BadInput(message, where=f"{where}: apiVersion", hint=f"apiVersion: {OWN_API}")
    unknown = document.keys() - {"apiVersion", "kind", "severities"}
    if unknown:
        name = min(unknown)
        raise BadInput(f"unknown field {name!r}", where=where, hint="it has severities")
    given = document.get("severities") or {}
    if not isinstance(given, dict):
        raise BadInput("must be an object", where=f"{where}: severities")
    for id, level in given.items():
        if id not in rules():
            hint = nearest(str(id), tuple(rules())) or "qoslet lint --rules lists them"
            raise BadInput(f"unknown rule {str(id)!r}", where=f"{where}: severities", hint=hint)
        if level is False:
            # YAML reads a bare off so
            given[id] = level = "off"
        if level not in _LEVELS:
            hint = f"one of {', '.join(_LEVELS)}"
            raise BadInput(
                f"unknown severity {level!r}", where=f"{where}: severities.{id}", hint=hint
            )
    return given
