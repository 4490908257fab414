"""Thousands of nodes do not ask together, whatever happens to their API server."""

from __future__ import annotations

import pytest

from tests.core.node.cluster.load import NODES, SCENES, Scene, simulate, table
from tests.paths import REPO


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.title)
def test_the_worst_second(scene: Scene) -> None:
    found = simulate(scene, nodes=1000)
    assert found.peak <= 1000 / 4
    assert found.settled < scene.down_seconds + 150


def test_the_table_of_the_documents_is_what_runs_give() -> None:
    assert NODES == 5000
    assert table() in (REPO / "docs" / "how-to" / "cluster.md").read_text(encoding="utf-8")
