"""What the functions of the library take: keywords, flags as Python values, options as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from math import isfinite
from os import PathLike, fspath
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct, StructMeta

from qoslet.core.api.schema import child, encode_json, nearest
from qoslet.core.node.flags import FLAG_ROWS, FlagRow, Flags
from qoslet.errors import BadInput, BadInputs, UnknownArgument

P = ParamSpec("P")
T = TypeVar("T")


class _Keywords(StructMeta):
    """Of a class whose unknown keywords raise UnknownArgument."""

    def __call__(self, *args: Any, **given: Any) -> Any:
        """An instance."""
        for name in given:
            if name not in self.__struct_fields__:
                raise unknown_argument(self.__name__, name, self.__struct_fields__)
        return super().__call__(*args, **given)


class ConvertOptions(Struct, frozen=True, kw_only=True, metaclass=_Keywords):
    """The options of ``qoslet.convert``, to keep and to pass on; its keywords of the same names
    explain them."""

    runtime: str = "runc-1.4"
    driver: str = "cgroupfs"
    hierarchy: str | None = None
    update: bool = False
    before: Mapping[str, Any] | None = None
    usage: int | tuple[int, int] | None = None
    without: str | Sequence[str] = ()
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


def words(name: str, value: object) -> Sequence[str]:
    """A list, or its text as an option takes it: ``A,B``. Raises BadInput."""
    if isinstance(value, str):
        return value.split(",")
    must_be(name, value, Sequence, "such as ['swap'] or 'swap,rsvd'", what="text or a list")
    return value  # type: ignore[return-value]


def selector_text(value: object) -> str | None:
    """A selector; a map stands for the labels that must be equal."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return _pairs("selector", value, "=")
    message = f"is {type(value).__name__}, must be text or a map"
    raise BadInput(message, where="selector", hint='such as "app=web" or {"app": "web"}')


def document_text(value: object, name: str) -> str | bytes:
    """A document as text, decoded or not. Raises BadInput for what is none."""
    if isinstance(value, Mapping):
        return _encoded(value, name)
    if isinstance(value, str | bytes):
        return value
    message = f"is {type(value).__name__}, must be text or a mapping"
    raise BadInput(message, where=name, hint="read several documents as a List")


def _encoded(value: Mapping[Any, Any], name: str) -> bytes:
    try:
        found = encode_json(value)
    except (TypeError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        message = (
            "contains itself, or is nested too deeply"
            if deep
            else f"cannot be written as JSON: {error}"
        )
        raise BadInput(message, where=name, hint="give what YAML or JSON decodes to") from None
    # what is encoded as null may have been no number
    if b"null" in found and (path := _not_finite(value)):
        raise BadInput("is not a JSON number", where=f"{name}: {path}", hint="give a finite number")
    return found


def _not_finite(value: object, path: str = "") -> str:
    """The path of the first number that JSON has not; empty where all are finite."""
    if isinstance(value, float):
        return "" if isfinite(value) else path
    items: Iterable[tuple[str, object]] = ()
    if isinstance(value, Mapping):
        items = ((child(path, str(key)), item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        items = ((f"{path}[{at}]", item) for at, item in enumerate(value))
    return next(filter(None, (_not_finite(item, below) for below, item in items)), "")


def path_texts(paths: Sequence[object]) -> list[str]:
    """The paths of a call as text. Raises BadInput for what is no path."""
    found = []
    for path in paths:
        if isinstance(path, PathLike):
            path = fspath(path)
        if not isinstance(path, str):
            message = f"is {type(path).__name__}, must be text or a path"
            raise BadInput(message, where="paths", hint="give several one by one: *paths")
        found.append(path)
    return found


def must_be(name: str, value: object, expected: type, hint: str, *, what: str = "") -> None:
    """Raise BadInput for an argument of another type than ``expected``; ``what`` calls it otherwise."""
    if not isinstance(value, expected):
        message = f"is {type(value).__name__}, must be {what or f'a {expected.__name__}'}"
        raise BadInput(message, where=name, hint=hint)


def one_set(options: object, keywords: ConvertOptions) -> ConvertOptions:
    """The options of a call: an object or keywords. Raises BadInput for both."""
    if options is None:
        return keywords
    if not isinstance(options, ConvertOptions):
        message = f"is {type(options).__name__}, must be ConvertOptions"
        raise BadInput(message, where="options", hint="qoslet.ConvertOptions(runtime=...)")
    if keywords != ConvertOptions():
        hint = "put them all into ConvertOptions"
        raise BadInput("cannot be combined with keyword arguments", where="options", hint=hint)
    return options


_SHORT = {"-f": "paths", "-n": "namespace", "-l": "selector"}

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
    if fault.where in _SHORT:
        name = _SHORT[fault.where]
        return BadInput(fault.message, where=name, hint=fault.hint, fault_code=fault.fault_code)
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
    text = _scalar(row.field, value)
    if row.field == "kubernetes" and isinstance(value, float) and text in ("1.1", "1.2", "1.3"):
        hint = f'put it in quotes: "{text}0"?'
        raise BadInput(f"must be text, not the number {text}", where=row.field, hint=hint)
    return text


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
