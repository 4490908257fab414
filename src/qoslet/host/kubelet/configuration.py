"""A kubelet's command line and files to the configuration that it runs with."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from qoslet.core.node.command_line.parse import CommandLine, command_line
from qoslet.core.node.documents.sources import KUBELET_API
from qoslet.core.node.running_kubelet.effective import (
    Effective,
    Source,
    effective,
    with_absolute_paths,
)
from qoslet.errors import BadInput
from qoslet.host.files.bounds import FOLLOWED
from qoslet.host.kubelet.distributions import arguments_of
from qoslet.host.kubelet.process_files import ProcessFiles
from qoslet.host.kubelet.processes import KubeletProcess, age_seconds

_DROP_IN = ".conf"
_SLACK_SECONDS = 2.0


class Configuration(Struct, frozen=True):
    """What a kubelet was started with. ``effective`` is None where a file of it cannot be read,
    and ``fault`` says which. ``files`` were read; ``changed`` is one that was written after the
    kubelet started, so that what runs may be another, empty where there is none."""

    command: CommandLine
    effective: Effective | None
    files: tuple[str, ...] = ()
    fault: BadInput | None = None
    changed: str = ""

    @property
    def fields(self) -> Mapping[str, Any]:
        """What is known of the KubeletConfiguration; nothing where a file cannot be read."""
        return {} if self.effective is None else self.effective.document


def configuration(process: KubeletProcess) -> Configuration:
    """Read the files that the command line of ``process`` names, with its root as the root."""
    try:
        files = ProcessFiles(process.folder)
    except OSError as error:
        return Configuration(CommandLine(), None, fault=_unreadable(process.folder, error))
    with files:
        command = command_line(arguments_of(process, files))
        flags = Source(f"command line of process {process.pid}", command.fields)
        read: list[str] = []
        try:
            file = _file(files, command.path("config"), read)
            drop_ins = _drop_ins(files, command.path("config-dir"), read)
        except BadInput as fault:
            return Configuration(command, None, tuple(read), fault)
        made = effective(flags, file, drop_ins)
        return Configuration(command, made, tuple(read), changed=_changed(process, files))


def _changed(process: KubeletProcess, files: ProcessFiles) -> str:
    """The youngest file, if it was written after the process started."""
    age = age_seconds(process)
    written, path = files.newest
    return path if age is not None and written > time.time() - age + _SLACK_SECONDS else ""


def _unreadable(path: str, error: OSError) -> BadInput:
    hint = "run as root" if isinstance(error, PermissionError) else ""
    return BadInput(f"cannot be read: {error.strerror}", where=path, hint=hint)


def _file(files: ProcessFiles, path: str, read: list[str]) -> Source | None:
    """The document of ``--config``. Raises BadInput."""
    if not path:
        return None
    try:
        path = files.absolute(path)
        source = _document(files, path)
    except OSError as error:
        raise _unreadable(path, error) from None
    read.append(path)
    return Source(path, with_absolute_paths(source, os.path.dirname(path)))


def _drop_ins(files: ProcessFiles, path: str, read: list[str]) -> list[Source]:
    """The documents of ``--config-dir``, in the order in which a kubelet merges them. Raises
    BadInput."""
    found: list[Source] = []
    if not path:
        return found
    try:
        path = files.absolute(path)
        for name in files.walk(path):
            if name.endswith(_DROP_IN):
                found.append(Source(name, _document(files, name)))
                read.append(name)
    except OSError as error:
        raise _unreadable(error.filename or path, error) from None
    return found


def _document(files: ProcessFiles, path: str) -> dict[str, Any]:
    """The KubeletConfiguration of a file. Raises OSError, BadInput."""
    from qoslet.host.files.manifests import text_documents

    found = list(text_documents(files.read(path), path, FOLLOWED))
    for fault in found:
        if isinstance(fault, BadInput):
            raise fault
    documents = [one for one in found if not isinstance(one, BadInput)]
    if not documents:
        raise BadInput("contains no document", where=path)
    given = msgspec.json.decode(documents[0].data)
    if not isinstance(given, dict) or given.get("kind") != "KubeletConfiguration":
        raise BadInput("is not a KubeletConfiguration", where=path)
    if given.get("apiVersion") != KUBELET_API:
        raise BadInput("has another apiVersion", where=path, hint=f"qoslet reads {KUBELET_API}")
    return given
