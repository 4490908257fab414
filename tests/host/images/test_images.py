"""Images as somebody wants them to be: found by name, checked, unpacked, and nothing beside."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from qoslet.core.workload.oci.image_reference import reference
from qoslet.host.images.layers import Limits
from qoslet.host.images.layout import EXTENSION, Image, NotFound, find
from qoslet.host.images.store import Store
from qoslet.host.images.users import user_of
from qoslet.host.linux.programs import find_program
from tests.host.images import layouts
from tests.host.images.layouts import FULL, REF, entry, file, folder, hard, layer, link

Entry = tuple[tarfile.TarInfo, bytes]
SECONDS = 60.0

needs_umoci = pytest.mark.skipif(
    os.geteuid() != 0 or find_program("umoci") is None, reason="unpacking needs root and umoci"
)
pytestmark = needs_umoci


def found(path: Path, name: str = "app", architecture: str = "amd64") -> Image:
    return find((str(path),), reference(name), architecture)


def unpack(root: Path, *archives: bytes, most: int = 1 << 20, entries: int = 1000) -> None:
    """Make ``root`` of layers."""
    work = root.with_name(f"{root.name}.work")
    layouts.write(work / "app", layouts.Image(list(archives), packed=False))
    store = Store(str(work / "store"), Limits(most, entries, SECONDS))
    os.rename(store.unpacked(found(work)), root)


def tree(root: Path) -> dict[str, str]:
    """Everything below a directory: contents, targets of links, and / for directories."""
    seen = {}
    for one in sorted(root.rglob("*")):
        name = one.relative_to(root).as_posix()
        if one.is_symlink():
            seen[name] = f"-> {os.readlink(one)}"
        else:
            seen[name] = "/" if one.is_dir() else one.read_text()
    return seen


def outside(tmp_path: Path) -> dict[str, str]:
    return {name: what for name, what in tree(tmp_path).items() if not name.startswith("root")}


def left(tmp_path: Path) -> list[Path]:
    """What stands of images that were refused, locks aside."""
    return [one for one in tmp_path.glob("**/images/*") if one.suffix != ".lock"]


# -- names


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        ({REF: "1.36"}, "app:1.36"),
        ({REF: "docker.io/library/app:1.36"}, "app:1.36"),
        ({REF: "app:1.36"}, "docker.io/app:1.36"),
        ({FULL: "docker.io/library/app:latest", REF: "latest"}, "app"),
        ({FULL: "quay.io/x/app:v1", REF: "v1"}, "quay.io/x/app:v1"),
        ({}, "app:latest"),
        ({REF: "app"}, "app"),
    ],
)
def test_an_image_is_found_by_the_names_that_tools_write(
    tmp_path: Path, names: dict[str, str], asked: str
) -> None:
    layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))], names=names))
    assert found(tmp_path, asked).digest == found(tmp_path / "app", asked).digest
    with pytest.raises(NotFound, match="give its place with --images or --rootfs"):
        find((), reference("nginx"), "amd64")
    with pytest.raises(NotFound, match="is not in"):
        found(tmp_path, "other:1.36")
    with pytest.raises(NotFound):
        found(tmp_path, f"{asked.partition(':')[0]}:v2")


def test_an_image_is_found_by_its_digest(tmp_path: Path) -> None:
    layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))], names={REF: "1"}))
    digest = found(tmp_path, "app:1").digest
    assert found(tmp_path, f"whatever@{digest}").digest == digest
    with pytest.raises(NotFound):
        found(tmp_path, f"app@{digest[:-4]}0000")


def test_archives_are_layouts_too(tmp_path: Path) -> None:
    made = layouts.write(tmp_path / "made", layouts.Image([layer(file("a"))], names={REF: "app:1"}))
    folder = tmp_path / "images"
    folder.mkdir()
    one = layouts.archive(folder / "any.tar", made)
    assert (
        found(folder, "app:1").digest == found(one, "app:1").digest == found(made, "app:1").digest
    )
    image = found(one, "app:1")
    assert tree(Path(Store(str(tmp_path / "store")).unpacked(image))) == {"a": "x"}


def test_what_is_there_is_told(tmp_path: Path) -> None:
    layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))], names={REF: "1"}))
    (tmp_path / "old.tar").write_bytes(layer(file("manifest.json", b"[]")))
    with pytest.raises(NotFound) as error:
        found(tmp_path, "nginx")
    said = str(error.value)
    assert "docker.io/library/app:1" in said
    assert "skopeo copy docker-archive:FILE" in said


def test_the_platform_of_this_machine_is_taken(tmp_path: Path) -> None:
    both = [
        layouts.Image(
            [layer(file(name))],
            names={REF: "app:1"},
            platform={"os": "linux", "architecture": name},
            architecture=name,
        )
        for name in ("arm64", "amd64")
    ]
    layouts.write(tmp_path / "app", *both)
    one, two = (found(tmp_path, "app:1", name) for name in ("amd64", "arm64"))
    assert one.digest != two.digest
    with pytest.raises(ValueError, match="for amd64, arm64, this is s390x"):
        found(tmp_path, "app:1", "s390x")


# -- what is somebody else's word


@pytest.mark.parametrize("what", ["manifest", "config", "layer"])
def test_a_blob_that_is_another_is_refused(tmp_path: Path, what: str) -> None:
    layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))], packed=False))
    index = json.loads((tmp_path / "app/index.json").read_text())
    manifest = index["manifests"][0]
    blobs = tmp_path / "app/blobs"
    inner = json.loads((blobs / manifest["digest"].replace(":", "/")).read_text())
    chosen = {"manifest": manifest, "config": inner["config"], "layer": inner["layers"][0]}[what]
    path = blobs / chosen["digest"].replace(":", "/")
    data = path.read_bytes()
    store = Store(str(tmp_path / "store"))
    for changed, said in ((data[:-1] + b"!", "content is another|no tar"), (data + b" ", "bytes")):
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=said):
            store.unpacked(found(tmp_path))
        assert tree(tmp_path / "store/images") == locks(tmp_path)
    path.write_bytes(data)
    assert tree(Path(store.unpacked(found(tmp_path)))) == {"a": "x"}


def locks(tmp_path: Path) -> dict[str, str]:
    return {one.name: "" for one in (tmp_path / "store/images").glob("*.lock")}


def test_a_layer_that_is_not_what_the_configuration_says_is_refused(tmp_path: Path) -> None:
    wrong = [layouts.digest_of(b"another")]
    layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))], diff_ids=wrong))
    with pytest.raises(ValueError, match="the layer's content is another"):
        Store(str(tmp_path / "store")).unpacked(found(tmp_path))
    assert not list((tmp_path / "store/images").glob("sha256-*/rootfs"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "Expected `object`"),
        ("{", "truncated"),
        ('{"manifests":[{"digest":"sha256:x","size":1}]}', "not a sha256 or sha512 digest"),
        ('{"manifests":[{"digest":"md5:00","size":1}]}', "not a sha256"),
        ('{"manifests":[{"digest":"sha256:../../x","size":1}]}', "not a sha256"),
        ('{"manifests":[{"digest":"sha256:%s","size":-1}]}' % ("a" * 64), "has size -1"),
        (
            '{"manifests":[{"digest":"sha256:%s","size":"1"}]}' % ("a" * 64),
            r"\$.manifests\[0\].size",
        ),
        ("[" * 5000, "recursion|Expected"),
    ],
)
def test_bad_indexes_are_told_by_their_field(tmp_path: Path, text: str, said: str) -> None:
    path = layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))]))
    (path / "index.json").write_text(text)
    with pytest.raises(NotFound, match=said):
        found(tmp_path)


def test_documents_are_bounded(tmp_path: Path) -> None:
    path = layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))]))
    with open(path / "index.json", "r+b") as opened:
        opened.truncate(5 << 20)
    with pytest.raises(NotFound, match="at most"):
        found(tmp_path)
    row = {"digest": f"sha256:{'a' * 64}", "size": 1 << 40}
    (path / "index.json").write_text(json.dumps({"manifests": [row]}))
    with pytest.raises(ValueError, match="at most"):
        found(tmp_path)
    (path / "index.json").unlink()
    (path / "index.json").symlink_to("/etc/passwd")
    with pytest.raises(NotFound):
        found(tmp_path)


def test_an_image_is_unpacked_once(tmp_path: Path) -> None:
    layers = [layer(file("a")), layer(file("b"))]
    names = [{REF: "app:1"}, {REF: "app:2"}]
    layouts.write(tmp_path / "app", *(layouts.Image(layers, names=one) for one in names))
    store = Store(str(tmp_path / "store"))
    one = store.unpacked(found(tmp_path, "app:1"))
    before = os.stat(one)
    assert store.unpacked(found(tmp_path, "app:2")) == one
    assert os.stat(one) == before
    assert os.stat(tmp_path / "store/images").st_mode & 0o777 == 0o700


def test_a_store_that_others_may_look_into_is_refused(tmp_path: Path) -> None:
    layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))]))
    (tmp_path / "store").mkdir()
    (tmp_path / "store/images").mkdir(mode=0o755)
    with pytest.raises(ValueError, match="open to others"):
        Store(str(tmp_path / "store")).unpacked(found(tmp_path))


def test_what_a_killed_unpacker_left_is_begun_anew(tmp_path: Path) -> None:
    layouts.write(tmp_path / "app", layouts.Image([layer(file("a"))]))
    store = Store(str(tmp_path / "store"))
    whole = Path(store.unpacked(found(tmp_path))).parent
    half = whole.with_name(f"{whole.name}.new")
    whole.rename(half)
    (half / "rootfs/torn").write_text("x")
    assert tree(Path(store.unpacked(found(tmp_path)))) == {"a": "x"}
    assert not half.exists()


# -- layers


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
