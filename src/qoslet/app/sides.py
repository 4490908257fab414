"""The two sides of a comparison: one command line, and the options that differ on the other."""

from __future__ import annotations

import argparse
import copy
import io
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from qoslet.app.inputs import Inputs, note_origins, read
from qoslet.core.diff.rehearsals import rehearsal
from qoslet.core.node.flags import FLAG_ROWS
from qoslet.errors import BadInput
from qoslet.render.text.streams import note

if TYPE_CHECKING:
    from qoslet.core.resources.cgroup_tree import Plan

Texts = Mapping[str, list[str]]
"""Long options without their dashes, each with the values that are given."""

NODE_OPTIONS = frozenset(("node", *(row.names[0].removeprefix("--") for row in FLAG_ROWS)))
POD_OPTIONS = frozenset(
    ("filename", "recursive", "namespace", "selector", "resources", "expand", "bundle")
)
OPTIONS = NODE_OPTIONS | POD_OPTIONS
"""What may differ between the sides."""


def two_plans(args: argparse.Namespace, parser: argparse.ArgumentParser) -> tuple[Plan, Plan]:
    """The plans of both sides. ``parser`` is the one that made ``args``. Raises BadInput,
    BadInputs."""
    before, after = _texts(args)
    if args.live and args.bundle is None:
        _find_node(args)
    first, second = _both(args, parser, before, after)
    stdin = _Stdin(first)
    one = _read(stdin, first, again=not args.live)
    # what a pod is does not depend on the node, but for which node's pods are read
    same = not (after.keys() & {*POD_OPTIONS, "node-name", "node"})
    other = _read(stdin, second, one if same else None)
    if "node" in after and one.node.name and not other.node.name:
        note(
            "--to node replaces every --node, so the other side names no node (repeat --to node=FILE)"
        )
    if not args.live:
        note_origins(one.node)
    if (one.node.probed, one.node.assumed) != (other.node.probed, other.node.assumed):
        note_origins(other.node)
    return one.plan(), other.plan()


def node_sides(
    args: argparse.Namespace, parser: argparse.ArgumentParser
) -> tuple[argparse.Namespace, ...]:
    """The arguments of each side of a command whose nodes alone may differ; one side where nothing
    does. Raises BadInput."""
    if not args.to and not args.rehearse:
        return (args,)
    before, after = _texts(args)
    for key in (*before, *after):
        if key not in NODE_OPTIONS or key in ("node-name", "probe"):
            hint = "such as kubernetes=1.37 or node=new-kubelet.yaml"
            raise BadInput(f"{key} does not configure a node", where="--to", hint=hint)
    return _both(args, parser, before, after)


def _both(
    args: argparse.Namespace, parser: argparse.ArgumentParser, before: Texts, after: Texts
) -> tuple[argparse.Namespace, argparse.Namespace]:
    """The arguments of both sides. Raises BadInput."""
    first = _with(args, before, parser)
    return first, _with(first, after, parser)


def _texts(args: argparse.Namespace) -> tuple[Texts, Texts]:
    """What is given for each side. Raises BadInput."""
    given = _given(args.to)
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = dict(given)
    gates = given.get("feature-gates", [args.feature_gates or ""])[0]
    for name in args.rehearse:
        found = rehearsal(name)
        for options, side in ((found.before, before), (found.after, after)):
            for key, value in options.items():
                if side.setdefault(key, [value]) != [value]:
                    raise _contradiction(name, key, given if side is after else {})
        for gate, on in found.gates.items():
            wanted = str(on).lower()
            if "feature-gates" in given and _value_of(gates, gate) not in (None, wanted):
                raise _contradiction(name, "feature-gates", given)
            gates = ",".join(filter(None, (_without(gates, gate), f"{gate}={wanted}")))
            after["feature-gates"] = [gates]
    if not after:
        hint = "--to kubernetes=1.37, or --rehearse memory-qos"
        if len(getattr(args, "paths", ())) == 2:
            hint = f"both files are one side; to compare them: {args.paths[0]} --to filename={args.paths[1]}"
        raise BadInput("nothing differs on the other side", where="--to", hint=hint)
    return before, after


