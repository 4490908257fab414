"""Images as somebody wants them to be: found by name, checked, unpacked, and nothing beside."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from qoslet.core.workload.oci.image_reference import reference
from qoslet.host.images.layers import Limits
from qoslet.host.images.layout import Image, NotFound, find
from qoslet.host.images.store import Store
from qoslet.host.linux.programs import find_program
from tests.host.images import layouts
from tests.host.images.layouts import FULL, REF, file, layer

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
