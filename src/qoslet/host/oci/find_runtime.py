"""The OCI runtime of this machine: where it is, which version, and whether it can work here.

Source: ``runc --version``, ``crun --version``; crun src/libcrun/cgroup-utils.c (hybrid layouts).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from qoslet.core.cgroup.names import DEFAULT_POINT
from qoslet.core.versions.runtime import runtime_of, untold
from qoslet.core.workload.container_spec import OciRuntime
from qoslet.errors import BadInput, CannotDo
from qoslet.host.images.umoci import find_umoci
from qoslet.host.linux.mountinfo import mounts
from qoslet.host.linux.procfs import text
from qoslet.host.linux.programs import find_program
from qoslet.host.state.folder import DEFAULT_STORAGE

Name = Literal["runc", "crun"]

ASK_SECONDS = 20.0


class InstalledRuntime(Struct, frozen=True):
    """A runtime that was found: its program, and the version that it tells."""

    name: Name
    program: str
    version: str

    @property
    def profile(self) -> str:
        """What ``--runtime`` calls it."""
        return f"{self.name}-{self.version}"


def find(name: Name) -> InstalledRuntime:
    """The runtime of that name. Raises CannotDo where it is not there, or cannot work here: then
    nothing was made."""
    if os.geteuid() != 0:
        hint = "run as root, or use --with process, which needs no privileges"
        raise CannotDo(f"--with {name} needs mounts and namespaces", hint=hint)
    program = find_program(name)
    if program is None:
        raise CannotDo(f"{name} is not installed", hint=f"apt install {name}, or --with process")
    version = _version(name, program)
    _need_layout(name, version)
    return InstalledRuntime(name, program, version)


def _version(name: Name, program: str) -> str:
    """What it says of itself: ``runc version 1.1.5+ds1`` is 1.1.5."""
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, timeout=ASK_SECONDS, check=False
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotDo(f"cannot run {program}: {error}", hint="check the program") from None
    words = said.split()
    if words[:2] != [name, "version"] or len(words) < 3:
        raise CannotDo(f"{program} prints {said[:60]!r}, which is not a version of {name}")
    version = words[2].split("+")[0].split("-")[0].split("~")[0]
    if not all(part.isdecimal() for part in version.split(".")):
        raise CannotDo(f"{program} has the unknown version {words[2][:40]!r}")
    return version


def _need_layout(name: Name, version: str) -> None:
    """Raise CannotDo where the runtime refuses this machine's hierarchies."""
    if name != "crun":
        return
    table = mounts()
    first = next((one for one in reversed(table) if one.point == DEFAULT_POINT), None)
    if first is not None and first.type == "cgroup2":
        return
    unified = f"{DEFAULT_POINT}/unified"
    both = next((one for one in table if one.point == unified), None)
    held = (text(f"{unified}/cgroup.controllers") or "").split()
    if both is not None and both.type == "cgroup2" and held:
        raise CannotDo(
            f"crun {version} refuses v1 with a v2 hierarchy beside it that has controllers "
            f"({', '.join(held)})",
            where=unified,
            hint="--with runc works here; or boot with systemd.unified_cgroup_hierarchy=1",
        )


def engine_of(
    found: InstalledRuntime,
    *,
    images: Sequence[str],
    trees: Sequence[str],
    storage: str | None,
    systemd: int | None,
    v2: bool,
) -> OciRuntime:
    """The runtime with what its owner named. Raises BadInput, CannotDo."""
    for path in images:
        if not os.path.exists(path):
            hint = "a directory of OCI layouts, one layout, or an archive of docker save"
            raise BadInput("does not exist", where=f"--images {path}", hint=hint)
    if images:
        find_umoci()
    pairs = []
    for one in trees:
        name, _, path = one.partition("=")
        hint = "such as --rootfs busybox:1.36=/srv/busybox"
        if not name or not path:
            raise BadInput("is not NAME=DIRECTORY", where=f"--rootfs {one}", hint=hint)
        if not os.path.isdir(path):
            message = "is not a directory" if os.path.exists(path) else "does not exist"
            raise BadInput(f"{path} {message}", where=f"--rootfs {one}", hint=hint)
        pairs.append((name, os.path.realpath(path)))
    return OciRuntime(
        name=found.name,
        program=found.program,
        storage=os.path.abspath(storage or DEFAULT_STORAGE),
        images=tuple(os.path.abspath(path) for path in images),
        trees=tuple(pairs),
        systemd=systemd,
        v2=v2,
        untold=() if systemd is None else untold(runtime_of(found.profile)),
    )
