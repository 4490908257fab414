"""What the web page of a node shows: its looks, drawn when they are asked for, once each."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from qoslet.core.api.schema import encode_json
from qoslet.core.status.page.agent_story import AgentStory
from qoslet.core.status.page.node_view import NodeView, PodView, freshness, node_view
from qoslet.core.status.page.pod_story import PodStories
from qoslet.core.status.page.row_history import RowHistory
from qoslet.host.web.request import WebAnswer, WebRequest, refusal
from qoslet.render.pages.draft import HtmlPage, changed
from qoslet.render.pages.frame import ASSETS, asset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qoslet.core.api.pod import Pod
    from qoslet.core.audit.finding import AuditReport
    from qoslet.core.resources.cgroup_tree import Plan
    from qoslet.core.status.node_top import TopRow
    from qoslet.host.web.streams import Streams

DRAWN = 64
"""Pages whose last looks are kept, so that a browser is sent only what changed."""
LOOKS = 4
_HTML, _JSON = "text/html; charset=utf-8", "application/json"


class NodeSite:
    """The pages of one node. ``take`` gives it a look; the rest is asked by the server's threads.
    ``interval`` None: the node does not change."""

    def __init__(self, interval: float | None) -> None:
        self._interval = interval
        self._lock = threading.RLock()
        self._view: NodeView | None = None
        self._wall = 0.0
        self._report: AuditReport | None = None
        self._history, self._stories, self._agent = RowHistory(), PodStories(), AgentStory()
        self._drawn: OrderedDict[str, deque[tuple[int, HtmlPage]]] = OrderedDict()
        self.streams: Streams | None = None

    def take(
        self,
        plan: Plan,
        rows: Sequence[TopRow],
        *,
        at: float,
        wall: float,
        seconds: float,
        trouble: str = "",
        report: AuditReport | None = None,
        agent: Mapping[str, Any] | None = None,
        ended: Sequence[Pod] = (),
    ) -> None:
        """A look at ``at`` monotonic seconds, ``wall`` of the other clock. ``agent`` is what an agent
        says of its pods, ``ended`` are those that a kubelet says have."""
        with self._lock:
            self._report = report
            view = node_view(
                plan,
                rows,
                () if report is None else report.findings,
                at=at,
                seconds=seconds,
                interval=self._interval,
                trouble=trouble,
                look=1 if self._view is None else self._view.look + 1,
            )
            self._stories.end(ended, at, wall)
            self._stories.look(view, wall)
            told = (
                self._agent.exits((one.pod for one in plan.pods), at, wall)
                if agent is None
                else self._agent.events(agent, at, wall)
            )
            for pod, event in told:
                self._stories.add(pod, event)
            self._history.add(rows, at, seconds)
            self._view, self._wall = view, wall

    def fail(self, trouble: str) -> None:
        """A look failed: what is known stays, and says why it grows old."""
        with self._lock:
            if self._view is not None:
                from msgspec.structs import replace

                self._view = replace(self._view, trouble=trouble, look=self._view.look + 1)

    def answer(self, request: WebRequest) -> WebAnswer:
        """What a browser gets."""
        if request.path in ASSETS:
            return WebAnswer(200, ASSETS[request.path], asset(request.path))
        if request.path == "/healthz":
            return self._health()
        if request.path == "/events":
            return self._events(request)
        with self._lock:
            if request.parts[:2] == ("api", "v1"):
                return self._document(request)
            page = self._page(request.place)
        if page is None:
            return refusal(404, "no such page: / has the node, /pods/NAMESPACE/NAME a pod")
        return WebAnswer(200, _HTML, page.html.encode(errors="backslashreplace"))

    def event(self, place: str, look: int) -> tuple[bytes, int]:
        """What a page lacks since a look (``host.web.streams.Event``)."""
        with self._lock:
            assert self._view is not None
            now = self._view.look
            if now == look:
                return b"", look
            page = self._page(place)
            old = next((one for at, one in self._drawn.get(place, ()) if at == look), None)
        if page is None or old is None or old.frame != page.frame:
            return f"event: frame\nid: {now}\ndata: \n\n".encode(), now
        values = changed(old.values, page.values)
        return f"event: values\nid: {now}\ndata: ".encode() + encode_json(values) + b"\n\n", now

    def _page(self, place: str) -> HtmlPage | None:
        """The page at a path with its query, drawn once a look; None: there is none."""
        assert self._view is not None
        kept = self._drawn.get(place)
        if kept is not None and kept[-1][0] == self._view.look:
            return kept[-1][1]
        page = self._draw(place)
        if page is not None:
            self._drawn.setdefault(place, deque(maxlen=LOOKS)).append((self._view.look, page))
            self._drawn.move_to_end(place)
            if len(self._drawn) > DRAWN:
                self._drawn.popitem(last=False)
        return page

    def _draw(self, place: str) -> HtmlPage | None:
        view = self._view
        assert view is not None
        path, _, query = place.partition("?")
        parts = tuple(unquote(part) for part in path.split("/")[1:])
        if path == "/":
            from qoslet.render.pages.node_page import node_page

            asked = dict(parse_qsl(query))
            wanted = asked.get("q", "")
            return node_page(view, self._report, self._wall, asked.get("sort", ""), wanted)
        if len(parts) != 3 or parts[0] != "pods":
            return None
        from qoslet.render.pages.pod_page import pod_page

        name = f"{parts[1]}/{parts[2]}"
        pod = self._pod(name)
        events = self._stories.of(name)
        if pod is None and not events:
            return None
        return pod_page(view, name, pod, self._history, events, self._report, self._wall)

    def _pod(self, name: str) -> PodView | None:
        assert self._view is not None
        return next((pod for pod in self._view.pods if pod.row.title == name), None)

    def _document(self, request: WebRequest) -> WebAnswer:
        from qoslet.render.documents import encode
        from qoslet.render.documents.web import node_view_document, pod_view_document

        view = self._view
        assert view is not None
        fresh = freshness(view, time.monotonic())
        match request.parts[2:]:
            case ("node",):
                document = node_view_document(view, fresh, self._report)
            case ("pods", namespace, own):
                name = f"{namespace}/{own}"
                pod, events = self._pod(name), self._stories.of(name)
                if pod is None and not events:
                    return refusal(404, "no such pod")
                document = pod_view_document(
                    view, fresh, name, pod, self._history, events, self._report
                )
            case _:
                return refusal(404, "there are /api/v1/node and /api/v1/pods/NAMESPACE/NAME")
        return WebAnswer(200, _JSON, encode(document))

    def _health(self) -> WebAnswer:
        with self._lock:
            assert self._view is not None
            stale = freshness(self._view, time.monotonic()).stale
        return refusal(503, "the last look is old") if stale else refusal(200, "ok")

    def _events(self, request: WebRequest) -> WebAnswer:
        streams = self.streams
        if streams is None or self._interval is None:
            return refusal(404, "this node does not change")
        place = request.query.get("page", "/")
        text = request.headers.get("last-event-id") or request.query.get("look", "")
        look = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
        return WebAnswer(
            200, "text/event-stream", b"", take=lambda peer: streams.add(peer, place, look)
        )
