"""Which files of a directory are read, by their names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from qoslet.core.api.schema import shown, shown_path

CHART_FILE = "Chart.yaml"
"""The file that makes a directory a Helm chart."""

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


def directory_entries(
    directory: str, strict: bool, recursive: bool
) -> tuple[list[str], frozenset[str]]:
    """``manifest_names`` and, if ``recursive``, the names of the directories to enter: as with
    kubectl none behind a link, and no hidden one. Raises what ``manifest_names`` does."""
    names = manifest_names(directory, strict)
    if not recursive:
        return names, frozenset()
    with os.scandir(directory) as entries:
        return names, frozenset(
            entry.name
            for entry in entries
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
        )


def with_directories(paths: Sequence[str]) -> list[str]:
    """The paths, each directory among them followed by those that it has now."""
    found = []
    for path in paths:
        found.append(path)
        if path != "-" and os.path.isdir(path):
            try:
                _, below = directory_entries(path, False, True)
            except OSError:
                continue
            found += with_directories([os.path.join(path, name) for name in sorted(below)])
    return found


def _files(directory: str, recursive: bool) -> Iterator[str]:
    """The manifests of a directory that can be read."""
    try:
        names, below = directory_entries(directory, False, recursive)
    except OSError:
        return
    for name in sorted({*names, *below}):
        full = os.path.join(directory, name)
        if name in below:
            yield from _files(full, recursive)
        elif not os.path.isdir(full):
            yield full


def manifest_files(paths: Sequence[str], recursive: bool = False) -> list[str]:
    """The files that ``paths`` name or hold."""
    return [
        file
        for path in paths
        for file in (_files(path, recursive) if os.path.isdir(path) else (path,))
    ]


def drop_ins(path: str) -> list[str]:
    """The drop-ins of a kubelet in a directory, in their order. Source: kubelet cmd/kubelet/app
    server.go, mergeKubeletConfigurations: *.conf, sorted by name."""
    if path == "-" or not os.path.isdir(path):
        return []
    # a directory that cannot be read is a fault of the documents in it
    with suppress(OSError):
        return sorted(
            os.path.join(path, name)
            for name in os.listdir(path)
            if name.endswith(".conf") and not name.startswith(".")
        )
    return []


def searched(paths: Sequence[str], recursive: bool = False) -> tuple[list[str], list[str]]:
    """The files that ``paths`` name or hold, as they are shown, and for each directory without
    any a sentence that says so."""
    files, bare = [], []
    for path in paths:
        if path == "-":
            files.append("stdin")
        elif not os.path.isdir(path):
            files.append(shown_path(path))
        elif found := list(_files(path, recursive)):
            files += [shown_path(name) for name in found]
        else:
            bare.append(_without_manifests(path, recursive))
    return files, bare


def _without_manifests(directory: str, recursive: bool) -> str:
    """What a directory has whose names are not those of manifests."""
    others = sorted(os.listdir(directory))
    if not recursive and next(_files(directory, True), None):
        return f"{shown(directory)} has manifests in its directories only: -R reads them"
    some = f", only {shown(others[0])}" if others else ""
    some += f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"{shown(directory)} has no *.yaml, *.yml or *.json{some}"
