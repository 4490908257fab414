"""A containerd of the tests' own, with images made here: no registry, nothing of the system's."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path

IMAGE = "localhost/qoslet/busybox:1"
PAUSE = "localhost/qoslet/pause:1"
_PROGRAMS = [
    "sh",
    "sleep",
    "cat",
    "dd",
    "env",
    "hostname",
    "id",
    "kill",
    "ls",
    "mkdir",
    "printf",
    "sort",
    "sync",
    "tee",
    "touch",
    "true",
    "false",
    "yes",
    "wc",
]

CONFIG = """
version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", \
"io.containerd.snapshotter.v1.devmapper", "io.containerd.tracing.processor.v1.otlp", \
"io.containerd.internal.v1.tracing"]
[grpc]
  address = "{address}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{root}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = {restricted}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{root}/none"
    conf_dir = "{root}/none"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = {systemd}
        BinaryName = "{oci}"
[plugins."io.containerd.nri.v1.nri"]
  disable = {without_nri}
  disable_connections = false
  plugin_path = "{root}/none"
  plugin_config_path = "{root}/none"
  socket_path = "{nri}"
"""


class Containerd:
    """One that runs while it is entered; ``folder`` holds all that it has. ``oci`` is the runtime
    below it. ``nri``: plugins are heard at ``nri_socket``."""

    def __init__(
        self, folder: Path, *, systemd: bool = False, oci: str = "runc", nri: bool = False
    ) -> None:
        self.folder = folder
        self.nri_socket = folder / "nri.sock"
        self.address = str(folder / "containerd.sock")
        self.endpoint = f"unix://{self.address}"
        self.log = folder / "containerd.log"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(
            CONFIG.format(
                root=folder / "root",
                state=folder / "state",
                address=self.address,
                pause=PAUSE,
                systemd=str(systemd).lower(),
                restricted=str(not _may_lower_scores()).lower(),
                oci=shutil.which(oci) or oci,
                nri=self.nri_socket,
                without_nri=str(not nri).lower(),
            )
        )

    def begin(self) -> None:
        """Start it and wait until it answers."""
        command = [
            "containerd",
            "--config",
            str(self.folder / "config.toml"),
            "--log-level",
            "warn",
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 60
        while self.ctr("version", check=False).returncode:
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            assert time.monotonic() < deadline, self.log.read_text()[-2000:]
            time.sleep(0.05)

    @property
    def version(self) -> str:
        """Of the one that runs, such as 1.7.24."""
        told = self.ctr("version").stdout.partition("Server:")[2]
        return told.partition("Version:")[2].split()[0].lstrip("v")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it, its containers stay."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(30)
            self.process = None

    def ctr(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Its own client."""
        command = ["ctr", "--address", self.address, "--namespace", "k8s.io", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert not check or not done.returncode, done.stderr
        return done

    def import_images(self) -> None:
        """Give it the images of the tests."""
        for name, command in ((IMAGE, ["sh"]), (PAUSE, ["sleep", "1000000000"])):
            archive = self.folder / "image.tar"
            write_image(archive, name, command, _layer())
            self._import(archive)

    def import_tree(self, name: str, tree: Path) -> None:
        """Give it an image of what a folder holds."""
        layer, archive = io.BytesIO(), self.folder / "image.tar"
        with tarfile.open(fileobj=layer, mode="w") as made:
            made.add(tree, arcname=".")
        write_image(archive, name, [], layer.getvalue())
        self._import(archive)

    def _import(self, archive: Path) -> None:
        self.ctr("images", "import", str(archive))
        archive.unlink()

    def shims(self) -> list[int]:
        """The shims that are its own."""
        found = []
        for one in Path("/proc").iterdir():
            if one.name.isdigit():
                try:
                    words = (one / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if b"shim" in words[0] and self.address.encode() in words:
                    found.append(int(one.name))
        return found

    def told(self) -> str:
        """What there is to see of shims that should be gone, and the end of the log."""
        rows = []
        for pid in self.shims():
            place = Path(f"/proc/{pid}")
            rows.append(
                f"{pid}: in {os.readlink(place / 'cwd')}, {(place / 'cgroup').read_text()!r}"
            )
        return "\n".join([*rows, self.log.read_text()[-2000:]])

    def mounts(self) -> list[str]:
        """What is mounted below its folder."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return [p for line in lines if (p := line.split()[4]).startswith(f"{self.folder}/")]

    def __enter__(self) -> Containerd:
        self.begin()
        self.import_images()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(signal.SIGTERM)
        for pid in self.shims():
            os.kill(pid, signal.SIGKILL)
        for path in sorted(self.mounts(), reverse=True):
            subprocess.run(["umount", "--lazy", path], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def _may_lower_scores() -> bool:
    """Whether root may set a negative oom_score_adj here (CAP_SYS_RESOURCE)."""
    words = Path("/proc/self/status").read_text().partition("CapEff:")[2].split()
    return bool(int(words[0], 16) >> 24 & 1)


def need_containerd() -> None:
    """Skip where there is none."""
    import pytest

    for name in ("containerd", "runc"):
        if shutil.which(name) is None:
            pytest.skip(f"no {name} here: apt-get install containerd runc")
    if not Path("/bin/busybox").exists():
        pytest.skip("no static busybox here: apt-get install busybox-static")


def write_image(path: Path, name: str, command: list[str], layer: bytes) -> None:
    """An image of one layer as an OCI archive."""
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    blobs = {"config": json.dumps(config).encode(), "layer": layer}
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _described("application/vnd.oci.image.config.v1+json", blobs["config"]),
        "layers": [_described("application/vnd.oci.image.layer.v1.tar", blobs["layer"])],
    }
    blobs["manifest"] = json.dumps(manifest).encode()
    row = _described("application/vnd.oci.image.manifest.v1+json", blobs["manifest"])
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    index = {"schemaVersion": 2, "manifests": [{**row, "annotations": names}]}
    with tarfile.open(path, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(archive, "index.json", json.dumps(index).encode())
        for blob in blobs.values():
            _add(archive, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)


def _layer() -> bytes:
    """Of busybox."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for folder in ("bin", "etc", "tmp", "proc", "sys", "dev"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        _add(archive, "bin/busybox", Path("/bin/busybox").read_bytes(), 0o755)
        _add(archive, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
        for program in _PROGRAMS:
            entry = tarfile.TarInfo(f"bin/{program}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return out.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _described(kind: str, data: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(data), "size": len(data)}
