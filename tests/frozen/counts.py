"""How many tests are collected and commands of documents executed, beside what was written down.

``python -m tests.frozen.counts`` prints both and what has fallen; ``... counts write TREE`` writes those of a checkout.
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

_ID = re.compile(r"tests/\S+\.py::")
_CONSOLE = re.compile(
    r"(<!-- not run: [^>]+ -->\n+)?^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def collected(tree: Path, *words: str) -> list[str]:
    """The tests that pytest collects, by their ids."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}"}
    done = subprocess.run(
        [*command, *words], cwd=tree, env=env, capture_output=True, text=True, timeout=600
    )
    ids = [line for line in done.stdout.splitlines() if _ID.match(line)]
    if not ids:
        raise RuntimeError(done.stdout + done.stderr)
    return ids


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
    """All of a checkout. Functions are told by name alone: their files may move."""
    found: Json = {}
    for kind, words in (("unit", ()), ("live", ("-m", "live"))):
        ids = collected(tree, *words)
        files = Counter(one.split("::", 1)[0].removeprefix("tests/") for one in ids)
        functions = Counter(one.split("[", 1)[0].rsplit("::", 1)[1] for one in ids)
        found[kind] = _table(ids, {"by file": files, "by function": functions})
    pages = documented(tree)
    found["documents"] = _table(list(pages.elements()), {"by file": pages})
    return found


def _table(every: list[str], parts: Mapping[str, Counter[str]]) -> Json:
    return {"all": len(every)} | {name: dict(sorted(rows.items())) for name, rows in parts.items()}


def written() -> Json:
    """What was written down."""
    found: Json = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def main(words: list[str]) -> None:
    """Write the counts of a checkout, or print what has fallen in this one."""
    if words[:1] == ["write"]:
        FILE.write_text(json.dumps(counts(Path(words[1])), indent=1) + "\n", encoding="utf-8")
        return
    now = counts(ROOT)
    for kind, rows in written().items():
        sys.stdout.write(f"{kind}: {rows['all']} were, {now[kind]['all']} are\n")
        part = "by function" if "by function" in rows else "by file"
        for name, count in rows[part].items():
            today = now[kind][part].get(name, 0)
            if today < count:
                sys.stdout.write(f"  {name}: {count} were, {today} are\n")


if __name__ == "__main__":
    main(sys.argv[1:])
