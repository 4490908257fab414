"""The vectors of tests/data/rules.json: the releases that they hold for, and which do not apply."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from qoslet.core.versions.kubernetes import NEWEST, OLDEST
from tests.paths import DATA

EXECUTED = 36
"""The release that most vectors were read in or run on; used where a vector names none."""


class Vector(Struct, frozen=True):
    """One row: ``fn`` names the rule, ``given`` its input."""

    id: str
    fn: str
    given: Any
    expected: Any
    versions: str = ""


Runner = Callable[[Vector, int], tuple[object, object]]
"""A vector and a minor to what our functions give, and what they should."""

RUNNERS: dict[str, Runner] = {}


def runs(*fns: str) -> Callable[[Runner], Runner]:
    """Register how vectors of ``fns`` are run."""

    def register(runner: Runner) -> Runner:
        RUNNERS.update(dict.fromkeys(fns, runner))
        return runner

    return register


def vectors() -> list[Vector]:
    """All of them, in their order."""
    rows = json.loads((DATA / "rules.json").read_text())["vectors"]
    return [
        Vector(row["id"], row["fn"], row["input"], row["expected"], row.get("versions", ""))
        for row in rows
    ]


_SPAN = re.compile(r"(?P<edge>[<>]=)?1\.(?P<first>\d+)(?:-1\.(?P<last>\d+))?(?![\d.])")


def minors(vector: Vector) -> list[int]:
    """The minors to run a vector under: every one that it holds for.

    Without a release in its text (a runtime's version, "all releases") it is the one that the
    vectors were executed on.
    """
    found = _SPAN.match(vector.versions)
    if found is None:
        return [EXECUTED]
    first, last = int(found["first"]), int(found["last"] or found["first"])
    if found["edge"] == ">=":
        last = NEWEST
    if found["edge"] == "<=":
        first = OLDEST
    return list(range(first, last + 1))


class Exemption(Struct, frozen=True):
    """Vectors of ``fn`` (those that ``when`` picks) that no function of ours answers, and why."""

    fn: str
    why: str
    when: Callable[[Vector], bool] = lambda _: True


def _named(*names: str) -> Callable[[Vector], bool]:
    return lambda vector: vector.id.split("/", 1)[1] in names


def _of_status(vector: Vector) -> bool:
    return bool(vector.given["options"].get("useStatusResources"))


NOT_APPLICABLE = (
    Exemption(
        "subtract_overhead",
        "what a kubelet tells a sandbox in a resize; qoslet's resize tells a sandbox nothing",
    ),
    Exemption(
        "merge_resource_config",
        "a kubelet updates a part of a configuration; qoslet compares the whole of what is planned",
    ),
    Exemption(
        "resize_memory_validation",
        "usage that cannot be read holds no limit up here: the write itself tells whether it fits",
        _named("add-limit-missing-container-usage", "pod-decrease-missing"),
    ),
    Exemption(
        "resize_order",
        "a kubelet takes a limit after -1 for a growth; it is lowered after the containers here",
        _named("unlimited-to-limited"),
    ),
    Exemption("is_pod_cgroup", "no UID is read from a cgroup's name: pods come from documents"),
    Exemption("quantity_round_up", "amounts are rounded to whole units and millis only"),
    Exemption(
        "oci_unified_validation",
        "the runtime judges keys; convert says of each what runc and crun make of it",
    ),
    Exemption("read_cgroup_procs", "the host's reader takes PIDs; nothing plans with them"),
    Exemption(
        "cgroup_v2_validate", "a kubelet's start-up check; apply names what is not delegated"
    ),
    Exemption("cgroup_v1_required_mounts", "a kubelet's start-up check"),
    Exemption("cgroup_mode_magic", "the mount table says the hierarchy, not a file system's type"),
    Exemption("resize_error_handling", "CRI calls that fail: in-place resize has its own issue"),
    Exemption(
        "pod_requests",
        "sums over status.containerStatuses (a scheduler's view): in-place resize has its own issue",
        _of_status,
    ),
    Exemption(
        "pod_limits",
        "sums over status.containerStatuses (a scheduler's view): in-place resize has its own issue",
        _of_status,
    ),
    Exemption(
        "qos_class",
        "plans are made from the spec; a status that contradicts is a problem row of the plan",
        _named("persisted-class-wins"),
    ),
    Exemption(
        "oom_score_adj_constant",
        "the daemons' own scores: no pod, nothing that qoslet writes",
        _named("kubelet-and-kube-proxy"),
    ),
    Exemption(
        "oci_v2_file_writes",
        "a ready weight exists only in libcontainer's struct, an OCI block has shares",
        _named("cpu-weight"),
    ),
)

RUN_ELSEWHERE = {
    "kubelet_config_validation": "node/test_bad_fields.py",
    "node_allocatable_enforcement": "node/test_node.py",
    "node_allocatable_reservation": "node/test_node.py",
    "node_allocatable_validate": "node/test_bad_fields.py",
    "parse_qos_reserved": "node/test_bad_fields.py",
    "parse_reserved_list": "node/test_bad_fields.py",
}
"""Rules whose vectors the tests of node documents run."""


def exemption(vector: Vector) -> Exemption | None:
    """Why a vector does not apply; None where it does."""
    for row in NOT_APPLICABLE:
        if row.fn == vector.fn and row.when(vector):
            return row
    return None
