"""Finds and loads qoslet's own modules with the fewest system calls.

Python's own finder lists each folder and tries eight names for each module: a quarter of what
starting takes. Here one stat and one read do: a module is where its name says, and its compiled
form counts under the same conditions as for Python. Whatever else is met is left to Python.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from _imp import _fix_co_filename  # type: ignore[attr-defined]
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

_TAIL = f".{sys.implementation.cache_tag}.pyc"
_BY_TIME = MAGIC_NUMBER + bytes(4)
_WORD = 0xFFFFFFFF
_MOST = 1 << 16
"""Bytes of a compiled form that one read gives; a longer one is Python's to load."""


class _Loader(SourceFileLoader):
    """Python's loader, which skips what the finder knows already. ``compiled`` is where Python keeps
    the compiled form of the ``source``."""

    def __init__(self, name: str, path: str, compiled: str, source: os.stat_result) -> None:
        self.name, self.path = name, path
        self._compiled, self._source = compiled, source

    def get_code(self, fullname: str) -> CodeType | None:
        """The module's code: the compiled form, where it is that of the source as it is now."""
        try:
            descriptor = os.open(self._compiled, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.read(descriptor, _MOST)
            finally:
                os.close(descriptor)
        except OSError:
            return super().get_code(fullname)
        if data[:8] != _BY_TIME or not self._is_of_source(data[8:16]) or len(data) == _MOST:
            return super().get_code(fullname)
        code: CodeType = loads(memoryview(data)[16:])
        _fix_co_filename(code, self.path)
        return code

    def _is_of_source(self, stamp: bytes) -> bool:
        """Whether a compiled form's time and size are those of the source."""
        source = self._source
        written = (source.st_size & _WORD) << 32 | int(source.st_mtime) & _WORD
        return int.from_bytes(stamp, "little") == written


class _Finder:
    """The finder of the modules below ``package``."""

    def __init__(self, package: str) -> None:
        self._begin = f"{package}."

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module is; None where Python is to look for it."""
        if not name.startswith(self._begin) or path is None or len(path) != 1:
            return None
        folder, leaf = path[0], name.rpartition(".")[2]
        for place, file, package in ((folder, leaf, False), (f"{folder}/{leaf}", "__init__", True)):
            origin = f"{place}/{file}.py"
            try:
                source = os.stat(origin)
            except OSError:
                continue
            compiled = f"{place}/__pycache__/{file}{_TAIL}"
            loader = _Loader(name, origin, compiled, source)
            spec = ModuleSpec(name, loader, origin=origin, is_package=package)
            spec.has_location, spec.cached = True, compiled
            if package:
                spec.submodule_search_locations = [place]
            return spec
        return None


def find_own_modules(package: str) -> None:
    """Find the modules below a package that Python has loaded from a folder; from anything else,
    or with compiled forms elsewhere, everything stays as it is."""
    spec = sys.modules[package].__spec__
    usual = spec is not None and type(spec.loader) is SourceFileLoader
    if usual and not sys.flags.optimize and sys.pycache_prefix is None:
        sys.meta_path.insert(0, _Finder(package))
