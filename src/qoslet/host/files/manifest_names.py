"""Which files of a directory are manifests, by their names."""

from __future__ import annotations

import os
from collections.abc import Sequence

from qoslet.core.api.schema import shown

SUFFIXES = (".yaml", ".yml", ".json")


def is_manifest(name: str) -> bool:
    """Whether an entry of a directory is read, by its name."""
    return not name.startswith(".") and name.endswith(SUFFIXES)


def manifest_names(directory: str, strict: bool) -> list[str]:
    """The entries of a directory that are read, sorted; directories may be among them. Raises
    OSError, and with ``strict`` BadInput where another user can change its path."""
    if not strict:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if is_manifest(entry.name))
    from qoslet.host.files.trusted_path import open_trusted

    descriptor = open_trusted(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(descriptor) as entries:
            return sorted(entry.name for entry in entries if is_manifest(entry.name))
    finally:
        os.close(descriptor)


def searched(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files that ``paths`` name or hold, as they are shown, and for each directory without
    any a sentence that says so."""
    files, bare = [], []
    for path in paths:
        if path == "-":
            files.append("stdin")
        elif not os.path.isdir(path):
            files.append(shown(path))
        elif names := manifest_names(path, strict=False):
            files += [shown(os.path.join(path, name)) for name in names]
        else:
            bare.append(_without_manifests(path))
    return files, bare


def _without_manifests(directory: str) -> str:
    """What a directory has whose names are not those of manifests."""
    others = sorted(os.listdir(directory))
    some = f", only {shown(others[0])}" if others else ""
    some += f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"{shown(directory)} has no *.yaml, *.yml or *.json{some}"
