"""The pods of this node as the API server tells them, by a watch that is open while it is used."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from qoslet.app.node.sources.reader import Seen
from qoslet.core.node.cluster.retries import FIRST_SECONDS
from qoslet.errors import CannotDo
from qoslet.host.cluster.client_library import ClusterAccess, open_session
from qoslet.host.cluster.followed_pods import FollowedPods
from qoslet.host.linux.descriptors import ready

if TYPE_CHECKING:
    from qoslet.core.node.running_kubelet.pods_reading import PodSourceName

_INTERVAL_SECONDS = 30.0
_FIRST_SECONDS = FIRST_SECONDS + 10.0
"""How long a first list may take: it is not asked for at once, so that nodes that start together do
not ask together."""


class ApiReader:
    """Follows the pods of the node that ``node_name`` gives; without a name the variable NODE_NAME or
    this machine's."""

    source: PodSourceName = "api"
    interval_seconds = _INTERVAL_SECONDS

    def __init__(
        self,
        access: ClusterAccess,
        node_name: Callable[[], str | None],
        *,
        begin: Callable[[str, ClusterAccess], FollowedPods] | None = None,
    ) -> None:
        self._access, self._node_name = access, node_name
        self._begin = begin or _follow
        self._followed: FollowedPods | None = None
        self._earlier_requests = 0

    @property
    def requests(self) -> int:
        """Of this watch and of those before it."""
        followed = self._followed
        return self._earlier_requests + (0 if followed is None else followed.requests)

    def read(self, known: frozenset[str]) -> Seen:
        """What the watch told so far; where nothing at all is known, the first list is waited for. Raises
        CannotDo, BadInput."""
        if self._followed is None:
            self._followed = self._begin(self._node_name() or _own_name(), self._access)
            self._followed.start()
        state = self._followed.state()
        until = time.monotonic() + (_FIRST_SECONDS if not known else 0.0)
        while state.pods is None and not state.fault and (left := until - time.monotonic()) > 0:
            ready(self._followed.descriptor, seconds=left)
            state = self._followed.state()
        if state.pods is None:
            raise CannotDo(state.fault or "the list of pods is on its way")
        return Seen(
            state.pods,
            "the API server",
            state.at,
            complete=not state.fault,
            tells_removals=True,
            note=state.fault,
            is_live=state.is_open,
        )

    def descriptors(self) -> Sequence[int]:
        """That of the watch, while it is open."""
        return () if self._followed is None else (self._followed.descriptor,)

    def rest(self) -> None:
        """End the watch."""
        self._earlier_requests = self.requests
        followed, self._followed = self._followed, None
        if followed is not None:
            followed.close()


def _follow(node: str, access: ClusterAccess) -> FollowedPods:
    return FollowedPods(node, lambda: open_session(access))


def _own_name() -> str:
    return os.environ.get("NODE_NAME") or socket.gethostname().strip().lower()
