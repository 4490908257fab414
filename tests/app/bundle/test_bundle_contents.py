"""A bundle stays below its bound: statistics go first, settings never."""

from __future__ import annotations

import json
import random

import pytest

from qoslet.app.bundle.contents import (
    MOST,
    BundleSource,
    bundle_parts,
    kubelet_document,
    packed,
)
from qoslet.core.bundle.archive import unpack
from qoslet.core.bundle.parts import BUNDLE, CGROUPS
from qoslet.core.bundle.rows import CgroupRow, cgroup_rows
from qoslet.core.node.flags import NO_FLAGS
from qoslet.core.node.lookup import Probed
from qoslet.core.node.machine import Machine
from qoslet.core.node.resolve import node_from
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.host.cgroupfs.observe.cgroup_rows import CgroupsResult

NODE = {
    "apiVersion": "qoslet/v1",
    "kind": "Node",
    "capacity": {"cpu": "4", "memory": "8Gi"},
    "host": {"hierarchy": "v2"},
}
SETTINGS = (
    "cpu.weight",
    "cpu.max",
    "memory.max",
    "memory.high",
    "memory.low",
    "memory.min",
    "pids.max",
)


def source(cgroups: int) -> BundleSource:
    """A node with so many cgroups whose statistics are as long as the kernel's."""
    dice = random.Random(7)

    def row(number: int) -> CgroupRow:
        stat = "\n".join(f"name_of_counter_{line} {dice.randrange(1 << 33)}" for line in range(60))
        files = {name: str(dice.randrange(1 << 20)) for name in SETTINGS}
        more = {
            "memory.stat": stat,
            "memory.pressure": f"some total={dice.random()}",
            "cpu.stat": stat[:200],
        }
        return CgroupRow(f"/kubepods/burstable/pod{number}/c", "v2", number, 1, {**files, **more})

    held = {("/kubepods/burstable/pod0/c", "memory.high"): "4096"}
    node, _ = node_from([("n", NODE)], NO_FLAGS, Probed)
    return BundleSource(
        node=node, kubelet=kubelet_document(node), api_node=None, machine=NODE, pods=None, units=None,
        cgroups=CgroupsResult([row(number) for number in range(cgroups)], []), versions={},
        facts=Machine(probed=Probed()), work=KubeletWork(), held=held,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cgroups", "left_out"), [(20, ""), (450, ""), (2500, "memory.stat and io.stat")]
)
def test_a_bundle_stays_below_its_bound(cgroups: int, left_out: str) -> None:
    given = source(cgroups)
    data = packed(given, 1_790_000_000.0, redact=False)
    assert len(data) <= MOST
    found = unpack(data, "b").parts
    rows = cgroup_rows(found[CGROUPS], "b")
    assert len(rows) == cgroups
    assert all(set(SETTINGS) <= row.files.keys() for row in rows)
    assert all(("memory.stat" in row.files) == (not left_out) for row in rows)
    assert (left_out in given.missing.get(CGROUPS, "")) is True
    assert left_out.encode() in found[BUNDLE]


@pytest.mark.parametrize("redact", [False, True])
def test_what_an_agent_keeps_has_the_name_of_its_cgroup(redact: bool) -> None:
    found = bundle_parts(source(1), "", redact=redact)
    (held,) = json.loads(found[BUNDLE])["kubelet"]["held"]
    (row,) = cgroup_rows(found[CGROUPS], "b")
    assert held == {"path": row.path, "file": "memory.high", "value": "4096"}
    assert ("pod0" in held["path"]) is not redact
