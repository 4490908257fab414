"""What a run or an apply leaves out of the rows about the host: refusals that nobody asked for."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.node.resolve import Flags, Probed, node_from
from qoslet.core.node.validation.kubelet import host_refusals
from qoslet.core.node.validation.unasked_refusals import unasked_refusals

SWAP, V1 = "swap", "v1"
KUBELET = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def kept(kubelet: bool = False, **flags: Any) -> set[str]:
    """The refusals that stay, by what they are about, of a v1 host with swap."""
    own = {
        "apiVersion": "qoslet/v1",
        "kind": "Node",
        "kubernetes": "1.36",
        "swap": "128Mi",
        "capacity": {"cpu": "4", "memory": "8Gi", "pid": "1000"},
        "host": {"hierarchy": "v1", "kernel": "6.12"},
    }
    more = {"failCgroupV1": True} if flags.pop("document", False) else {}
    documents = [("node.yaml", own), ("kubelet.yaml", KUBELET | more)]
    node, problems = node_from(documents if kubelet else documents[:1], Flags(**flags), Probed)
    assert set(host_refusals(node)) <= set(problems)
    unasked = unasked_refusals(node)
    rows = [row for row in host_refusals(node) if row not in unasked]
    return {SWAP if "failSwapOn" in row.message else V1 for row in rows}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, set()),
        ({"fail_swap_on": "true"}, {SWAP}),
        ({"fail_swap_on": "false"}, set()),
        ({"kubelet": True}, {SWAP, V1}),
        ({"kubelet": True, "fail_swap_on": "false"}, {V1}),
        ({"kubelet": True, "document": True}, {SWAP, V1}),
    ],
)
def test_a_refusal_stays_where_it_was_asked_for(flags: dict[str, Any], expected: set[str]) -> None:
    assert kept(**flags) == expected
