"""The rest of the contract as plain data: flags, exit codes, metrics, schemas, the library.

Each part is kept as it is found in ``contract.json``; tests say what may come and what may not go.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.frozen.program import METRICS, ask, module_of, parser_of
from tests.frozen.store import FROZEN

Json = dict[str, Any]

COMMANDS = (
    "plan", "explain", "convert", "config", "doctor", "run", "ps", "logs", "apply", "release",
)  # fmt: skip
FILE = "contract.json"


def flags(command: str) -> Json:
    """A command's options and positional arguments; the first spelling is the name,
    a positional argument's its place."""
    found: Json = {}
    places = 0
    for action in parser_of(command)._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        name = action.option_strings[0] if action.option_strings else f"place {places}"
        places += not action.option_strings
        default = action.default
        plain = isinstance(default, (str, int, float, bool, list, type(None)))
        found[name] = {
            "spellings": sorted(action.option_strings),
            "choices": sorted(map(str, action.choices)) if action.choices else [],
            "default": default if plain else repr(default),
            "nargs": action.nargs,
            "repeats": isinstance(action, argparse._AppendAction),
        }
    return found


class Nothing:
    """Stands for a snapshot of nothing, whatever it is asked for."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: object) -> Any:
        return self

    def get(self, *_: object) -> None:
        return None

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0

    def __truediv__(self, other: object) -> float:
        return 0.0


def metrics() -> Json:
    """Every metric that may be printed: type, help, labels."""
    from prometheus_client.metrics_core import Metric

    module = module_of(METRICS)
    families: list[Any] = []
    kept = Metric.__init__

    def init(self: Any, *given: Any, **named: Any) -> None:
        kept(self, *given, **named)
        families.append(self)

    Metric.__init__ = init  # type: ignore[method-assign]
    try:
        text = module.exposition(Nothing()).decode()
    finally:
        Metric.__init__ = kept  # type: ignore[method-assign]
    labels = {family.name: list(family._labelnames) for family in families}
    found: Json = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split()
            bare = name if name in labels else name.removesuffix("_total")
            found[name] = {"type": kind, "labels": labels.get(bare, [])}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, help = line.removeprefix("# HELP ").partition(" ")
            found[name]["help"] = help
    return found


def schemas() -> Json:
    """The published schemas by name."""
    schema = import_module("qoslet.schema")
    return {name: json.loads(schema.text(name)) for name in schema.NAMES}


def library() -> Json:
    """The public names, and the parameters of the functions among them."""
    import qoslet

    found: Json = {}
    for name in qoslet.__all__:
        value = getattr(qoslet, name)
        found[name] = []
        if inspect.isfunction(value):
            found[name] = [
                {"name": one.name, "kind": one.kind.name, "default": _default(one)}
                for one in inspect.signature(value).parameters.values()
            ]
    return found


def _default(parameter: inspect.Parameter) -> str | None:
    return None if parameter.default is parameter.empty else repr(parameter.default)


def printed_schemas() -> Json:
    """What ``--schema`` prints by command, as the name of a schema."""
    texts = {json.dumps(schema): name for name, schema in schemas().items()}
    found: Json = {}
    rows = [["plan"], ["plan", "-o", "cri"], ["plan", "-o", "oci"], ["explain"], ["convert"]]
    rows += [["config"], ["apply"], ["release"], ["ps"], ["ps", "-o", "stats"]]
    for argv in rows:
        code, out, _ = ask([*argv, "--schema"])
        name = texts.get(json.dumps(json.loads(out))) if out else None
        found[" ".join(argv)] = {"code": code, "schema": name}
    return found


def doctor() -> Json:
    """The keys of what ``doctor`` prints; the values are this machine's."""
    document = json.loads(ask(["doctor", "-o", "json"]).out)
    rows = {tuple(row) for row in document["findings"]}
    return {"document": list(document), "findings": sorted(map(list, rows))}


def machine() -> str:
    """Tells machines apart that answer otherwise: their mounts of cgroups, and the user."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    groups = [line.split()[4] for line in mounts if " - cgroup" in line]
    return f"uid {os.geteuid()}: {' '.join(sorted(groups))}"


def found() -> Json:
    """Everything, of this source tree."""
    return {
        "flags": {command: flags(command) for command in COMMANDS},
        "metrics": metrics(),
        "printed schemas": printed_schemas(),
        "library": library(),
        "doctor": doctor(),
        "schemas": schemas(),
        "machine": machine(),
    }


def kept(path: Path = FROZEN / FILE) -> Json:
    """Everything, as it was frozen."""
    document: Json = json.loads(path.read_text(encoding="utf-8"))
    return document


def write(path: Path = FROZEN / FILE) -> None:
    """Freeze it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
