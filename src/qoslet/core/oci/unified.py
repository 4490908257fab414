"""The unified map: files of a v2 cgroup, written unchanged after all that have a field.

Source: opencontainers/cgroups fs2.go setUnified, file.go WriteFileByLine (runc pull request
4186); crun cgroup-resources.c write_unified_resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qoslet.core.cgroup.file_catalog import INVALID, MISSING, read_only, unopened
from qoslet.core.oci.file_writes import FileWrites, refused
from qoslet.core.oci.result import Refusal, Stop

_RULE = "refused.unified"


def slashed(key: str, words: str) -> Stop:
    """The refusal of a key that is no file name."""
    return Stop(Refusal(f"unified.{key}", words, _RULE, (key, "no slashes")))


def undotted(key: str, words: str) -> Stop:
    """The refusal of a key that no file can have."""
    return Stop(Refusal(f"unified.{key}", words, _RULE, (key, "not CONTROLLER.PARAMETER")))


def opened(writes: FileWrites, key: str, value: str, dotless: str, absent: str) -> None:
    """Stop if the cgroup has no such file. The message is ``dotless`` for a key without a dot,
    ``absent`` for a missing controller, else the kernel's. Both are templates with ``key`` and
    ``controller``."""
    if not writes.checks:
        return
    field, features = f"unified.{key}", writes.features
    error = unopened(key, features)
    if error == MISSING:
        controller, dot, _ = key.partition(".")
        if not dot:
            raise undotted(key, dotless.format(key=key))
        available = features.controllers
        if available is not None and controller not in available and controller != "cgroup":
            words = absent.format(key=key, controller=controller)
            raise Stop(Refusal(field, words, _RULE, (key, f"no controller {controller!r}")))
    if error:
        raise Stop(refused(field, key, value, error, "no value: no cgroup has this file"))
    if value and read_only(key):
        raise Stop(refused(field, key, value, INVALID, "no value: the file is read-only"))


def lines(value: str) -> Iterator[str]:
    """The lines of a value, with their line ends."""
    while value:
        line, end, value = value.partition("\n")
        yield line + end


def write(writes: FileWrites, key: str, texts: Iterable[str]) -> None:
    """One write for each text that is not empty."""
    field = f"unified.{key}"
    for text in texts:
        if text:
            writes.put(key, text, field, "oci.unified", key)
