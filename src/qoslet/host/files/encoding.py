"""What makes the bytes of a file no text."""

from __future__ import annotations

from qoslet.core.api.schema import shown
from qoslet.errors import BadInput

_CHUNK = 256 * 1024
"""Bytes of a piece: few enough to stay in the processor's cache."""
_COMPRESSED = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zX", "xz"),
    (b"BZh", "bzip2"),
)
"""How compressed files begin, and the program that unpacks them."""


def _is_tar(view: memoryview) -> bool:
    """Whether gzipped bytes hold an archive, such as a bundle."""
    import zlib

    try:
        head = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(view[:_CHUNK], 512)
    except zlib.error:
        return False
    return head[257:262] == b"ustar"


def encoding_fault(view: memoryview, file: str) -> BadInput | None:
    """What makes the bytes at ``view`` no UTF-8 text, looked for in pieces; None where they are."""
    first = bytes(view[:4])
    if first in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        return BadInput("is UTF-32", where=file, hint="save it as UTF-8")
    if first[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return BadInput("is UTF-16", where=file, hint="save it as UTF-8")
    for mark, program in _COMPRESSED:
        if first.startswith(mark):
            if program == "gzip" and _is_tar(view):
                hint = "name a file of qoslet bundle with --bundle, as plan, explain, diff, audit and top have it"
                return BadInput("is a gzipped tar, no manifest", where=file, hint=hint)
            hint = f"unpack it, such as with {program} -dc {shown(file)} | qoslet plan -f -"
            return BadInput(f"is compressed with {program}", where=file, hint=hint)
    decoder = None
    for start in range(0, view.nbytes, _CHUNK):
        chunk = bytes(view[start : start + _CHUNK])
        at = chunk.find(0)
        if at >= 0:
            hint = "give YAML or JSON text"
            return BadInput(f"is binary: byte {start + at} is NUL", where=file, hint=hint)
        if decoder is None:
            if chunk.isascii():
                continue
            from codecs import getincrementaldecoder

            decoder = getincrementaldecoder("utf-8")()
        try:
            decoder.decode(chunk, final=start + _CHUNK >= view.nbytes)
        except UnicodeDecodeError as error:
            message = f"is not UTF-8 near byte {start + error.start}"
            return BadInput(message, where=file, hint="save it as UTF-8")
    return None
