"""Values of pods that were created under another configuration: as a kubelet 1.36.2 left them after its
restarts with another podPidsLimit, and with Memory QoS."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from qoslet.core.api.manifest import Options
from qoslet.core.audit.kubelet_work import without_kubelet_work
from qoslet.core.audit.live import LiveTree
from qoslet.core.audit.verdicts.left_behind import left_behind
from qoslet.core.cgroup.interface_files import released
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.core.plan.plan import plan as planned
from qoslet.core.quantity import parse
from qoslet.core.reconcile.file_writers import Level
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.host.files.manifests import load_text
from tests.core.audit.trees import SAMPLES, look, plan_of, tree_of, units_of, written
from tests.core.audit.verdicts.setups import first, sole
from tests.core.audit.verdicts.setups import folder as folder

QOS = ("memory.min", "memory.low", "memory.high")


def pods_with(plan: Plan, live: LiveTree, limit: str, *numbers: int) -> LiveTree:
    """The tree, in which some pods, counted in the order of their creation, have another limit of
    processes."""
    paths = [one.path for one in plan.cgroups if one.level == "pod" and one.path]
    paths.sort(key=lambda path: live.cgroups[path].identity)
    for number in numbers:
        live = written(live, paths[number], "pids.max", limit)
    return live


def test_pods_keep_the_limit_of_processes_that_was_in_force_when_they_were_created(
    folder: str,
) -> None:
    plan = plan_of(folder, "v1")
    live = pods_with(plan, tree_of(plan), "512", 0, 1, 2)
    found = look(plan, live).findings
    assert {(one.verdict, one.file, one.expected, one.found) for one in found} == {
        ("stale", "pids.max", "100", "512")
    }
    assert len(found) == 3
    assert "3 pods" in found[0].message


def test_the_limit_of_one_pod_alone_may_have_been_changed_by_hand(folder: str) -> None:
    plan = plan_of(folder, "v1")
    assert sole(plan, pods_with(plan, tree_of(plan), "512", 1)).verdict == "drift"


def test_pods_with_others_between_them_were_changed_by_hand(folder: str) -> None:
    plan = plan_of(folder, "v1")
    found = look(plan, pods_with(plan, tree_of(plan), "max", 0, 1, 3)).findings
    assert [one.verdict for one in found] == ["drift", "drift", "drift"]


def without_qos(plan: Plan, live: LiveTree, uids: set[str]) -> LiveTree:
    """The tree, in which pods were created without Memory QoS."""
    for cgroup in plan.cgroups:
        path = cgroup.path or ""
        if cgroup.pod is None or cgroup.pod.uid not in uids or path not in live.cgroups:
            continue
        for one in cgroup.settings:
            if one.file in QOS:
                live = written(live, path, one.file, released(one.file, "v2") or "")
    return live


def test_pods_lack_memory_qos_that_was_off_when_they_were_created(folder: str) -> None:
    plan = plan_of(folder, "v2", memory_qos="1.36")
    live = tree_of(plan)
    uids = {one.pod.uid for one in plan.cgroups if one.pod is not None}
    found = look(plan, without_qos(plan, live, uids)).findings
    assert {(one.verdict, one.file) for one in found} >= {("stale", "memory.high")}
    assert {one.verdict for one in found} <= {"stale", "ineffective"}


def test_one_file_of_memory_qos_that_was_cleared_was_cleared_by_hand(folder: str) -> None:
    plan = plan_of(folder, "v2", memory_qos="1.36")
    live, tried = tree_of(plan), 0
    for cgroup in plan.cgroups:
        for one in cgroup.settings if cgroup.pod is not None and cgroup.path else ():
            fresh = released(one.file, "v2") or ""
            if one.file in QOS and one.applied != fresh:
                changed = written(live, cgroup.path or "", one.file, fresh)
                found = [row for row in look(plan, changed).findings if row.file == one.file]
                assert [row.verdict for row in found][:1] == ["drift"]
                tried += 1
    assert tried > 3


def test_qoslet_writes_its_own_pods_again(folder: str) -> None:
    plan = plan_of(folder, "v2")
    runtime = replace(plan.node.profile.runtime, oci="process")
    node = replace(plan.node, profile=replace(plan.node.profile, runtime=runtime))
    own = replace(plan, node=node)
    live = pods_with(plan, tree_of(plan), "512", 0, 1, 2)
    found = [one for one in look(own, live).findings if one.file == "pids.max"]
    assert {one.verdict for one in found} == {"drift"}
    assert first(plan, "pod").path in {one.path for one in found}


@pytest.mark.parametrize(("identity", "verdict"), [(2, "stale"), (10**6, "drift")])
def test_one_value_tells_a_pod_of_before_where_all_others_came_later(
    folder: str, identity: int, verdict: str
) -> None:
    # of a kubelet 1.36.2, once all static pods but one had been created again
    plan = plan_of(folder, "v2", memory_qos="1.36")
    live = tree_of(plan)
    rows = [
        (one.pod.uid, one.path, setting.file)
        for one in plan.cgroups
        if one.pod is not None and one.path
        for setting in one.settings
        if setting.file in QOS and setting.applied != released(setting.file, "v2")
    ]
    counts = Counter(uid for uid, _, _ in rows)
    path = next(path for uid, path, file in rows if counts[uid] == 1 and file == "memory.high")
    live = written(live, path, "memory.high", "max")
    aged = replace(live.cgroups[path], identity=identity)
    found = look(plan, replace(live, cgroups={**live.cgroups, path: aged})).findings
    assert [one.verdict for one in found if one.file == "memory.high"] == [verdict]


CHANGES: list[tuple[str, str, dict[str, object], str]] = [
    ("v1", "cgroupfs", {"cpu_cfs_quota": False}, "cpuCFSQuota false"),
    ("v2", "systemd", {"cpu_cfs_quota": False}, "cpuCFSQuota false"),
    ("v1", "cgroupfs", {"cpu_cfs_quota_period_us": 10_000}, "cpuCFSQuotaPeriod 10ms"),
    ("v2", "systemd", {"cpu_cfs_quota_period_us": 10_000}, "cpuCFSQuotaPeriod 10ms"),
    ("v2", "systemd", {"memory_throttling_factor": 0.5}, "memoryThrottlingFactor 0.5"),
    ("v2", "systemd", {"kube_reserved": {"memory": parse("1Gi")}}, "reservation of memory"),
    (
        "v2",
        "systemd",
        {"memory_reservation_policy": "TieredReservation"},
        "memoryReservationPolicy TieredReservation",
    ),
    ("v2", "cgroupfs", {"swap_behavior": "LimitedSwap"}, "swapBehavior LimitedSwap"),
    ("v2", "cgroupfs", {"single_process_oom_kill": True}, "singleProcessOOMKill true"),
    ("v2", "systemd", {"pod_pids_limit": 512}, "podPidsLimit 512"),
]
"""What a kubelet had until it was started again with that of the plan."""


def under(plan: Plan, fields: dict[str, object]) -> Plan:
    """The plan of the same pods with another configuration, on a node with swap."""
    kubelet = replace(plan.node.kubelet, **fields)
    node = replace(plan.node, kubelet=kubelet, swap=1 << 30)
    return planned([one.pod for one in plan.pods], node)


def old_paths(plan: Plan, last: int) -> set[str]:
    """The cgroups of pods up to the ``last`` one."""
    uids = [one.pod.uid for one in plan.cgroups if one.level == "pod" and one.pod is not None]
    return {
        one.path
        for one in plan.cgroups
        if one.pod is not None and one.pod.uid in uids[:last] and one.path is not None
    }


@pytest.mark.parametrize(("hierarchy", "driver", "fields", "told"), CHANGES)
@pytest.mark.parametrize("last", [6, 99])
def test_a_restart_of_the_kubelet_leaves_what_its_pods_were_created_with(
    folder: str, hierarchy: str, driver: str, fields: dict[str, object], told: str, last: int
) -> None:
    given = plan_of(folder, hierarchy, driver, memory_qos="1.36" if hierarchy == "v2" else None)
    now, then = under(given, {}), under(given, fields)
    old = old_paths(now, last)
    units = {one.unit for one in now.cgroups if one.path in old}
    live, before = tree_of(now), tree_of(then)
    mixed = {
        path: before.cgroups[path] if path in old else one for path, one in live.cgroups.items()
    }
    live = replace(live, cgroups=mixed)
    properties = units_of(now, live)
    properties |= {unit: one for unit, one in units_of(then, live).items() if unit in units}
    off = [one for one in look(now, live, properties).findings if one.verdict != "ineffective"]
    assert off
    assert {one.verdict for one in off} == {"stale"}
    assert all(told in one.message for one in off if one.rule is not None)


@pytest.mark.parametrize(("is_whole", "verdict"), [(True, "stale"), (False, "drift")])
def test_one_pod_tells_of_an_earlier_configuration_where_its_cgroups_agree(
    folder: str, is_whole: bool, verdict: str
) -> None:
    # of a kubelet 1.36.2: of all pods one was created while cpuCFSQuota was false
    plan = plan_of(folder, "v1")
    rows = [one for one in plan.cgroups if one.pod is not None and one.path]
    rows = [one for one in rows if any(s.file == "cpu.cfs_quota_us" for s in one.settings)]
    uid = next(one.pod.uid for one in rows[1:] if one.level == "container" and one.pod is not None)
    live = tree_of(plan)
    for one in rows:
        if one.pod is not None and one.pod.uid == uid and (is_whole or one.level == "container"):
            live = written(live, one.path or "", "cpu.cfs_quota_us", "-1")
    found = [one for one in look(plan, live).findings if one.file == "cpu.cfs_quota_us"]
    assert len(found) >= 1 + is_whole
    assert {one.verdict for one in found} == {verdict}


@pytest.mark.parametrize(("hierarchy", "file"), [("v1", "cpu.cfs_quota_us"), ("v2", "cpu.max")])
def test_of_two_configurations_the_one_that_nothing_contradicts_is_named(
    folder: str, hierarchy: str, file: str
) -> None:
    # of a kubelet 1.36.2 whose static CPU manager had given a pod a CPU of its own, but others none
    text = (SAMPLES / "kubelet-pods.json").read_bytes()
    text = text.replace(b'"250m"', b'"1"').replace(b'"300m"', b'"1"')
    pods = load_text(text, Options(), name="pods").pods
    now = planned(pods, plan_of(folder, hierarchy).node)
    then = {one.name: one.applied for one in under(now, {"cpu_manager_policy": "static"}).cgroups}
    live = tree_of(now)
    for one in now.cgroups:
        was = then[one.name].get(file, "-1")
        if one.pod is not None and one.applied.get(file, "-1") != was:
            live = written(live, one.path or "", file, was)
    found = [one for one in look(now, live).findings if one.file == file]
    assert len(found) == 3
    assert {one.verdict for one in found} == {"stale"}
    assert all("left by cpuManagerPolicy static" in one.message for one in found)


@pytest.mark.parametrize(
    ("hierarchy", "identity", "verdict"),
    [("v1", 10**6, "stale"), ("v1", None, "drift"), ("v2", 10**6, "stale"), ("v2", None, "drift")],
)
def test_one_container_tells_of_another_period_which_changes_no_limit(
    folder: str, hierarchy: str, identity: int | None, verdict: str
) -> None:
    # of a kubelet 1.36.2: a container restarted while cpuCFSQuotaPeriod was 10ms; a file written by hand
    plan = plan_of(folder, hierarchy)
    file = "cpu.cfs_period_us" if hierarchy == "v1" else "cpu.max"
    path = next(
        one.path or ""
        for one in plan.cgroups
        if one.level == "container"
        and one.path
        and "cpu.cfs_quota_us" not in {s.file for s in one.settings}
        and any(s.file == file and s.value in ("100000", "max 100000") for s in one.settings)
    )
    value = "10000" if hierarchy == "v1" else "max 10000"
    live = written(tree_of(plan), path, file, value)
    newest = replace(live.cgroups[path], identity=identity or live.cgroups[path].identity)
    found = sole(plan, replace(live, cgroups={**live.cgroups, path: newest}))
    assert (found.verdict, found.found) == (verdict, value)
    told = "cpuCFSQuotaPeriod 10ms, in force when the pod was created"
    assert (told in found.message) == (verdict == "stale")


@pytest.mark.parametrize(
    ("hierarchy", "file", "found"),
    [
        ("v1", "cpu.cfs_period_us", "90000"),
        ("v1", "cpu.cfs_quota_us", "7700"),
        ("v2", "cpu.max", "7700 100000"),
    ],
)
def test_what_no_earlier_configuration_has_written_is_drift(
    folder: str, hierarchy: str, file: str, found: str
) -> None:
    # beside a kubelet 1.36.2 that was started again with cpuCFSQuota false: its pods kept their quotas
    given = plan_of(folder, hierarchy)
    now, then = under(given, {"cpu_cfs_quota": False}), under(given, {})
    live, quotas = tree_of(then), ("cpu.cfs_quota_us", "cpu.max")
    rows = [
        one.path or ""
        for one in then.cgroups
        if one.level == "pod"
        and any(s.file in quotas and s.value[0] not in "-m" for s in one.settings)
    ]
    for path in rows[1:3]:
        live = written(live, path, file, found)
    report = [one for one in look(now, live).findings if one.file == file]
    assert {one.path for one in report if one.verdict == "drift"} == set(rows[1:3])
    told = {one.path for one in look(now, live).findings if "cpuCFSQuota true" in one.message}
    assert rows[0] in told


def test_a_pod_without_protection_does_not_tell_that_memory_qos_was_off(folder: str) -> None:
    # beside a kubelet 1.36.2 whose Memory QoS was on as before: containers had their memory.high
    given = plan_of(folder, "v2", memory_qos="1.36")
    policy: dict[str, object] = {"memory_reservation_policy": "TieredReservation"}
    now, then = under(given, policy), under(given, {"memory_reservation_policy": "None"})
    found = [one for one in look(now, tree_of(then)).findings if one.verdict == "stale"]
    pods = {one.path for one in now.cgroups if one.level == "pod"}
    told = {
        one.path in pods: one.message.partition("left by ")[2].partition(",")[0] for one in found
    }
    either = "a configuration without Memory QoS or with memoryReservationPolicy None"
    assert told == {True: either, False: "memoryReservationPolicy None"}


@pytest.mark.parametrize(("more", "verdict"), [(0, "stale"), (4096, "drift")])
def test_protection_that_no_policy_gives_is_drift(folder: str, more: int, verdict: str) -> None:
    # beside a kubelet 1.36.2 with Memory QoS and memoryReservationPolicy None
    given = plan_of(folder, "v2", memory_qos="1.36")
    now, then = under(given, {}), under(given, {"memory_reservation_policy": "TieredReservation"})
    live = tree_of(now)
    rows = [
        (one.path or "", s)
        for one in then.cgroups
        if one.pod is not None and one.level == "container"
        for s in one.settings
        if s.file in ("memory.min", "memory.low") and s.applied != "0"
    ]
    path, setting = rows[0]
    live = written(live, path, setting.file, str(int(setting.applied) + more))
    found = next(one for one in look(now, live).findings if one.file == setting.file)
    assert (found.verdict, found.path) == (verdict, path)


@pytest.mark.parametrize(
    ("has", "older", "verdict"),
    [
        ("all", None, "stale"),
        ("some", None, "drift"),
        ("some", "some", "stale"),
        ("some", "all", "drift"),
    ],
)
def test_all_containers_of_before_tell_of_their_oom_kills_below_systemd(
    folder: str, has: str, older: str | None, verdict: str
) -> None:
    # beside a kubelet 1.36.2 that was started again without singleProcessOOMKill; systemd writes 0 in some
    plan = plan_of(folder, "v2", "systemd")
    live, file = tree_of(plan), "memory.oom.group"
    every = [one for one in plan.cgroups if one.applied.get(file) == "1" and one.pod is not None]
    uids = {"all": frozenset(one.pod.uid for one in every if one.pod is not None)}
    uids["some"] = frozenset(sorted(uids["all"])[:3])
    for one in every:
        if one.pod is not None and one.pod.uid in uids[has]:
            live = written(live, one.path or "", file, "0")
    work = KubeletWork(older=None if older is None else uids[older])
    report = without_kubelet_work(look(plan, live), work)
    found = [one for one in report.findings if one.file == file]
    assert len(found) > 2
    assert {one.verdict for one in found} == {verdict}
    assert ("singleProcessOOMKill true" in found[0].message) == (verdict == "stale")


@pytest.mark.parametrize(
    ("level", "file", "is_left"),
    [
        # a kubelet writes memory, CPU shares, pids and hugepages of what is reserved, of pods no memory with swap
        ("reserved", "memory.limit_in_bytes", True),
        ("reserved", "memory.memsw.limit_in_bytes", False),
        ("reserved", "cpu.cfs_quota_us", False),
        ("kubepods", "cpu.max", False),
        ("kubepods", "cpu.weight", True),
        ("pod", "cpu.cfs_quota_us", True),
        ("pod", "memory.memsw.limit_in_bytes", False),
        ("container", "memory.memsw.limit_in_bytes", True),
    ],
)
def test_only_what_a_kubelet_writes_is_left_by_one(level: Level, file: str, is_left: bool) -> None:
    assert (left_behind(level, file) is not None) == is_left


@pytest.mark.parametrize(("has_sandbox", "verdict"), [(True, "drift"), (False, "stale")])
def test_a_pod_that_waits_for_its_sandbox_tells_no_age(
    folder: str, has_sandbox: bool, verdict: str
) -> None:
    # of a kubelet 1.36.2: a name of 253 characters, which no directory of logs may have
    plan = plan_of(folder, "v1", "cgroupfs", "1.36")
    pods = {one.pod.uid: one.path or "" for one in plan.cgroups if one.level == "pod" and one.pod}
    live = tree_of(plan)
    for path in pods.values():
        live = written(live, path, "pids.max", "512")
    waits, *others = pods
    running = frozenset(pods if has_sandbox else others)
    work = KubeletWork(running=running, older=frozenset(others))
    found = {one.path: one.verdict for one in without_kubelet_work(look(plan, live), work).findings}
    assert found == {path: verdict if uid == waits else "stale" for uid, path in pods.items()}
