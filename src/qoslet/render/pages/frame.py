"""What stands around every page, and the files that go with it. Nothing is inline, nothing from
elsewhere."""

from __future__ import annotations

import os

from qoslet.core.status.page.node_view import NodeView
from qoslet.render.pages.draft import Draft, HtmlPage, escaped
from qoslet.version import VERSION

ASSETS = {
    "/page.css": "text/css; charset=utf-8",
    "/page.js": "text/javascript; charset=utf-8",
    "/icon.svg": "image/svg+xml",
}
"""Path of each file to its media type."""


def asset(path: str) -> bytes:
    """A file of ``ASSETS``. Raises KeyError for another path."""
    if path not in ASSETS:
        raise KeyError(path)
    place = os.path.join(os.path.dirname(__file__), "assets", path.removeprefix("/"))
    with open(place, "rb") as file:
        return file.read()


_PATTERNS = (
    '<svg class="defs" aria-hidden="true" width="0" height="0"><defs>'
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<path class="hatch" d="M-1 1l2-2M0 6l6-6M5 7l2-2"/></pattern>'
    '<pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect class="under" width="6" height="6"/><path class="over" d="M0 1.5h6"/></pattern>'
    "</defs></svg>"
)


def begin(draft: Draft, view: NodeView, title: str, wall: str) -> None:
    """The head, up to the main part. ``wall`` says when the look was."""
    node = view.plan.node
    name = node.name or "this node"
    draft.add(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escaped(title)}</title>",
        '<link rel="stylesheet" href="/page.css"><link rel="icon" href="/icon.svg">',
        '<script src="/page.js" defer></script></head><body>',
        '<a class="skip" href="#main">Skip to the content</a>',
        f'<header><a class="home" href="/"><strong>{escaped(name)}</strong></a>',
        f"<span>Kubernetes {escaped(node.profile.kubernetes)} · cgroup {node.hierarchy} · ",
        f"{escaped(node.driver)}</span>",
    )
    rhythm = "it does not change" if view.interval is None else f"every {view.interval:g} s"
    draft.add('<span class="when">read at ')
    draft.text("time", "when", wall)
    draft.add(
        f" UTC, {rhythm}</span>",
        f'<span id="state" role="status" data-interval="{view.interval or 0:g}" data-look="',
    )
    draft.passing(str(view.look))
    draft.add(
        '"></span></header>',
        _PATTERNS,
        '<main id="main" tabindex="-1">',
    )
    draft.text('p class="trouble"', "trouble", view.trouble)


def end(draft: Draft, document: str) -> HtmlPage:
    """The end of a page; ``document`` is the address of the same as JSON."""
    draft.add(
        f"</main><footer>qoslet {escaped(VERSION)} · reads only · "
        f'<a href="{document}">JSON</a></footer></body></html>'
    )
    return draft.page()
