"""Text is cut into the same items however it comes in blocks, and a break costs one item."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.fleet.splitter import Batch, ItemSplitter
from qoslet.errors import BadInput

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
ITEMS = st.lists(
    VALUES.map(lambda value: {"kind": "Pod", "metadata": {"name": "x"}, "spec": value}), max_size=6
)


def read(text: str, size: int) -> tuple[list[Any], list[BadInput]]:
    """The items and the faults of a text that comes in blocks of so many bytes."""
    splitter, data = ItemSplitter("f"), text.encode()
    found: list[Batch | BadInput] = []
    for at in range(0, len(data), size):
        found += splitter.feed(data[at : at + size])
    found += splitter.finish()
    batches = [one for one in found if isinstance(one, Batch)]
    items = [json.loads(one.data[a:b]) for one in batches for a, b in one.spans]
    return items, [one for one in found if isinstance(one, BadInput)]


@settings(max_examples=150, deadline=None)
@given(ITEMS, ITEMS, st.integers(1, 60), st.sampled_from([None, 1, 4]))
def test_every_item_comes_once(
    first: list[Any], second: list[Any], size: int, indent: int | None
) -> None:
    lists: list[dict[str, Any]] = [{"apiVersion": "v1", "items": first, "kind": "List"}]
    lists.append({"kind": "PodList", "metadata": {"a": [1]}, "items": second, "x": {}})
    text = "\n".join(json.dumps(one, indent=indent) for one in lists)
    assert read(text, size) == ([*first, *second], [])


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 12), st.data())
def test_a_break_costs_the_item_that_it_is_in(count: int, data: st.DataObject) -> None:
    items = [{"kind": "Pod", "metadata": {"name": f"p{at}"}} for at in range(count)]
    texts = [json.dumps(one) for one in items]
    broken = data.draw(st.integers(0, count - 2))
    texts[broken] = texts[broken].replace('"metadata": ', '"metadata" ')
    found, faults = read('{"items": [' + ",\n".join(texts) + "]}", data.draw(st.integers(1, 99)))
    assert found == items[:broken] + items[broken + 1 :]
    assert [fault.where for fault in faults] == [f"f: items[{broken}]"]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_text_that_ends_early(size: int) -> None:
    text = json.dumps({"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]})
    found, faults = read(text[:-8], size)
    assert found == [{"metadata": {"name": "a"}}]
    assert [fault.message for fault in faults] == ["ends in the middle, after 1 item"]


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 12), st.data())
def test_each_of_several_breaks_costs_one_document_of_a_line(
    count: int, data: st.DataObject
) -> None:
    items = [{"kind": "Pod", "metadata": {"name": f"p{at}"}} for at in range(count)]
    broken = data.draw(st.sets(st.integers(0, count - 1)))
    cut = data.draw(st.sampled_from([1, 3, 8]))
    texts = [json.dumps(one) for one in items]
    lines = [text[:-cut] if at in broken else text for at, text in enumerate(texts)]
    found, faults = read("\n".join(lines) + "\n", data.draw(st.integers(1, 999)))
    assert found == [one for at, one in enumerate(items) if at not in broken]
    assert bool(broken) <= len(faults) <= len(broken)


@pytest.mark.parametrize("size", [1, 50, 9_999])
def test_a_line_below_two_breaks_is_no_value_of_the_second(size: int) -> None:
    items = [{"kind": "Pod", "metadata": {"name": f"p{at}"}} for at in range(3)]
    whole = json.dumps(items[2])
    lines = ['{"kind": "Pod", "metadata": {"name"', '{"kind": "Pod", "metadata": {"name":', whole]
    found, faults = read("\n".join(lines) + "\n", size)
    assert found == items[2:]
    assert len(faults) == 2


@pytest.mark.parametrize("size", [1, 7, 9_999])
def test_a_line_that_lacks_its_last_value_leaves_the_one_below(size: int) -> None:
    text = '{"kind": "Pod", "metadata": {"name":\n{"kind": "Pod", "metadata": {"name": "b"}}\n'
    found, faults = read(text, size)
    assert found == [{"kind": "Pod", "metadata": {"name": "b"}}]
    assert [one.message for one in faults] == ["ends in the middle of a document"]


@pytest.mark.parametrize("size", [1, 7, 9_999])
def test_each_of_several_breaks_in_one_block_costs_one_item(size: int) -> None:
    items = [{"kind": "Pod", "metadata": {"name": f"p{at}"}} for at in range(9)]
    texts = [json.dumps(one) for one in items]
    for at in (1, 3, 5, 7):
        texts[at] = texts[at].replace('"metadata": ', '"metadata" ')
    found, faults = read('{"items": [' + ", ".join(texts) + "]}", size)
    assert found == [items[at] for at in (0, 2, 4, 6, 8)]
    assert [one.where for one in faults] == [f"f: items[{at}]" for at in (1, 3, 5, 7)]


@pytest.mark.parametrize("size", [1, 9, 999])
def test_a_bare_array_is_a_list(size: int) -> None:
    items = [{"kind": "Pod", "metadata": {"name": "a"}}, {"kind": "Node", "metadata": {}}]
    assert read(f"{json.dumps(items)}\n[]\n{json.dumps(items, indent=2)}", size) == (
        [*items, *items],
        [],
    )
