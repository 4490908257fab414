"""Imports of typing, msgspec and argparse without the modules that they want and qoslet does not use.

The stand-ins last for one import: whoever imports such a module later gets the real one. Where a
stand-in does not fit a later version, the real modules are imported instead.
"""

from __future__ import annotations

import sys
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_LATER = ("inspect", "msgpack", "toml", "yaml")
_SUCCESS = 1
"""What the code of a pattern ends with."""
_NUMBERS = (r"^-\d", r"^-(?:\d", r"-(?:\d")
"""What the pattern of a negative number begins with, in each version of argparse."""


class _StandIn:
    """A module of these names."""

    def __init__(self, **names: object) -> None:
        vars(self).update(names)


class _Later:
    """A module that is imported where anything but these names of it is used."""

    def __init__(self, module: str, **names: object) -> None:
        vars(self).update(names, __spec__=None)
        self._module = module

    def __getattr__(self, name: str) -> object:
        module = self._module
        if isinstance(sys.modules.get(module), _Later):
            del sys.modules[module]
        return getattr(__import__(module), name)


class _Pattern:
    """A pattern that is compiled at its first use."""

    def __init__(self, text: str, flags: int) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> object:
        import re

        return getattr(re.compile(*self._given), name)


class _Number(_Pattern):
    """The pattern of a negative number, which every option that is added is compared with."""

    def match(self, text: str) -> object:
        """As that of a pattern."""
        second = text[1:2]
        if second == "-" or second.isalpha():
            return None
        return self.__getattr__("match")(text)  # type: ignore[operator]


def import_typing() -> None:
    """Import typing without ``re`` and ``warnings``: it has types of the first, and with the second
    it tells of what is outdated."""
    if "typing" in sys.modules:
        return
    if not _imported("typing", {**_patterns(), "warnings": _Later("warnings")}):
        import typing  # noqa: F401


def import_importlib() -> None:
    """Import importlib without ``warnings``, with which it tells of what is outdated."""
    if "importlib" in sys.modules:
        return
    if not _imported("importlib", {"warnings": _Later("warnings")}):
        import importlib  # noqa: F401


def _patterns() -> dict[str, object]:
    """``re`` as far as its types go, which are those of what it is made of."""
    try:
        from _sre import compile as compiled  # type: ignore[import-not-found]

        pattern = compiled("", 0, [_SUCCESS], 0, {}, (None,))
        return {"re": _Later("re", Pattern=type(pattern), Match=type(pattern.match("")))}
    except (ImportError, RuntimeError, TypeError, ValueError):
        return {}


def import_msgspec() -> None:
    """Import msgspec without its other formats and the types that qoslet never encodes.

    ``typing_extensions`` gives it one alias, which it takes from ``typing`` when the import
    fails. ``Decimal`` and ``UUID`` are unknown to it afterwards.
    """
    if "msgspec" in sys.modules:
        return
    import_typing()
    import typing

    # msgspec makes one to see which arguments it takes, and the first text that Python compiles
    # costs it the types of all syntax trees
    real = typing.ForwardRef
    typing.ForwardRef = partial(_forward_ref, real)  # type: ignore[misc, assignment]
    try:
        imported = _imported("msgspec", _beside_msgspec())
    finally:
        typing.ForwardRef = real  # type: ignore[misc]
    if imported:
        # ``msgspec.inspect`` takes it for granted that ``msgspec.msgpack`` is there
        vars(sys.modules["msgspec"])["__getattr__"] = _later
    else:
        import msgspec  # noqa: F401


def import_argparse() -> None:
    """Import argparse without ``gettext``, as nothing here is translated, and without ``re``: help
    and rare arguments need patterns."""
    if "argparse" in sys.modules:
        return
    apart = {
        "gettext": _StandIn(gettext=str, ngettext=_counted),
        "re": _Later("re", compile=_compiled_later, ASCII=256),
        "warnings": _Later("warnings"),
    }
    if not _imported("argparse", apart):
        import argparse  # noqa: F401


def _imported(name: str, apart: Mapping[str, object]) -> bool:
    """Import a module while ``apart`` stand in for others that are not imported yet; whether
    that worked."""
    apart = {key: value for key, value in apart.items() if key not in sys.modules}
    sys.modules.update(apart)  # type: ignore[arg-type]
    try:
        __import__(name)
    except (ImportError, AttributeError, TypeError):
        for key in [key for key in sys.modules if key.partition(".")[0] == name]:
            del sys.modules[key]
        return False
    finally:
        for key, value in apart.items():
            if sys.modules.get(key, value) is value:
                sys.modules.pop(key, None)
            above, _, attribute = key.rpartition(".")
            if above in sys.modules:
                vars(sys.modules[above]).pop(attribute, None)
    return True


def _beside_msgspec() -> dict[str, object]:
    """What stands in while msgspec is imported."""
    return {
        **_fast_datetime(),
        "re": _Later("re", compile=_compiled),
        "typing_extensions": None,
        "decimal": _StandIn(Decimal=type("Decimal", (), {})),
        "uuid": _StandIn(UUID=type("UUID", (), {}), SafeUUID=_StandIn(unknown=None)),
        "msgspec._json_schema": _StandIn(schema=_schema, schema_components=_schema_components),
        **{f"msgspec.{one}": _StandIn() for one in _LATER},
    }


def _later(name: str) -> object:
    """A module of msgspec that was left out."""
    if name not in _LATER:
        raise AttributeError(f"module 'msgspec' has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"msgspec.{name}")


def _forward_ref(real: Callable[..., object], arg: str, **options: object) -> object:
    return None if (arg, options) == ("Foo", {"is_class": True}) else real(arg, **options)


def _fast_datetime() -> dict[str, object]:
    """The types of ``datetime`` without the Python form of them, which it reads first (3.11)."""
    try:
        return {"datetime": __import__("_datetime")}
    except ImportError:
        return {}


def _schema(*args: object, **options: object) -> object:
    from msgspec import _json_schema

    return _json_schema.schema(*args, **options)  # type: ignore[arg-type]


def _schema_components(*args: object, **options: object) -> object:
    from msgspec import _json_schema

    return _json_schema.schema_components(*args, **options)  # type: ignore[arg-type]


def _compiled(pattern: str, flags: int = 0) -> object:
    """``re.compile``."""
    import re

    return re.compile(pattern, flags)


def _compiled_later(pattern: str, flags: int = 0) -> _Pattern:
    return (_Number if pattern.startswith(_NUMBERS) else _Pattern)(pattern, flags)


def _counted(one: str, many: str, count: int) -> str:
    return one if count == 1 else many
