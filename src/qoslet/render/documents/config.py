"""The configuration in effect on a node, as a document: ``kind: Config`` of ``qoslet/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qoslet.core.explain.node_config import EffectiveField
    from qoslet.core.node.node import Node
    from qoslet.core.problem import Problem


def config_document(
    node: Node, shown: Sequence[EffectiveField], problems: Sequence[Problem]
) -> dict[str, object]:
    """The answer for programs."""
    from qoslet.render.documents import API_VERSION, problem_row

    return {
        "apiVersion": API_VERSION,
        "kind": "Config",
        "node": node.name,
        "fields": [
            {
                "field": row.field,
                "value": row.value,
                "source": row.source,
                "flag": row.flag or None,
                "sources": dict(row.sources) or None,
            }
            for row in shown
        ],
        "problems": [problem_row(row) for row in problems],
    }
