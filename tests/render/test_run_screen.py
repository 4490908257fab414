"""The screen of ``run``: widths, bars, control characters, the table."""

from __future__ import annotations

import io
import re

from qoslet.core.problem import Problem
from qoslet.core.status.run_report import Got, Report
from qoslet.core.status.snapshot import GroupRow, Snapshot
from qoslet.render.terminal import Terminal, display_width
from qoslet.render.text.live_view import Watching
from qoslet.render.text.run_screen import bar, change_line, live, table

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
    assert "\n".join(live(snapshot(), Terminal(80, unicode=False), 1, "t")).isascii()


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


def test_the_table_fits_80_columns() -> None:
    row = GroupRow(
        "/q/a", "", "container", "busy", "Guaranteed", "default/a-very-long-name-of-a-pod",
        "busy-container", asked={"requests.cpu": "50m", "limits.cpu": "200m"},
        planned={"cpu.shares": "51", "cpu.cfs_quota_us": "20000", "cpu.cfs_period_us": "100000"},
        memory_peak=5 << 20, oom_kills=2,
    )  # fmt: skip
    made = Report(15.0, 2.0, (Got(row, 10.0, 12.0, 1.5), Got(row, 10.0, 40.0)), 12.0)
    lines = table(made, Terminal(80))
    assert all(display_width(line) <= 80 for line in lines), lines
    assert lines[3].endswith("✓")
    assert lines[4].endswith("✗")
    assert "50m max 200m" in lines[3]
    assert "others used 12%" in lines[0]


def test_a_terminal_is_redrawn_and_a_pipe_gets_lines() -> None:
    for height in (None, 10):
        out = io.StringIO()
        watching = Watching(out, Terminal(80), "t", rows=None if height is None else lambda: 10)
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
