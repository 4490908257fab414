"""Windows: the object that a message ends in, precedence, big machines, and what pods lose there."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.convert.answer import Part
from qoslet.core.convert.front import Conversion, convert_document, convert_pods, wish_of
from qoslet.core.convert.windows import Windows
from qoslet.core.nodefile import Probed, node_from
from qoslet.core.nodeflags import Flags
from qoslet.core.rules.windows import milli_of_maximum
from qoslet.errors import BadInput
from tests.core.rules_given import pod_of

Json = dict[str, Any]
RUNC = "runc-1.4"
TRIPLE = {"cpu_count": 2, "cpu_shares": 500, "cpu_maximum": 2500}


def values(part: Part) -> dict[str, str]:
    return {row.file: row.value for row in part.rows}


def converted(document: Json, to: str = "windows", **windows: Any) -> Conversion:
    return convert_document(document, wish_of(to, RUNC, windows=Windows(**windows)))


def on_node(pod: Json, release: str = "1.36", cpus: int = 4, **flags: str) -> Conversion:
    document = {
        "apiVersion": "qoslet/v1",
        "kind": "Node",
        "os": "windows",
        "capacity": {"cpu": str(cpus), "memory": "8Gi"},
    }
    node = node_from([("node", document)], Flags(kubernetes=release, **flags), Probed)[0]
    return convert_pods([pod_of(pod)], node, wish_of("windows", RUNC))


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
        ({"cpu_maximum": 20000}, "Processor.Maximum", "10000"),
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


def test_more_than_64_processors() -> None:
    pod = limits(cpu="94")
    for release, maximum, back in (("1.36", 9791, "93993m"), ("1.25", 10000, "96000m")):
        made = on_node(pod, release, 96)
        part = made.parts[1]
        assert values(part)["cpu_maximum"] == str(maximum)
        assert any(back in row.because for row in part.rows if row.file == "Processor.Maximum")
    assert milli_of_maximum(9791, 96) == 93993


def test_the_design_s_formulas() -> None:
    pod = limits(cpu="1500m", memory="64Mi")
    process = on_node(pod, "design").parts[1]
    assert process.message == {
        "cri": {
            "cpu_count": 2,
            "cpu_shares": 3750,
            "cpu_maximum": 3750,
            "memory_limit_in_bytes": 67108864,
        },
        "oci": {
            "cpu": {"count": 2, "shares": 3750, "maximum": 3750},
            "memory": {"limit": 67108864},
        },
    }
    assert values(process)["Processor.Count"] == "2"
    assert [row.field for row in process.lost] == ["cpu_shares", "cpu_maximum"]
    hyperv = on_node(pod, "design", isolation="hyperv")
    assert values(hyperv.parts[1])["Processor.Maximum"] == "7500"
    assert hyperv.wish.windows.isolation == "hyperv"


def test_today_s_formula_sends_a_cap_and_memory() -> None:
    part = on_node(limits(cpu="1500m", memory="64Mi")).parts[1]
    assert part.message is not None
    assert part.message["cri"] == {"cpu_maximum": 3750, "memory_limit_in_bytes": 67108864}
    assert part.refusal is None


def verdicts(made: Conversion) -> dict[str, str]:
    return {row.what: row.verdict for part in made.parts for row in part.parity}


def test_what_windows_enforces_and_what_it_cannot() -> None:
    pod = {
        "containers": [
            {
                "name": "c",
                "limits": {"cpu": "333m", "memory": "64Mi", "ephemeral-storage": "1Gi"},
                "requests": {"cpu": "100m", "memory": "32Mi"},
            }
        ]
    }
    made = on_node(pod, cpus=96)
    assert verdicts(made) == {
        "QoS class": "approximated",
        "resize": "absent",
        "limits.cpu": "approximated",
        "requests.cpu": "absent",
        "limits.memory": "enforced",
        "requests.memory": "absent",
        "ephemeral-storage": "approximated",
    }
    assert all(row.how for part in made.parts for row in part.parity)


@pytest.mark.parametrize(
    ("release", "cpu", "flags", "verdict"),
    [
        ("1.36", "1", {}, "enforced"),
        ("1.36", "333m", {}, "approximated"),
        ("design", "1", {}, "approximated"),
        ("design", "1500m", {"isolation": "hyperv"}, "enforced"),
        ("1.9", "1", {}, "absent"),
    ],
)
def test_a_cpu_limit_by_release(
    release: str, cpu: str, flags: dict[str, Any], verdict: str
) -> None:
    assert verdicts(on_node(limits(cpu=cpu), release, **flags))["limits.cpu"] == verdict


def test_a_request_is_a_weight_in_the_design_only() -> None:
    pod = {"containers": [{"name": "c", "requests": {"cpu": "1"}}]}
    assert verdicts(on_node(pod, "design"))["requests.cpu"] == "approximated"
    assert verdicts(on_node(pod))["requests.cpu"] == "absent"


def test_windows_resources_of_the_oci() -> None:
    block = {"cpu": {"maximum": 500}, "memory": {"limit": 1 << 20}, "storage": {"sandboxSize": 5}}
    document = {"ociVersion": "1.0.2", "windows": {"resources": block}}
    assert converted(document, "cri").parts[0].message == {
        "cpu_maximum": 500,
        "memory_limit_in_bytes": 1 << 20,
        "rootfs_size_in_bytes": 5,
    }
    assert converted(document, "oci").parts[0].message == block
    assert values(converted(document).parts[0])["Processor.Maximum"] == "500"


def test_affinity_goes_through() -> None:
    message = {"cpu_count": 1, "affinity_cpus": [{"cpu_mask": "255", "cpu_group": 1}]}
    assert converted(message, "cri").parts[0].message == {
        "cpu_count": 1,
        "affinity_cpus": [{"cpu_mask": 255, "cpu_group": 1}],
    }


@pytest.mark.parametrize(
    ("document", "to", "words"),
    [
        ({"cpu_count": -1}, "windows", "cpu_count"),
        ({"cpu_count": 1, "cpu_burst": 1}, "windows", "cpu_burst"),
        ({"cpu_count": 1, "affinity_cpus": [5]}, "windows", "affinity_cpus"),
        ({"cpu_count": 1}, "v2", "Windows container"),
        ({"cpu_quota": 1}, "windows", "Linux container"),
        ({"cpu": {"shares": 1}}, "windows", "Linux container"),
        ({"ociVersion": "1", "windows": {"resources": {"cpu": 5}}}, "cri", "resources.cpu"),
        ({"ociVersion": "1", "windows": {"resources": {"cpu": {"shares": 70000}}}}, "cri", "65535"),
    ],
)
def test_messages_that_are_none(document: Json, to: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        converted(document, to)
