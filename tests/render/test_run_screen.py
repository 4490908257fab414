"""The screen of ``run``: widths, bars, control characters, the table."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.memory.rows import MemoryRow
from qoslet.core.problem import Problem
from qoslet.core.status.memory_view import MemoryView
from qoslet.core.status.pod_events import PodEvent
from qoslet.core.status.run_report import ReceivedResources, Report
from qoslet.core.status.snapshot import GroupRow, Snapshot
from qoslet.render.terminal import Terminal, display_width
from qoslet.render.text.live.live_view import Watching
from qoslet.render.text.live.run_screen import bar, change_line, live
from qoslet.render.text.live.run_table import table

EVIL = "evil\x1b[31m\nname"


def rows() -> tuple[GroupRow, ...]:
    return (
        GroupRow("/q", "/q", "node", "kubepods", exists=True, cpu=2.0, memory=1 << 30),
        GroupRow("/q/burstable", "/q/burstable", "qos", "burstable", exists=True),
        GroupRow(
            "/q/burstable/pod1", "", "pod", f"default/{EVIL}", "Burstable", f"default/{EVIL}",
            exists=True, cpu=0.5, memory=5 << 20,
        ),
        GroupRow(
            "/q/burstable/pod1/app", "", "container", "app" * 30, "Burstable", f"default/{EVIL}",
            "app", exists=True, cpu=0.5, state="running", restarts=3, oom_killed=True,
            planned={"memory.limit_in_bytes": str(64 << 20)}, memory=64 << 20,
        ),
        GroupRow("/q/podx", "", "pod", "default/first", "Guaranteed", "default/first"),
    )  # fmt: skip


def snapshot(**more: object) -> Snapshot:
    return Snapshot(1, 1.0, 2.0, 0, rows(), summary="1 pod; fine", **more)  # type: ignore[arg-type]


def test_the_tree_fits_80_columns_and_obeys_nobody() -> None:
    lines = live(snapshot(errors=(EVIL,)), Terminal(80, color=False), 75, "qoslet /q")
    assert all(display_width(line) <= 80 for line in lines), lines
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "evil\\x1b[31m\\nname" in text
    assert "01:15" in lines[0]
    assert "running ×4, OOM" in text
    assert text.index("first (Guaranteed)") < text.index("burstable"), "plain pods come first"
    assert "absent" in text


def test_colour_adds_no_width_and_ascii_has_no_boxes() -> None:
    plain = live(snapshot(), Terminal(80), 1, "t")
    coloured = live(snapshot(), Terminal(80, color=True), 1, "t")
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured] == plain
    plain = live(snapshot(), Terminal(80, unicode=False), 1, "qoslet /q · v2 · 2 CPUs")
    assert "\n".join(plain).isascii()
    assert plain[0].startswith("qoslet /q, v2, 2 CPUs ")


def test_bars() -> None:
    terminal = Terminal(80)
    assert bar(0.5, terminal) == "█████·····"
    assert bar(1.5, terminal) == "█" * 10
    assert bar(0.0, terminal) == "·" * 10
    assert bar(None, terminal) == " " * 10


def test_a_line_only_where_something_changed() -> None:
    first = change_line(snapshot(), None, 0.0)
    assert "app running (3)" in first
    assert "\x1b" not in first
    assert change_line(snapshot(), snapshot(), 1.0) == ""
    assert "oops" in change_line(snapshot(errors=("oops",)), snapshot(), 1.0)


KILLED = (
    PodEvent("ContainerUnhealthy", "d/p", "Liveness probe failed: refused", container="app"),
    PodEvent("ContainerKilling", "d/p", "Container app failed liveness probe", container="app"),
    PodEvent("ContainerExited", "d/p", "exited with 137 (SIGKILL)", container="app"),
)


def test_who_ended_a_container_is_said_instead_of_its_state() -> None:
    """Also where it runs again, so that no state is another one."""
    pod = replace(rows()[3], pod="d/p", container="app", state="Error")
    before = replace(snapshot(), groups=(replace(pod, state="running"),))
    for state in ("Error", "running"):
        after = replace(
            before, groups=(replace(pod, state=state),), events=KILLED, notes=("other",)
        )
        line = change_line(after, before, 1.0)
        said = [event.line for event in KILLED]
        assert line == f"   1.0s  {'; '.join(['1 pod; fine', *said, 'other'])}"
        out = io.StringIO()
        Watching(out, Terminal(80), "t", size=lambda: (80, 20)).publish(after)
        assert "\n".join([*said, "other"]) in out.getvalue()
    started = PodEvent("ContainerStarted", "d/p", "started", container="app")
    assert change_line(replace(before, events=(started,)), before, 1.0) == ""


def test_the_table_fits_80_columns() -> None:
    row = GroupRow(
        "/q/a", "", "container", "busy", "Guaranteed", "default/a-very-long-name-of-a-pod",
        "busy-container", asked={"requests.cpu": "50m", "limits.cpu": "200m"},
        planned={"cpu.shares": "51", "cpu.cfs_quota_us": "20000", "cpu.cfs_period_us": "100000"},
        memory_peak=5 << 20, oom_kills=2,
    )  # fmt: skip
    made = Report(
        15.0,
        2.0,
        (ReceivedResources(row, 10.0, 12.0, 1.5), ReceivedResources(row, 10.0, 40.0)),
        12.0,
    )
    lines = table(made, Terminal(80))
    assert all(display_width(line) <= 80 for line in lines), lines
    assert lines[3].endswith("✓")
    assert lines[4].endswith("✗")
    assert "50m max 200m" in lines[3]
    assert "others used 12%" in lines[0]


def test_a_terminal_is_redrawn_and_a_pipe_gets_lines() -> None:
    for height in (None, 10):
        out = io.StringIO()
        watching = Watching(
            out, Terminal(80), "t", size=None if height is None else lambda: (80, 10)
        )
        row = Problem("warning", EVIL, "changed", "")
        watching.publish(snapshot())
        watching.publish(snapshot(problems=(row,)))
        watching.end()
        text = out.getvalue()
        assert text.count("warning: evil\\x1b[31m\\nname: changed") == 1
        assert ("\x1b[" in text) == (height is not None)
        assert "asked → written → got" in text
        if height:
            assert "more lines" in text
            assert text.count("\x1b[9A\x1b[J") == 1


HOG = GroupRow(
    "/q/burstable/pod1/hog", "", "container", "hog", "Burstable", "default/web", "hog", exists=True,
    cpu=0.2, throttled=0.8, throttled_seconds=12.34, memory=16 << 20, state="running",
    found={"cpu.max": "20000 100000", "memory.max": str(32 << 20)},
)  # fmt: skip


ROW = MemoryRow("/q/burstable/pod1/hog", "container", "web/" + "hog" * 9, "u", "default/web", "hog",
                recent={"above_high": tuple(range(30))})  # fmt: skip


@pytest.mark.parametrize("width", [*range(20, 121), 200])
@pytest.mark.parametrize("unicode", [True, False])
def test_no_line_is_wider_than_the_terminal(width: int, unicode: bool) -> None:
    shown = snapshot(
        errors=("/qoslet/" + "x" * 300 + ": EBUSY",), waiting=("宽" * 70,),
        memory_view=MemoryView(groups=(ROW,), page=4096, events=()),
    )  # fmt: skip
    shown = replace(shown, groups=(*shown.groups, HOG))
    lines = live(shown, Terminal(width, unicode=unicode), 75, "qoslet run " + "m" * 90)
    assert max(map(display_width, lines)) <= width
    assert "01:15" in lines[0]
    assert width < 40 or any("app" in line for line in lines)


def test_throttling_and_the_share_of_limits_are_shown() -> None:
    def drawn(width: int) -> str:
        shown = replace(snapshot(), groups=(*rows(), HOG))
        lines = live(shown, Terminal(width), 1, "t")
        return next(line for line in lines if "hog" in line)

    assert drawn(100).split()[-6:] == ["10%", "100%", "12.3s", "16Mi/32Mi", "50%", "running"]
    assert drawn(80).split()[-5:] == ["10%", "100%", "12.3s", "16Mi/32Mi", "running"]
    assert drawn(60).split()[-4:] == ["10%", "100%", "16Mi/32Mi", "throttled"]
    assert drawn(40).split()[-3:] == ["10%", "16Mi", "throttled"]
    head = live(replace(snapshot(), groups=(HOG,)), Terminal(100), 1, "t")[2].split()
    assert head == ["CPU", "/LIMIT", "THROTTLED", "MEMORY", "/LIMIT", "STATE"]


@pytest.mark.parametrize("width", [40, 50, 60, 72])
def test_the_end_table_fits_narrow_terminals(width: int) -> None:
    row = replace(HOG, asked={"requests.cpu": "50m", "limits.cpu": "200m"}, memory_peak=5 << 20)
    made = Report(10.0, 2.0, (ReceivedResources(row, 1.0, 2.0, 0.5),), 40.0)
    assert max(map(display_width, table(made, Terminal(width)))) <= width


class Screen:
    """What a terminal of so many columns shows: it wraps, moves up and erases below."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.rows: list[str] = [""]
        self.at = 0

    def feed(self, text: str) -> None:
        for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", text):
            if part == "\n":
                self._next()
            elif (up := re.fullmatch(r"\x1b\[(\d+)A", part)) is not None:
                assert int(up[1]) < self.lines, "what scrolled away cannot be drawn again"
                self.at -= int(up[1])
            elif part == "\x1b[J":
                self.rows[self.at :] = [""]
            elif part and part[0] not in "\x1b\r":
                for char in part:
                    if display_width(self.rows[self.at] + char) > self.columns:
                        self._next()
                    self.rows[self.at] += char

    def _next(self) -> None:
        self.at += 1
        if self.at == len(self.rows):
            self.rows.append("")


