"""The screen of ``top --replay``: its keys move in time, also while it is paused."""

from __future__ import annotations

import asyncio

from textual.pilot import Pilot

from qoslet.cli.screens.replay import ReplayApp
from qoslet.cli.screens.top import TopApp
from qoslet.core.status.node_top import TopRow
from tests.cli.screens.test_top import text_of


def test_arrows_move_while_it_is_paused() -> None:
    at = [60.0]

    def seek(seconds: float) -> None:
        at[0] = min(max(0.0, at[0] + seconds), 600.0)

    def look() -> tuple[TopRow, ...]:
        return (TopRow("/kubepods", "/kubepods", "node", "kubepods", "", 0, exists=True),)

    async def shows(app: TopApp, pilot: Pilot[None], text: str) -> None:
        for _ in range(400):
            await pilot.pause(0.02)
            if text in text_of(app):
                return
        raise AssertionError(text_of(app))

    async def story() -> None:
        app = ReplayApp(look, lambda: f"second {at[0]:g}.", lambda _: [], 0.05, "tree", seek)
        async with app.run_test(size=(100, 24)) as pilot:
            await shows(app, pilot, "second 60.")
            await pilot.press("p")
            await shows(app, pilot, "paused")
            for key, second in (
                ("left", 50),
                ("right", 60),
                ("shift+right", 360),
                ("e", 600),
                ("shift+left", 300),
                ("b", 0),
            ):
                await pilot.press(key)
                await shows(app, pilot, f"second {second}.")

    asyncio.run(story())
