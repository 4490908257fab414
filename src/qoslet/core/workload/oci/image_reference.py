"""Names of images, and which of those that a directory has a name means.

``busybox`` is ``docker.io/library/busybox:latest``, as Docker and the CRI runtimes read it. Source:
distribution/reference normalize.go; OCI image-spec annotations (org.opencontainers.image.ref.name),
which tools use for a tag as well as for a whole name; containerd's io.containerd.image.name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

DEFAULT_REGISTRY = "docker.io"
LONGEST = 1024

_REPOSITORY = re.compile(
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
)
_REGISTRY = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?|\[[0-9A-Fa-f:]+\](:[0-9]+)?"
)
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})")

_FULL, _REF = "io.containerd.image.name", "org.opencontainers.image.ref.name"


class Reference(Struct, frozen=True):
    """An image's name in full. ``tag`` is empty where only a ``digest`` was given."""

    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.repository}{tag}{'@' if self.digest else ''}{self.digest}"


def is_digest(text: str) -> bool:
    """Whether ``text`` is a digest that can be checked here: sha256 or sha512."""
    return _DIGEST.fullmatch(text) is not None


def reference(text: str) -> Reference:
    """The name in full; ValueError says what is wrong with it."""
    if len(text) > LONGEST:
        raise ValueError(f"{text[:40]!r}… is too long for an image name")
    rest, at, digest = text.partition("@")
    if at and not is_digest(digest):
        raise ValueError(f"{text!r}: {digest!r} is not a digest such as sha256:…")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:
        name, tag = rest, ""
    elif not _TAG.fullmatch(tag):
        raise ValueError(f"{text!r}: {tag!r} is not a tag")
    first, slash, others = name.partition("/")
    if slash and (first == "localhost" or set(".:") & set(first)) and _REGISTRY.fullmatch(first):
        registry, path = first.lower(), others
    else:
        registry, path = DEFAULT_REGISTRY, name if slash else f"library/{name}"
    if registry == DEFAULT_REGISTRY and "/" not in path:
        path = f"library/{path}"
    if not _REPOSITORY.fullmatch(path):
        raise ValueError(f"{text!r} is not an image name")
    return Reference(f"{registry}/{path}", tag or ("" if digest else "latest"), digest)


def goes_by(annotations: Mapping[str, str], place: str) -> frozenset[Reference]:
    """The names of an entry of an index, by its annotations. ``place`` is the name of its
    directory or archive: an entry that only has a tag goes by that, one without any by it alone."""
    given = [annotations[key] for key in (_FULL, _REF) if annotations.get(key)]
    texts = list(given)
    ref = annotations.get(_REF, "")
    if _TAG.fullmatch(ref):
        texts.append(f"{place}:{ref}")
    if not given:
        texts.append(place)
    return frozenset(found for text in texts if (found := _or_none(text)) is not None)


def _or_none(text: str) -> Reference | None:
    """A reference, None for what is not an image name."""
    try:
        return reference(text)
    except ValueError:
        return None


def means(wanted: Reference, names: frozenset[Reference], digest: str) -> bool:
    """Whether an entry with these ``names`` and this ``digest`` is the one that is wanted. A
    digest that is asked for decides; its repository need not be known."""
    if wanted.digest:
        return wanted.digest == digest
    return wanted in names
