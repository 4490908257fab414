"""Whatever the documents of a node are: a node or faults of one line each, never a traceback."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.node.flags import Flags
from qoslet.core.node.lookup import Probed
from qoslet.core.node.resolve import node_from
from qoslet.errors import BadInputs
from tests.core.node.documents.test_embedded import CONFIG, READ, REFUSED

KUBELET: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "evictionHard": {"memory.available": "1%"},
    "featureGates": {"MemoryQoS": True},
    "enforceNodeAllocatable": ["pods"],
    "memorySwap": {"swapBehavior": "LimitedSwap"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
    **CONFIG,
}
OWN: dict[str, Any] = {
    "apiVersion": "qoslet/v1",
    "kind": "Node",
    "capacity": {"cpu": "4", "memory": "8Gi"},
    "host": {"hierarchy": "v2"},
}
DOCUMENTS = [KUBELET, OWN, *(one for one, _ in READ), *(one for one, *_ in REFUSED)]
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, -1, 2**70, 1.5, 1e300, True, "", "x", "\0", "\x1b[31m", "-1", "1Gi", "101%"]
) | st.sampled_from([[], {}, [None], {"a": None}, [[]], {"memory.available": "1e99"}])


@st.composite
def spoilt(draw: st.DrawFn) -> dict[str, Any]:
    """A document with some values that are not what they should be."""
    made: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(0, 3))):
        node: Any = made
        while isinstance(node, dict | list) and node:
            key = draw(st.sampled_from(list(node) if isinstance(node, dict) else range(len(node))))
            if not isinstance(node[key], dict | list) or draw(st.booleans()):
                node[key] = copy.deepcopy(draw(VALUES))
                break
            node = node[key]
    return made


@given(st.lists(spoilt(), min_size=1, max_size=3))
def test_any_documents(documents: list[dict[str, Any]]) -> None:
    labelled = [(f"node.yaml (document {at})", one) for at, one in enumerate(documents)]
    try:
        _, problems = node_from(labelled, Flags(probe="never"), Probed)
    except BadInputs as error:
        lines = [str(fault) for fault in error.faults]
    else:
        lines = [f"{row.where}: {row.message} {row.hint}" for row in problems]
    assert [ascii(line) for line in lines if not line.isprintable() or len(line) > 2000] == []
