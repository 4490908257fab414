"""What the functions of the library take: keywords, flags as Python values, options as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

from qoslet.core.api.schema import nearest
from qoslet.core.node.flags import FLAG_ROWS, FlagRow, Flags
from qoslet.errors import BadInput, BadInputs, UnknownArgument

P = ParamSpec("P")
T = TypeVar("T")


class ConvertOptions(Struct, frozen=True, kw_only=True):
    """The options of ``qoslet.convert``, to keep and to pass on; its keywords of the same names
    explain them."""

    runtime: str = "runc-1.4"
    driver: str = "cgroupfs"
    hierarchy: str | None = None
    update: bool = False
    before: Mapping[str, Any] | None = None
    usage: int | tuple[int, int] | None = None
    without: Sequence[str] = ()
    isolation: str = "process"
    processors: int | None = None
    precedence: bool = False
    kernel: str | None = None


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function; a keyword that it lacks raises UnknownArgument with the one that is meant."""
    code = function.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in known:
                raise unknown_argument(function.__name__, name, known)
        return function(*args, **kwargs)

    return call


def one_set(options: object, keywords: ConvertOptions) -> ConvertOptions:
    """The options of a call: an object or keywords. Raises BadInput for both."""
    if options is None:
        return keywords
    if not isinstance(options, ConvertOptions):
        message = f"is {type(options).__name__}, must be ConvertOptions"
        raise BadInput(message, where="options", hint="qoslet.ConvertOptions(runtime=...)")
    if keywords != ConvertOptions():
        hint = "put them all into ConvertOptions"
        raise BadInput("cannot stand beside keywords", where="options", hint=hint)
    return options


_ROWS = {row.field: row for row in FLAG_ROWS}


def flags_from(given: Mapping[str, object]) -> Flags:
    """The flags of keywords. A map stands for ``KEY=VALUE,...``, a list for ``A,B``, a boolean
    and a number for themselves, None for a flag that is not given. Raises BadInputs."""
    faults: list[BadInput] = []
    texts: dict[str, str] = {}
    for name, value in given.items():
        if name not in _ROWS:
            faults.append(unknown_argument("load_node", name, tuple(_ROWS)))
        elif value is not None:
            try:
                texts[name] = _text(_ROWS[name], value)
            except BadInput as fault:
                faults.append(fault)
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise BadInputs(faults)
    return Flags(**texts)


def unknown_argument(function: str, name: str, known: tuple[str, ...]) -> UnknownArgument:
    """The fault of a keyword that a function does not have."""
    hint = nearest(name, known) or f"known are {', '.join(known)}"
    return UnknownArgument(f"has no keyword {name}", where=f"{function}()", hint=hint)


def as_arguments(fault: BadInput) -> BadInput:
    """A fault of flags as one of keywords: ``kube_reserved.cpu`` for ``--kube-reserved.cpu``."""
    if isinstance(fault, BadInputs):
        return BadInputs([as_arguments(each) for each in fault.faults])
    if not fault.where.startswith("--"):
        return fault
    head, dot, rest = fault.where.removeprefix("--").partition(".")
    where = head.replace("-", "_") + dot + rest
    return BadInput(fault.message, where=where, hint=fault.hint, fault_code=fault.fault_code)


def _text(row: FlagRow, value: object) -> str:
    if isinstance(value, Mapping):
        return _map(row, value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return _list(row, value)
    return _scalar(row.field, value)


def _scalar(place: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise BadInput(
        f"is {type(value).__name__}, must be text", where=place, hint="give text, a number or a map"
    )


def _pairs(place: str, value: Mapping[object, object], sign: str) -> str:
    words = []
    for key, amount in value.items():
        word = f"{key}{sign}{_scalar(f'{place}.{key}', amount)}"
        if any(mark in word for mark in ",;"):
            raise BadInput("contains , or ;", where=f"{place}.{key}", hint="give one value a key")
        words.append(word)
    return ",".join(words)


def _map(row: FlagRow, value: Mapping[object, object]) -> str:
    if row.shape in ("pairs", "gates"):
        return _pairs(row.field, value, "=")
    if row.shape == "below":
        return _pairs(row.field, value, "<")
    if row.shape == "swap" and set(value) == {"swapBehavior"}:
        return _scalar(row.field, value["swapBehavior"])
    if row.shape == "nodes":
        return ";".join(_numa(row.field, number, limits) for number, limits in value.items())
    raise BadInput("takes no map", where=row.field, hint=f"the form is {row.metavar}")


def _list(row: FlagRow, value: Sequence[object]) -> str:
    if row.shape == "nodes":
        entries = [each for each in value if isinstance(each, Mapping)]
        return ";".join(_numa(row.field, e.get("numaNode"), e.get("limits")) for e in entries)
    if row.shape != "list":
        raise BadInput("takes no list", where=row.field, hint=f"the form is {row.metavar}")
    return ",".join(_scalar(f"{row.field}[{n}]", each) for n, each in enumerate(value))


def _numa(place: str, number: object, limits: object) -> str:
    if not isinstance(limits, Mapping):
        hint = "such as {0: {'memory': '1Gi'}}"
        raise BadInput("must give the amounts of each NUMA node", where=place, hint=hint)
    return f"{number}:{_pairs(f'{place}.{number}', limits, '=')}"
