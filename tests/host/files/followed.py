"""Followed manifest files, and watches that tell what a test says."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from qoslet.core.api.manifest_set import FileChange
from qoslet.errors import BadInput
from qoslet.host.files.watched_manifests import ManifestFiles
from qoslet.host.linux.inotify import DirectoryWatch, Event, Inotify

POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: {0}}}\nspec: {{containers: [{{name: c}}]}}\n"


class Time:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Heard:
    """A watch that tells what a test says, and refuses what it says."""

    def __init__(self, refuses: OSError | None = None) -> None:
        self.waiting: list[Event] = []
        self.later: list[Event] = []
        self.refuses = refuses

    def add(self, directory: str) -> None:
        if self.refuses is not None:
            raise self.refuses

    def drop(self, directory: str) -> None:
        pass

    def events(self) -> list[Event]:
        found, self.waiting = self.waiting, []
        self.waiting, self.later = self.later, []
        return found

    def descriptors(self) -> list[int]:
        return []

    def close(self) -> None:
        pass


Opening = Callable[..., ManifestFiles]


@pytest.fixture
def opened() -> Iterator[Opening]:
    made: list[ManifestFiles] = []

    def opening(
        *paths: Path | str,
        time: Time | None = None,
        stdin: bytes = b"",
        strict: bool = False,
        watch: Callable[[], DirectoryWatch] = Inotify,
        progress: Callable[[], None] = lambda: None,
        earlier: Mapping[str, tuple[int, int]] | None = None,
    ) -> ManifestFiles:
        texts = [str(path) for path in paths]
        made.append(
            ManifestFiles(
                texts,
                time or Time(),
                stdin=io.BytesIO(stdin),
                strict=strict,
                watch=watch,
                progress=progress,
                earlier=earlier,
            )
        )
        return made[-1]

    yield opening
    for files in made:
        files.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "manifests"
    found.mkdir(mode=0o755)
    return found


def write(path: Path, name: str) -> None:
    """As a careful writer does."""
    hidden = path.with_name(f".{path.name}.tmp")
    hidden.write_text(POD.format(name))
    os.rename(hidden, path)


def said(change: FileChange) -> str:
    """What a file says: its pods, its fault, or that it is gone."""
    if change.documents is None:
        return "gone"
    found = []
    for one in change.documents:
        if isinstance(one, BadInput):
            found.append(f"fault: {one.message}")
        else:
            value = bytes(one.data)
            found.append(value.split(b'"metadata":{"name":"')[1].split(b'"')[0].decode())
    return " ".join(found)


def told(files: ManifestFiles) -> dict[str, str]:
    return {os.path.basename(change.file): said(change) for change in files.changes()}


def rows(files: ManifestFiles) -> list[str]:
    return [f"{row.severity} {row.where}: {row.message}" for row in files.rows()]


# --- what a directory holds -------------------------------------------------------------------
