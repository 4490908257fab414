"""Every row of the profiles has the effect that it claims; every release plans; runtimes."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

from qoslet.core.api import manifest
from qoslet.core.api.documents import json_documents
from qoslet.core.api.pod import Pod
from qoslet.core.plan.plan import plan
from qoslet.core.versions import kubernetes
from qoslet.core.versions.kubernetes import (
    DESIGN_ROWS,
    NEWEST,
    OLDEST,
    ROWS,
    Profile,
    ReleaseBehaviour,
    ReleaseChange,
)
from qoslet.core.versions.runtime import BUNDLED, bundled_runc, runtime_of
from tests.core.vectors.fixtures import node_of
from tests.core.versions.profile_cases import CASES, DESIGN_CASES, Case
from tests.paths import SAMPLES


def test_every_row_has_a_case() -> None:
    assert {(row.since, row.choice) for row in ROWS} == set(CASES)
    assert {row.choice for row in DESIGN_ROWS} == set(DESIGN_CASES)
    assert len(ROWS) == len(CASES)


def test_every_choice_has_a_row() -> None:
    chosen = {row.choice for row in (*ROWS, *DESIGN_ROWS)}
    assert chosen == {field.name for field in structs.fields(ReleaseBehaviour)}


def test_every_row_cites() -> None:
    assert all(row.source for row in (*ROWS, *DESIGN_ROWS))


def _previous(row: ReleaseChange, later: Profile) -> Profile:
    """The profile of ``later`` without a row."""
    if later.kubernetes == "design":
        earlier = [one for one in ROWS if one.choice == row.choice]
    else:
        earlier = [one for one in ROWS if one.choice == row.choice and one.since < row.since]
    value = earlier[-1].value if earlier else getattr(ReleaseBehaviour(), row.choice)
    choices = structs.replace(later.choices, **{row.choice: value})
    return structs.replace(later, choices=choices, memory_qos=choices.memory_qos)


def _check(row: ReleaseChange, case: Case, before: Profile, after: Profile) -> None:
    assert case.seen(before) == case.before
    assert case.seen(after) == case.after
    assert case.before != case.after
    if case.alone:
        assert case.seen(_previous(row, after)) != case.after


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"1.{row.since}-{row.choice}")
def test_row_has_its_effect(row: ReleaseChange) -> None:
    before, after = (kubernetes.resolve(f"1.{minor}") for minor in (row.since - 1, row.since))
    _check(row, CASES[row.since, row.choice], before, after)


@pytest.mark.parametrize("row", DESIGN_ROWS, ids=lambda row: row.choice)
def test_design_row_has_its_effect(row: ReleaseChange) -> None:
    before, after = kubernetes.resolve(f"1.{NEWEST}"), kubernetes.resolve("design")
    _check(row, DESIGN_CASES[row.choice], before, after)


@pytest.mark.parametrize("minor", [row.since for row in ROWS if row.choice == "throttling_factor"])
def test_factor_of_a_form_is_the_factor_of_its_release(minor: int) -> None:
    made = kubernetes.resolve(f"1.{minor}")
    from qoslet.core.resources.node_policy import VARIANT_FACTOR

    assert VARIANT_FACTOR[made.memory_qos] == made.choices.throttling_factor


def _sample(name: str) -> list[Pod]:
    data = (SAMPLES / name).read_bytes()
    loaded = manifest.pods_from(json_documents(data, name), manifest.Options())
    return loaded.pods


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
@pytest.mark.parametrize("release", [*[f"1.{n}" for n in range(OLDEST, NEWEST + 1)], "design"])
def test_every_release_plans_the_sample_pods(release: str, hierarchy: str) -> None:
    pods = _sample("pods.json")
    assert pods
    for gates in ({}, {"MemoryQoS": True, "NodeSwap": True, "PodLevelResources": True}):
        for driver in ("cgroupfs", "systemd"):
            node = node_of(
                release,
                capacity={"cpu": "8", "memory": "32Gi", "pid": "32768", "hugepages-2Mi": "1Gi"},
                host={"hierarchy": hierarchy, "hugepage_sizes": (2 << 20,)},
                gates=gates,
                runtime="containerd-1.7.24+crun-1.21",
                driver=driver,
            )
            made = plan(pods, node)
            assert len(made.pods) == len(pods)
            assert all(row.because and row.source for g in made.cgroups for row in g.settings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.36", "1.36"),
        ("v1.36.2", "1.36"),
        ("v1.31.4-eks-a1b2c3", "1.31"),
        ("1.28+", "1.28"),
        ("1.6", "1.6"),
        ("design", "design"),
    ],
)
def test_release_of_a_version(text: str, expected: str) -> None:
    assert kubernetes.minor_of(text) == expected


@pytest.mark.parametrize("text", ["", "1", "2.0", "v1", "1.x", "1.5", "1.38", "one.two", "1."])
def test_no_release(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a Kubernetes release|older than|newer than"):
        kubernetes.minor_of(text)


def test_evidence_is_the_last_row() -> None:
    row = kubernetes.evidence("1.30", "memory_qos")
    assert row is not None
    assert row.since == 27
    assert kubernetes.evidence("1.21", "memory_qos") is None
    decided = kubernetes.evidence("design", "memory_qos")
    assert decided is not None
    assert decided.value == "design"


def test_form_by_name_overrides_the_release() -> None:
    made = kubernetes.resolve("1.36", memory_qos="1.22")
    assert (made.memory_qos, made.memory_qos_forced) == ("1.22", True)
    with pytest.raises(ValueError, match="is none of"):
        kubernetes.resolve("1.36", memory_qos="1.23")


# Runtimes


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("runc-1.0.0", 39),
        ("runc-1.1.15", 39),
        ("runc-1.2.9", 39),
        ("runc-1.3.0", 39),
        ("runc-1.3.1", 39),
        ("runc-1.3.2", 100),
        ("runc-1.4.0", 100),
        ("runc-1.4.0-rc.1", 100),
        ("runc", 100),
        ("crun-1.22", 39),
        ("crun-1.23", 100),
        ("crun-1.23.1", 100),
        ("crun", 100),
        ("youki-0.5.4", 39),
        ("process", 100),
        ("containerd-1.7.24", 39),
        ("containerd-2.1.4", 39),
        ("containerd-2.2.0", 100),
        ("containerd-1.7.24+crun-1.23", 100),
        ("cri-o-1.33.0", 39),
        ("cri-o-1.34.0", 100),
    ],
)
def test_weight_of_1024_shares_by_runtime(text: str, weight: int) -> None:
    assert runtime_of(text).weight(1024) == weight


@pytest.mark.parametrize(
    ("text", "cri", "cri_version", "oci", "oci_version"),
    [
        ("containerd-1.7.24+crun-1.21", "containerd", (1, 7, 24), "crun", (1, 21)),
        ("crun-1.21+containerd-1.7.24", "containerd", (1, 7, 24), "crun", (1, 21)),
        ("containerd-v1.7.24", "containerd", (1, 7, 24), "runc", (1, 2, 2)),
        ("containerd-1.7.24-0ubuntu1~22.04", "containerd", (1, 7, 24), "runc", (1, 2, 2)),
        ("containerd-1.6.8+unknown", "containerd", (1, 6, 8), "runc", (1, 1, 0)),
        ("cri-o-1.31.2+runc-1.4.0", "cri-o", (1, 31, 2), "runc", (1, 4, 0)),
        ("crio-1.31.2", "cri-o", (1, 31, 2), "runc", (1, 2, 0)),
        ("runc-1.3.2", None, (), "runc", (1, 3, 2)),
        ("process", None, (), "process", (9999,)),
    ],
)
def test_runtime_text(
    text: str,
    cri: str | None,
    cri_version: tuple[int, ...],
    oci: str,
    oci_version: tuple[int, ...],
) -> None:
    found = runtime_of(text)
    assert (found.cri, found.cri_version) == (cri, cri_version)
    assert (found.oci, found.oci_version) == (oci, oci_version)
    assert found.name == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "podman-4.3",
        "runc-",
        "runc-x",
        "runc-1.0+crun-1.0",
        "containerd-1.7+cri-o-1.31",
        "containerd-1.7+containerd-2.0",
        "containerd-",
        "gvisor",
        "runc 1.4",
        "cri",
    ],
)
def test_no_runtime(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a known runtime|is not a version|same kind"):
        runtime_of(text)


@pytest.mark.parametrize("row", BUNDLED, ids=str)
def test_runc_that_a_runtime_brings_along(
    row: tuple[str, tuple[int, ...], tuple[int, ...]],
) -> None:
    cri, since, runc = row
    assert bundled_runc((cri, since)) == runc
    assert bundled_runc((cri, (*since, 1))) == runc


def test_bundled_rows_are_in_order() -> None:
    for cri in ("containerd", "cri-o"):
        versions = [since for name, since, _ in BUNDLED if name == cri]
        assert versions == sorted(versions)
        assert versions[0] == (0,)


def test_reservations_and_hugepages_by_runtime() -> None:
    facts = {
        text: (runtime_of(text).hugetlb, runtime_of(text).rsvd, runtime_of(text).swap_from_limit)
        for text in ("runc-1.1.9", "runc-1.1.10", "crun-1.23", "containerd-2.2", "cri-o-1.34")
    }
    assert facts == {
        "runc-1.1.9": (True, False, False),
        "runc-1.1.10": (True, True, False),
        "crun-1.23": (True, False, False),
        "containerd-2.2": (False, True, True),
        "cri-o-1.34": (True, True, True),
    }


def test_sample_reads_as_json() -> None:
    assert json.loads((SAMPLES / "pods.json").read_text())["items"]
