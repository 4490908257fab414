"""The nodes and pods of a cluster, as its API server lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from qoslet.core.fleet.splitter import Batch, ItemSplitter
from qoslet.errors import BadInput
from qoslet.host.cluster.client_library import open_session
from qoslet.host.cluster.list_pages import ListPages

if TYPE_CHECKING:
    from qoslet.host.cluster.client_library import ClusterAccess

_PATHS = ("/api/v1/nodes", "/api/v1/pods")


def cluster_items(
    access: ClusterAccess, progress: Callable[[str, int, int | None], None]
) -> Iterator[Batch | BadInput]:
    """The items of both lists, page by page, nodes first. Raises BadInput, CannotDo."""
    session = open_session(access)
    try:
        for path in _PATHS:
            pages = ListPages(session, path, progress=progress)
            where = f"{session.server}{path}"
            splitter = ItemSplitter(where)
            for page in pages:
                yield from splitter.feed(page + b"\n")
            yield from splitter.finish()
            if pages.inconsistent:
                message = "was too large to be read at once: its last pages are younger"
                yield BadInput(message, where=where, hint="read it again when less changes")
    finally:
        session.close()
