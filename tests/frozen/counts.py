"""How many tests are collected and commands of documents executed, beside what was written down.

``python -m tests.frozen.counts`` prints both; ``... counts write TREE`` writes those of a checkout.
What guests run are the live tests, counted by file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.frozen.store import FROZEN

ROOT = Path(__file__).parents[2]
FILE = FROZEN / "counts.json"
Json = dict[str, Any]

_CONSOLE = re.compile(
    r"(<!-- not run: [^>]+ -->\n+)?^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def collected(tree: Path, *words: str) -> Counter[str]:
    """Tests by file, as pytest collects them."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}"}
    done = subprocess.run(
        [*command, *words], cwd=tree, env=env, capture_output=True, text=True, timeout=600
    )
    ids = [
        line for line in done.stdout.splitlines() if "::" in line and " " not in line.split("::")[0]
    ]
    if not ids:
        raise RuntimeError(done.stdout + done.stderr)
    return Counter(line.split("::", 1)[0].removeprefix("tests/") for line in ids)


def documented(tree: Path) -> Counter[str]:
    """The commands that the documents show and that are executed, by page."""
    found: Counter[str] = Counter()
    for page in (tree / "README.md", *sorted((tree / "docs").rglob("*.md"))):
        for exempt, block in _CONSOLE.findall(page.read_text(encoding="utf-8")):
            if not exempt:
                name = str(page.relative_to(tree))
                found[name] += len(re.findall(r"^\$ ", block, re.MULTILINE))
    return found


def counts(tree: Path) -> Json:
    """All of a checkout."""
    return {
        name: {"all": sum(rows.values()), "by file": dict(sorted(rows.items()))}
        for name, rows in (
            ("unit", collected(tree)),
            ("live", collected(tree, "-m", "live")),
            ("documents", documented(tree)),
        )
    }


def written() -> Json:
    """What was written down."""
    found: Json = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def _by_name(rows: Mapping[str, int]) -> Counter[str]:
    """The same by the files' names: folders may be others."""
    found: Counter[str] = Counter()
    for path, count in rows.items():
        found[Path(path).name] += count
    return found


def main(words: list[str]) -> None:
    """Write the counts of a checkout, or print those of this one."""
    if words[:1] == ["write"]:
        FILE.write_text(json.dumps(counts(Path(words[1])), indent=1) + "\n", encoding="utf-8")
        return
    kept, now = written(), counts(ROOT)
    for kind, rows in kept.items():
        sys.stdout.write(f"{kind}: {rows['all']} were, {now[kind]['all']} are\n")
        was, found = _by_name(rows["by file"]), _by_name(now[kind]["by file"])
        for name in sorted(was.keys() | found.keys()):
            if was[name] != found[name]:
                sys.stdout.write(f"  {name}: {was[name]} were, {found[name]} are\n")


if __name__ == "__main__":
    main(sys.argv[1:])
