"""Whether a module of an optional dependency is there, without importing it."""

from __future__ import annotations

from importlib.util import find_spec


def is_installed(module: str) -> bool:
    """Whether ``google.protobuf`` or ``grpc`` can be imported. ``find_spec`` raises for a module
    whose package is not there, so the package is looked for first."""
    parts = module.split(".")
    names = (".".join(parts[: end + 1]) for end in range(len(parts)))
    return all(find_spec(name) is not None for name in names)
