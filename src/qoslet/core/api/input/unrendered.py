"""What has to be rendered before it holds pods: charts, templates, kustomizations."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

from qoslet.core.api.documents import Spot, Text
from qoslet.core.api.input.misspelt import misspelt
from qoslet.core.api.kinds import TEMPLATE_MARK, content_of, group_of, render_hint
from qoslet.core.api.schema import DECODE_ERRORS, shown
from qoslet.core.problem import Problem, ProblemCode
from qoslet.errors import BadInput, FaultCode

CHART_FILE = "Chart.yaml"
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""Source: kustomize konfig.RecognizedKustomizationFileNames."""

_VALUES = re.compile(r"(?:.*[-_.])?values(?:[-_.].*)?\.ya?ml")
_KUSTOMIZE_FIELDS = frozenset(
    [
        "resources",
        "bases",
        "components",
        "patches",
        "patchesStrategicMerge",
        "patchesJson6902",
        "configMapGenerator",
        "secretGenerator",
        "generatorOptions",
        "namePrefix",
        "nameSuffix",
        "commonLabels",
        "commonAnnotations",
        "images",
        "replacements",
        "helmCharts",
        "generators",
        "transformers",
    ]
)
_WATCH_EVENT = frozenset(("type", "object"))
_ALSO_KUSTOMIZE = frozenset(("apiVersion", "kind", "namespace", "labels", "replicas"))

_ACTION = re.compile(
    rb"^[ \t]*(?:- +)*(?:[\w./\"'-]+:[ \t]+)?\{\{-?[ \t]*[\w.$/(\"]"
    rb"|\{\{-?[ \t]*(?:include|tpl|toYaml|\.(?:Values|Release|Chart|Capabilities|Files))\b",
    re.MULTILINE,
)
"""An action where a line or a value begins, or anywhere one that Helm's templates have."""


def _directory(file: str, default: str) -> str:
    """Where the chart or kustomization of a file lies."""
    if "/" in file:
        return file.rpartition("/")[0] or "/"
    return default if file in ("stdin", "text") else "."


def is_template(data: bytes) -> bool:
    """Whether the text of a broken document is one that a program fills in."""
    return _ACTION.search(data) is not None


def template_fault(file: str) -> BadInput:
    """The fault of a file that is a template."""
    directory = _directory(file, "CHART")
    chart = directory.removesuffix("/templates") if directory.endswith("/templates") else "CHART"
    message = f"is a template with {TEMPLATE_MARK} }}}} to fill in, no manifest yet"
    return BadInput(message, where=file, hint=render_hint(chart), fault_code=FaultCode.UNRENDERED)


def chart_fault(directory: str) -> BadInput:
    """The fault of a directory that is a chart."""
    hint = render_hint(directory)
    message = "is a Helm chart, not manifests"
    return BadInput(message, where=directory, hint=hint, fault_code=FaultCode.UNRENDERED)


def headless(data: Raw | Text, spot: Spot, kind: str | None) -> BadInput | Problem:
    """What a document without kind or apiVersion is by its name or fields: a row for a
    kustomization, else a fault, with the way out for the parts of a chart."""
    file = spot.document.file
    name = file.rpartition("/")[2]
    keys = _keys(data) if spot.item < 0 else frozenset()
    if (keys and name in KUSTOMIZATIONS) or (
        keys & _KUSTOMIZE_FIELDS and keys <= _KUSTOMIZE_FIELDS | _ALSO_KUSTOMIZE
    ):
        return kustomization(file, spot.where)
    chart = bool(keys) and (name == CHART_FILE or {"apiVersion", "name", "version"} <= keys)
    if chart or (keys and _VALUES.fullmatch(name)):
        what = "describes a Helm chart" if chart else "has the values of a Helm chart"
        message, hint = f"{what}, not a Kubernetes object", render_hint(_directory(file, "CHART"))
        return BadInput(message, where=spot.where, hint=hint, fault_code=FaultCode.UNRENDERED)
    missing = "apiVersion" if kind else "kind"
    hint = misspelt(data, missing) or "every Kubernetes document has apiVersion and kind"
    if keys == _WATCH_EVENT:
        hint = "it is an event of a watch: give a list, kubectl get pods -A -o json"
    return BadInput("is missing", where=f"{spot.where}: {missing}", hint=hint)


def _keys(data: Raw | Text) -> frozenset[str]:
    """The fields of an object without ``kind``, ``metadata`` and ``spec``; else none."""
    try:
        keys = msgspec.json.decode(data, type=dict[str, Raw]).keys()
    except DECODE_ERRORS:
        return frozenset()
    return frozenset() if keys & {"metadata", "spec", "items"} else frozenset(keys)


def skipped_row(file: str, where: str, api_version: str | None, kind: str) -> Problem:
    """The row of a document of Kubernetes that carries no pods."""
    if group_of(api_version) == "kustomize.config.k8s.io":
        return kustomization(file, where)
    hint, code = "", ProblemCode.OTHER
    if content_of(api_version, kind) == "node":
        hint, code = "use --node for a node", ProblemCode.NODE_AMONG_PODS
    elif kind == "LimitRange":
        hint = "the API server gives pods its defaults: kubectl get pods -o yaml has them"
    return Problem("info", where, f"{shown(kind)} skipped: it has no pods", hint, code)


def kustomization(file: str, where: str) -> Problem:
    """The row of a kustomization: what it says is not done."""
    message = "kustomization not applied: its patches and generators change no pod of this plan"
    hint = f"render it first: {kustomize_command(file)}"
    return Problem("warning", where, message, hint, ProblemCode.KUSTOMIZATION)


def kustomize_command(file: str) -> str:
    """What renders the kustomization in a file."""
    directory = shown(_directory(file, "DIR"))
    return f"kubectl kustomize {directory} | qoslet plan -f -"
