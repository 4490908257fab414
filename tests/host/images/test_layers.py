"""The layers of an image, unpacked."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from qoslet.host.images.layers import Limits
from qoslet.host.images.layout import EXTENSION
from qoslet.host.images.store import Store
from qoslet.host.images.users import user_of
from tests.host.images import layouts
from tests.host.images.layouts import entry, file, folder, hard, layer, link
from tests.host.images.test_images import SECONDS, Entry, found, needs_umoci, outside, tree, unpack

pytestmark = needs_umoci


def test_layers_lie_on_top_of_each_other(tmp_path: Path) -> None:
    first = layer(
        folder("d"), file("d/a", b"1"), file("d/b", b"1"), file("e/f", b"1"), link("l", "d/a")
    )
    second = layer(file("d/a", b"2"), file("d/.wh.b"), file("e/.wh..wh..opq"), file("e/g", b"2"))
    unpack(tmp_path / "root", first, second)
    seen = tree(tmp_path / "root")
    assert seen == {"d": "/", "d/a": "2", "e": "/", "e/g": "2", "l": "-> d/a"}


def test_an_opaque_directory_keeps_what_came_with_it(tmp_path: Path) -> None:
    first = layer(file("d/old"), file("d/deep/old"))
    second = layer(file("d/new"), file("d/deep/new"), file("d/.wh..wh..opq"))
    unpack(tmp_path / "root", first, second)
    # what an earlier layer had below a directory of this one is its own affair
    assert {"d/new", "d/deep/new"} <= tree(tmp_path / "root").keys()
    assert "d/old" not in tree(tmp_path / "root")


def test_files_and_directories_replace_each_other(tmp_path: Path) -> None:
    first = layer(folder("a"), file("a/x"), file("b"), link("c", "a"))
    second = layer(file("a", b"2"), folder("b"), folder("c"), file("c/y"))
    unpack(tmp_path / "root", first, second)
    assert tree(tmp_path / "root") == {"a": "2", "b": "/", "c": "/", "c/y": "x"}


def test_modes_and_times_are_kept(tmp_path: Path) -> None:
    unpack(tmp_path / "root", layer(file("su", mode=0o4755, mtime=7), folder("t", mode=0o1777)))
    found = os.stat(tmp_path / "root/su")
    assert (found.st_mode & 0o7777, int(found.st_mtime)) == (0o4755, 7)
    assert os.stat(tmp_path / "root/t").st_mode & 0o7777 == 0o1777


def test_long_names_are_read_in_every_form(tmp_path: Path) -> None:
    name = "/".join(["d" * 100] * 3) + "/" + "ü" * 90
    for number, form in enumerate((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)):
        root = tmp_path / f"root{number}"
        unpack(root, layer(file(name), link("l", name), form=form))
        assert (root / name).read_text() == "x"
        assert os.readlink(root / "l") == name


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([file("../evil")], "has a '..'"),
        ([file("a/../../evil")], "has a '..'"),
        ([file("a"), hard("b", "../evil")], "has a '..'"),
        ([hard("b", "/etc/passwd")], "no such file"),
        ([link("l", "/"), hard("b", "l/etc/passwd")], "no such file"),
        ([hard("b", ".")], "links to the root"),
        ([folder("d"), hard("b", "d")], "operation not permitted"),
        ([entry("sda", tarfile.BLKTYPE)], "is a device"),
        ([entry("a/null", tarfile.CHRTYPE)], "is a device"),
        ([entry("odd", b"Z")], "unknown type"),
        ([entry("sparse", tarfile.GNUTYPE_SPARSE)], "sparse"),
        ([file(".wh.")], "hides no name"),
        ([file(".wh...")], "hides no name"),
        ([file("/")], "change type of root directory"),
        ([link("l", "")], "no such file"),
        ([link("a", "b"), link("b", "a"), file("a/x")], "too many levels of symbolic links"),
        ([file("f"), file("f/x")], "not a directory"),
        ([file("/".join("d" * 200) + "/x")], "directories deep"),
        ([file("n" * 300)], "file name too long"),
        ([file("big", b"x" * 2_000_000)], "2007040 bytes, at most 1048576"),
        ([file(f"f{number}", b"") for number in range(1100)], "more than 1000 entries"),
        ([file("a", uid=2**32 - 1)], "which cannot be"),
    ],
    ids=lambda value: None if isinstance(value, list) else value[:20],
)
def test_hostile_entries_are_refused_and_nothing_gets_out(
    tmp_path: Path, entries: list[Entry], said: str
) -> None:
    (tmp_path / "evil").write_text("untouched")
    with pytest.raises(ValueError, match=said):
        unpack(tmp_path / "root", layer(*entries))
    assert outside(tmp_path) == {"evil": "untouched"}


@pytest.mark.parametrize(
    "entries",
    [
        [link("out", ".."), file("out/evil", b"pwned")],
        [link("out", "../../../../.."), file("out/evil", b"pwned")],
        [link("d", "/"), file("d/evil", b"pwned")],
        [link("a", "b/.."), link("b", ".."), file("a/evil", b"pwned")],
        [link("evil", "../evil"), file("evil", b"pwned")],
        [link("l", "../evil"), hard("h", "l"), file("h", b"pwned")],
        [file("/evil", b"pwned"), file("//evil2", b"pwned")],
        [link("d", "../"), file("d/.wh.evil")],
        [folder("d"), link("d/up", "../../"), file("d/up/.wh..wh..opq")],
        [link("sub", "../evildir"), folder("sub"), file("sub/x", b"pwned")],
        [link("sub", "../evildir"), file("sub/x", b"pwned")],
    ],
    ids=range(11),
)
def test_links_lead_where_the_container_would_see_them(
    tmp_path: Path, entries: list[Entry]
) -> None:
    (tmp_path / "evil").write_text("untouched")
    (tmp_path / "evildir").mkdir()
    before = outside(tmp_path)
    for archives in ([layer(*entries)], [layer(one) for one in entries]):
        root = tmp_path / f"root{len(archives)}"
        try:
            unpack(root, *archives)
        except ValueError:
            continue
        finally:
            assert outside(tmp_path) == before


def test_devices_of_a_container_s_own_dev_are_left_out(tmp_path: Path) -> None:
    unpack(tmp_path / "root", layer(folder("dev"), entry("dev/null", tarfile.CHRTYPE)))
    assert tree(tmp_path / "root") == {"dev": "/"}
    with pytest.raises(ValueError, match="is a device"):
        unpack(
            tmp_path / "root2",
            layer(folder("d"), link("dev", "d"), entry("dev/x", tarfile.CHRTYPE)),
        )


def test_attributes_that_would_turn_an_overlay_are_left_out(tmp_path: Path) -> None:
    wanted = {
        "SCHILY.xattr.trusted.overlay.redirect": "/x",
        "SCHILY.xattr.user.overlay.opaque": "y",
    }
    unpack(tmp_path / "root", layer(file("a", pax_headers=wanted)))
    assert os.listxattr(tmp_path / "root/a") == []


@pytest.mark.parametrize(
    ("cut", "said"),
    [(700, "middle of an entry"), (100, "truncated header")],
)
def test_torn_archives_are_refused(tmp_path: Path, cut: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        unpack(tmp_path / "root", layer(file("a", b"y" * 2000))[:cut])


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    for data in (b"\x7fELF" + b"x" * 2000, b"x" * 512, bytes(range(256)) * 4):
        with pytest.raises(ValueError, match=r"invalid header|bad checksum|empty header"):
            unpack(tmp_path / "root", data)


def test_extended_headers_are_bounded(tmp_path: Path) -> None:
    huge = bytearray(layer(file("a" * 5000)))
    size = b"%011o\0" % (EXTENSION + 1)
    huge[124:136] = size
    total = sum(huge[:148]) + 8 * 32 + sum(huge[156:512])
    huge[148:156] = b"%06o\0 " % total
    with pytest.raises(ValueError, match="extended headers of"):
        unpack(tmp_path / "root", bytes(huge))
    for text in (b"4 a=\n", b"999999 a=b\n", b"x a=b\n", b"7 ab\n\n", b"6 a=b"):
        with pytest.raises(ValueError, match=r"invalid (tar )?header"):
            unpack(tmp_path / "root", _extended(text))


def _extended(text: bytes) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = b"x", len(text)
    padded = text + bytes(-len(text) % 512)
    return info.tobuf(tarfile.USTAR_FORMAT) + padded + layer(file("a"))


def test_bombs_cost_no_more_than_the_budget(tmp_path: Path) -> None:
    bomb = layer(file("a", bytes(60 << 20)))
    layouts.write(tmp_path / "app", layouts.Image([bomb]))
    image = found(tmp_path)
    assert image.manifest.layers[0].size < 1 << 20
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        Store(str(tmp_path / "store"), Limits(1 << 20, 1000, SECONDS)).unpacked(image)
    layouts.write(tmp_path / "app", layouts.Image([layer(file("a")) + bytes(60 << 20)]))
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        Store(str(tmp_path / "store"), Limits(1 << 20, 1000, SECONDS)).unpacked(found(tmp_path))


def test_zstd_is_told_apart(tmp_path: Path) -> None:
    path = layouts.write(
        tmp_path / "app", layouts.Image([b"\x28\xb5\x2f\xfd" + b"x" * 100], packed=False)
    )
    with pytest.raises(ValueError, match="skopeo copy --dest-compress-format gzip"):
        Store(str(tmp_path / "store")).unpacked(found(path))


# -- users


@pytest.fixture
def people(tmp_path: Path) -> str:
    root = tmp_path / "root"
    unpack(
        root,
        layer(
            file(
                "etc/real", b"root:x:0:0::/root:/bin/sh\nweb:x:101:102::/:/bin/sh\nbad:x:y:z::/:/\n"
            ),
            link("etc/passwd", "/etc/real"),
            file("etc/group", b"root:x:0:\nweb:x:102:\nmore:x:103:web,root\nno\n"),
        ),
    )
    return str(root)


@pytest.mark.parametrize(
    ("named", "uid", "gid", "is_"),
    [
        ("", None, None, (0, 0, (5, 103))),
        ("web", None, None, (101, 102, (5, 103))),
        ("101", None, None, (101, 102, (5, 103))),
        ("web:more", None, None, (101, 103, (5, 103))),
        ("web:7", None, None, (101, 7, (5, 103))),
        ("1234", None, None, (1234, 0, (5,))),
        ("web", 1000, None, (1000, 0, (5,))),
        ("root", 101, None, (101, 102, (5, 103))),
        ("web", None, 9, (101, 9, (5, 103))),
    ],
)
def test_users_of_an_image(
    people: str, named: str, uid: int | None, gid: int | None, is_: tuple[int, int, tuple[int, ...]]
) -> None:
    user = user_of(people, named, uid, gid, (5,))
    assert (user.uid, user.gid, user.groups) == is_


@pytest.mark.parametrize("named", ["nobody", "web:nobody", "bad", "-1", "4294967295"])
def test_users_that_an_image_does_not_have(people: str, named: str) -> None:
    with pytest.raises(ValueError, match="is not in its"):
        user_of(people, named, None, None, ())


def test_a_passwd_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    unpack(tmp_path / "root", layer(link("etc/passwd", "../../../evil"), folder("tmp")))
    (tmp_path / "evil").write_text("web:x:101:102::/:/bin/sh\n")
    with pytest.raises(ValueError, match="is not in its"):
        user_of(str(tmp_path / "root"), "web", None, None, ())
