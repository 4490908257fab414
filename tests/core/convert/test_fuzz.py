"""Whatever a document holds, the answer is a conversion or one fault, for every target."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qoslet.core.convert.convert import conversion_request, convert_document
from qoslet.core.convert.options import TARGETS
from qoslet.errors import BadInput
from qoslet.render.documents import encode
from qoslet.render.documents.conversion import conversion_document
from qoslet.render.terminal import Terminal
from qoslet.render.text.conversion import draw, pairs, shell

WORDS = (
    *("cpu", "memory", "pids", "blockIO", "hugepageLimits", "network", "devices", "rdma"),
    *("unified", "shares", "quota", "period", "burst", "idle", "cpus", "mems", "limit", "swap"),
    *("reservation", "swappiness", "weight", "weightDevice", "throttleReadBpsDevice", "major"),
    *("minor", "rate", "pageSize", "classID", "priorities", "name", "linux", "windows"),
    *("resources", "overhead", "cgroup_parent", "cpu_shares", "cpu_quota", "cpu_period"),
    *("memory_limit_in_bytes", "hugepage_limits", "cpu_count", "cpu_maximum", "affinity_cpus"),
    *("apiVersion", "kind", "items", "containers", "sandbox", "metadata", "ociVersion", "storage"),
    *(
        "security_context",
        "namespace_options",
        "pid",
        "image",
        "config",
        "container_id",
        "cpuShares",
    ),
    *("memory.high", "cpu.max", "a/b", "nodot", "\x1b[31m"),
)
NUMBERS = st.one_of(
    st.integers(-(2**65), 2**65),
    st.sampled_from([-1, 0, 1, 2, 1000, 262144, 2**31, 2**32, 2**53, 2**63 - 1, 2**64 - 1]),
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["0-3", "x", "", "max", "1", "-1", "Cri", "Oci", "v1", "9" * 30, "1-", "٣"]),
    st.text(max_size=8),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    ),
    max_leaves=25,
)
DOCUMENTS = st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=6)


@pytest.mark.parametrize("to", TARGETS)
@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    document=DOCUMENTS,
    source=st.sampled_from([None, "oci", "cri"]),
    runtime=st.sampled_from(["runc-1.1.5", "runc-1.4", "crun-1.8.1", "crun-1.23", "cri-o-1.34"]),
    update=st.booleans(),
)
def test_any_document(
    to: str, document: dict[str, Any], source: Any, runtime: str, update: bool
) -> None:
    wish = conversion_request(to, runtime, update=update)
    where = ""
    try:
        made = convert_document(document, wish, source)
    except BadInput as fault:
        where = fault.where
    if where:
        return
    assert encode(conversion_document(made))
    for lines in (draw(made, Terminal(80), True), pairs(made), shell(made)):
        assert all(line.isprintable() for line in lines)


BLOCKS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.fixed_dictionaries(
            {},
            optional={name: st.integers(0, 2**64 - 1) for name in ("shares", "period", "burst")}
            | {"quota": st.integers(-(2**63), 2**63 - 1), "idle": st.integers(-2, 2)}
            | {name: st.text(max_size=9) for name in ("cpus", "mems")},
        ),
        "memory": st.fixed_dictionaries(
            {},
            optional={
                name: st.integers(-(2**63), 2**63 - 1)
                for name in ("limit", "swap", "reservation", "kernel")
            }
            | {"swappiness": st.integers(0, 2**64 - 1)},
        ),
        "blockIO": st.fixed_dictionaries({}, optional={"weight": st.integers(0, 65535)}),
        "unified": st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
        "pids": st.fixed_dictionaries({}, optional={"limit": st.integers(-5, 2**63 - 1)}),
    },
)


@pytest.mark.parametrize("to", ["v1", "v2", "systemd"])
@settings(max_examples=300, deadline=None)
@given(block=BLOCKS, runtime=st.sampled_from(["runc-1.1.5", "runc-1.4", "crun-1.8.1", "crun-1.23"]))
def test_any_numbers(to: str, block: dict[str, Any], runtime: str) -> None:
    made = convert_document(block, conversion_request(to, runtime), "oci")
    part = made.parts[0]
    assert all(row.because and row.source for row in part.rows)
    assert part.refusal is None or part.refusal.because
