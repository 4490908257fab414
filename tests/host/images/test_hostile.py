"""Images that were made to cost: memory, time, disk and inodes stay bounded whatever they claim."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
import tracemalloc
import zlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.workload.oci.image import MOST_LAYERS
from qoslet.host.images.layers import LayerChecker, Limits
from qoslet.host.images.layout import EXTENSION, EXTENSIONS, Image, NotFound
from qoslet.host.images.store import Store
from tests.host.images import layouts
from tests.host.images.layouts import REF, entry, file, folder, layer, link
from tests.host.images.test_images import SECONDS, found, left, locks, needs_umoci, tree, unpack

pytestmark = needs_umoci


def claimed(kind: bytes, size: bytes, data: bytes = b"") -> bytes:
    """An entry whose header says ``size``, whatever its ``data`` are."""
    made = bytearray(entry("x", kind)[0].tobuf(tarfile.USTAR_FORMAT))
    made[124:136] = size
    made[148:156] = b" " * 8
    made[148:156] = b"%06o\0 " % sum(made)
    return bytes(made) + data + bytes(-len(data) % 512)


def octal(size: int) -> bytes:
    return b"%011o\0" % size


def extension(kind: bytes, text: bytes) -> bytes:
    return claimed(kind, octal(len(text)), text)


def record(key: str, value: str) -> bytes:
    rest = len(f" {key}={value}\n")
    length = next(one for one in range(rest, rest + 9) if one == rest + len(str(one)))
    return f"{length} {key}={value}\n".encode()


def records(number: int) -> bytes:
    """Attributes that no other ``number`` has, about 100 KiB."""
    return b"".join(record(f"SCHILY.xattr.user.{number}.{one}", "v" * 60) for one in range(1100))


HEADERS = {
    "pax": b"".join(extension(b"x", records(number)) for number in range(12)),
    "pax, nobody's": extension(b"x", b"".join(record(f"{n:x}", "") for n in range(60_000))) * 3,
    "global": extension(b"g", record("comment", "c" * 600_000)) * 2,
    "names": extension(b"L", b"n" * 600_000) * 2,
    "links": extension(b"K", b"n" * 600_000) * 2,
    "all": b"".join(extension(kind, b"n" * 300_000) for kind in (b"L", b"K", b"L", b"K")),
}


@pytest.mark.parametrize("made", HEADERS.values(), ids=HEADERS.keys())
def test_extended_headers_are_bounded_together(tmp_path: Path, made: bytes) -> None:
    with pytest.raises(ValueError, match=f"extended headers of .* at most {EXTENSION}"):
        unpack(tmp_path / "root", made + layer(file("a")), most=1 << 30)


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_extended_headers_without_an_entry_are_counted(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(ValueError, match=f"more than {EXTENSIONS} extended headers"):
        unpack(tmp_path / "root", extension(kind, b"") * (EXTENSIONS + 1))
    one = extension(kind, b"n" if kind in b"LK" else b"") + layer(file("a"))[:1024]
    if kind == b"g":
        with pytest.raises(ValueError, match=r"unknown typeflag|global extended header"):
            unpack(tmp_path / "root", one * 40)
    else:
        unpack(tmp_path / "root", one * 40)


def test_extended_headers_are_spent_from_the_budget(tmp_path: Path) -> None:
    one = extension(b"x", record("comment", "c" * 100_000)) + layer(file("a"))[:1024]
    with pytest.raises(ValueError, match=r"layers of .* bytes, at most 1048576"):
        unpack(tmp_path / "root", one * 12)
    unpack(tmp_path / "root2", one * 12, most=1 << 30, entries=100)
    assert tree(tmp_path / "root2") == {"a": "x"}


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (b"\xff" * 12, "size is negative"),
        (b"\x80" + b"\0" * 3 + b"\x7f" + b"\xff" * 7, "a size of 9223372036854775807 bytes|middle"),
        (b"\x80" + b"\0" * 6 + b"\1" + b"\0" * 4, "middle of an entry"),
        (b"77777777777\0", "middle of an entry"),
        (b"-1\0" + bytes(9), "size is negative|invalid"),
        (b"0000000001x\0", "invalid header"),
        (octal(1 << 19), "middle of an entry"),
    ],
    ids=str,
)
def test_sizes_that_are_claimed(tmp_path: Path, size: bytes, said: str) -> None:
    for extended in (b"", extension(b"x", record("mtime", "1"))):
        with pytest.raises(ValueError, match=said):
            unpack(tmp_path / "root", extended + claimed(b"0", size, b"x" * 512))
    path = tmp_path / "app.tar"
    path.write_bytes(claimed(b"0", size, b"x" * 512))
    with pytest.raises(NotFound, match=said):
        found(path)


@pytest.mark.parametrize("size", ["-1", "1e9", "9" * 19, "9" * 30, ""])
def test_sizes_of_extended_headers(tmp_path: Path, size: str) -> None:
    made = extension(b"x", record("size", size)) + claimed(b"0", octal(1), b"x")
    with pytest.raises(ValueError, match=r"is not a number|a size of|negative|invalid"):
        unpack(tmp_path / "root", made)


def test_sparse_files_of_every_form_are_refused(tmp_path: Path) -> None:
    for key in ("GNU.sparse.major", "GNU.sparse.map", "GNU.sparse.realsize"):
        with pytest.raises(ValueError, match="sparse"):
            unpack(tmp_path / "root", extension(b"x", record(key, "1")) + layer(file("a")))


def test_names_are_as_long_as_the_kernel_s(tmp_path: Path) -> None:
    for key in ("path", "linkpath"):
        with pytest.raises(ValueError, match="a name of 5000 bytes"):
            unpack(tmp_path / "root", extension(b"x", record(key, "n" * 5000)) + layer(file("a")))


def test_directories_on_the_way_are_entries(tmp_path: Path) -> None:
    deep = [file(f"{number}/" + "d/" * 120 + "f") for number in range(10)]
    with pytest.raises(ValueError, match="more than 1000 entries"):
        unpack(tmp_path / "root", layer(*deep))
    assert sum(len(folders) for _, folders, _ in os.walk(tmp_path / "root")) <= 1000


def test_ways_through_links_are_bounded_together(tmp_path: Path) -> None:
    far = [folder("d"), link("l0", "d/../" * 80 + "d")]
    far += [link(f"l{one}", "d/../" * 80 + f"l{one - 1}") for one in range(1, 30)]
    made = layer(*far, *(file(f"l29/f{one}") for one in range(30)))
    # umoci goes the way in bounded steps: it is unpacked, or refused within its time
    unpack(tmp_path / "root", made)
    assert len(tree(tmp_path / "root/d")) == 30


def test_many_small_entries_take_little_memory(tmp_path: Path) -> None:
    way = "/".join(["d" * 60] * 60)
    made = layer(*(file(f"{way}/{number}") for number in range(300)))
    image = packed(tmp_path, made, made)
    [one], [diff_id] = image.manifest.layers, image.configuration.rootfs.diff_ids
    for measured in (False, True):
        (tmp_path / f"blobs{measured}").mkdir()
        checker = LayerChecker(f"{tmp_path}/blobs{measured}", Limits(1 << 30, 10_000, SECONDS))
        if measured:
            tracemalloc.start()
        with image.layout.blob(one) as blob:
            checker.add(blob, one, diff_id)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # no name of it is kept, 300 of 3700 bytes each: two buffers are
    assert most < 1_200_000, most


def test_an_opaque_directory_is_looked_through_once(tmp_path: Path) -> None:
    files = [file(f"f{number}") for number in range(400)]
    marks = [file(".wh..wh..opq")] * 400
    # looked through for each mark, it would take 160 000 steps
    unpack(tmp_path / "root", layer(file("old")), layer(*files, *marks))
    assert len(tree(tmp_path / "root")) == 400


def test_directories_with_more_names_than_are_read_at_once(tmp_path: Path) -> None:
    many = layer(*(file(f"d/{number}", b"") for number in range(1000)))
    opaque = layer(file("d/new"), file("d/.wh..wh..opq"))
    unpack(tmp_path / "root", many, opaque, most=1 << 30, entries=10_000)
    assert tree(tmp_path / "root") == {"d": "/", "d/new": "x"}
    unpack(tmp_path / "root2", many, layer(file("d")), most=1 << 30, entries=10_000)
    assert tree(tmp_path / "root2") == {"d": "x"}


def test_many_devices_are_left_out(tmp_path: Path) -> None:
    many = [entry(f"dev/{number}", tarfile.CHRTYPE) for number in range(109)]
    unpack(tmp_path / "root", layer(*many))
    assert tree(tmp_path / "root") == {"dev": "/"}


def packed(path: Path, data: bytes, content: bytes, size: int | None = None) -> Image:
    """An image whose layer is ``data`` as it lies there, and ``content`` without its gzip."""
    ids = [layouts.digest_of(content)]
    layouts.write(path / "app", layouts.Image([data], packed=False, diff_ids=ids))
    image = found(path)
    if size is None:
        return image
    [one] = image.manifest.layers
    bigger = replace(one, size=size)
    return replace(image, manifest=replace(image.manifest, layers=(bigger,)))


def test_gzip_streams_one_after_another(tmp_path: Path) -> None:
    one, two = layer(file("a"))[:1024], layer(file("b"))
    both = gzip.compress(one) + bytes(700) + gzip.compress(b"") * 3 + gzip.compress(two) + bytes(9)
    image = packed(tmp_path, both, one + two)
    assert tree(Path(Store(str(tmp_path / "store")).unpacked(image))) == {"a": "x", "b": "x"}
    many = packed(tmp_path, gzip.compress(one + two) + gzip.compress(b"") * 400, one + two)
    few = Store(str(tmp_path / "few"), Limits(1 << 20, 10, SECONDS))
    assert tree(Path(few.unpacked(many))) == {"a": "x", "b": "x"}
    endless = packed(tmp_path, gzip.compress(one + two) + gzip.compress(b"") * 400_000, one + two)
    with pytest.raises(ValueError, match=r"more than 0.5 seconds"):
        Store(str(tmp_path / "late"), Limits(1 << 24, 10, 0.5)).unpacked(endless)
    assert left(tmp_path / "late") == []


@pytest.mark.parametrize("cut", [1, 9, 700, 0])
def test_gzip_that_ends_in_the_middle(tmp_path: Path, cut: int) -> None:
    content = layer(file("a", os.urandom(3000)))
    whole = gzip.compress(content)
    data = whole[:-cut] if cut else whole + whole[:15]
    made = packed(tmp_path, data, zlib.decompressobj(31).decompress(data))
    with pytest.raises(ValueError, match="in the middle"):
        Store(str(tmp_path / "store")).unpacked(made)
    assert not list((tmp_path / "store/images").glob("sha256-*/rootfs"))


def test_bombs_of_headers_and_of_layers(tmp_path: Path) -> None:
    bomb = extension(b"x", record("comment", "c" * 1_000_000)) + layer(file("a"))[:1024]
    layouts.write(tmp_path / "app", layouts.Image([bomb] * 5))
    with pytest.raises(ValueError, match="more than 4194304 bytes"):
        Store(str(tmp_path / "store"), Limits(4 << 20, 1000, SECONDS)).unpacked(found(tmp_path))
    small = [layer(*(file(f"{number}.{one}") for one in range(30))) for number in range(5)]
    layouts.write(tmp_path / "app", layouts.Image(small))
    with pytest.raises(ValueError, match="more than 100 entries"):
        Store(str(tmp_path / "store"), Limits(4 << 20, 100, SECONDS)).unpacked(found(tmp_path))
    assert tree(tmp_path / "store/images") == locks(tmp_path)


def test_layers_of_more_than_an_image_may_have_are_not_opened(tmp_path: Path) -> None:
    image = packed(tmp_path, layer(file("a")), layer(file("a")), size=5 << 20)
    with pytest.raises(ValueError, match="layers of 5242880 bytes, at most 4194304"):
        Store(str(tmp_path / "store"), Limits(4 << 20, 1000, SECONDS)).unpacked(image)


def test_archives_that_are_layouts_are_bounded(tmp_path: Path) -> None:
    made = layouts.write(tmp_path / "made", layouts.Image([layer(file("a"))]))
    whole = layouts.archive(tmp_path / "app.tar", made).read_bytes()
    assert found(tmp_path / "app.tar").execution.user == ""
    many = extension(b"x", b"") * (EXTENSIONS + 1)
    huge = claimed(b"0", b"\x80" + b"\0" * 4 + b"\x3f" + b"\xff" * 6)
    for first, said in ((many, "extended headers"), (huge * 3, "in the middle of an entry")):
        (tmp_path / "app.tar").write_bytes(first + whole)
        with pytest.raises(NotFound, match=said):
            found(tmp_path / "app.tar")


def test_documents_that_are_huge_and_deep(tmp_path: Path) -> None:
    path = layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))]))
    row = '{"digest":"sha256:%s","size":%s}'
    texts = {
        '{"x":' + "[" * 4_000_000: "recursion",
        '{"manifests":[' + '{"annotations":' * 100_000: "recursion|Expected",
        '{"manifests":[%s]}' % (row % ("a" * 64, "9" * 400)): "has size 999|out of range",
        '{"manifests":[%s]}' % (row % ("a" * 64, "9" * 3_000_000)): "out of range",
        '{"manifests":[%s]}' % (row % ("a" * 64, "1e300")): "got `float`",
    }
    for text, said in texts.items():
        (path / "index.json").write_text(text)
        with pytest.raises(NotFound, match=said) as error:
            found(tmp_path)
        assert len(str(error.value)) < 1500


def test_what_is_told_of_documents_is_bounded(tmp_path: Path) -> None:
    path = layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))]))
    rows = [
        {"digest": f"sha256:{one:064x}", "size": 1, "annotations": {REF: f"app{one}:1"}}
        for one in range(20_000)
    ]
    (path / "index.json").write_text(json.dumps({"manifests": rows}))
    with pytest.raises(NotFound, match="and more") as error:
        found(tmp_path)
    assert len(str(error.value)) < 1000
    rows = [
        {"digest": f"sha256:{one:064x}", "size": 1, "platform": {"architecture": f"{one}" * 500}}
        for one in range(500)
    ]
    (path / "index.json").write_text(json.dumps({"manifests": rows}))
    with pytest.raises(ValueError, match="this is amd64") as refused:
        found(tmp_path)
    assert len(str(refused.value)) < 1000


def test_indexes_inside_indexes_end(tmp_path: Path) -> None:
    path = layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))]))
    index = json.loads((path / "index.json").read_text())
    for depth in range(4):
        (path / "index.json").write_text(json.dumps(index))
        if depth < 3:
            assert found(tmp_path).layout.name == "app"
        else:
            with pytest.raises(ValueError, match="indexes inside indexes"):
                found(tmp_path)
        index = {"manifests": [layouts.blob(path, json.dumps(index).encode(), "index.v1+json")]}


def test_a_manifest_has_a_bounded_number_of_layers(tmp_path: Path) -> None:
    layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))] * (MOST_LAYERS + 1)))
    with pytest.raises(ValueError, match="257 layers, at most 256"):
        found(tmp_path)
