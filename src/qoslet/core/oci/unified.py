"""The unified map: files of a v2 group, written as they are, after all that has a field.

Source: opencontainers/cgroups fs2.go setUnified, file.go WriteFileByLine (runc pull request
4186); crun cgroup-resources.c write_unified_resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qoslet.core.cgroup.file_catalog import INVALID, MISSING, read_only, unopened
from qoslet.core.oci.file_writes import Pen, refused
from qoslet.core.oci.result import Refusal, Stop

_RULE = "refused.unified"


def slashed(key: str, words: str) -> Stop:
    """The refusal of a key that is no file name."""
    return Stop(Refusal(f"unified.{key}", words, _RULE, (key, "no slashes")))


def undotted(key: str, words: str) -> Stop:
    """The refusal of a key that no file can have."""
    return Stop(Refusal(f"unified.{key}", words, _RULE, (key, "not CONTROLLER.PARAMETER")))


def opened(pen: Pen, key: str, value: str, dotless: str, absent: str) -> None:
    """Stop where the group has no such file: in the words ``dotless`` for a key without a dot,
    ``absent`` for one of a controller that is not there, the kernel's for others. Both are patterns
    with ``key`` and ``controller``."""
    if not pen.judges:
        return
    field, ground = f"unified.{key}", pen.ground
    error = unopened(key, ground)
    if error == MISSING:
        controller, dot, _ = key.partition(".")
        if not dot:
            raise undotted(key, dotless.format(key=key))
        there = ground.controllers
        if there is not None and controller not in there and controller != "cgroup":
            words = absent.format(key=key, controller=controller)
            raise Stop(Refusal(field, words, _RULE, (key, f"no controller {controller!r}")))
    if error:
        raise Stop(refused(field, key, value, error, "no value: no cgroup has this file"))
    if value and read_only(key):
        raise Stop(refused(field, key, value, INVALID, "no value: the file is read-only"))


def lines(value: str) -> Iterator[str]:
    """A value line by line, each with its end."""
    while value:
        line, end, value = value.partition("\n")
        yield line + end


def write(pen: Pen, key: str, texts: Iterable[str]) -> None:
    """Each text by a write of its own; an empty one is none."""
    field = f"unified.{key}"
    for text in texts:
        if text:
            pen.put(key, text, field, "oci.unified", key)
