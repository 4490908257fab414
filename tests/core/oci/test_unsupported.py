"""The settings of a block that a release of a runtime does not know."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.oci.resources import block_of
from qoslet.core.oci.unsupported import lost
from qoslet.core.versions.runtime import runtime_of

FIELDS: dict[str, dict[str, Any]] = {
    "cpu.idle": {"cpu": {"idle": 0}},
    "cpu.burst": {"cpu": {"burst": 1000}},
    "memory.checkBeforeUpdate": {"memory": {"checkBeforeUpdate": True}},
    "unified": {"unified": {"memory.high": "max"}},
}


@pytest.mark.parametrize(
    ("runtime", "unknown"),
    [
        ("runc-1.0.0-rc92", {*FIELDS}),
        ("runc-1.1.5", {"cpu.idle", "cpu.burst", "memory.checkBeforeUpdate"}),
        ("crun-1.6", {"cpu.burst", "memory.checkBeforeUpdate"}),
        ("runc-1.3.2", set()),
        ("crun-1.23", set()),
    ],
)
def test_what_a_release_does_not_know_is_lost_where_the_block_has_it(
    runtime: str, unknown: set[str]
) -> None:
    of = runtime_of(runtime)
    assert lost(block_of({"cpu": {"shares": 100}, "memory": {"limit": 1 << 26}}), "v2", of) == ()
    for field, block in FIELDS.items():
        rows = lost(block_of(block), "v2", of)
        named = [row.what for row in rows]
        assert named == ([f"{field} under {runtime}"] if field in unknown else []), field
