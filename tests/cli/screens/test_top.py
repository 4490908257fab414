"""The screen of ``top``, as a person uses it: keys, sizes, hostile names."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from qoslet.cli.screens.top import TopApp, sparkline
from qoslet.core.status.node_top import TopRow
from qoslet.errors import CannotDo

MIB = 1 << 20
PATIENCE = 60.0


def rows(count: int = 3, hostile: str = "web") -> tuple[TopRow, ...]:
    found = [TopRow("/k", "/k", "node", "kubepods", "", 0, exists=True, memory=900 * MIB)]
    for at in range(count):
        name = f"/k/pod{at}"
        found += [
            TopRow(
                name,
                name,
                "pod",
                f"default/{hostile}-{at}",
                "/k",
                1,
                exists=True,
                cpu=0.1 * at,
                memory=at * MIB,
                memory_limit=100 * MIB,
            ),
            TopRow(f"{name}/app", f"{name}/app", "container", "app", name, 2, exists=at != 1),
        ]
    return tuple(found)


def text_of(app: TopApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(piece.text for piece in strip).rstrip() for strip in strips)


Story = Callable[[TopApp, Pilot[None]], Coroutine[Any, Any, None]]


def play(
    story: Story,
    look: Callable[[], tuple[TopRow, ...]] = rows,
    size: tuple[int, int] = (100, 24),
    heading: str = "n1",
) -> None:
    async def run() -> None:
        app = TopApp(look, lambda: heading, lambda row: [f"why {row.name}"], 0.05)
        async with app.run_test(size=size) as pilot:
            for _ in range(200):
                await pilot.pause(0.02)
                if "kubepods" in text_of(app):
                    break
            await story(app, pilot)

    asyncio.run(run())


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (200, 50)])
def test_every_column_that_fits_is_on_the_screen(size: tuple[int, int]) -> None:
    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        shown = text_of(app)
        assert "n1  3 pods, 7 cgroups, 1 absent  (by tree)" in shown
        assert "default/web-2" in shown
        assert "absent" in shown
        assert ("memory of limit" in shown) is (size[0] > 120)
        for line in shown.splitlines():
            assert len(line) <= size[0]
        (head,) = [line for line in shown.splitlines() if line.strip().startswith("NAME")]
        (pod,) = [line for line in shown.splitlines() if "default/web-2" in line]
        assert head.index("memory") + len("memory") == pod.index("2Mi") + len("2Mi")

    play(story, size=size)


def test_keys_sort_fold_filter_and_pause() -> None:
    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("s")
        shown = text_of(app)
        assert "(by cpu)" in shown
        assert shown.index("web-2") < shown.index("web-1") < shown.index("web-0")
        await pilot.press("down", "space")
        assert "+ default/web-2" in text_of(app)
        assert text_of(app).count("app") == 2
        await pilot.press("slash", *"web-1", "enter")
        shown = text_of(app)
        assert "default/web-1" in shown
        assert "default/web-0" not in shown
        await pilot.press("escape", "p")
        shown = text_of(app)
        assert "default/web-0" in shown
        assert "paused" in shown

    play(story)


def test_the_state_of_the_screen_stays_beside_a_long_name() -> None:
    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("p", "s")
        top = text_of(app).splitlines()[0]
        assert top == "n1 · Kubernetes 1.36  3 pods, 7 cgroups, 1 absent  (by cpu, paused)"

    async def wide(app: TopApp, pilot: Pilot[None]) -> None:
        assert text_of(app).startswith(f"{heading}  3 pods")

    heading = "n1 · cgroup v2 · Kubernetes 1.36"
    play(story, size=(70, 24), heading=heading)
    play(wide, size=(100, 24), heading=heading)


def test_home_and_end_are_the_first_and_the_last_cgroup() -> None:
    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("end")
        await pilot.pause(0.1)
        assert "default/web-99" in text_of(app)
        assert "kubepods" not in text_of(app)
        await pilot.press("home")
        await pilot.pause(0.1)
        assert "kubepods" in text_of(app)

    play(story, lambda: rows(100), size=(80, 24))


def test_enter_says_why_and_goes_back() -> None:
    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "down", "enter")
        await pilot.pause(0.1)
        assert "why /k/pod0/app" in text_of(app)
        await pilot.press("enter")
        await pilot.pause(0.1)
        assert "why /k/pod0/app" not in text_of(app)

    play(story)


def test_what_changes_is_shown_and_the_selection_stays() -> None:
    looks: Iterator[int] = iter([3, 3, 3])

    def look() -> tuple[TopRow, ...]:
        return rows(next(looks, 5))

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        for _ in range(100):
            await pilot.pause(0.02)
            if "default/web-4" in text_of(app):
                break
        selected = app._selected
        assert selected is not None
        assert selected.title == "default/web-0"
        assert "5 pods" in text_of(app)

    play(story, look)


def test_a_look_that_fails_is_said_and_the_rows_stay() -> None:
    state = {"fails": False}

    def look() -> tuple[TopRow, ...]:
        if state["fails"]:
            raise CannotDo("the kubelet does not answer")
        return rows()

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        state["fails"] = True
        for _ in range(100):
            await pilot.pause(0.02)
            if "does not answer" in text_of(app):
                break
        assert "the kubelet does not answer" in text_of(app)
        assert "default/web-2" in text_of(app)

    play(story, look, (140, 24))


def test_hostile_names_are_text() -> None:
    def look() -> tuple[TopRow, ...]:
        return rows(hostile="[red]\x1b[31m\u202ex")

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        shown = text_of(app)
        assert "[red]" in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown

    play(story, look)


def test_500_pods_are_drawn_in_time() -> None:
    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        assert "500 pods" in text_of(app)
        await pilot.press("ctrl+end")
        for _ in range(100):
            await pilot.pause(0.02)
            if "default/web-499" in text_of(app):
                break
        assert "default/web-499" in text_of(app)

    play(story, lambda: rows(500))


def test_a_sparkline_is_by_its_largest_value() -> None:
    assert sparkline([0.0, 1.0, None, 0.5]) == "▁█ ▅"
    assert sparkline([]) == ""
    assert sparkline([None, 0.0]) == " ▁"


def test_it_ends_when_its_terminal_goes_though_that_controls_it_not(tmp_path: Path) -> None:
    """As below a program that gives it a terminal and a session, and is killed: nobody gets SIGHUP."""
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}"
    (tmp_path / "a.yaml").write_text(pod)
    ours, theirs = os.openpty()
    command = (sys.executable, "-m", "qoslet", "top", "-f", "a.yaml", "--cgroup-root", "/absent")
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        try:
            os.close(theirs)
            assert os.read(ours, 1), "it draws"
            os.close(ours)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
