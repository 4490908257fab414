"""What can be asked of a running agent, and where."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from qoslet.errors import CannotDo
from qoslet.host.questions.http_server import Page, Pages, forget, is_there, private, public
from qoslet.host.questions.request_queue import PATIENCE, RequestQueue

if TYPE_CHECKING:
    from socket import socket

    from qoslet.core.node.node import Node
    from qoslet.core.status.series import MetricsOptions
    from qoslet.core.status.snapshot import Snapshot


class Questions:
    """The questions of others to the loop, a queue for each kind, so that only what is asked is made."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.pods: RequestQueue[Snapshot] = RequestQueue(patience)
        self.metrics: RequestQueue[Snapshot] = RequestQueue(patience)
        self.health: RequestQueue[bool] = RequestQueue(patience)
        """Whether the loop answers at all."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Readable while somebody waits."""
        return self.pods.descriptor, self.metrics.descriptor, self.health.descriptor

    def answer(self, pods: Callable[[], Snapshot], metrics: Callable[[], Snapshot]) -> None:
        """Answer all questions that wait."""
        self.health.answer(lambda: True)
        self.pods.answer(pods)
        self.metrics.answer(metrics)

    def answer_meanwhile(self, pods: Callable[[], Snapshot]) -> None:
        """Answer questions about pods only, while the loop waits in the middle of a sync: it is not
        healthy then, and its counts are not complete."""
        self.pods.answer(pods)

    def close(self) -> None:
        """Close the queues."""
        for queue in (self.pods, self.metrics, self.health):
            queue.close()


def _working_directory() -> str | None:
    """The directory that relative paths of manifests begin at; None if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


def pages_of(
    questions: Questions,
    root: str,
    node: Callable[[], Node],
    options: MetricsOptions | None = None,
) -> Pages:
    """What can be asked: the pods, the node, the metrics, and whether the loop answers."""

    def pods() -> Page:
        from qoslet.render.documents import encode
        from qoslet.render.documents.agent.pods import pods_document

        driver = node().driver
        document = pods_document(questions.pods.ask(), root, driver, _working_directory())
        return Page("application/json", encode(document))

    def described() -> Page:
        from qoslet.core.explain.node_config import documents
        from qoslet.render.documents import Document, encode

        listed: Document = {"apiVersion": "v1", "kind": "List", "items": documents(node())}
        return Page("application/json", encode(listed))

    def metrics() -> Page:
        from qoslet.render.metrics import MEDIA, exposition

        return Page(MEDIA, exposition(questions.metrics.ask(), options))

    def healthz() -> Page:
        questions.health.ask()
        return Page("text/plain", b"ok\n")

    return {"/v1/pods": pods, "/v1/node": described, "/metrics": metrics, "/healthz": healthz}


class AgentSockets:
    """The sockets of an agent while it runs: its private one, and ``listener`` where given."""

    def __init__(self, folder: str, pages: Pages, listener: socket | None) -> None:
        self._servers = ExitStack()
        self._folder, self._pages = folder, pages
        self._servers.callback(forget, folder)
        self._listen()
        self.address = ""
        if listener is not None:
            shown = {path: pages[path] for path in ("/metrics", "/healthz")}
            metrics = public(listener, shown)
            self._servers.callback(metrics.close)
            self.address = str(metrics.address)

    def _listen(self) -> None:
        """Answer at the private socket. Raises CannotDo."""
        self._servers.callback(private(self._folder, self._pages).close)

    def mend(self) -> None:
        """Listen again where the private socket was removed; tried again where that fails."""
        if not is_there(self._folder):
            with suppress(CannotDo):
                self._listen()

    def __enter__(self) -> AgentSockets:
        return self

    def __exit__(self, *_: object) -> None:
        self._servers.close()
