"""Puts a page together: text that stands, and values that change while it is open.

Every value has an identifier in the page, so that a later look is sent as the values that differ.
What comes from a node is text everywhere: it is escaped here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qoslet.render.terminal import printable

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_TABLE = str.maketrans(_ESCAPES)


class HtmlPage(Struct, frozen=True):
    """A drawn page. ``values`` are texts by identifier, and attributes by ``identifier@attribute``;
    two pages with the same ``frame`` differ in values only."""

    html: str
    values: Mapping[str, str]
    frame: int


def escaped(text: str) -> str:
    """Text as HTML, in an element or an attribute in quotes; control characters are made
    visible."""
    return printable(text).translate(_TABLE)


class Draft:
    """A page on its way."""

    def __init__(self) -> None:
        self._html: list[str] = []
        self._frame: list[str] = []
        self._values: dict[str, str] = {}

    def add(self, *markup: str) -> None:
        """Markup that stands; the caller escapes what is not its own."""
        self._html += markup
        self._frame += markup

    def passing(self, markup: str) -> None:
        """Markup that may differ without the page being another one."""
        self._html.append(markup)

    def text(self, markup: str, identifier: str, value: str) -> None:
        """An element whose text changes: ``markup`` is its start tag without the bracket, such as
        ``td class="n"``."""
        tag = markup.partition(" ")[0]
        begin = f'<{markup} id="{identifier}">'
        self._html += (begin, escaped(value), f"</{tag}>")
        self._frame.append(begin)
        self._values[identifier] = printable(value)

    def shape(self, markup: str, identifier: str, **changing: str) -> None:
        """An empty element with attributes that change."""
        self._html.append(f'<{markup} id="{identifier}"')
        self._frame.append(f'<{markup} id="{identifier}"')
        for name, value in changing.items():
            attribute = name.replace("_", "-")
            self._html.append(f' {attribute}="{escaped(value)}"')
            self._values[f"{identifier}@{attribute}"] = printable(value)
        self._html.append("/>")

    def page(self) -> HtmlPage:
        """What was drawn."""
        return HtmlPage("".join(self._html), self._values, hash(tuple(self._frame)))


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """The values of ``after`` that differ."""
    return {key: value for key, value in after.items() if before.get(key) != value}
