"""Which releases a kubelet may be that did not tell its own."""

from __future__ import annotations

import pytest

from qoslet.app.node.found_node import FoundNode
from qoslet.app.node.untold_release import possible_releases
from qoslet.core.node.doctor.finding import DoctorFinding


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
