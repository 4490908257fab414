"""What a kubelet is about to do is pending: pods that end, QoS cgroups after its start."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.audit.kubelet_work import without_kubelet_work
from qoslet.core.audit.live import SUBTREE, LiveTree
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.core.plan.plan import plan as planned
from qoslet.core.resources.cgroup_tree import Plan
from tests.core.audit.trees import added, look, plan_of, tree_of, units_of, without, written

UID = "0000dead-1111-2222-3333-444444444444"
SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
PLACES = [
    ("cgroupfs", f"/kubepods/burstable/pod{UID}", "/kubepods/burstable"),
    (
        "systemd",
        f"/kubepods.slice/kubepods-burstable.slice/{SLICE}",
        "/kubepods.slice/kubepods-burstable.slice",
    ),
]


def weighed(live: LiveTree, path: str) -> LiveTree:
    """The tree with another cpu.weight in one cgroup."""
    group = live.cgroups[path]
    other = replace(group, values={**group.values, "cpu.weight": "77"})
    return replace(live, cgroups={**live.cgroups, path: other})


@pytest.mark.parametrize(("driver", "path", "qos"), PLACES)
@pytest.mark.parametrize("runs", [True, False])
def test_a_pod_that_its_runtime_has_is_on_its_way_out(
    tmp_path: Path, driver: str, path: str, qos: str, runs: bool
) -> None:
    plan = plan_of(str(tmp_path), "v2", driver, "1.36")
    report = look(plan, weighed(added(tree_of(plan), path, processes=1, pids=(70,)), qos))
    assert "orphan" in {one.verdict for one in report.findings}
    after = without_kubelet_work(report, KubeletWork(frozenset([UID] if runs else ["other"])))
    if not runs:
        assert after == report
        return
    assert {one.verdict for one in after.findings} == {"pending"}
    assert not any(one.counts or one.fix or one.hint for one in after.findings)


def test_a_value_of_another_pod_is_drift_all_the_same(tmp_path: Path) -> None:
    plan = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36")
    pod = next(one for one in plan.cgroups if one.level == "pod")
    live = added(tree_of(plan), PLACES[0][1], processes=1, pids=(70,))
    after = without_kubelet_work(
        look(plan, weighed(live, pod.path or "")), KubeletWork(frozenset([UID]))
    )
    assert [one.path for one in after.findings if one.counts] == [pod.path]


@pytest.mark.parametrize(("is_new", "verdict"), [(True, "pending"), (False, "drift")])
def test_a_kubelet_that_has_just_started_updates_its_qos_cgroups(
    tmp_path: Path, is_new: bool, verdict: str
) -> None:
    plan = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36")
    report = look(plan, weighed(tree_of(plan), "/kubepods/burstable"))
    (found,) = without_kubelet_work(report, KubeletWork(is_new=is_new)).findings
    assert found.verdict == verdict


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_kubelet_that_has_just_started_makes_its_cgroups(
    tmp_path: Path, driver: str, is_new: bool
) -> None:
    # beside a kubelet 1.36.2, 18 s after its start in a slow guest; cpuset came with the first pod
    plan = plan_of(str(tmp_path), "v2", driver, "1.36")
    top = next(one.path for one in plan.cgroups if one.name == "/kubepods")
    assert top is not None
    gone = without(tree_of(plan), top)
    bare = written(tree_of(plan), top, SUBTREE, "cpu memory pids")
    for tree, verdict in ((gone, "missing"), (bare, "controller")):
        report = look(plan, tree)
        assert verdict in {one.verdict for one in report.findings if one.path == top}
        after = without_kubelet_work(report, KubeletWork(is_new=is_new)).findings
        found = {one.verdict for one in after if one.path == top}
        assert found == ({"pending"} if is_new else {verdict})


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize(("is_new", "verdict"), [(True, "pending"), (False, "orphan")])
def test_a_kubelet_that_has_just_started_may_not_have_read_all_its_pods(
    tmp_path: Path, driver: str, is_new: bool, verdict: str
) -> None:
    # beside a kubelet 1.36.2 that was restarted while its runtime made the pod's sandbox: the runtime
    # gave it up, and the kubelet without an API server read the manifest 98 s after its start
    plan = plan_of(str(tmp_path), "v2", driver, "1.36")
    (path,) = [path for name, path, _ in PLACES if name == driver]
    report = look(plan, added(tree_of(plan), path, processes=1, pids=(70,)))
    (found,) = without_kubelet_work(report, KubeletWork(is_new=is_new)).findings
    assert (found.verdict, found.counts) == (verdict, not is_new)


def test_no_change_of_pods_explains_the_cpu_weight_of_kubepods(tmp_path: Path) -> None:
    # of a kubelet 1.36.2 with the cgroupfs driver
    plan = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36")
    report = look(plan, weighed(tree_of(plan), "/kubepods"))
    (found,) = without_kubelet_work(report, KubeletWork(has_changed=True)).findings
    assert found.verdict == "drift"


@pytest.mark.parametrize(("is_new", "verdict"), [(True, "pending"), (False, "drift")])
def test_a_start_writes_what_is_reserved_after_the_kubelet_answers(
    tmp_path: Path, is_new: bool, verdict: str
) -> None:
    # of a kubelet 1.36.2, 4 s after it was started with enforced reservations
    reserved = {"kube_reserved": "cpu=200m,memory=300Mi,pid=2000", "kube_reserved_cgroup": "/kres"}
    flags = {"enforce_node_allocatable": "pods,kube-reserved", **reserved}
    plan = plan_of(str(tmp_path), "v1", "cgroupfs", "1.36", **flags)
    live, off = tree_of(plan), list[tuple[str, str]]()
    for path in ("/kres", "/kubepods"):
        for file in ("pids.max", "memory.limit_in_bytes", "cpu.shares"):
            if file in live.cgroups[path].values:
                live, off = written(live, path, file, "5242880"), [*off, (path, file)]
    assert ("/kres", "pids.max") in off
    report = look(plan, live)
    after = without_kubelet_work(report, KubeletWork(is_new=is_new)).findings
    assert sorted((one.path, one.file) for one in after) == sorted(off)
    assert {one.verdict for one in after} == {verdict}


def test_cgroups_that_nobody_made_yet_need_no_controllers(tmp_path: Path) -> None:
    # of a kubelet 1.36.2 with the cgroupfs driver, 20 s after its start
    plan = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36")
    live = tree_of(plan)
    root = replace(live.cgroups["/"], values={SUBTREE: "cpu io memory pids"})
    found = look(plan, replace(live, cgroups={"/": root})).findings
    assert [one.verdict for one in found] == ["missing"]


@pytest.mark.parametrize(
    ("work", "verdict"),
    [
        (KubeletWork(is_new=True), "pending"),
        (KubeletWork(has_changed=True), "drift"),
        (KubeletWork(), "drift"),
    ],
)
def test_limits_of_huge_pages_that_a_start_writes_are_pending_until_a_qos_update(
    tmp_path: Path, work: KubeletWork, verdict: str
) -> None:
    # of a kubelet 1.36.2 with the systemd driver, in its first minute
    plan = plan_of(str(tmp_path), "v2", "systemd", "1.36")
    live, path = tree_of(plan), "/kubepods.slice"
    files = [one for one in live.cgroups[path].values if one.startswith("hugetlb.")]
    assert files
    group = live.cgroups[path]
    zero = replace(group, values={**group.values, **dict.fromkeys(files, "0")})
    report = look(plan, replace(live, cgroups={**live.cgroups, path: zero}))
    after = without_kubelet_work(report, work)
    assert [(one.file, one.verdict) for one in after.findings] == [(f, verdict) for f in files]


@pytest.mark.parametrize(("has_changed", "verdict"), [(True, "pending"), (False, "drift")])
def test_a_pod_that_changed_counts_as_it_was_a_moment_longer(
    tmp_path: Path, has_changed: bool, verdict: str
) -> None:
    plan = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36")
    report = look(plan, weighed(tree_of(plan), "/kubepods/burstable"))
    after = without_kubelet_work(report, KubeletWork(has_changed=has_changed))
    assert [one.verdict for one in after.findings] == [verdict]


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize(
    ("is_ready", "verdict"), [(True, "missing"), (False, "pending"), (None, "missing")]
)
def test_a_pod_without_a_sandbox_is_being_started(
    tmp_path: Path, driver: str, is_ready: bool | None, verdict: str
) -> None:
    plan = plan_of(str(tmp_path), "v2", driver, "1.36")
    pod = next(one for one in plan.cgroups if one.level == "pod")
    assert pod.pod is not None
    report = look(plan, without(tree_of(plan), pod.path or ""))
    ready = None if is_ready is None else frozenset([pod.pod.uid] if is_ready else [])
    after = without_kubelet_work(report, KubeletWork(ready=ready))
    assert [(one.verdict, one.path) for one in after.findings] == [(verdict, pod.path)]


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize("is_ready", [True, False])
def test_a_pod_whose_containers_the_runtime_does_not_run_is_being_started_again(
    tmp_path: Path, driver: str, is_ready: bool
) -> None:
    # beside a kubelet 1.36.2 that made sandboxes anew after a restart of containerd
    plan = plan_of(str(tmp_path), "v2", driver, "1.36")
    one = next(one for one in plan.cgroups if one.level == "container" and one.path)
    assert one.pod is not None
    assert one.path is not None
    pod = one.path.rpartition("/")[0]
    live = without(tree_of(plan), one.path)
    live = added(live, f"{pod}/{'f' * 64}", processes=1, pids=(70,))
    live = written(live, pod, SUBTREE, "hugetlb")
    report = look(plan, live)
    uids = frozenset([one.pod.uid] if is_ready else ["another"])
    after = without_kubelet_work(report, KubeletWork(ready=uids))
    wanted = {("missing", one.path), ("controller", pod), ("foreign", f"{pod}/{'f' * 64}")}
    assert wanted <= {(one.verdict, one.path) for one in report.findings}
    there = {(one.verdict, one.path) for one in after.findings}
    assert there >= (wanted if is_ready else {("pending", path) for _, path in wanted})
    assert is_ready or not any(one.counts for one in after.findings if one.file in (None, SUBTREE))


def test_what_follows_from_pods_that_were_not_read_is_pending(tmp_path: Path) -> None:
    plan = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36")
    [pod, other, *_] = [one for one in plan.cgroups if one.level == "pod"]
    live = added(tree_of(plan), PLACES[0][1], processes=1, pids=(70,))
    live = without(weighed(live, "/kubepods/burstable"), pod.path or "")
    live = weighed(live, other.path or "")
    report = look(plan, live)
    assert len([one for one in report.findings if one.counts]) == 4
    after = without_kubelet_work(report, KubeletWork(lacks_pods=True))
    assert [one.path for one in after.findings if one.counts] == [other.path]
    assert [one.fix for one in after.findings if one.verdict == "pending"] == [None] * 3


@pytest.mark.parametrize(("older", "verdict"), [(None, "stale"), (True, "stale"), (False, "drift")])
def test_a_kubelet_has_read_its_configuration_before_it_created_a_pod(
    tmp_path: Path, older: bool | None, verdict: str
) -> None:
    plan = plan_of(str(tmp_path), "v1", "cgroupfs", "1.36")
    pods = [one for one in plan.cgroups if one.level == "pod" and one.pod is not None]
    live = tree_of(plan)
    for pod in pods:
        live = written(live, pod.path or "", "pids.max", "512")
    uids = frozenset(one.pod.uid for one in pods if one.pod is not None)
    known = None if older is None else uids if older else frozenset[str]()
    found = without_kubelet_work(look(plan, live), KubeletWork(older=known)).findings
    assert len(found) == len(pods)
    assert {one.verdict for one in found} == {verdict}
    assert all(("podPidsLimit" in one.message) == (verdict == "stale") for one in found)


@pytest.mark.parametrize(("older", "verdict"), [(None, "stale"), (True, "stale"), (False, "drift")])
@pytest.mark.parametrize(("file", "value"), [("memory.high", "409600000"), ("pids.max", "1208")])
def test_a_kubelet_has_left_nothing_in_a_pod_that_it_created(
    tmp_path: Path, older: bool | None, verdict: str, file: str, value: str
) -> None:
    # of a kubelet 1.36.2 without Memory QoS and podPidsLimit, in the cgroup of a pod
    plan = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36", pod_max_pids="-1")
    pod = next(one for one in plan.cgroups if one.level == "pod")
    assert pod.pod is not None
    known = None if older is None else frozenset([pod.pod.uid] if older else [])
    report = look(plan, written(tree_of(plan), pod.path or "", file, value))
    (found,) = without_kubelet_work(report, KubeletWork(older=known)).findings
    assert (found.verdict, found.file) == (verdict, file)
    assert ("left by" in found.message) == (verdict == "stale")


@pytest.mark.parametrize(
    ("driver", "older", "said", "verdict"),
    [
        ("cgroupfs", None, "", "drift"),
        ("cgroupfs", "it", "", "stale"),
        ("cgroupfs", "all", "", "drift"),
        ("cgroupfs", "others", "", "drift"),
        ("systemd", "it", "infinity", "stale"),
        ("systemd", "all", "infinity", "drift"),
        ("systemd", "it", "100", "drift"),
    ],
)
def test_one_pod_of_before_the_kubelets_start_keeps_its_limit(
    tmp_path: Path, driver: str, older: str | None, said: str, verdict: str
) -> None:
    # beside a kubelet 1.36.2 with three pods, of which one was not created again
    plan = plan_of(str(tmp_path), "v2", driver, "1.36")
    pods = [one for one in plan.cgroups if one.level == "pod" and one.pod is not None]
    it, uids = pods[1], {one.pod.uid for one in pods if one.pod is not None}
    assert it.pod is not None
    live = written(tree_of(plan), it.path or "", "pids.max", "max")
    units = units_of(plan, live)
    if it.unit is not None:
        units[it.unit] = {**units[it.unit], "TasksMax": said}
    known = {"it": {it.pod.uid}, "all": uids, "others": uids - {it.pod.uid}}.get(older or "")
    work = KubeletWork(older=None if known is None else frozenset(known))
    (found,) = without_kubelet_work(look(plan, live, units), work).findings
    assert found.verdict == verdict
    assert ("podPidsLimit -1" in found.message) == (verdict == "stale")


def test_two_pods_of_before_with_two_limits_have_one_of_somebody(tmp_path: Path) -> None:
    # beside a kubelet 1.36.2 with three pods: of the two older ones the limit of one was changed by hand
    plan = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36")
    pods = [one for one in plan.cgroups if one.level == "pod" and one.pod is not None]
    live = written(tree_of(plan), pods[0].path or "", "pids.max", "max")
    live = written(live, pods[1].path or "", "pids.max", "333")
    older = frozenset(one.pod.uid for one in pods[:2] if one.pod is not None)
    found = without_kubelet_work(look(plan, live), KubeletWork(older=older)).findings
    assert {one.found: one.verdict for one in found} == {"max": "stale", "333": "drift"}


@pytest.mark.parametrize(("number", "verdict"), [(-1, "stale"), (2, "drift"), (0, "drift")])
def test_the_newest_pod_of_before_tells_of_the_last_of_two_configurations(
    tmp_path: Path, number: int, verdict: str
) -> None:
    # beside a kubelet 1.36.2: podPidsLimit 200, one pod created under 250, then 300
    plan = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36")
    pods = [one for one in plan.cgroups if one.level == "pod" and one.pod is not None]
    live = tree_of(plan)
    pods.sort(key=lambda one: live.cgroups[one.path or ""].identity)
    for one in pods:
        live = written(live, one.path or "", "pids.max", "200")
    live = written(live, pods[number].path or "", "pids.max", "250")
    older = frozenset(one.pod.uid for one in pods if one.pod is not None)
    report = without_kubelet_work(look(plan, live), KubeletWork(older=older))
    found = {one.found: one.verdict for one in report.findings if one.file == "pids.max"}
    assert found["250"] == verdict


@pytest.mark.parametrize(("factor", "verdict"), [(0.9, "stale"), (0.7, "drift")])
def test_the_only_value_of_a_node_tells_of_a_default(
    tmp_path: Path, factor: float, verdict: str
) -> None:
    # beside a kubelet 1.36.2 with one container that has memory.high, started with another factor
    given = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36", memory_qos="1.36")
    rows = [
        one.pod.uid
        for one in given.cgroups
        if one.pod is not None and any(s.rule == "memory.high.1.27" for s in one.settings)
    ]
    uid = next(uid for uid in rows if rows.count(uid) == 1)
    chosen = [one.pod for one in given.pods if one.pod.uid == uid]

    def under(value: float) -> Plan:
        kubelet = replace(given.node.kubelet, memory_throttling_factor=value)
        return planned(chosen, replace(given.node, kubelet=kubelet))

    report = look(under(0.5), tree_of(under(factor)))
    found = without_kubelet_work(report, KubeletWork(older=frozenset([uid]))).findings
    values = [one for one in found if one.file == "memory.high"]
    assert [one.verdict for one in values] == [verdict]


@pytest.mark.parametrize(
    ("is_new", "verdicts"), [(True, {"pending"}), (False, {"missing", "foreign"})]
)
def test_a_new_kubelet_starts_pods_again_whose_cgroups_it_does_not_find(
    tmp_path: Path, is_new: bool, verdicts: set[str]
) -> None:
    # beside a kubelet 1.36.2 in its first seconds with another cgroupRoot
    plan = plan_of(str(tmp_path), "v1", "cgroupfs", "1.36")
    live = tree_of(plan)
    pods = [one for one in plan.cgroups if one.level == "pod" and one.path]
    gone, other = pods[0].path or "", pods[1].path or ""
    is_left = {path: not f"{path}/".startswith(f"{gone}/") for path in live.cgroups}
    cgroups = {path: one for path, one in live.cgroups.items() if is_left[path]}
    again = f"{other}/{'ab' * 32}"
    cgroups[again] = replace(live.cgroups[gone], path=again, identity=999)
    report = look(plan, replace(live, cgroups=cgroups))
    after = without_kubelet_work(report, KubeletWork(is_new=is_new))
    assert {one.verdict for one in after.findings} == verdicts


@pytest.mark.parametrize(
    ("work", "verdict"),
    [
        (KubeletWork(is_new=True), "pending"),
        (KubeletWork(is_assigning=True), "pending"),
        (KubeletWork(), "drift"),
    ],
)
def test_a_cpu_manager_gives_containers_their_cpus_within_seconds(
    tmp_path: Path, work: KubeletWork, verdict: str
) -> None:
    # beside a kubelet 1.36.2 that was started again with cpuManagerPolicy static, and while pods with CPUs
    # of their own came and went
    plan = plan_of(str(tmp_path), "v2", "cgroupfs", "1.36")
    kubelet = replace(plan.node.kubelet, cpu_manager_policy="static")
    plan = planned([one.pod for one in plan.pods], replace(plan.node, kubelet=kubelet))
    live = tree_of(plan)
    path = next(
        one.path or ""
        for one in plan.cgroups
        if one.level == "container" and any(s.file == "cpuset.cpus" for s in one.settings)
    )
    values = {**live.cgroups[path].values, "cpuset.cpus": ""}
    changed = replace(live.cgroups[path], values=values)
    report = look(plan, replace(live, cgroups={**live.cgroups, path: changed}))
    found = [one for one in report.findings if one.path == path]
    assert [one.file for one in found] == ["cpuset.cpus"]
    after = without_kubelet_work(replace(report, findings=tuple(found)), work)
    assert [one.verdict for one in after.findings] == [verdict]


def test_cpus_that_are_being_assigned_excuse_no_other_value(tmp_path: Path) -> None:
    plan = plan_of(str(tmp_path))
    container = next(one for one in plan.cgroups if one.level == "container" and one.path)
    report = look(plan, written(tree_of(plan), container.path or "", "cpu.weight", "77"))
    assert without_kubelet_work(report, KubeletWork(is_assigning=True)) == report
