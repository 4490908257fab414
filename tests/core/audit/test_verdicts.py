"""Each verdict, on the tree that a kubelet and containerd leave; sources beside the expectation."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.audit.audit import settled
from qoslet.core.audit.finding import Finding
from qoslet.core.audit.live import SUBTREE, LiveTree
from qoslet.core.audit.target import only
from qoslet.core.cgroup.names import container_leaf
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.core.versions.runtime import runtime_of
from qoslet.errors import BadInput
from tests.core.audit.trees import (
    CONTROLLERS,
    added,
    changed,
    look,
    plan_of,
    tree_of,
    units_of,
    without,
    written,
)

SETUPS = [("v1", "cgroupfs"), ("v2", "cgroupfs"), ("v1", "systemd"), ("v2", "systemd")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("nodes"))


def first(plan: Plan, level: str, ending: str = "") -> Cgroup:
    """The first cgroup of a level with a path."""
    return next(
        one
        for one in plan.cgroups
        if one.level == level and one.path is not None and one.name.endswith(ending)
    )


def sole(plan: Plan, live: LiveTree, **more: Any) -> Finding:
    """The only finding."""
    report = look(plan, live, **more)
    assert [(one.verdict, one.path, one.file) for one in report.findings][1:] == []
    return report.findings[0]


@pytest.mark.parametrize("kubernetes", ["1.22", "1.27", "1.32", "1.36", "1.37"])
@pytest.mark.parametrize(("hierarchy", "driver"), SETUPS)
def test_nothing_is_found_where_nothing_was_changed(
    folder: str, hierarchy: str, driver: str, kubernetes: str
) -> None:
    plan = plan_of(folder, hierarchy, driver, kubernetes)
    report = look(plan, tree_of(plan))
    assert report.findings == ()
    assert report.compared > 150
    assert report.is_clean


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


@pytest.mark.parametrize(
    ("level", "file", "value"),
    [
        ("container", "memory.high", "33554432"),  # KEP-2570: kept until restart or resize
        ("container", "memory.low", "4194304"),
        ("pod", "memory.min", "4194304"),
        ("qos", "memory.low", "4194304"),  # PR 140267: 1.37 clears it, older kubelets do not
        ("qos", "memory.max", "1073741824"),  # --qos-reserved
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


@pytest.mark.parametrize("file", ["memory.max", "cpu.max"])
def test_a_limit_that_was_removed_is_stale(folder: str, file: str) -> None:
    plan = plan_of(folder, "v2", "cgroupfs")
    pods = [one for one in plan.cgroups if one.level == "pod"]
    pod = next(one for one in pods if file not in {s.file for s in one.settings})
    value = "50000 100000" if file == "cpu.max" else "67108864"
    assert sole(plan, written(tree_of(plan), pod.path or "", file, value)).verdict == "stale"


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


@pytest.mark.parametrize(("hierarchy", "driver"), SETUPS)
@pytest.mark.parametrize("level", ["node", "qos", "pod", "container"])
def test_a_removed_cgroup_is_missing_once(
    folder: str, hierarchy: str, driver: str, level: str
) -> None:
    plan = plan_of(folder, hierarchy, driver)
    cgroup = first(plan, level)
    found = sole(plan, without(tree_of(plan), cgroup.path or ""))
    assert (found.verdict, found.severity) == ("missing", "error")
    assert (found.path, found.name) == (cgroup.path, cgroup.name)


def test_a_container_that_does_not_run_is_not_missing(folder: str) -> None:
    plan = plan_of(folder)
    cgroup = first(plan, "container")
    assert cgroup.container is not None
    ended = replace(cgroup, container=replace(cgroup.container, runs=False))
    others = tuple(ended if one is cgroup else one for one in plan.cgroups)
    assert look(replace(plan, cgroups=others), without(tree_of(plan), cgroup.path or "")).is_clean


def test_a_cgroup_missing_in_one_hierarchy_is_told(folder: str) -> None:
    plan = plan_of(folder, "v1")
    pod = first(plan, "pod")
    live = changed(tree_of(plan), pod.path or "", missing=("memory",))
    values = {
        file: value
        for file, value in live.cgroups[pod.path or ""].values.items()
        if not file.startswith("memory.")
    }
    found = sole(plan, changed(live, pod.path or "", values=values))
    assert (found.verdict, found.file) == ("missing", None)
    assert "memory" in found.message


@pytest.mark.parametrize(("hierarchy", "driver"), SETUPS)
def test_the_cgroup_of_no_pod_is_an_orphan(folder: str, hierarchy: str, driver: str) -> None:
    plan = plan_of(folder, hierarchy, driver)
    leaf = "pod0000-dead"
    path = "/kubepods/burstable/" + leaf
    if driver == "systemd":
        path = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0000_dead.slice"
    live = added(tree_of(plan), path)
    live = added(live, f"{path}/c", processes=2, pids=(7, 8))
    found = sole(plan, live)
    assert (found.verdict, found.path, found.expected, found.found) == ("orphan", path, None, None)
    assert "0000-dead" in found.message
    assert "2 processes" in found.message
    assert found.fix is None  # its processes come first


@pytest.mark.parametrize(
    "path", ["/kubepods/stray", "/kubepods/burstable/mine", "/kubepods/besteffort/x/y"]
)
def test_a_cgroup_that_nobody_planned_is_foreign(folder: str, path: str) -> None:
    plan = plan_of(folder)
    live = tree_of(plan)
    if path.endswith("/y"):
        live = added(live, path.rpartition("/")[0])
    found = sole(plan, added(live, path))
    assert found.verdict == "foreign"
    assert path.startswith(found.path)
    assert "rmdir" in (found.fix or "")


def test_of_two_unknown_containers_of_a_pod_one_is_the_sandbox(folder: str) -> None:
    plan = plan_of(folder)
    pod = first(plan, "pod")
    path = f"{pod.path}/{'f' * 64}"
    found = sole(plan, added(tree_of(plan), path, processes=1, pids=(70,)))
    assert (found.verdict, found.path) == ("foreign", path)
    assert found.pod is not None


def test_a_sandbox_is_known_where_the_cri_runtime_is_not(folder: str) -> None:
    plan = plan_of(folder)
    live = tree_of(plan)
    runtime = runtime_of("runc-1.4.0")
    node = replace(plan.node, profile=replace(plan.node.profile, runtime=runtime))
    cgroups = tuple(one for one in plan.cgroups if one.level != "sandbox")
    assert look(replace(plan, node=node, cgroups=cgroups), live).findings == ()


def test_cgroups_that_a_container_makes_are_its_own(folder: str) -> None:
    plan = plan_of(folder)
    container = first(plan, "container")
    live = added(tree_of(plan), f"{container.path}/container", processes=3, pids=(1, 2, 3))
    assert look(plan, live).findings == ()


def test_the_monitors_of_crio_are_no_finding(folder: str) -> None:
    plan = plan_of(folder, "v2", "systemd")
    pod = first(plan, "pod")
    path = f"{pod.path}/crio-conmon-{'a' * 64}.scope"
    assert look(plan, added(tree_of(plan), path, processes=1, pids=(5,))).findings == ()


@pytest.mark.parametrize("level", ["node", "qos", "pod"])
def test_a_process_beside_the_containers_is_foreign(folder: str, level: str) -> None:
    plan = plan_of(folder)
    cgroup = first(plan, level)
    live = changed(
        tree_of(plan), cgroup.path or "", processes=1, pids=(4711,), commands={4711: "sh"}
    )
    found = sole(plan, live)
    assert (found.verdict, found.file, found.found) == ("foreign", None, "4711")
    assert "4711 (sh)" in found.message


def test_a_process_that_is_in_one_v1_hierarchy_only_is_foreign(folder: str) -> None:
    plan = plan_of(folder, "v1")
    container = first(plan, "container")
    live = changed(tree_of(plan), container.path or "", partial=(12,))
    assert sole(plan, live).verdict == "foreign"


def test_a_container_whose_processes_were_moved_away_is_told(folder: str) -> None:
    plan = plan_of(folder)
    container = next(one for one in plan.cgroups if one.container and one.container.runs)
    live = changed(tree_of(plan), container.path or "", processes=0, pids=(), oom_score_adj=None)
    found = sole(plan, live)
    assert (found.verdict, found.file) == ("missing", None)


def test_a_process_of_elsewhere_in_a_container_is_foreign(folder: str) -> None:
    plan = plan_of(folder)
    container = first(plan, "container")
    live = changed(
        tree_of(plan), container.path or "", strangers=(4711,), commands={4711: "stress"}
    )
    found = sole(plan, live)
    assert (found.verdict, found.file, found.found) == ("foreign", None, "4711")
    assert (found.container, "4711 (stress)" in found.message) == (container.container.name, True)  # type: ignore[union-attr]


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


@pytest.mark.parametrize("name", ["memory", "cpu", "pids", "cpuset"])
@pytest.mark.parametrize("level", ["top", "node", "qos", "pod"])
def test_a_disabled_controller_is_found_where_it_is_off(folder: str, level: str, name: str) -> None:
    plan = plan_of(folder)
    live = tree_of(plan)
    path = "/" if level == "top" else first(plan, level).path or ""
    enabled = " ".join(one for one in CONTROLLERS.split() if one != name)
    live = written(live, path, SUBTREE, enabled)
    for below, one in live.cgroups.items():
        if path == "/" or below.startswith(f"{path}/"):
            kept = {f: v for f, v in one.values.items() if not f.startswith(f"{name}.")}
            live = changed(live, below, values=kept)
            if below != path and SUBTREE in kept:
                live = written(live, below, SUBTREE, enabled)
    report = look(plan, live)
    needed = name in ("memory", "cpu") or level != "pod"
    if not needed and not report.findings:
        return
    found = sole(plan, live)
    assert (found.verdict, found.path, found.file) == ("controller", path, SUBTREE)
    assert f"+{name}" in (found.fix or "")


def test_controllers_that_only_a_kubelet_needs_count_beside_one(folder: str) -> None:
    # cm/cgroup_v2_manager_linux.go Validate: a pod's cgroup without cpuset counts as absent
    plan = plan_of(folder)
    path = first(plan, "pod").path or ""
    live = written(tree_of(plan), path.rpartition("/")[0], SUBTREE, "cpu hugetlb memory pids")
    assert sole(plan, live).verdict == "controller"
    without_kubelet = replace(plan, node=replace(plan.node, kubelet_given=False))
    assert "controller" not in {one.verdict for one in look(without_kubelet, live).findings}


@pytest.mark.parametrize(
    ("driver", "other"), [("systemd", "/kubepods"), ("cgroupfs", "/kubepods.slice")]
)
def test_the_tree_of_the_other_driver_is_one_finding(folder: str, driver: str, other: str) -> None:
    plan = plan_of(folder, "v2", driver)
    opposite = "cgroupfs" if driver == "systemd" else "systemd"
    live = tree_of(plan_of(folder, "v2", opposite))
    found = sole(plan, live)
    assert (found.verdict, found.severity, found.path) == ("driver", "error", other)


def test_what_the_other_driver_left_empty_is_stale(folder: str) -> None:
    plan = plan_of(folder, "v2", "systemd")
    live = added(tree_of(plan), "/kubepods")
    live = added(live, "/kubepods/burstable")
    found = sole(plan, live)
    assert (found.verdict, found.path) == ("stale", "/kubepods")
    assert "rmdir" in (found.fix or "")


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
    assert not look(replace(plan, cgroups=()), LiveTree({})).is_clean


@pytest.mark.parametrize(("hierarchy", "driver"), SETUPS)
def test_the_one_container_that_no_status_names_is_the_sandbox(
    folder: str, hierarchy: str, driver: str
) -> None:
    """Also where the kubelet gives the sandbox no resources, so that no row plans it."""
    plan = plan_of(folder, hierarchy, driver, "1.36")
    bare = replace(plan, cgroups=[one for one in plan.cgroups if one.level != "sandbox"])
    live = tree_of(bare)
    pod = first(bare, "pod")
    for digit, verdicts in (("e", []), ("f", ["foreign"])):
        path = f"{pod.path}/{container_leaf('containerd', digit * 64, driver == 'systemd')}"
        live = added(live, path, processes=1, pids=(70,))
        assert [one.verdict for one in look(bare, live).findings] == verdicts
