"""The documents of an OCI image, decoded and checked: index, manifest, configuration.

Everything in them is somebody else's word. Source: OCI image-spec 1.1 (image-index.md, manifest.md,
config.md, descriptor.md); Docker's schema 2, which has the same fields.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from qoslet.core.workload.oci.image_reference import is_digest

MOST_LAYERS = 256
DOCUMENT_BYTES = 4 * 1024 * 1024
"""What an index, a manifest or a configuration may have at most, as registries bound them."""

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


class ImagePlatform(Struct, frozen=True):
    """Where an image runs."""

    architecture: str = ""
    os: str = ""
    variant: str = ""


class Descriptor(Struct, frozen=True, rename="camel"):
    """What a document says of a blob. ``size`` is in bytes."""

    digest: str
    size: int
    media_type: str = ""
    annotations: dict[str, str] | None = None
    platform: ImagePlatform | None = None

    @property
    def nests(self) -> bool:
        """Whether it is an index itself."""
        return self.media_type in INDEXES


class Index(Struct, frozen=True):
    """The images of a layout, or the platforms of an image."""

    manifests: tuple[Descriptor, ...] = ()


class Manifest(Struct, frozen=True):
    """One image for one platform."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


class Execution(Struct, frozen=True, rename="pascal"):
    """What of an image's configuration is about its process."""

    user: str = ""
    env: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    working_dir: str = ""
    stop_signal: str = ""


class RootFs(Struct, frozen=True):
    """The layers by what they are unpacked."""

    diff_ids: tuple[str, ...] = ()


class ImageConfiguration(Struct, frozen=True):
    """The configuration of an image."""

    architecture: str = ""
    os: str = ""
    config: Execution | None = None
    rootfs: RootFs = RootFs()


T = TypeVar("T")


def decoded(data: bytes, kind: type[T], what: str) -> T:
    """A document; ValueError names the field that is wrong."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"{what}: {error}") from None


def index_of(data: bytes, what: str) -> Index:
    """An index with descriptors that can be checked. Raises ValueError."""
    found = decoded(data, Index, what)
    for one in found.manifests:
        _checked(one, what)
    return found


def manifest_of(data: bytes, what: str) -> Manifest:
    """A manifest with descriptors that can be checked. Raises ValueError."""
    found = decoded(data, Manifest, what)
    if len(found.layers) > MOST_LAYERS:
        raise ValueError(f"{what}: {len(found.layers)} layers, at most {MOST_LAYERS} are unpacked")
    for one in (found.config, *found.layers):
        _checked(one, what)
    return found


def configuration_of(data: bytes, manifest: Manifest, what: str) -> ImageConfiguration:
    """The configuration that belongs to a manifest. Raises ValueError."""
    found = decoded(data, ImageConfiguration, what)
    ids = found.rootfs.diff_ids
    if len(ids) != len(manifest.layers):
        raise ValueError(f"{what}: {len(ids)} diff_ids for {len(manifest.layers)} layers")
    wrong = [one for one in ids if not is_digest(one)]
    if wrong:
        raise ValueError(f"{what}: diff_id {wrong[0][:80]!r} is not a sha256 or sha512 digest")
    if found.os not in ("", "linux"):
        raise ValueError(f"{what}: an image for {found.os[:80]}, this is linux")
    return found


def _checked(one: Descriptor, what: str) -> None:
    """Raise ValueError where a blob could not be found and checked by this."""
    if not is_digest(one.digest):
        raise ValueError(f"{what}: {one.digest[:80]!r} is not a sha256 or sha512 digest")
    if not 0 <= one.size < 2**63:
        raise ValueError(f"{what}: {one.digest} has size {one.size}")


def architecture_of(machine: str) -> str:
    """What images call the architecture that ``uname -m`` calls ``machine``."""
    return _ARCHITECTURES.get(machine, machine)


def suited(entries: tuple[Descriptor, ...], architecture: str) -> Descriptor | None:
    """The entry of an image's index for this machine; the first without a platform, or None."""
    for one in entries:
        platform = one.platform
        if platform and (platform.os, platform.architecture) == ("linux", architecture):
            return one
    return next((one for one in entries if one.platform is None), None)


def command_of(
    image: Execution, command: tuple[str, ...], args: tuple[str, ...]
) -> tuple[str, ...]:
    """What is executed: ``command`` replaces the entrypoint and the image's command, ``args``
    only the latter. Source: core/v1 Container; containerd cri WithProcessArgs."""
    if command:
        return (*command, *args)
    return (*(image.entrypoint or ()), *(args or image.cmd or ()))
