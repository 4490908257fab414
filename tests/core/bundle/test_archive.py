"""Archives: what is packed comes back, GNU tar reads it, and hostile ones are refused."""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.bundle.archive import (
    MEMBERS_MOST,
    STREAMS_MOST,
    UNPACKED_MOST,
    pack,
    unpack,
)
from qoslet.core.bundle.parts import PARTS
from qoslet.errors import BadInput

FEW = {"machine.yaml": b"kind: Node\n", "pods.json": b"{}", "units.jsonl": b""}


def tar(members: Iterable[tuple[tarfile.TarInfo, bytes]], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A gzipped tar as Python's own library writes it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=form) as archive:
        for info, data in members:
            info.size = len(data) if info.isreg() else 0
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, **more: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in more.items():
        setattr(info, field, value)
    return info


def refused(data: bytes) -> str:
    with pytest.raises(BadInput) as caught:
        unpack(data, "b.tgz")
    return str(caught.value)


@given(st.dictionaries(st.sampled_from(sorted(PARTS)), st.binary(max_size=2000), min_size=1))
def test_what_is_packed_comes_back(parts: dict[str, bytes]) -> None:
    found = unpack(pack(parts, modified=1_790_000_000), "b.tgz")
    assert (found.parts, found.unknown) == (parts, ())
    with tarfile.open(fileobj=io.BytesIO(pack(parts)), mode="r:gz") as archive:
        assert archive.getnames() == list(parts)
        assert {one.mode for one in archive} == {0o600}


def test_the_same_parts_make_the_same_bytes() -> None:
    assert pack(FEW, modified=7) == pack(FEW, modified=7)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("begin", ["", "./", "incident/"])
def test_what_other_programs_pack_is_read(form: int, begin: str) -> None:
    long = begin + "x" * 90 + ".txt"
    members = [
        (member(begin + name, mtime=1.5 if form == 1 else 1), data) for name, data in FEW.items()
    ]
    members.append((member(long), b"?"))
    folders = [(member(begin.rstrip("/"), tarfile.DIRTYPE), b"")] if begin else []
    found = unpack(tar([*folders, *members], form), "b.tgz")
    assert found.parts == FEW
    assert [one[:60] for one in found.unknown] == [long.removeprefix("./")[:60]]


@pytest.mark.skipif(shutil.which("tar") is None, reason="no tar")
def test_tar_unpacks_and_packs_it_again(tmp_path: Path) -> None:
    (tmp_path / "b.tgz").write_bytes(pack(FEW))
    subprocess.run(["tar", "xzf", "b.tgz"], cwd=tmp_path, check=True)
    assert {name: (tmp_path / name).read_bytes() for name in FEW} == FEW
    subprocess.run(["tar", "czf", "c.tgz", *FEW], cwd=tmp_path, check=True)
    assert unpack((tmp_path / "c.tgz").read_bytes(), "c.tgz").parts == FEW


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("pods.json", tarfile.SYMTYPE, "b.tgz: pods.json: is a link"),
        ("pods.json", tarfile.LNKTYPE, "b.tgz: pods.json: is a link"),
        ("other", tarfile.SYMTYPE, "b.tgz: other: is a link"),
        ("pods.json", tarfile.CHRTYPE, "is a device"),
        ("pods.json", tarfile.BLKTYPE, "is a device"),
        ("pods.json", tarfile.FIFOTYPE, "is a FIFO"),
        ("pods.json", tarfile.GNUTYPE_SPARSE, "not a regular file"),
        ("pods.json", tarfile.CONTTYPE, "not a regular file"),
        ("/etc/passwd", tarfile.REGTYPE, "/etc/passwd: is a path outside of the archive"),
        ("../pods.json", tarfile.REGTYPE, "is a path outside of the archive"),
        ("a/../../pods.json", tarfile.REGTYPE, "is a path outside of the archive"),
        ("..", tarfile.DIRTYPE, "is a path outside of the archive"),
    ],
)
def test_what_is_no_plain_file_in_it_is_refused(name: str, kind: bytes, said: str) -> None:
    assert said in refused(
        tar([(member("machine.yaml"), b""), (member(name, kind, linkname="/etc/shadow"), b"")])
    )


@pytest.mark.parametrize(
    "names",
    [("pods.json", "pods.json"), ("pods.json", "./pods.json"), ("a/pods.json", "pods.json")],
)
def test_a_name_twice_is_refused(names: tuple[str, str]) -> None:
    assert "pods.json: is in it twice" in refused(tar((member(name), b"{}") for name in names))


def test_a_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(UNPACKED_MOST + 1), 9)
    assert len(bomb) < 100_000
    assert "unpacks to more than 64 MiB" in refused(bomb)
    half = gzip.compress(bytes(UNPACKED_MOST // 2 + 1), 9)
    assert "unpacks to more than 64 MiB" in refused(half + half)


def test_very_many_members_and_streams_are_refused() -> None:
    many = tar((member(f"x{at}"), b"") for at in range(MEMBERS_MOST + 1))
    assert f"more than {MEMBERS_MOST} files" in refused(many)
    assert "is damaged" in refused(gzip.compress(b"") * (STREAMS_MOST + 1))


@pytest.mark.parametrize(
    "size", [b"\x80" + b"\xff" * 11, b"\xff" * 12, b"-0000000001\0", b"0x000000010\0", b" " * 12]
)
def test_a_size_that_is_none_is_refused(size: bytes) -> None:
    header = bytearray(gzip.decompress(pack(FEW)))
    header[124:136] = size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    assert "is not a tar" in refused(gzip.compress(header))


def test_a_size_beyond_the_end_is_refused() -> None:
    header = bytearray(gzip.decompress(pack(FEW)))
    header[124:136] = b"77777777777\0"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    assert "is cut off" in refused(gzip.compress(header))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (bytes(600), "is empty"),
        (b"hello", "is not gzip"),
        (b"PK\x03\x04", "is not gzip"),
        (gzip.compress(b"", mtime=0), "holds no part of a bundle"),
        (gzip.compress(b"hello", mtime=0), "is cut off"),
        (gzip.compress(b"x" * 1024, mtime=0), "is not a tar"),
        (pack({}), "holds no part of a bundle"),
        (pack(FEW)[:-20], "is cut off"),
        (pack(FEW)[:5], "is cut off"),
        (pack(FEW) + b"more", "is damaged"),
    ],
)
def test_what_is_no_bundle_says_so(data: bytes, said: str) -> None:
    assert said in refused(data)


@given(st.data())
def test_damage_never_ends_in_a_traceback(data: st.DataObject) -> None:
    whole = gzip.decompress(pack(FEW))
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.binary(min_size=1, max_size=40))
    damaged = whole[:at] + byte + whole[at + len(byte) :]
    try:
        found = unpack(gzip.compress(damaged, 1), "b.tgz").parts.keys()
    except BadInput:
        found = PARTS.keys()
    assert found <= PARTS.keys()
