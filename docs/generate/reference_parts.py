"""The parts of the reference that the code knows: JSON documents, exit codes, annotations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from qoslet.cli.commands import COMMANDS, module_of
from qoslet.core.api.memory_annotations import KEYS, LINT_IGNORE, PREFIX, SIMULATE
from qoslet.core.audit.finding import MEANINGS
from qoslet.core.lint.rule import rules
from qoslet.core.node.described.operating_systems import OPERATING_SYSTEMS
from qoslet.core.node.documents.kubelet_config import READERS, UNUSED
from qoslet.core.node.documents.kubelet_field_names import SINCE
from qoslet.core.node.documents.own_fields import OWN_FIELDS
from qoslet.schema import NAMES, text

ANNOTATIONS = {
    "memory-high": ("a quantity, or `max`", "`memory.high` of each container; `memory-high.CONTAINER` is for one"),
    "memory-throttling-factor": ("above 0, at most 1", "how far from request to limit `memory.high` lies"),
    "memory-protection": ("`on`, `off`", "whether requests are protected by `memory.min` or `memory.low`"),
    "memory-oom-group": ("`true`, `false`", "`memory.oom.group`: whether an OOM kill ends the whole container"),
    "guard": ("`off`, `observe`, `act`", "what the guard may do to this pod"),
}  # fmt: skip
"""Key to the values that it takes and what it decides."""


def documents() -> Iterator[str]:
    """Each kind of document with all of its fields."""
    for name in NAMES:
        schema = json.loads(text(name))
        kind = schema["properties"].get("kind", {}).get("const", name)
        yield f"### {kind}"
        yield ""
        yield f"{schema['title']}."
        yield ""
        yield "| field | type | |"
        yield "|---|---|---|"
        for place, shape in fields(schema, schema, ""):
            note = shape.get("description", "").replace("|", "\\|")
            old = "deprecated; " if shape.get("deprecated") else ""
            yield f"| `{place}` | {kind_of(shape, schema)} | {old}{note} |"
        yield ""


def fields(
    shape: Mapping[str, Any], root: Mapping[str, Any], place: str, depth: int = 0
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each property of a schema by its place, those of its parts after it."""
    for name, part in shape.get("properties", {}).items():
        here = f"{place}.{name}" if place else name
        yield here, part
        whole, suffix = resolved(part, root), ""
        if whole.get("type") == "array":
            whole, suffix = resolved(whole.get("items", {}), root), "[]"
        if depth < 4:
            yield from fields(whole, root, here + suffix, depth + 1)


def resolved(shape: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a schema without its reference and without its null."""
    for part in shape.get("anyOf", ()):
        if part.get("type") != "null":
            return resolved(part, root)
    reference = shape.get("$ref")
    if reference is None:
        return shape
    found: Mapping[str, Any] = root["$defs"][reference.rpartition("/")[2]]
    return resolved(found, root)


def kind_of(shape: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """A field's type, or the values that it takes."""
    null = " or null" if {"type": "null"} in shape.get("anyOf", ()) else ""
    whole = resolved(shape, root)
    if "const" in whole:
        return f"`{whole['const']}`"
    if "enum" in whole:
        return (
            ", ".join("null" if value is None else f"`{value}`" for value in whole["enum"]) + null
        )
    kind = whole.get("type", "any")
    if kind == "array":
        return f"array of {kind_of(whole.get('items', {}), root)}{null}"
    return (" or ".join(kind) if isinstance(kind, list) else kind) + null


def exit_codes() -> Iterator[str]:
    """What each command's help says of its exit codes."""
    yield "| command | exit codes |"
    yield "|---|---|"
    for command in COMMANDS:
        epilog = getattr(module_of(command), "EPILOG", "") or ""
        found = re.search(r"exit code:? (.*)", " ".join(epilog.split()))
        if found:
            yield f"| `{command}` | {found[1].rstrip('.')} |"


def audit_verdicts() -> Iterator[str]:
    """The verdicts of ``qoslet audit``."""
    yield "| verdict | means |"
    yield "|---|---|"
    for verdict, meaning in MEANINGS.items():
        yield f"| `{verdict}` | {meaning} |"


def pod_annotations() -> Iterator[str]:
    """Every annotation that qoslet reads from a pod."""
    yield "| annotation | value | decides |"
    yield "|---|---|---|"
    for key in KEYS:
        value, about = ANNOTATIONS[key]
        yield f"| `{PREFIX}{key}` | {value} | {about} |"
    about = "which rules of [lint](lint.md) are not meant for the pod, and why"
    yield f"| `{LINT_IGNORE}` | `QL022: it is small; QL004: a batch job` | {about} |"
    about = "what a container does on the simulated kernel; `simulate.qoslet/CONTAINER` is the older spelling"
    yield f"| `{SIMULATE}CONTAINER` | `threads=2 memory=200Mi after=3 lasts=60` | {about} |"


def lint_rules() -> Iterator[str]:
    """Every rule of lint."""
    yield "| id | severity | trap | what happens | write instead |"
    yield "|---|---|---|---|---|"
    for rule in rules().values():
        cells = (rule.id, rule.severity, rule.title, rule.why, rule.fix)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def own_node() -> Iterator[str]:
    """The fields of qoslet's own Node document."""
    yield "| field | takes | says | without it |"
    yield "|---|---|---|---|"
    for row in OWN_FIELDS:
        yield f"| `{row.name}` | {row.takes} | {row.means} | {row.absent} |"


def operating_systems() -> Iterator[str]:
    """Which hierarchy a node has by its OS image."""
    yield "| OS image | cgroup v1 | source |"
    yield "|---|---|---|"
    for row in OPERATING_SYSTEMS:
        if row.v1 is not None:
            unit = "Linux " if row.of_kernel else "Kubernetes " if row.mark else ""
            found = " and ".join(_range(low, high, unit) for low, high in row.v1) or "never"
            yield f"| {', '.join(row.names)} | {found} | {row.source} |"


def kubelet_fields() -> Iterator[str]:
    """The fields that qoslet reads, by the release that brought them."""
    yield "| since | fields that qoslet reads |"
    yield "|---|---|"
    read = {*READERS, "cgroupDriver", *UNUSED}
    for minor in sorted({SINCE[name] for name in read} - {0}):
        names = ", ".join(f"`{name}`" for name in SINCE if name in read and SINCE[name] == minor)
        yield f"| 1.{minor} | {names} |"
    names = ", ".join(f"`{name}`" for name in SINCE if name in read and not SINCE[name])
    yield f"| before | {names} |"


def _range(low: tuple[int, ...], high: tuple[int, ...], unit: str) -> str:
    """``before 21.10``, ``40 to 414``."""
    first, end = (unit + ".".join(map(str, one)) for one in (low, high))
    return f"before {end}" if low == (0,) else f"from {first}, before {end}"


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "json documents": documents,
    "exit codes": exit_codes,
    "audit verdicts": audit_verdicts,
    "annotations": pod_annotations,
    "lint rules": lint_rules,
    "kubelet fields": kubelet_fields,
    "own node": own_node,
    "operating systems": operating_systems,
}
