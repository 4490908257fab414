"""Cgroups whose names are any bytes, as lines of a bundle."""

from __future__ import annotations

from qoslet.core.bundle.rows import CgroupRow, cgroup_rows, lines


def test_a_name_that_is_not_utf8_is_written_out_and_read_again() -> None:
    hostile = CgroupRow("/a\udcff", "memory", 7, 1, {"memory.x\udcfe": "1\udc80"})
    plain = CgroupRow("/b", "memory", oom_score_adj=(0, 2))
    text = lines([hostile, plain])
    assert cgroup_rows(text, "cgroups.jsonl") == [
        CgroupRow("/a\\udcff", "memory", 7, 1, {"memory.x\\udcfe": "1\\udc80"}),
        plain,
    ]
