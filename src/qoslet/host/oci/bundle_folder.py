"""Where what an OCI runtime needs lies, for one root: bundles and the runtime's own state in the
state folder, what containers write in the engine's storage.

Only root looks into any of it. Names come from pods whose names were checked (``kept.check``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from errno import EBUSY, EINVAL, ENOENT
from typing import Any

from qoslet.core.api.ids import bundle_id
from qoslet.core.cgroup.names import SLICE, given_root, is_below
from qoslet.core.workload.container_spec import OciRuntime
from qoslet.host.linux.mount_syscalls import DETACH, unmount
from qoslet.host.linux.mountinfo import mounts
from qoslet.host.linux.remove_tree import remove_tree
from qoslet.host.state.folder import OCI, unescaped

_LOG_BYTES = 64 * 1024
_NAMELESS = "open executable"
"""How crun 1.8 begins when a program may not be executed, without its name."""


class ContainerFiles:
    """The files of one container. ``folder`` is the state folder of the root."""

    def __init__(self, folder: str, engine: OciRuntime, uid: str, name: str) -> None:
        base = f"{folder}/{OCI}"
        self.engine = engine
        self.folder = folder
        self.id = bundle_id(uid, name)
        self.state = f"{base}/{engine.name}"
        self.pod = f"{base}/pods/{uid}"
        self.bundle = f"{self.pod}/{name}"
        self.lock = f"{self.pod}/{name}.lock"
        self.config = f"{self.bundle}/config.json"
        self.pid = f"{self.bundle}/pid"
        self.log = f"{self.bundle}/log.json"
        self.error = f"{self.bundle}/error"
        self.notes = f"{self.bundle}/notes"
        self.rootfs = f"{self.bundle}/rootfs"
        self.written = f"{engine.storage}/containers/{os.path.basename(folder)}/{uid}/{name}"

    def command(self, *words: str) -> list[str]:
        """The runtime's command line."""
        systemd = ["--systemd-cgroup"] if self.engine.systemd is not None else []
        options = ["--root", self.state, "--log", self.log, "--log-format", "json", *systemd]
        return [self.engine.program, *options, *words]

    def part(self, number: int) -> str:
        """Where a place inside a volume is mounted, for one of the container's mounts."""
        return f"{self.bundle}/part-{number}"

    def namesake(self) -> str | None:
        """The other ``--cgroup-root`` whose container has the same scope: systemd knows units of all roots by their
        names. A root has it from its first start until the pod is gone. None where there is none."""
        if self.engine.systemd is None:
            return None
        roots, mine = os.path.split(self.folder)
        lock = self.lock.removeprefix(self.folder)
        others = [one for one in os.listdir(roots) if one != mine and one.endswith(SLICE)]
        found = (one for one in sorted(others) if os.path.exists(f"{roots}/{one}{lock}"))
        return next((given_root(unescaped(one)) for one in found), None)

    @property
    def known(self) -> bool:
        """Whether the runtime still knows the container."""
        return os.path.exists(f"{self.state}/{self.id}")

    def started(self) -> int:
        """The process that the runtime has started, 0 where it has not."""
        try:
            with open(self.pid, encoding="ascii") as file:
                return int(file.read(32))
        except (OSError, ValueError):
            return 0

    def runtime_error(self) -> str:
        """Why the runtime, or what prepared the bundle, has failed; empty if it did not say."""
        own = _beginning(self.error).decode("utf-8", "replace").strip()
        if own:
            return own
        for row in reversed(list(_rows(_beginning(self.log).decode("utf-8", "replace")))):
            if row.get("level") in ("error", "fatal"):
                said = " ".join(str(row.get("msg")).split())
                return f"{self._program()}: {said}" if said.startswith(_NAMELESS) else said
        return ""

    def forget_errors(self) -> None:
        """Forget what ``runtime_error`` tells: what it tells next is of the next attempt. Raises
        OSError."""
        for path in (self.error, self.log):
            with suppress(FileNotFoundError):
                os.unlink(path)

    def noted(self) -> tuple[str, ...]:
        """What did not work without stopping the start."""
        return tuple(_beginning(self.notes).decode("utf-8", "replace").splitlines())

    def stop_signal(self, annotation: str) -> str:
        """What the bundle says of how to end the container; empty if nothing."""
        try:
            return str(self._configuration()["annotations"].get(annotation, ""))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return ""

    def _program(self) -> str:
        """What the bundle says is to be executed."""
        try:
            return str(self._configuration()["process"]["args"][0])
        except (OSError, ValueError, LookupError, TypeError):
            return "its program"

    def _configuration(self) -> Any:
        """The bundle's document. Raises OSError, ValueError."""
        with open(self.config, "rb") as file:
            return json.load(file)

    def clear(self) -> None:
        """Remove all files of a container that the runtime does not know any more. Raises
        OSError: what stands then is known as before."""
        points = (one.point for one in mounts())
        for point in [one for one in points if is_below(one, self.bundle)]:
            unmounted(point)
        remove_tree(self.written)
        remove_tree(self.bundle)


def _rows(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of a runtime's log: runc writes each on a line of its own, crun from 1.28 on
    over several. What is no JSON is passed over."""
    decode = json.JSONDecoder().raw_decode
    at = text.find("{")
    while at >= 0:
        try:
            row, end = decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield row
        at = text.find("{", end)


def _beginning(path: str) -> bytes:
    """The beginning of a file, nothing where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read(_LOG_BYTES)
    except OSError:
        return b""


def unmounted(point: str) -> None:
    """Unmount all that is mounted on a directory. Raises OSError."""
    for _ in range(16):
        try:
            unmount(point)
        except OSError as error:
            if error.errno in (EINVAL, ENOENT):
                return
            if error.errno != EBUSY:
                raise
            unmount(point, DETACH)
