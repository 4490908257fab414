"""The objects of ``deploy/``: as Kustomize puts them together, and as Helm renders the chart."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from qoslet.core.node.cluster.rights import RIGHTS, Use
from tests.paths import REPO

DEPLOY = REPO / "deploy"
KUSTOMIZE, CHART = DEPLOY / "kustomize", DEPLOY / "helm" / "qoslet"
Objects = dict[tuple[str, str], dict[str, Any]]


def rules_of(use: Use) -> dict[str, tuple[str, ...]]:
    """The verbs by resource that a use takes."""
    return {one.resource: one.verbs for one in RIGHTS if one.use == use}


def documents(text: str) -> Iterator[dict[str, Any]]:
    """The objects of a YAML text."""
    yield from (one for one in yaml.safe_load_all(text) if one is not None)


def kustomized(*components: str) -> Objects:
    """The base with components, by kind and name. ConfigMaps keep their names."""
    found: Objects = {}
    folders = [KUSTOMIZE / "base", *(KUSTOMIZE / "components" / one for one in components)]
    for folder in folders:
        (head,) = documents((folder / "kustomization.yaml").read_text())
        for name in head.get("resources", ()):
            for one in documents((folder / name).read_text()):
                found[one["kind"], one["metadata"]["name"]] = one
        for made in head.get("configMapGenerator", ()):
            data = {name: (folder / name).read_text() for name in made["files"]}
            metadata = {"name": made["name"], "namespace": made.get("namespace", "qoslet")}
            metadata |= {"labels": one} if (one := made["options"].get("labels")) else {}
            found["ConfigMap", made["name"]] = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": data,
            }
        for patch in head.get("patches", ()):
            target = found[patch["target"]["kind"], patch["target"]["name"]]
            steps = yaml.safe_load((folder / patch["path"]).read_text())
            if isinstance(steps, dict):
                _delete(target, steps)
                continue
            for step in steps:
                _patch(target, step)
    return found


def _patch(target: Any, step: Mapping[str, Any]) -> None:
    """A step of a JSON patch. Raises ValueError where a test fails."""
    *way, last = step["path"].strip("/").split("/")
    for name in way:
        target = target[int(name)] if isinstance(target, list) else target[name]
    if last == "-":
        target.append(step["value"])
        return
    place = int(last) if isinstance(target, list) else last
    if step["op"] == "test":
        if target[place] != step["value"]:
            raise ValueError(step["path"])
    elif step["op"] == "remove":
        del target[place]
    else:
        assert step["op"] == "add" or target[place]
        target[place] = step["value"]


def _delete(target: Any, patch: Mapping[str, Any]) -> None:
    """A strategic merge patch that does no more than to delete items of lists by name."""
    for name, part in patch.items():
        if isinstance(part, dict):
            _delete(target[name], part)
        elif isinstance(part, list):
            assert all(one.keys() == {"name", "$patch"} for one in part)
            gone = {one["name"] for one in part if one["$patch"] == "delete"}
            target[name] = [one for one in target[name] if one["name"] not in gone]


def chart(*lacks: str, **values: Any) -> Objects:
    """The chart with values over its own, released into the namespace ``qoslet``; ``lacks`` are none of
    an earlier one whose values are used again."""
    given = _merged(yaml.safe_load((CHART / "values.yaml").read_text()), values)
    given = {name: value for name, value in given.items() if name not in lacks}
    found: Objects = {}
    for path in sorted((CHART / "templates").glob("*.yaml")):
        for one in documents(rendered(path, given)):
            found[one["kind"], one["metadata"]["name"]] = one
    return found


def _merged(values: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Values under others, as Helm puts them together: maps by their keys."""
    found = dict(values)
    for name, value in over.items():
        below = found.get(name)
        both = isinstance(below, dict) and isinstance(value, dict)
        found[name] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return found


_ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}")


def rendered(path: Path, values: Mapping[str, Any]) -> str:
    """A template that uses no more than values, ``if``, ``else``, ``toYaml`` and files."""
    lines: list[str] = []
    shown = [True]
    for line in path.read_text().splitlines():
        found = _ACTION.fullmatch(line.strip())
        words = found[1].split() if found else []
        if words[:1] == ["if"]:
            shown.append(_holds(words[1:], values))
        elif words == ["else"]:
            shown[-1] = not shown[-1]
        elif words == ["end"]:
            shown.pop()
        elif all(shown) and found and line.lstrip().startswith("{{-"):
            # the dash takes the newline before it away
            lines.append(_value(words, values).removeprefix("\n"))
        elif all(shown):
            lines.append(_ACTION.sub(lambda one: _value(one[1].split(), values), line))
    assert shown == [True], f"{path}: an if has no end"
    return "\n".join(lines) + "\n"


def _holds(words: list[str], values: Mapping[str, Any]) -> bool:
    if words[0] == "eq":
        return bool(_at(words[1], values) == words[2].strip('"'))
    return bool(_at(words[0], values))


def _at(name: str, values: Mapping[str, Any]) -> Any:
    top = {"Values": values, "Release": {"Namespace": "qoslet"}}
    value: Any = top
    for part in name.strip(".").split("."):
        # values of an earlier chart lack what is new in this one
        value = value.get(part)
    return value


def _value(words: list[str], values: Mapping[str, Any]) -> str:
    if words[0] == ".Files.Get":
        text = (CHART / words[1].strip('"')).read_text()
        return "\n" + textwrap.indent(text.rstrip("\n"), " " * int(words[4]))
    if words[0] != "toYaml":
        return str(_at(words[0], values))
    value = _at(words[1], values)
    text = "null" if value is None else yaml.safe_dump(value, sort_keys=False)
    assert words[2:4] == ["|", "nindent"]
    return "\n" + textwrap.indent(text.rstrip("\n"), " " * int(words[4]))
