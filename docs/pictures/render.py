"""Draws the picture of the tutorial from what ``qoslet plan`` prints in colour, that of a fleet's
growth, and that of a throttled container's neighbour."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from docs.pictures import growth, throttling

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs/pictures/plan.svg"
COLUMNS = 96
COMMAND = ["plan", "examples/", "--node", "docs/n1.yaml"]

FRAME = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: "Fira Code", "DejaVu Sans Mono", Menlo, Consolas, monospace;
 font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""rich's own frame without its web fonts: a document loads nothing from elsewhere."""


def in_colour(command: list[str]) -> str:
    """What ``command`` prints in colour at our width."""
    env = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    done = subprocess.run(
        [*command, "--color", "always"],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return done.stdout.rstrip("\n")


def picture() -> str:
    """The picture as the program prints today."""
    program = str(Path(sys.executable).with_name("qoslet"))
    printed = in_colour([program, *COMMAND])
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(
            record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor"
        )
        console.print(Text.from_ansi(f"$ qoslet {' '.join(COMMAND)}"))
        console.print(Text.from_ansi(printed), soft_wrap=True)
        return console.export_svg(
            title="qoslet", theme=MONOKAI, code_format=FRAME, unique_id="qoslet"
        )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    growth.draw()
    throttling.draw()
