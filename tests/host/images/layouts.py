"""OCI layouts made by tests: layers of entries as a tar writer would not write them, too."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def file(name: str, data: bytes = b"x", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, tarfile.REGTYPE, data, **more)


def folder(name: str, **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, tarfile.DIRTYPE, b"", **{"mode": 0o755, **more})


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, tarfile.SYMTYPE, b"", linkname=target)


def hard(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, tarfile.LNKTYPE, b"", linkname=target)


def entry(name: str, kind: bytes, data: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    # a test without rights can only have what is its own
    info.uid, info.gid = os.geteuid(), os.getegid()
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def layer(*entries: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A layer that is not compressed."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass
class Image:
    """An image to be written. ``spoil`` changes documents before they are."""

    layers: list[bytes]
    config: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    platform: dict[str, str] | None = None
    architecture: str = "amd64"
    packed: bool = True
    diff_ids: list[str] | None = None


def write(path: Path, *images: Image) -> Path:
    """A layout with these images at ``path``."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    rows = []
    for image in images:
        blobs = [gzip.compress(one, mtime=0) if image.packed else one for one in image.layers]
        ids = [digest_of(one) for one in image.layers]
        config = {
            "architecture": image.architecture,
            "os": "linux",
            "config": image.config,
            "rootfs": {"type": "layers", "diff_ids": image.diff_ids or ids},
        }
        kind = "tar+gzip" if image.packed else "tar"
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob(path, json.dumps(config).encode(), "config.v1+json"),
            "layers": [blob(path, one, f"layer.v1.{kind}") for one in blobs],
        }
        row = blob(path, json.dumps(manifest).encode(), "manifest.v1+json")
        if image.names:
            row["annotations"] = image.names
        if image.platform:
            row["platform"] = image.platform
        rows.append(row)
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": rows}))
    return path


def blob(path: Path, data: bytes, kind: str) -> dict[str, Any]:
    """Write a blob; its descriptor."""
    digest = digest_of(data)
    place = path / "blobs" / "sha256"
    place.mkdir(parents=True, exist_ok=True)
    (place / digest.partition(":")[2]).write_bytes(data)
    media = f"application/vnd.oci.image.{kind}"
    return {"mediaType": media, "digest": digest, "size": len(data)}


def archive(path: Path, layout: Path) -> Path:
    """A layout as an archive, such as ``docker save`` writes."""
    with tarfile.open(path, "w") as made:
        for one in sorted(layout.rglob("*")):
            made.add(one, one.relative_to(layout).as_posix(), recursive=False)
    return path


REF = "org.opencontainers.image.ref.name"
FULL = "io.containerd.image.name"
