"""Today's answers are the frozen ones: equal but for keys that ``compare.ADDED`` lists, for the
wording of sentences, and for what ``renewed`` holds with its reason.

``python -m tests.frozen.wording`` prints the sentences that are others; recording anew is
``python -m tests.frozen.record``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frozen import contract, renewed, store
from tests.frozen.answers import MACHINE, asked, compared
from tests.frozen.compare import Difference
from tests.frozen.program import ask

CHUNK = 130
SHOWN = 12


def chunks() -> list[tuple[str, int]]:
    """Every group in parts that take about a second."""
    return [
        (group, start)
        for group in store.groups()
        for start in range(0, len(store.read(group)), CHUNK)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("frozen")
    store.place(store.read_documents(), made)
    return made


def said(was: store.Asked, difference: Difference) -> str:
    """Where another exit code came, what the program complains of."""
    if difference.place != "code":
        return ""
    data = Path(was.stdin).read_bytes() if was.stdin else b""
    return f"\n  {ask(was.argv, data).err[:400]}"


@pytest.mark.parametrize(("group", "start"), chunks())
def test_answers_are_as_they_were(
    group: str, start: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if group == MACHINE and contract.machine() != contract.kept()["machine"]:
        pytest.skip("recorded on a machine with other cgroup mounts, or by another user")
    monkeypatch.chdir(folder)
    wrong = []
    for was in store.read(group)[start : start + CHUNK]:
        now = asked(group, was.argv, was.stdin)
        right = renewed.expected(group, was)
        found = [one for one in compared(right, now) if not one.wording]
        wrong += [f"qoslet {was.name}\n  {one}{said(was, one)}" for one in found]
    if wrong:
        rest = f"\nand {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        pytest.fail("\n".join(wrong[:SHOWN]) + rest, pytrace=False)


def test_the_data_is_whole() -> None:
    counts = {group: len(store.read(group)) for group in store.groups()}
    assert sum(counts.values()) > 9000
    assert len(counts) == 18
    size = sum(path.stat().st_size for path in store.FROZEN.iterdir())
    assert size < 3 << 20


def test_a_renewed_answer_is_of_one_topic_and_another_than_the_frozen_one() -> None:
    frozen = {(group, one.name): one for group in store.groups() for one in store.read(group)}
    seen: set[tuple[str, str]] = set()
    for topic in renewed.topics():
        why, rows = renewed.read(topic)
        assert why.reason, topic
        for row in rows:
            assert row.key not in seen, f"{row.answer.name}: record {topic} again"
            seen.add(row.key)
            assert compared(frozen[row.key], row.answer), f"{topic}: {row.answer.name}"
