"""Verdicts on cgroups, processes and controllers: missing, orphaned, foreign, disabled."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from qoslet.core.audit.audit import settled
from qoslet.core.audit.live import SUBTREE
from qoslet.core.cgroup.names import container_leaf, monitors_of
from qoslet.core.plan.plan import plan as planned
from qoslet.core.versions.runtime import runtime_of
from tests.core.audit.trees import (
    CONTROLLERS,
    added,
    changed,
    look,
    plan_of,
    tree_of,
    without,
    written,
)
from tests.core.audit.verdicts.setups import SETUPS, first, is_clean, sole
from tests.core.audit.verdicts.setups import folder as folder


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


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("process", "qoslet creates it as it starts the pod: qoslet ps says why it has not"),
        ("runc-1.4.0", "restart the pod: the kubelet and the runtime create it"),
    ],
)
def test_a_missing_pod_has_the_hint_of_who_makes_it(folder: str, name: str, hint: str) -> None:
    plan = plan_of(folder)
    profile = replace(plan.node.profile, runtime=runtime_of(name))
    plan = replace(plan, node=replace(plan.node, profile=profile))
    pod = first(plan, "pod")
    found = look(plan, without(tree_of(plan), pod.path or "")).findings
    assert [one.hint for one in found if one.path == pod.path] == [hint]


def test_a_container_that_does_not_run_is_not_missing(folder: str) -> None:
    plan = plan_of(folder)
    cgroup = first(plan, "container")
    assert cgroup.container is not None
    ended = replace(cgroup, container=replace(cgroup.container, runs=False))
    others = tuple(ended if one is cgroup else one for one in plan.cgroups)
    assert is_clean(look(replace(plan, cgroups=others), without(tree_of(plan), cgroup.path or "")))


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
    ("names", "verdict"),
    [(("runc:[2:INIT]",), "pending"), (("runc:[2:INIT]", "sleep"), "orphan")],
)
def test_a_pod_that_went_while_it_came_is_pending(
    folder: str, names: tuple[str, ...], verdict: str
) -> None:
    # beside a kubelet 1.36.2, a static pod whose file went a second after it came
    plan = plan_of(folder, "v1")
    path = "/kubepods/burstable/pod290103ceaa3fb44ebfd1be2b04b9b985"
    pids = tuple(range(70, 70 + len(names)))
    commands = dict(zip(pids, names, strict=True))
    live = added(added(tree_of(plan), path), f"{path}/c", processes=2, pids=pids, commands=commands)
    found = sole(plan, live)
    assert (found.verdict, found.path) == (verdict, path)


def test_what_runs_where_no_pod_accounts_for_it_is_named(folder: str) -> None:
    plan = plan_of(folder, "v2", "systemd")
    qos = first(plan, "qos", "/burstable").path
    path = f"{qos}/run-p12-i34.scope"
    live = added(tree_of(plan), path, processes=2, pids=(77, 78), commands={77: "sleep"})
    found = sole(plan, live)
    assert "which has 2 processes: 77 (sleep), 78" in found.message
    assert "systemctl stop run-p12-i34.scope" in found.hint
    assert found.fix is None


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


@pytest.mark.parametrize(("leaf", "unit"), [("intruder", None), ("a.slice", "a.slice")])
def test_a_directory_goes_though_systemd_has_no_unit_of_it(
    folder: str, leaf: str, unit: str | None
) -> None:
    plan = plan_of(folder, "v2", "systemd")
    found = sole(plan, added(tree_of(plan), f"/kubepods.slice/{leaf}"))
    line = f"find /sys/fs/cgroup/kubepods.slice/{leaf} -depth -type d -exec rmdir {{}} +"
    assert (found.verdict, found.unit) == ("foreign", unit)
    assert found.fix == (f"systemctl stop {unit}; {line} 2>/dev/null" if unit else line)


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
def test_the_shims_that_qoslet_charges_to_a_pod_are_accounted_for(folder: str, driver: str) -> None:
    plan = plan_of(folder, "v2", driver)
    path = monitors_of(first(plan, "pod").path or "")
    shims = {70: "containerd-shim", 71: "containerd-shim"}
    live = added(tree_of(plan), path, processes=2, pids=(70, 71), commands=shims)
    assert look(plan, live).findings == ()
    live = changed(live, path, commands={**shims, 71: "sleep"})
    assert sole(plan, live).verdict == "foreign"


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
    with_child = changed(tree_of(plan), container.path or "", partial=(12, 13))
    assert settled(look(plan, live), look(plan, with_child)).findings[0].verdict == "foreign"
    other = changed(tree_of(plan), container.path or "", partial=(13,))
    assert settled(look(plan, live), look(plan, other)).findings[0].verdict == "pending"


def test_a_container_whose_processes_were_moved_away_is_told(folder: str) -> None:
    plan = plan_of(folder)
    container = next(one for one in plan.cgroups if one.container and one.container.runs)
    live = changed(tree_of(plan), container.path or "", processes=0, pids=(), oom_score_adj=None)
    found = sole(plan, live)
    assert (found.verdict, found.file) == ("missing", None)


@pytest.mark.parametrize(("hierarchy", "driver"), SETUPS)
@pytest.mark.parametrize(("processes", "is_told"), [(1, False), (0, True)])
def test_a_program_may_move_its_processes_below_its_container(
    folder: str, hierarchy: str, driver: str, processes: int, is_told: bool
) -> None:
    # as systemd and dockerd do in a container: /init.scope, /init
    plan = plan_of(folder, hierarchy, driver)
    running = (one.path for one in plan.cgroups if one.container and one.container.runs)
    path = next(path for path in running if path)
    live = changed(tree_of(plan), path, processes=0, pids=(), oom_score_adj=None)
    live = added(live, f"{path}/init", processes=processes)
    assert [one.verdict for one in look(plan, live).findings] == ["missing"] * is_told


def test_a_process_of_elsewhere_in_a_container_is_foreign(folder: str) -> None:
    plan = plan_of(folder)
    container = first(plan, "container")
    live = changed(
        tree_of(plan), container.path or "", strangers=(4711,), commands={4711: "stress"}
    )
    found = sole(plan, live)
    assert (found.verdict, found.file, found.found) == ("foreign", None, "4711")
    assert (found.container, "4711 (stress)" in found.message) == (container.container.name, True)  # type: ignore[union-attr]


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


@pytest.mark.parametrize(("phase", "is_told"), [("Pending", False), ("Running", True)])
def test_a_pod_that_is_being_started_needs_no_controllers_yet(
    folder: str, phase: str, is_told: bool
) -> None:
    # of a kubelet 1.36.2 with the systemd driver, at its first BestEffort pod: cpuset came later
    plan = plan_of(folder, "v2", "systemd")
    path = "/kubepods.slice/kubepods-besteffort.slice"
    cgroups = tuple(
        replace(one, pod=replace(one.pod, phase=phase)) if one.pod is not None else one
        for one in plan.cgroups
    )
    live = written(tree_of(plan), path, SUBTREE, "cpu memory hugetlb pids")
    found = look(replace(plan, cgroups=cgroups), live).findings
    assert [(one.verdict, one.path) for one in found] == [("controller", path)] * is_told


@pytest.mark.parametrize(("driver", "is_told"), [("systemd", False), ("cgroupfs", True)])
def test_without_pods_systemd_disables_what_no_slice_needs(
    folder: str, driver: str, is_told: bool
) -> None:
    # of a kubelet 1.36.2 that had ended all pods, since the node was about to shut down
    plan = planned([], plan_of(folder, "v2", driver).node)
    path = first(plan, "node").path or ""
    live = written(tree_of(plan), path, SUBTREE, "cpu hugetlb memory pids")
    found = look(plan, live).findings
    assert [(one.verdict, one.path) for one in found] == [("controller", path)] * is_told


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


@pytest.mark.parametrize(
    ("driver", "version", "path", "line"),
    [
        ("systemd", 257, "/kubepods", "rmdir"),
        ("cgroupfs", 257, "/kubepods.slice", "systemctl stop kubepods.slice"),
        ("cgroupfs", None, "/kubepods.slice", "rmdir"),
    ],
)
def test_what_the_other_driver_left_empty_is_stale(
    folder: str, driver: str, version: int | None, path: str, line: str
) -> None:
    plan = plan_of(folder, "v2", driver)
    host = replace(plan.node.host, systemd=version)
    plan = replace(plan, node=replace(plan.node, host=host))
    live = added(tree_of(plan), path)
    live = added(live, f"{path}/burstable")
    found = sole(plan, live)
    assert (found.verdict, found.path) == ("stale", path)
    assert line in (found.fix or "")


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


@pytest.mark.parametrize(("runs", "notes"), [(False, 0), (None, 1), (True, 1)])
def test_a_container_that_waits_for_its_image_hides_nothing_of_its_pod(
    folder: str, runs: bool | None, notes: int
) -> None:
    """Seen beside a kubelet 1.36.2: with ErrImageNeverPull a container has no ID until its image comes,
    and its pod's sandbox was not compared, nor a cgroup beside it found, meanwhile."""
    plan = plan_of(folder)
    row = first(plan, "container")
    assert row.container is not None
    waiting = replace(row, path=None, container=replace(row.container, id=None, runs=runs))
    waits = replace(plan, cgroups=[waiting if one is row else one for one in plan.cgroups])
    pod = (row.path or "").rpartition("/")[0]
    live = without(tree_of(plan), row.path or "")
    report = look(waits, live)
    assert (report.findings, len(report.notes)) == ((), notes)
    stray = f"{pod}/mine"
    assert sole(waits, added(live, stray)).path == stray
    (sandbox,) = [path for path in live.cgroups if path.startswith(f"{pod}/0")]
    found = look(waits, written(live, sandbox, "cpu.weight", "77")).findings
    assert [one.path for one in found] == ([] if notes else [sandbox])


@pytest.mark.parametrize(("least", "written_back"), [(None, -997), (-1000, -997), (0, 0)])
def test_oom_score_adj_is_put_back_as_far_as_the_machine_lets(
    folder: str, least: int | None, written_back: int
) -> None:
    plan = plan_of(folder)
    path = next(one.path or "" for one in plan.cgroups if one.oom_score_adj == -997)
    live = changed(tree_of(plan), path, oom_score_adj=(12,), pids=(7,))
    found = sole(plan, replace(live, least_oom_score_adj=least))
    assert (found.expected, found.fix) == (
        "-997", f"printf '%s' {written_back} > /proc/7/oom_score_adj",
    )  # fmt: skip
