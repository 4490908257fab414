"""Which releases a kubelet may be that did not tell its own."""

from __future__ import annotations

import pytest

from qoslet.app.node.found_node import FoundNode
from qoslet.app.node.untold_release import other_releases, possible_releases
from qoslet.core.node.doctor.finding import DoctorFinding
from qoslet.core.node.flags import Flags


@pytest.mark.parametrize(
    ("state", "configuration", "releases"),
    [
        ("unknown", {"memoryReservationPolicy": "None"}, ("1.36",)),
        ("unknown", {"mergeDefaultEvictionSettings": False}, ("1.33", "1.34", "1.35", "1.36")),
        ("unknown", {}, ()),
        ("unknown", None, ()),
        ("ok", {"memoryReservationPolicy": "None"}, ()),
    ],
)
def test_what_configz_tells_of_the_release(
    state: str, configuration: dict[str, object] | None, releases: tuple[str, ...]
) -> None:
    document = {"kind": "Node"} if configuration is None else {"kubeletconfig": configuration}
    note = DoctorFinding("kubelet release", "ok" if state == "ok" else "unknown", "1.36 or later")
    found = FoundNode(1, "n1", (("kubelet", document),), None, (note,))
    assert possible_releases(found) == releases


def test_a_node_is_described_with_each_release_that_its_kubelet_may_be() -> None:
    """By the documents that are there: a kubelet that answers late is not asked again."""
    configuration = {"kubeletconfig": {"memoryReservationPolicy": "None"}}
    note = DoctorFinding("kubelet release", "unknown", "1.36 or later")
    found = FoundNode(1, "n1", (("kubelet", configuration),), None, (note,))
    nodes = other_releases(found, [], Flags(cgroup_root="/q"))
    assert {name: one.profile.minor for name, one in nodes.items()} == {"1.36": 36}
    assert nodes["1.36"].kubelet.cgroup_root == "/q"
    assert other_releases(found, [], Flags(kubernetes="1.37")) == {}
