"""Answers that are meant to be others than the frozen ones, by topic, each topic with its reason.

``python -m tests.frozen.renewed TOPIC REASON [TEXT...]`` takes today's answers of the commands that
differ (only those whose command holds one of the TEXTs, where any is given) into the topic.
"""

from __future__ import annotations

import lzma
import os
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import msgspec

from tests.frozen import store
from tests.frozen.answers import MACHINE, asked, compared

FOLDER = store.FROZEN.parent / "renewed"


class Topic(msgspec.Struct, frozen=True):
    """Why the answers of a topic are others: one sentence."""

    reason: str


class Row(msgspec.Struct, frozen=True):
    """The answer to a command of a group."""

    group: str
    answer: store.Asked

    @property
    def key(self) -> tuple[str, str]:
        """The group and the command."""
        return self.group, self.answer.name


def topics() -> list[str]:
    """The topics that are kept."""
    return sorted(path.name.removesuffix(".jsonl.xz") for path in FOLDER.glob("*.jsonl.xz"))


def read(topic: str) -> tuple[Topic, list[Row]]:
    """A topic and its rows."""
    head, *lines = lzma.decompress(_path(topic).read_bytes()).splitlines()
    rows = [msgspec.json.decode(line, type=Row) for line in lines]
    return msgspec.json.decode(head, type=Topic), rows


@lru_cache(maxsize=1)
def answers() -> dict[tuple[str, str], store.Asked]:
    """Every renewed answer by group and command."""
    return {row.key: row.answer for topic in topics() for row in read(topic)[1]}


def expected(group: str, was: store.Asked) -> store.Asked:
    """What a command has to answer: its renewed answer, or the frozen one."""
    return answers().get((group, was.name), was)


def _path(topic: str) -> Path:
    return FOLDER / f"{topic}.jsonl.xz"


def _write(topic: str, why: Topic, rows: list[Row]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = sorted(rows, key=lambda row: row.key)
    lines = [msgspec.json.encode(one) for one in (why, *kept)]
    _path(topic).write_bytes(lzma.compress(b"\n".join(lines) + b"\n", preset=9))


def _differing(texts: list[str]) -> list[Row]:
    """Today's answers that are not as expected."""
    found = []
    for group in store.groups():
        if group == MACHINE:
            continue
        for was in store.read(group):
            if texts and not any(text in was.name for text in texts):
                continue
            now = asked(group, was.argv, was.stdin)
            if any(not one.wording for one in compared(expected(group, was), now)):
                found.append(Row(group, now))
    return found


def main(topic: str, reason: str, texts: list[str]) -> None:
    """Move what differs into the topic; a row stands in one topic only."""
    with tempfile.TemporaryDirectory() as folder:
        store.place(store.read_documents(), Path(folder))
        os.chdir(folder)
        found = _differing(texts)
        os.chdir("/")
    keys = {row.key for row in found}
    for other in topics():
        why, rows = read(other)
        left = [row for row in rows if row.key not in keys]
        if other == topic:
            found += left
        elif len(left) < len(rows):
            _write(other, why, left)
    _write(topic, Topic(reason), found)
    sys.stdout.write(f"{topic}: {len(found)} answers, {len(keys)} of them new\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