def _given(texts: Iterable[str]) -> Texts:
    """The values of ``--to`` by option. Raises BadInput for an option that has one and is given two."""
    found: dict[str, list[str]] = {}
    for key, value in map(_pair, texts):
        values = found.setdefault(key, [])
        values.append(value)
        if len(values) > 1 and (key not in ("node", "filename") or "" in values):
            raise BadInput(f"{key} is given twice", where="--to", hint="give it once")
    return found


def _contradiction(name: str, key: str, given: Texts) -> BadInput:
    """The fault of a rehearsal that sets an option to another value than what came before it."""
    if key in given:
        message = f"gives --{key} another value than --to {key}={given[key][0]}"
        return BadInput(message, where=f"--rehearse {name}", hint="leave one of them out")
    message = f"gives --{key} another value than a rehearsal before it"
    return BadInput(message, where=f"--rehearse {name}", hint="run diff for each")


def _value_of(gates: str, gate: str) -> str | None:
    """What a list of feature gates gives one of them; None where it does not name it."""
    pairs = (one.partition("=") for one in gates.split(","))
    return next((value.strip().lower() for name, _, value in pairs if name.strip() == gate), None)


def _without(gates: str, gate: str) -> str:
    parts = (one.strip() for one in gates.split(","))
    return ",".join(one for one in parts if one and one.partition("=")[0].strip() != gate)


def _pair(text: str) -> tuple[str, str]:
    """``KEY=VALUE`` of an option that may differ. Raises BadInput."""
    key, equals, value = text.partition("=")
    key = key.removeprefix("--")
    if not equals:
        raise BadInput(f"{text!r} is not KEY=VALUE", where="--to", hint="--to kubernetes=1.37")
    if key in OPTIONS:
        return key, value
    aliases = {name.removeprefix("--"): row.names[0] for row in FLAG_ROWS for name in row.names}
    if key in aliases:
        return aliases[key].removeprefix("--"), value
    from difflib import get_close_matches

    near = get_close_matches(key, sorted(OPTIONS), 1, 0.6)
    hint = f"did you mean {near[0]}?" if near else "KEY is a long option of qoslet plan"
    raise BadInput(f"unknown option {key!r}", where="--to", hint=hint)


def _with(
    args: argparse.Namespace, texts: Texts, parser: argparse.ArgumentParser
) -> argparse.Namespace:
    """The arguments with some options replaced. Raises BadInput."""
    made = copy.copy(args)
    for key, values in texts.items():
        action = parser._option_string_actions[f"--{key}"]
        if key == "filename":
            made.paths = []
        if values == [""]:
            setattr(made, action.dest, action.default)
        elif action.nargs == 0:
            setattr(made, action.dest, _switch(key, values[0]))
        else:
            words = [f"--{key}={value}" for value in values]
            setattr(made, action.dest, getattr(parser.parse_args(words), action.dest))
    return made


def _switch(key: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise BadInput(f"{key} is true or false, not {text!r}", where="--to", hint=f"{key}=true")
    return text == "true"


def _find_node(args: argparse.Namespace) -> None:
    """Find what runs here once for both sides. Raises BadInput, CannotDo."""
    from qoslet.app.node.found_node import find_node, kubelet_options
    from qoslet.app.own_tree import choose_source
    from qoslet.app.waiting import kubelet_waiting

    args.filename, args.paths = [*args.filename, *args.paths], []
    choose_source(args)
    if args.agent is None:
        with kubelet_waiting():
            args.found = find_node(kubelet_options(args))


def _read(
    stdin: _Stdin, args: argparse.Namespace, same: Inputs | None = None, *, again: bool = True
) -> Inputs:
    stdin.rewind()
    given = None if same is None else same.loaded
    return read(args, [*args.filename, *args.paths], given=given, again=again)


class _Stdin:
    """Standard input for both sides, where the first reads it."""

    def __init__(self, args: argparse.Namespace) -> None:
        reads = "-" in (*args.filename, *args.paths, *args.node, args.bundle)
        stream = getattr(sys.stdin, "buffer", None)
        self._data = stream.read() if reads and stream is not None else None

    def rewind(self) -> None:
        """Begin again."""
        if self._data is not None:
            sys.stdin = io.TextIOWrapper(io.BytesIO(self._data))
