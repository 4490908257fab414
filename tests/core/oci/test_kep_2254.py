"""KEP-2254's tables of weights and shares: the domain of each formula, and what the kernel takes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from qoslet.core.cgroup.features import ALL_FEATURES
from qoslet.core.oci.resources import block_of
from qoslet.core.oci.result import BlockResult
from qoslet.core.oci.write import files
from qoslet.core.versions.runtime import converting_runtime


def part(block: dict[str, Any], **features: bool) -> BlockResult:
    kernel = structs.replace(ALL_FEATURES, **features)
    return files(block_of(block), "v2", converting_runtime("kep-2254"), kernel)


def values(result: BlockResult) -> dict[str, str]:
    return {row.file: row.value for row in result.rows}


def weight(amount: int) -> dict[str, Any]:
    return {"blockIO": {"weight": amount}}


def device(amount: int, minor: int = 0) -> dict[str, int]:
    return {"major": 8, "minor": minor, "weight": amount}


def devices(*amounts: int) -> dict[str, Any]:
    return {"blockIO": {"weightDevice": [device(one, at) for at, one in enumerate(amounts)]}}


@pytest.mark.parametrize(("given", "written"), [(10, 1), (11, 11), (50, 405), (108, 990)])
def test_weights_that_bfq_takes(given: int, written: int) -> None:
    assert values(part(weight(given))) == {"io.bfq.weight": str(written)}
    assert values(part(devices(given))) == {"io.bfq.weight": f"8:0 {written}"}


@pytest.mark.parametrize(("given", "written"), [(110, 1011), (500, 4950), (1000, 10000)])
@pytest.mark.parametrize("block", [weight, devices])
def test_weights_beyond_bfq_are_refused_with_the_formula(
    block: Any, given: int, written: int
) -> None:
    refusal = part(block(given)).refusal
    assert refusal is not None
    assert (refusal.rule, refusal.file, refusal.by) == ("refused.bfq", "io.bfq.weight", "kernel")
    assert f"= {written}, but io.bfq.weight accepts 1 to 1000" in refusal.because


@pytest.mark.parametrize("given", [1, 9, 1001, 65535])
@pytest.mark.parametrize("block", [weight, devices])
@pytest.mark.parametrize("bfq", [True, False])
def test_weights_out_of_the_table_are_refused(block: Any, given: int, bfq: bool) -> None:
    refusal = part(block(given), bfq=bfq).refusal
    assert refusal is not None
    assert (refusal.rule, refusal.by) == ("refused.table", "runtime")
    assert f"from 10 to 1000, not {given}" in refusal.because


@pytest.mark.parametrize("given", [10, 100, 110, 500, 1000])
def test_without_bfq_the_file_is_io_weight(given: int) -> None:
    written = 1 + (given - 10) * 9999 // 990
    made = part(weight(given), bfq=False)
    assert values(made) == {"io.weight": str(written)}
    made = part(devices(given), bfq=False)
    assert values(made) == {"io.weight": f"8:0 {written}"}
    assert made.lost == ()


def test_without_both_there_is_no_file() -> None:
    for block in (weight(100), devices(100)):
        refusal = part(block, bfq=False, iocost=False).refusal
        assert refusal is not None
        assert (refusal.rule, refusal.file) == ("refused.kernel", "io.weight")


def test_weights_of_devices_cite_the_formula() -> None:
    both = {"blockIO": {"weight": 20, **devices(50, 100)["blockIO"]}}
    (row,) = part(both).rows
    assert row.value == "102\n8:0 405\n8:1 910"
    assert row.rule == "oci.io.weight.scaled"
    assert "weight 100 - 10) x 9999 / 990 = 910, the last of 3 weights" in row.because
    assert "KEP-2254" in row.source


def test_unset_weights_and_rates() -> None:
    rate = {"major": 8, "minor": 0, "rate": 4096}
    block = {
        "blockIO": {
            "weight": 0,
            "weightDevice": [{"major": 8, "minor": 0}],
            "throttleReadBpsDevice": [rate],
        }
    }
    made = part(block)
    assert values(made) == {"io.max": "8:0 rbps=4096"}
    assert made.refusal is None


@pytest.mark.parametrize("given", [1, 262145, 2**63])
def test_shares_out_of_the_table_are_refused(given: int) -> None:
    refusal = part({"cpu": {"shares": given}}).refusal
    assert refusal is not None
    assert refusal.rule == "refused.table"
    assert f"cpu.shares from 2 to 262144, not {given}" in refusal.because


@pytest.mark.parametrize(("given", "written"), [(2, "1"), (1024, "39"), (262144, "10000")])
def test_shares_of_the_table(given: int, written: str) -> None:
    assert values(part({"cpu": {"shares": given}})) == {"cpu.weight": written}
    assert values(part({"cpu": {"shares": 0}})) == {}
