"""Windows: the object that a message ends in, precedence, big machines, and what pods lose there."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from qoslet.core.api.pod import Platform
from qoslet.core.convert.convert import Conversion, conversion_request, convert_document
from qoslet.core.convert.pods import convert_pods
from qoslet.core.convert.windows_job_object import Windows
from qoslet.core.node.flags import Flags
from qoslet.core.node.node import Node
from qoslet.core.node.resolve import Probed, node_from
from qoslet.core.oci.result import BlockResult
from qoslet.core.rules.windows import milli_of_maximum
from tests.core.vectors.fixtures import pod_of

Json = dict[str, Any]
RUNC = "runc-1.4"
TRIPLE = {"cpu_count": 2, "cpu_shares": 500, "cpu_maximum": 2500}


def values(part: BlockResult) -> dict[str, str]:
    return {row.file: row.value for row in part.rows}


def converted(document: Json, to: str = "windows", **windows: Any) -> Conversion:
    return convert_document(document, conversion_request(to, RUNC, windows=Windows(**windows)))


def windows_node(release: str, cpus: int, **flags: str) -> Node:
    document = {
        "apiVersion": "qoslet/v1",
        "kind": "Node",
        "os": "windows",
        "capacity": {"cpu": str(cpus), "memory": "8Gi"},
    }
    return node_from([("node", document)], Flags(kubernetes=release, **flags), Probed)[0]


def on_node(pod: Json, release: str = "1.36", cpus: int = 4, **flags: str) -> Conversion:
    node = windows_node(release, cpus, **flags)
    return convert_pods([pod_of(pod)], node, conversion_request("windows", RUNC))


def limits(**amounts: str) -> Json:
    return {"containers": [{"name": "c", "limits": amounts, "requests": amounts}]}


def test_a_job_object_has_one_cpu_control() -> None:
    made = converted(TRIPLE)
    refusal = made.parts[0].refusal
    assert refusal is not None
    assert "Count: '2', Limit: '2500', and Weight: '500' are mutually exclusive" in refusal.message
    assert not made.stands


@pytest.mark.parametrize(
    ("message", "file", "value"),
    [
        (TRIPLE, "Processor.Count", "2"),
        ({"cpu_shares": 500, "cpu_maximum": 2500}, "Processor.Weight", "500"),
        ({"cpu_maximum": 2500}, "Processor.Maximum", "2500"),
    ],
)
def test_count_then_shares_then_maximum(message: Json, file: str, value: str) -> None:
    part = converted(message, precedence=True).parts[0]
    assert values(part) == {file: value}
    assert len(part.lost) == len(message) - 1


def test_under_hyperv_all_of_them_apply() -> None:
    part = converted(TRIPLE, isolation="hyperv", precedence=True).parts[0]
    assert values(part) == {
        "Processor.Count": "2",
        "Processor.Maximum": "2500",
        "Processor.Weight": "500",
    }
    assert "25% of each processor; of 2 read back as 500m" in part.rows[1].because


def test_no_more_processors_than_there_are() -> None:
    part = converted({"cpu_count": 96}, processors=64).parts[0]
    assert values(part) == {"Processor.Count": "64"}
    assert values(converted({"cpu_count": 96}).parts[0]) == {"Processor.Count": "96"}


def test_memory_in_whole_mebibytes() -> None:
    part = converted({"memory_limit_in_bytes": str((1 << 20) + 1), "cpu_count": 1}).parts[0]
    assert values(part)["Memory.SizeInMB"] == "1"
    assert not part.lost


def test_each_pod_says_its_isolation() -> None:
    plain = pod_of(limits(cpu="1"))
    hyperv = Platform(runtime_class="hv", handler="runhcs-wcow-hypervisor")
    pods = [structs.replace(plain, platform=hyperv), plain]
    made = convert_pods(pods, windows_node("1.36", 4), conversion_request("windows", RUNC))
    said = [[row.what for row in part.parity] for part in made.parts]
    assert ["isolation" in names for names in said] == [True, False, False, False]
    backs = [part.rows[-1].because.split()[-1] for part in made.parts if part.rows]
    assert backs == ["500m", "1000m"]


def verdicts(made: Conversion) -> dict[str, str]:
    return {row.what: row.verdict for part in made.parts for row in part.parity}


def test_the_isolation_that_is_named_is_that_of_pods() -> None:
    wish = conversion_request("windows", RUNC, windows=Windows("hyperv"))
    made = convert_pods([pod_of(limits(cpu="2"))], windows_node("design", 4), wish)
    assert values(made.parts[1])["Processor.Maximum"] == "6666"
    assert verdicts(made)["isolation"] == "enforced"


def test_less_than_a_mebibyte_is_no_limit() -> None:
    part = converted({"memory_limit_in_bytes": (1 << 20) - 1}).parts[0]
    assert part.rows == ()
    assert [(row.field, row.fate) for row in part.lost] == [("memory_limit_in_bytes", "ignored")]
    made = on_node(limits(memory="500k"))
    assert verdicts(made)["limits.memory"] == "absent"


@pytest.mark.parametrize(
    ("memory", "isolation", "release", "verdict"),
    [
        ("64Mi", "process", "1.36", "enforced"),
        ("100M", "process", "1.36", "approximated"),
        ("1Gi", "hyperv", "1.36", "enforced"),
        ("2Gi", "hyperv", "1.36", "approximated"),
        ("2Gi", "hyperv", "design", "enforced"),
    ],
)
def test_a_memory_limit(memory: str, isolation: str, release: str, verdict: str) -> None:
    made = on_node(limits(memory=memory), release, isolation=isolation)
    assert verdicts(made)["limits.memory"] == verdict


@pytest.mark.parametrize(
    ("document", "rows"),
    [
        ({"cpu_shares": 5000}, {"Processor.Weight": "5000"}),
        ({"cpuShares": "5000"}, {"Processor.Weight": "5000"}),
        ({"memory_limit_in_bytes": 2 << 20}, {"Memory.SizeInMB": "2"}),
        (
            {"cpu_shares": 1, "memory_limit_in_bytes": 2 << 20},
            {"Processor.Weight": "1", "Memory.SizeInMB": "2"},
        ),
    ],
)
def test_fields_of_both_messages_are_windows_for_windows(
    document: Json, rows: dict[str, str]
) -> None:
    assert values(converted(document).parts[0]) == rows
    block = converted(document, "oci").parts[0].message
    assert block is not None
    assert "cpu_shares" not in block


@pytest.mark.parametrize("field", ["cpu_shares", "cpu_maximum"])
@pytest.mark.parametrize("precedence", [True, False])
def test_a_control_beyond_its_range_is_refused(field: str, precedence: bool) -> None:
    assert converted({field: 10000}, precedence=precedence).stands
    refusal = converted({field: 10001}, precedence=precedence).parts[0].refusal
    assert refusal is not None
    assert (refusal.field, refusal.rule) == (field, "refused.windows.range")


def test_more_than_64_processors() -> None:
    pod = limits(cpu="94")
    for release, maximum, back in (("1.36", 9791, "93993m"), ("1.25", 10000, "96000m")):
        made = on_node(pod, release, 96)
        part = made.parts[1]
        assert values(part)["cpu_maximum"] == str(maximum)
        assert any(back in row.because for row in part.rows if row.file == "Processor.Maximum")
    assert milli_of_maximum(9791, 96) == 93993


@pytest.mark.parametrize(
    ("release", "maximum", "back"), [("1.36", "9791", "93993m"), ("1.26", "10000", "96000m")]
)
def test_the_processors_that_are_named_are_those_of_pods(
    release: str, maximum: str, back: str
) -> None:
    node = windows_node(release, 4)
    wish = conversion_request("windows", RUNC, windows=Windows(processors=96))
    part = convert_pods([pod_of(limits(cpu="94"))], node, wish).parts[1]
    assert values(part)["Processor.Maximum"] == maximum
    assert f"96 processors, read back as {back}" in part.parity[0].how


def test_a_count_beyond_the_machine_is_kept_within_it() -> None:
    part = on_node(limits(cpu="96"), "design", isolation="hyperv").parts[1]
    found = {row.file: row for row in part.rows}
    assert found["Processor.Count"].value == "4"
    assert found["Processor.Maximum"].because.endswith("of 4 read back as 3958m")
    assert part.parity[0].how.endswith("4 processors, read back as 3958m")
    assert part.message is not None
    assert part.message["oci"]["cpu"]["count"] == 97  # type: ignore[index]


def test_the_design_s_maximum_is_within_its_range() -> None:
    part = on_node(limits(cpu="96"), "design").parts[1]
    assert values(part)["cpu_maximum"] == "10000"


@pytest.mark.parametrize(
    ("cpu", "cpus", "maximum", "back", "share"),
    [
        ("2", 4, 5000, "1000m", "10000"),
        ("500m", 4, 1250, "250m", "2500"),
        ("2", 2, 10000, "2000m", ""),
    ],
)
def test_todays_cap_under_hyperv_is_of_the_machine_s_two_processors(
    cpu: str, cpus: int, maximum: int, back: str, share: str
) -> None:
    part = on_node(limits(cpu=cpu), cpus=cpus, isolation="hyperv").parts[1]
    assert values(part)["Processor.Maximum"] == str(maximum)
    report = part.parity[0]
    assert report.verdict == ("approximated" if share else "enforced")
    assert report.how.endswith(f"the machine's 2 processors, read back as {back}")
    assert (
        f"{share} of 10000, {cpu if cpu[-1] == 'm' else cpu + '000m'}" in report.instead
    ) == bool(share)