@pytest.mark.parametrize(
    ("columns", "lines"), [(40, 12), (60, 20), (80, 24), (200, 50), (0, 0)], ids=str
)
def test_on_a_terminal_of_each_size(columns: int, lines: int, tmp_path: Path) -> None:
    """A simulated run, drawn on a pseudo terminal: each row of the tree stands once."""
    pod = 'apiVersion: v1\nkind: Pod\nmetadata: {name: a-pod-with-a-name-%d}\nspec:\n  containers: [{name: c, image: x, command: [sleep, "9"]}]\n'
    (tmp_path / "m.yaml").write_text("---\n".join(pod % at for at in range(3)))
    ours, theirs = pty.openpty()
    ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))
    command = [
        sys.executable,
        "-m",
        "qoslet",
        "run",
        "m.yaml",
        "--simulate",
        "--for",
        "1.2",
        "--interval",
        "0.3",
    ]
    hidden = ("COLUMNS", "LINES", "NO_COLOR")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.Popen(command, cwd=tmp_path, env=environment, stdin=theirs, stdout=theirs)
    os.close(theirs)
    data = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and select.select([ours], [], [], 60)[0]:
        try:
            data += os.read(ours, 65536)
        except OSError:
            break
    os.close(ours)
    assert run.wait(60) == 0
    shown = Screen(columns or 80, lines or 24)
    shown.feed(data.decode())
    text = "\n".join(shown.rows)
    assert text.count("STATE") == 1
    tree = text[text.index("STATE") : text.index("asked")]
    assert tree.count("a-pod") == 3 if lines != 12 else "more lines" in tree
    for row in shown.rows:
        assert display_width(row) <= (columns or 80)
