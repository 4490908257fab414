"""Each verdict, on the tree that a kubelet and containerd leave; sources beside the expectation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.api.manifest import Options
from qoslet.core.audit.audit import settled
from qoslet.core.audit.live import LiveTree
from qoslet.core.audit.target import only
from qoslet.core.plan import plan as planning
from qoslet.core.plan.plan import plan as planned
from qoslet.core.versions.runtime import runtime_of
from qoslet.errors import BadInput
from qoslet.host.files import manifests
from tests.core.audit.trees import (
    SAMPLES,
    changed,
    look,
    plan_of,
    tree_of,
    units_of,
    without,
    written,
)
from tests.core.audit.verdicts.setups import SETUPS, first, is_clean, sole, told
from tests.core.audit.verdicts.setups import folder as folder


@pytest.mark.parametrize("kubernetes", ["1.22", "1.27", "1.32", "1.36", "1.37"])
@pytest.mark.parametrize(("hierarchy", "driver"), SETUPS)
def test_nothing_is_found_where_nothing_was_changed(
    folder: str, hierarchy: str, driver: str, kubernetes: str
) -> None:
    plan = plan_of(folder, hierarchy, driver, kubernetes)
    report = look(plan, tree_of(plan))
    assert report.findings == ()
    assert report.compared > 150
    assert is_clean(report)


@pytest.mark.parametrize(("hierarchy", "driver"), SETUPS)
def test_every_planned_file_that_is_changed_is_found(
    folder: str, hierarchy: str, driver: str
) -> None:
    plan = plan_of(folder, hierarchy, driver)
    live = tree_of(plan)
    units = units_of(plan, live)
    tried = 0
    for cgroup in plan.cgroups:
        for setting in cgroup.settings if cgroup.path is not None else ():
            value = "7 100000" if setting.file == "cpu.max" else "1638400"
            if setting.file.startswith("cpuset"):
                value = "0"
            if setting.applied == value:
                continue
            found = sole(plan, written(live, cgroup.path or "", setting.file, value), units=units)
            assert (found.verdict, found.file, found.found) in (
                ("drift", setting.file, value),
                ("stale", setting.file, value),
            )
            assert found.expected == setting.applied
            assert (found.fix or "").startswith(("printf", "systemctl set-property"))
            assert found.reset_by
            assert found.writer
            tried += 1
    assert tried > 100


def test_a_finding_says_who_writes_what_resets_it_and_what_repairs_it(folder: str) -> None:
    plan = plan_of(folder, "v2", "systemd")
    pod = first(plan, "pod")
    live = written(tree_of(plan), pod.path or "", "cpu.weight", "100")
    found = sole(plan, live)
    wanted = next(one for one in pod.settings if one.file == "cpu.weight")
    assert (found.verdict, found.severity) == ("drift", "warning")
    assert (found.expected, found.found, found.writer) == (wanted.value, "100", "kubelet")
    assert found.property_text == wanted.value
    assert found.rule == wanted.rule
    assert found.because == wanted.because
    # cm/cgroup_manager_linux.go SetCgroupConfig: only an in-place resize writes it again
    assert "in-place resize" in (found.reset_by or "")
    assert "daemon-reload" in (found.reset_by or "")
    assert found.fix == f"systemctl set-property --runtime {pod.unit} CPUWeight={wanted.value}"


def test_a_property_that_differs_from_a_right_file_is_latent(folder: str) -> None:
    plan = plan_of(folder, "v2", "systemd")
    live = tree_of(plan)
    units = units_of(plan, live)
    pod = first(plan, "pod")
    wanted = next(one for one in pod.settings if one.file == "cpu.weight")
    units[pod.unit or ""] = {**units[pod.unit or ""], "CPUWeight": "77"}
    found = sole(plan, live, units=units)
    assert (found.verdict, found.file, found.property_text) == ("latent", "cpu.weight", "77")
    assert found.found == found.expected == wanted.applied


def test_a_property_and_file_that_both_differ_were_set_through_systemd(folder: str) -> None:
    plan = plan_of(folder, "v2", "systemd")
    pod = first(plan, "pod")
    live = written(tree_of(plan), pod.path or "", "cpu.weight", "77")
    units = units_of(plan, live)
    units[pod.unit or ""] = {**units[pod.unit or ""], "CPUWeight": "77"}
    found = sole(plan, live, units=units)
    assert (found.verdict, found.found, found.property_text) == ("drift", "77", "77")
    assert "through systemd" in found.hint
    # a daemon-reload writes 77 again
    assert "daemon-reload" not in (found.reset_by or "")
    assert "in-place resize" in (found.reset_by or "")


@pytest.mark.parametrize(
    ("level", "file", "value"),
    [
        ("container", "memory.high", "33554432"),  # KEP-2570: kept until restart or resize
        ("container", "memory.low", "4194304"),
        ("pod", "memory.min", "4194304"),
        ("qos", "memory.low", "4194304"),  # PR 140267: 1.37 clears it, older kubelets do not
        ("node", "memory.min", "4194304"),
    ],
)
def test_what_a_feature_left_is_stale(folder: str, level: str, file: str, value: str) -> None:
    plan = plan_of(folder, "v2", "cgroupfs")
    cgroup = first(plan, level)
    assert file not in {one.file for one in cgroup.settings}
    found = sole(plan, written(tree_of(plan), cgroup.path or "", file, value))
    assert (found.verdict, found.file, found.found) == ("stale", file, value)
    assert found.expected in ("max", "0")
    assert f"{found.expected}" in (found.fix or "")
    assert found.reset_by == "nothing resets it"


def test_what_nothing_here_writes_is_drift(folder: str) -> None:
    plan = plan_of(folder, "v2", "cgroupfs")
    qos = first(plan, "qos")
    found = sole(plan, written(tree_of(plan), qos.path or "", "memory.high", "1048576"))
    assert (found.verdict, found.expected, found.writer) == ("drift", "max", None)


@pytest.mark.parametrize("level", ["sandbox", "container"])
def test_what_runtimes_set_by_default_is_no_finding(folder: str, level: str) -> None:
    plan = plan_of(folder, "v2", "systemd")
    live = tree_of(plan)
    path = next(
        path
        for path, one in live.cgroups.items()
        if one.processes and (level == "container") == (path in {c.path for c in plan.cgroups})
    )
    assert look(plan, written(live, path, "pids.max", "4915")).findings == ()


def test_a_pod_that_is_being_started_is_pending(folder: str) -> None:
    plan = plan_of(folder)
    pod = first(plan, "pod")
    assert pod.pod is not None
    waiting = replace(pod.pod, phase="Pending")
    cgroups = tuple(
        replace(one, pod=waiting) if one.pod is pod.pod else one for one in plan.cgroups
    )
    found = sole(replace(plan, cgroups=cgroups), without(tree_of(plan), pod.path or ""))
    assert (found.verdict, found.severity) == ("pending", "info")


def test_oom_score_adj_of_the_first_process_is_compared(folder: str) -> None:
    plan = plan_of(folder)
    container = first(plan, "container")
    live = changed(tree_of(plan), container.path or "", oom_score_adj=(12,))
    found = sole(plan, live)
    assert (found.verdict, found.file, found.found) == ("drift", "oom_score_adj", "12")
    assert found.expected == str(container.oom_score_adj)


def test_weights_of_the_other_conversion_are_told_with_the_split(folder: str) -> None:
    # opencontainers/cgroups 0.0.3: 102 shares are weight 17, before it 4
    plan = plan_of(folder)
    container = next(
        one
        for one in plan.cgroups
        if one.level == "container" and any(s.value == "17" for s in one.settings)
    )
    found = sole(plan, written(tree_of(plan), container.path or "", "cpu.weight", "4"))
    assert (found.verdict, found.found, found.expected) == ("weights", "4", "17")
    assert "%" in found.message


@pytest.mark.parametrize(
    ("runtime", "severity"), [("containerd", "info"), ("containerd+runc-1.4.0", "warning")]
)
def test_weights_of_a_runtime_whose_version_is_not_known_are_a_note(
    folder: str, runtime: str, severity: str
) -> None:
    # containerd did not answer beside a kubelet 1.36.2: container IDs name no version
    plan = plan_of(folder)
    profile = replace(plan.node.profile, runtime=runtime_of(runtime))
    node = replace(plan.node, profile=profile)
    plan = planned([one.pod for one in plan.pods], node)
    container = next(
        one
        for one in plan.cgroups
        if one.level == "container" and any(s.value == "17" for s in one.settings)
    )
    found = sole(plan, written(tree_of(plan), container.path or "", "cpu.weight", "4"))
    assert (found.verdict, found.severity) == ("weights", severity)


def test_protection_below_an_ancestor_without_is_ineffective(folder: str) -> None:
    flags = {"feature_gates": "MemoryQoS=true", "memory_qos": "1.37"}
    plan = plan_of(folder, "v2", "cgroupfs", "1.37", **flags)
    live = tree_of(plan)
    pod = next(one for one in plan.cgroups if one.level == "pod" and one.name.count("/") == 3)
    live = written(live, pod.path or "", "memory.low", "4194304")
    rows = look(plan, live).findings
    assert any(one.verdict in ("ineffective", "stale") for one in rows)


def test_rounding_is_harmless(folder: str) -> None:
    plan = plan_of(folder, "v2", "systemd")
    cgroup, setting = next(
        (one, s) for one in plan.cgroups for s in one.settings if s.file == "cpu.max" and one.path
    )
    # 15m is 1500 us, in whole percents of a CPU 2000: opencontainers/cgroups systemd addCPUQuota
    rounded = replace(setting, value="1500 100000", effective="2000 100000")
    settings = tuple(rounded if s is setting else s for s in cgroup.settings)
    cgroups = [replace(one, settings=settings) if one is cgroup else one for one in plan.cgroups]
    plan = replace(plan, cgroups=tuple(cgroups))
    live = tree_of(plan)
    assert look(plan, live).findings == ()
    found = sole(plan, written(live, cgroup.path or "", "cpu.max", "1500 100000"))
    assert (found.verdict, found.severity) == ("rounding", "info")
    assert sole(plan, written(live, cgroup.path or "", "cpu.max", "1600 100000")).verdict == "drift"


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
def test_memory_oom_group_may_be_a_by_effect_of_a_property(folder: str, driver: str) -> None:
    # beside a kubelet 1.36.2: 12 containers after systemctl set-property of other values
    plan = plan_of(folder, "v2", driver)
    path = first(plan, "container").path or ""
    found = sole(plan, written(tree_of(plan), path, "memory.oom.group", "0"))
    assert (found.verdict, found.found) == ("drift", "0")
    assert any("OOMPolicy" in one for one in found.may_have) is (driver == "systemd")


@pytest.mark.parametrize(("percent", "verdict"), [("20ms", "rounding"), ("770ms", "latent")])
def test_a_rounded_file_says_nothing_of_a_property_that_differs(
    folder: str, percent: str, verdict: str
) -> None:
    # a container of a kubelet 1.36.2 after a daemon-reload, then with CPUQuota=77% behind its file
    plan = plan_of(folder, "v2", "systemd")
    cgroup, setting = next(
        (one, s) for one in plan.cgroups for s in one.settings if s.file == "cpu.max" and one.path
    )
    planned = replace(setting, value="1500 100000", effective=None)
    settings = tuple(planned if s is setting else s for s in cgroup.settings)
    cgroups = [replace(one, settings=settings) if one is cgroup else one for one in plan.cgroups]
    plan = replace(plan, cgroups=tuple(cgroups))
    live = written(tree_of(plan), cgroup.path or "", "cpu.max", "2000 100000")
    units = units_of(plan, live)
    unit = cgroup.unit or ""
    units[unit] = {**units[unit], "CPUQuotaPerSecUSec": percent}
    found = sole(plan, live, units=units)
    assert (found.verdict, found.found, found.property_text) == (verdict, "2000 100000", percent)
    assert "without systemd" not in found.hint


def test_what_could_not_be_read_is_no_finding(folder: str) -> None:
    plan = plan_of(folder)
    live = tree_of(plan)
    pod = first(plan, "pod")
    values = dict(live.cgroups[pod.path or ""].values)
    del values["cpu.weight"]
    live = changed(live, pod.path or "", values=values, unread={"cpu.weight": "Permission denied"})
    report = look(plan, live)
    assert report.findings == ()
    assert [(one.path, one.file) for one in report.unread] == [(pod.path, "cpu.weight")]


def test_an_absent_file_is_found_as_null(folder: str) -> None:
    plan = plan_of(folder)
    container = next(
        one
        for one in plan.cgroups
        if one.level == "container" and any(s.file == "memory.max" for s in one.settings)
    )
    found = sole(plan, written(tree_of(plan), container.path or "", "memory.max", None))
    assert (found.verdict, found.file, found.found) == ("missing", "memory.max", None)


def test_a_value_that_changes_between_two_looks_is_pending(folder: str) -> None:
    plan = plan_of(folder)
    path = first(plan, "pod").path or ""
    right = tree_of(plan)
    one, two = (look(plan, written(right, path, "cpu.weight", value)) for value in ("7", "8"))
    clean = look(plan, right)
    assert settled(one, clean).findings == ()
    assert [row.verdict for row in settled(one, one).findings] == ["drift"]
    for before in (clean, two):
        rows = settled(before, one).findings
        assert [(row.verdict, row.severity) for row in rows] == [("pending", "info")]
        assert [(row.hint, row.fix) for row in rows] == [("", None)]


def test_a_target_narrows_the_findings(folder: str) -> None:
    plan = plan_of(folder)
    live = tree_of(plan)
    pods = [one for one in plan.cgroups if one.level == "pod"][:2]
    for pod in pods:
        live = written(live, pod.path or "", "cpu.weight", "7")
    report = look(plan, live)
    assert len(report.findings) == 2
    pod = pods[0]
    assert pod.pod is not None
    for target in (
        pod.pod.name,
        f"pod/{pod.pod.name}",
        pod.path or "",
        f"/sys/fs/cgroup{pod.path}",
        f"/sys/fs/cgroup{pod.path}/cpu.weight",
    ):
        rows = only(report, plan, target, None).findings
        assert [row.path for row in rows] == [pod.path], target
    assert len(only(report, plan, "/sys/fs/cgroup", None).findings) == 2
    assert only(report, plan, f"/sys/fs/cgroup{pod.path}/memory.max", None).findings == ()
    with pytest.raises(BadInput):
        only(report, plan, "/sys/fs/cgroup/nowhere", None)
    with pytest.raises(BadInput):
        only(report, plan, "nobody", None)


def test_nothing_compared_is_not_clean(folder: str) -> None:
    plan = plan_of(folder)
    assert not is_clean(look(replace(plan, cgroups=()), LiveTree({})))


@pytest.mark.parametrize(
    ("generation", "score", "expected"),
    [
        (7, 999, ("stale", "info")),
        (7, 12, ("stale", "info")),
        (7, 1000, ("drift", "warning")),
        (7, -998, ("drift", "warning")),
        (1, 12, ("drift", "warning")),
        (None, 12, ("drift", "warning")),
    ],
)
def test_a_resize_leaves_oom_score_adj_as_the_container_was_started_with(
    folder: str, generation: int | None, score: int, expected: tuple[str, str]
) -> None:
    # a real pod of generation 7: its request grew from 32Mi to 56Mi, its process kept 999 of 998
    document = json.loads((SAMPLES / "kubelet-pods.json").read_text())
    for one in document["items"]:
        one["metadata"]["generation"] = generation
    path = f"{folder}/generation-{generation}.json"
    Path(path).write_text(json.dumps(document))
    node = plan_of(folder, "v1").node
    made = planning.plan(manifests.load([path], Options()).pods, node)
    container = next(
        one
        for one in made.cgroups
        if one.level == "container" and one.path and 2 <= (one.oom_score_adj or 0) < 1000
    )
    live = changed(tree_of(made), container.path or "", oom_score_adj=(score,))
    found = sole(made, live)
    assert (found.verdict, found.severity, found.file) == (*expected, "oom_score_adj")


@pytest.mark.parametrize(
    ("file", "value", "name", "text"),
    [
        ("cpu.max", "77000 100000", "CPUQuotaPerSecUSec", "770ms"),
        ("memory.max", "67108864", "MemoryMax", "67108864"),
    ],
)
def test_what_the_property_does_not_say_nothing_but_a_hand_left(
    folder: str, file: str, value: str, name: str, text: str
) -> None:
    # seen beside a real kubelet: a quota written to the file of a scope without one
    made = told(plan_of(folder, "v2", "systemd"), True)
    pod = next(
        one
        for one in made.cgroups
        if one.level == "pod"
        and next((s.value for s in one.settings if s.file == file), "max").startswith("max")
    )
    live = tree_of(made)
    units = units_of(made, live)
    live = written(live, pod.path or "", file, value)
    for property_text, verdict in (("infinity", "drift"), (text, "stale")):
        said = {**units, pod.unit or "": {**units[pod.unit or ""], name: property_text}}
        assert sole(made, live, units=said).verdict == verdict
