"""Windows containers by release and by design."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.errors import BadInput
from tests.core.convert.test_windows import Json, converted, limits, on_node, values, verdicts


@pytest.mark.parametrize("release", ["1.10", "1.17"])
def test_until_1_17_docker_takes_the_shares(release: str) -> None:
    part = on_node(limits(cpu="1", memory="64Mi"), release).parts[1]
    rows = values(part)
    assert (rows["cpu_shares"], rows["cpu_maximum"]) == ("5000", "2500")
    assert rows["Processor.Weight"] == "5000"
    assert "Processor.Maximum" not in rows
    assert [row.field for row in part.lost] == ["cpu_maximum"]
    assert {row.what: row.verdict for row in part.parity}["limits.cpu"] == "absent"
    assert {row.what: row.verdict for row in part.parity}["requests.cpu"] == "absent"


def test_until_1_17_docker_refuses_a_cap_under_hyperv() -> None:
    made = on_node(limits(cpu="1"), "1.14", isolation="hyperv")
    refusal = made.parts[1].refusal
    assert refusal is not None
    assert refusal.message == "range of CPUPercent is from 1 to 100"
    assert [row.what for row in made.parts[1].parity] == ["container"]
    part = on_node(limits(cpu="5m"), "1.14", isolation="hyperv").parts[1]
    assert values(part)["cpu_maximum"] == "50"
    assert values(part)["Processor.Maximum"] == "5000"


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
    assert hyperv.request.windows.isolation == "hyperv"


def test_today_s_formula_sends_a_cap_and_memory() -> None:
    part = on_node(limits(cpu="1500m", memory="64Mi")).parts[1]
    assert part.message is not None
    assert part.message["cri"] == {"cpu_maximum": 3750, "memory_limit_in_bytes": 67108864}
    assert part.refusal is None


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
    cri = {"cpu_count": 1, "affinity_cpus": [{"cpu_mask": 255, "cpu_group": 1}]}
    oci = {"cpu": {"count": 1, "affinity": [{"mask": 255, "group": 1}]}}
    assert converted(message, "cri").parts[0].message == cri
    assert converted(message, "oci").parts[0].message == oci
    assert converted({"windows": {"resources": oci}}, "cri").parts[0].message == cri


SIZED = {"rootfs_size_in_bytes": 100, "affinity_cpus": [{"cpu_mask": 255, "cpu_group": 1}]}


def test_what_the_object_has_no_field_for_is_said() -> None:
    for isolation, fate in (("process", "elsewhere"), ("hyperv", "ignored")):
        part = converted(SIZED, isolation=isolation).parts[0]
        assert part.rows == ()
        fates = {row.field: row.fate for row in part.lost}
        assert fates == {"rootfs_size_in_bytes": "elsewhere", "affinity_cpus": fate}


def test_a_mask_without_a_processor_is_refused() -> None:
    refusal = converted({"affinity_cpus": [{"cpu_mask": 0}]}).parts[0].refusal
    assert refusal is not None
    assert "must be non-zero: entry 0" in refusal.message


STORED = {"windows": {"resources": {"storage": {"iops": 7, "bps": 9, "sandboxSize": 5}}}}


def test_rates_of_storage() -> None:
    part = converted(STORED).parts[0]
    assert values(part) == {"Storage.QoS.IopsMaximum": "7", "Storage.QoS.BandwidthMaximum": "9"}
    assert [(row.field, row.fate) for row in part.lost] == [("storage.sandboxSize", "ignored")]
    assert converted(STORED, "oci").parts[0].message == STORED["windows"]["resources"]
    part = converted(STORED, "cri").parts[0]
    assert part.message == {"rootfs_size_in_bytes": 5}
    assert [row.field for row in part.lost] == ["storage.iops", "storage.bps"]


@pytest.mark.parametrize("to", ["windows", "oci", "cri"])
def test_names_that_are_no_field_are_said(to: str) -> None:
    block = {"cpu": {"bogus": 4, "count": 1}, "memory": {"lim": 4}, "gpu": {}}
    made = converted({"windows": {"resources": block}}, to)
    assert [row.where for row in made.problems] == [
        f"text: windows.resources: {place}" for place in ("gpu", "cpu.bogus", "memory.lim")
    ]
    assert made.stands


def test_a_block_beside_its_place_is_said() -> None:
    made = converted({"windows": {"cpu": {"maximum": 5}, "hyperv": {}}})
    assert [row.where for row in made.problems] == ["text: windows.cpu"]


def test_what_is_null_is_unset() -> None:
    assert values(converted({"cpu_shares": None, "cpu_count": 2}).parts[0]) == {
        "Processor.Count": "2"
    }


@pytest.mark.parametrize(
    ("document", "to", "words"),
    [
        ({"cpu_count": -1}, "windows", "cpu_count"),
        ({"cpu_count": 1, "cpu_burst": 1}, "windows", "cpu_burst"),
        ({"cpu_count": 1, "affinity_cpus": [5]}, "windows", "affinity_cpus"),
        ({"affinity_cpus": [{"cpu_mask": 1, "numa": 2}]}, "windows", "affinity_cpus.numa"),
        ({"cpu_maximum": 65536}, "windows", "65535"),
        ({"cpu_shares": 1, "cpuShares": 1}, "windows", "cpuShares: is given twice"),
        ({"affinity_cpus": [{"cpu_mask": 1, "cpuMask": 2}]}, "cri", "cpuMask: is given twice"),
        ({"cpu_count": 2**31}, "windows", "2147483647"),
        ({"cpu_shares": 1, "cpu_quota": 1}, "windows", "Linux container"),
        ({"windows": {"resources": {"cpu": {"affinity": 5}}}}, "cri", "cpu.affinity"),
        ({"windows": {"resources": {"cpu": {"count": False}}}}, "cri", "cpu.count"),
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
