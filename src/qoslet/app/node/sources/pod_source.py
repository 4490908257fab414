"""Which sources an agent takes the pods of its node from."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from qoslet.app.node.sources.preferred import PreferredPods
from qoslet.app.node.sources.reader import PodReader, Seen
from qoslet.errors import CannotDo
from qoslet.host.cluster.client_library import HINT, ClusterAccess, is_installed

if TYPE_CHECKING:
    from qoslet.app.node.found_node import KubeletOptions
    from qoslet.core.node.running_kubelet.pods_reading import PodSource, PodSourceName

Choice = Literal["auto", "kubelet", "api", "cri", "file"]
_FILE_SECONDS = 10.0


class FileReader:
    """Pods from files that somebody writes, read again and again."""

    source: PodSourceName = "file"
    interval_seconds = _FILE_SECONDS

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)

    def read(self, known: frozenset[str]) -> Seen:
        """Their text, as documents of one. Raises CannotDo."""
        parts = []
        for path in self._paths:
            try:
                with open(path, "rb") as file:
                    parts.append(file.read())
            except OSError as error:
                message = f"cannot be read: {error.strerror}"
                raise CannotDo(message, where=os.fspath(path)) from None
        place = ", ".join(self._paths)
        return Seen(b"\n---\n".join(parts), place, time.monotonic(), tells_removals=True)

    def descriptors(self) -> Sequence[int]:
        """None: they are looked at."""
        return ()

    def rest(self) -> None:
        """Nothing is open."""


def pod_source(
    choice: Choice,
    files: Sequence[str],
    options: KubeletOptions,
    node_name: Callable[[], str | None],
    access: ClusterAccess | None = None,
) -> PodSource:
    """The source that was chosen; with ``auto`` the kubelet, then the API server where this program
    may ask it, then the container runtime. Raises CannotDo where what it needs is not installed."""
    return PreferredPods(readers(choice, files, options, node_name, access or ClusterAccess()))


def readers(
    choice: Choice,
    files: Sequence[str],
    options: KubeletOptions,
    node_name: Callable[[], str | None],
    access: ClusterAccess,
) -> list[PodReader]:
    """The readers of a choice, the best first. Raises CannotDo."""
    from qoslet.app.node.sources.api_pods import ApiReader
    from qoslet.app.node.sources.kubelet_pods import KubeletReader, RuntimeReader

    if choice == "file" or files:
        return [FileReader(files)]
    if choice == "api" and not is_installed():
        message = "needs the Python client of Kubernetes"
        raise CannotDo(message, where="--pods-from api", hint=HINT)
    found: list[PodReader] = []
    if choice in ("auto", "kubelet"):
        found.append(KubeletReader(options))
    if choice == "api" or (choice == "auto" and access.is_given and is_installed()):
        found.append(ApiReader(access, node_name))
    if choice in ("auto", "cri"):
        found.append(RuntimeReader(options))
    return found
