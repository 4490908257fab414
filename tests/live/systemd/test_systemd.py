"""The systemd driver on a real systemd, below slices of the tests' own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.cgroup import names
from qoslet.core.cgroup.interface_files import cpu_numbers
from qoslet.core.cgroup.unit_properties import OOM_POLICY_SINCE
from qoslet.core.reconcile.steps import Step
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.host.linux.openat import parent
from tests.cli.fixtures import answer
from tests.live.kernel.parity import QosTotals, check, plans
from tests.live.systemd.slices import MIB, Live, good, inside, run, sets, until
from tests.paths import REPO

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

LEAST = 2000
"""Values that are compared at least."""


@pytest.fixture
def live() -> Iterator[Live]:
    made = Live()
    try:
        yield made
    finally:
        made.close()


def test_systemd_keeps_every_value_over_reload_and_reexec(live: Live) -> None:
    values = {live.pod: live.limits(64 * MIB), live.app: live.limits(32 * MIB)}
    driver = live.driver
    steps = [Step("create", path) for path in values]
    steps += [step for path in values for step in sets(path, values[path])]
    good(driver.perform(steps))
    if live.hierarchy == "v2" and "hugetlb" in live.text("/", "cgroup.controllers"):
        values[live.app].append(("hugetlb.2MB.max", "0"))
        good(driver.perform(sets(live.app, values[live.app][-1:])))
    for verb in ("daemon-reload", "daemon-reexec"):
        run("systemctl", verb)
        for path, pairs in values.items():
            live.stands(path, pairs)
    good(driver.perform(sets(live.pod, [live.limits(96 * MIB)[0]])))
    live.stands(live.pod, live.limits(96 * MIB)[:1] + values[live.pod][1:2])


def test_systemd_itself_knows_every_value(live: Live) -> None:
    good(live.driver.perform([Step("create", live.pod), *sets(live.pod, live.limits(64 * MIB))]))
    memory = "MemoryMax" if live.hierarchy == "v2" else "MemoryLimit"
    unit = live.pod.rpartition("/")[2]
    wanted = {memory: str(64 * MIB)} if live.has("memory") else {}
    wanted |= {"TasksMax": "99", "CPUQuotaPerSecUSec": "230ms"}
    wanted |= {"Transient": "yes", "DefaultDependencies": "no"}
    words = [f"-p{name}" for name in wanted]
    found = dict(line.split("=", 1) for line in run("systemctl", "show", unit, *words).splitlines())
    assert found == wanted


def test_systemd_is_told_nothing_twice_and_a_qos_update_costs_the_same(live: Live) -> None:
    driver, bus = live.driver, live.driver.units.bus
    tiers = [f"{live.root}/{live.stem}-{name}.slice" for name in ("a", "b")]
    steps = [Step("create", tier) for tier in tiers]
    update = [step for tier in tiers for step in sets(tier, live.limits(64 * MIB))]
    counts = []
    for size in (2, 12):
        pods = [f"{tiers[0]}/{live.stem}-a-pod{n}.slice" for n in range(size)]
        good(driver.perform(steps + [Step("create", path) for path in pods]))
        calls = bus.calls
        good(driver.perform(update))
        first = bus.calls - calls
        good(driver.perform(update))
        assert bus.calls == calls + first
        update = [step for tier in tiers for step in sets(tier, live.limits(128 * MIB)[:2])]
        counts.append(first)
        steps = []
    assert counts[1] <= counts[0] <= 5


def test_systemd_leaves_what_is_not_ours(live: Live) -> None:
    good(live.driver.perform([Step("create", live.pod)]))
    unit = live.pod.rpartition("/")[2]
    run("systemctl", "set-property", "--runtime", unit, "IOAccounting=yes", "TasksMax=77")
    good(live.driver.perform(sets(live.pod, live.limits(64 * MIB)[:2])))
    shown = run("systemctl", "show", unit, "-pIOAccounting", "-pTasksMax")
    assert set(shown.splitlines()) == {"IOAccounting=yes", "TasksMax=77"}
    live.begin()
    (outcome,) = live.driver.perform([Step("create", live.root)])
    assert "no qoslet journal has it" in str(outcome.error)
    live.made.pop().close()


def test_systemd_scope_runs_ends_and_runs_again(live: Live) -> None:
    driver = live.driver
    pairs = live.limits(64 * MIB)
    good(driver.perform([Step("create", live.app), *sets(live.app, pairs)]))
    assert driver.members(live.app) == set()
    for _ in range(2):
        child = inside(driver, live.app, "import time; time.sleep(600)")
        assert driver.members(live.app) == {child.pid}
        shown = run("systemctl", "show", live.app.rpartition("/")[2], "-pControlGroup", "--value")
        assert shown == live.app
        for line in Path(f"/proc/{child.pid}/cgroup").read_text().splitlines():
            if line.split(":")[1] in ("", "memory", "name=systemd", "pids", "freezer"):
                assert line.endswith(live.app), line
        (outcome,) = driver.perform([Step("remove", live.app)])
        assert outcome.errno_name == "EBUSY"
        assert driver.kill(live.app)
        assert child.wait(30) == -signal.SIGKILL
        live.stands(live.app, pairs)


def test_systemd_scope_after_an_oom_kill(live: Live) -> None:
    driver = live.driver
    if not live.has("memory"):
        pytest.skip("this kernel has no v1 memory controller")
    limit = live.limits(32 * MIB)[:1]
    steps = [Step("create", live.app), *sets(live.app, limit)]
    if live.hierarchy == "v2":
        steps.append(Step("set", live.app, "memory.oom.group", "1"))
        # Without it the guest would swap for long instead.
        if (Path("/sys/fs/cgroup/system.slice/memory.swap.max")).exists():
            steps.append(Step("set", live.app, "memory.swap.max", "0"))
    good(driver.perform(steps))
    unit = live.app.rpartition("/")[2]
    for count in (1, 2):
        child = inside(driver, live.app, f"b = b'x' * {96 * MIB}; import time; time.sleep(600)")
        assert child.wait(60) == -signal.SIGKILL
        if live.hierarchy == "v2" and driver.units.version >= OOM_POLICY_SINCE:
            until(lambda: driver.identity(live.app) is None)
            assert run("systemctl", "show", unit, "-pResult", "--value") == "oom-kill"
        else:
            group = live.observer().read_cgroup(live.app)
            assert group is not None
            assert (group.oom_kills or 0) >= count
        good(driver.perform(steps))
        live.stands(live.app, limit)


def test_systemd_restarted_while_it_is_being_told(live: Live) -> None:
    driver = live.driver
    pods = [f"{live.root}/{live.stem}-pod{n}.slice" for n in range(12)]
    pairs = live.limits(64 * MIB)
    for verb in ("daemon-reexec", "daemon-reload"):
        restart = subprocess.Popen(["systemctl", verb])
        steps = [Step("create", path) for path in pods]
        good(driver.perform(steps + [step for path in pods for step in sets(path, pairs)]))
        assert restart.wait(120) == 0
        for path in pods:
            live.stands(path, pairs)
        pairs = live.limits(32 * MIB)
        good(driver.perform([step for path in pods for step in sets(path, pairs)]))
        for path in pods:
            live.stands(path, pairs)
    good(driver.perform([Step("remove", path) for path in pods]))


def test_systemd_executed_again_in_the_middle_of_updates(live: Live) -> None:
    driver = live.driver
    pods = [f"{live.root}/{live.stem}-pod{n}.slice" for n in range(12)]
    good(driver.perform([Step("create", path) for path in pods]))
    turn = 0
    for verb in ("daemon-reexec", "daemon-reload", "daemon-reexec"):
        with subprocess.Popen(["systemctl", verb]) as restart:
            least = turn + 2
            while restart.poll() is None or turn < least:
                turn += 1
                pairs = live.limits((32 if turn % 2 else 64) * MIB)
                good(driver.perform([step for path in pods for step in sets(path, pairs)]))
                for path in pods:
                    live.stands(path, pairs)
        assert restart.returncode == 0
    assert turn >= 6


def test_systemd_keeps_nothing_of_a_unit_that_is_stopped_while_it_is_told(live: Live) -> None:
    driver = live.driver
    unit = live.pod.rpartition("/")[2]
    stopped = 0
    for turn in range(12):
        good(driver.perform([Step("create", live.pod)]))
        with subprocess.Popen(["systemctl", "stop", unit]):
            for number in range(100):
                size = 32 << (turn + number) % 2
                (outcome, *_) = driver.perform(sets(live.pod, live.limits(size * MIB)[:1]))
                if outcome.error is not None:
                    assert outcome.errno_name in ("ENODEV", "ENOENT"), outcome
                    stopped += 1
                    break
        assert not Path("/run/systemd/system.control", f"{unit}.d").exists()
    assert stopped


def test_systemd_unit_that_somebody_stopped(live: Live) -> None:
    driver = live.driver
    good(driver.perform([Step("create", live.pod)]))
    run("systemctl", "stop", live.pod.rpartition("/")[2])
    (outcome,) = driver.perform(sets(live.pod, live.limits(MIB)[:1]))
    assert outcome.errno_name == "ENODEV"
    good(driver.perform([Step("create", live.pod), *sets(live.pod, live.limits(MIB))]))
    live.stands(live.pod, live.limits(MIB)[:1])
    good(driver.perform([Step("remove", live.pod), Step("remove", live.pod)]))


def test_systemd_v2_at_the_limit_of_groups(live: Live) -> None:
    driver = live.driver
    if live.hierarchy != "v2":
        pytest.skip("of v2; this machine has v1 controllers")
    good(driver.perform([Step("create", live.root)]))
    driver.layout.trees[0].write(live.root, "cgroup.max.descendants", "0")
    outcomes = driver.perform([Step("create", live.pod), *sets(live.pod, live.limits(MIB))])
    assert len(outcomes) == 1
    assert outcomes[0].error is not None
    assert "cgroup.max.descendants" in outcomes[0].error
    driver.layout.trees[0].write(live.root, "cgroup.max.descendants", "max")
    run("systemctl", "stop", live.pod.rpartition("/")[2])
    good(driver.perform([Step("create", live.pod), *sets(live.pod, live.limits(MIB))]))
    live.stands(live.pod, live.limits(MIB)[:1])


POD = """
apiVersion: v1
kind: Pod
metadata: {name: killed}
spec:
  terminationGracePeriodSeconds: 2
  containers:
    - name: app
      command: [sh, -c, "sleep 600"]
      resources: {requests: {cpu: 100m, memory: 16Mi}, limits: {cpu: 215m, memory: 32Mi}}
"""


@contextmanager
def ended_after(process: subprocess.Popen[str]) -> Iterator[None]:
    """A run that is over afterwards, also where a test fails in between."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)


def begin_run(live: Live, folder: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "qoslet", "run", str(folder), "--cgroup-root", live.name]
    words += ["--cgroup-driver", "systemd", "--interval", "0.3"]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPO
    )


def test_systemd_run_killed_and_begun_again_converges(live: Live, tmp_path: Path) -> None:
    folder = tmp_path / "pods"
    folder.mkdir(mode=0o755)
    (folder / "pod.yaml").write_text(POD)
    first = begin_run(live, folder)
    pids = running(live, first)
    quota = "cpu.max" if live.hierarchy == "v2" else "cpu.cfs_quota_us"
    (scope,) = (path for path in live.driver.below(live.root) if path.endswith(".scope"))
    assert live.text(scope, quota).split()[0] == "22000"
    for pid in pids:
        places = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        own = [place for place in places if place.split(":")[1] in ("", "name=systemd")]
        assert own, places
        assert all(place.endswith(scope) for place in own), places
    first.kill()
    first.communicate()
    second = begin_run(live, folder)
    # its keeper has them, and the next run takes them up
    assert running(live, second) & pids
    second.send_signal(signal.SIGINT)
    out, err = second.communicate(timeout=120)
    assert second.returncode == 0, (out, err)
    assert live.driver.below(live.root) == []


def test_systemd_run_tells_an_oom_kill_and_starts_again(live: Live, tmp_path: Path) -> None:
    if not live.has("memory"):
        pytest.skip("this kernel has no v1 memory controller")
    folder = tmp_path / "pods"
    folder.mkdir(mode=0o755)
    hungry = f"mkdir {tmp_path}/once && exec dd if=/dev/zero of=/dev/null bs=96M; exec sleep 600"
    (folder / "pod.yaml").write_text(POD.replace("sleep 600", hungry))
    begun = begin_run(live, folder)
    last: dict[str, Any] = {}

    def again() -> bool:
        """Whether it was started again; what ``ps`` tells of it is kept."""
        assert begun.poll() is None, begun.communicate()
        told = answer("ps", "-o", "json", "--cgroup-root", live.name)
        pods = json.loads(told.stdout)["items"] if told.returncode == 0 else []
        last.update(*(one for pod in pods for one in pod["containers"]))
        return bool(last.get("restarts") and last["running"])

    with ended_after(begun):
        # without compiled modules each qoslet takes its time in an emulated guest
        until(again, 300)
        assert (last["restarts"], last["oomKilled"]) == (1, True), last
        limit = "memory.max" if live.hierarchy == "v2" else "memory.limit_in_bytes"
        (scope,) = (path for path in live.driver.below(live.root) if path.endswith(".scope"))
        live.stands(scope, [(limit, str(32 * MIB))])
    assert begun.returncode == 0
    assert live.driver.below(live.root) == []


def running(live: Live, process: subprocess.Popen[str], of: int = 1) -> set[int]:
    """The processes of the container, one ``of`` the pod's, when a run says that it has it."""
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    wanted = f"1 of {of} containers running"
    assert any(wanted in line for line in lines), process.communicate()
    found: set[int] = set()

    def runs() -> bool:
        """Whether what was forked is the container's program already."""
        groups = live.observer().observe(live.root).cgroups
        pids = {pid for path in groups if path.endswith(".scope") for pid in groups[path].pids}
        commands = {pid: Path(f"/proc/{pid}/cmdline") for pid in pids}
        found.update(
            p for p, one in commands.items() if one.exists() and b"sleep" in one.read_bytes()
        )
        return bool(found)

    until(runs, 120)
    return found


def placed(wanted: Plan, root: str) -> Plan:
    """The plan with scopes for containers whose id is not known, and the root as a path."""
    groups = []
    for group in wanted.cgroups:
        path = group.path or ""
        if group.level == "container" and not path.endswith(".scope"):
            above = parent(path)
            leaf = names.process_leaf(above, path.rpartition("/")[2].lower().replace("_", "-"))
            path = f"{above}/{leaf}"
        groups.append(replace(group, path=path))
    kubelet = replace(wanted.node.kubelet, cgroup_root=root)
    return replace(wanted, node=replace(wanted.node, kubelet=kubelet), cgroups=tuple(groups))


def test_systemd_parity_with_the_recorded_kubelets(live: Live, record_property) -> None:
    if not live.has("memory"):
        pytest.skip("this kernel has no memory and cpuset controllers of v1")
    qos_totals = QosTotals()
    hugetlb = live.driver.layout.tree_of("hugetlb") is not None
    if live.hierarchy == "v2":
        hugetlb = "hugetlb" in live.driver.layout.trees[0].read("", "cgroup.controllers").split()
    for request, wanted in plans(live.hierarchy, live.name, driver="systemd", hugetlb=hugetlb):
        check(request, placed(wanted, live.root), live.driver, live.observer(), qos_totals)
        live.clear()
        if qos_totals.compared >= LEAST:
            break
    record_property("driver", "systemd")
    record_property("compared", qos_totals.compared)
    why = Counter((one.step.file, one.errno_name) for _, one in qos_totals.refused)
    record_property("refused", " ".join(f"{file}:{name}={n}" for (file, name), n in why.items()))
    assert qos_totals.different == []
    assert qos_totals.compared >= LEAST
    cpus = cpu_numbers(Path("/sys/devices/system/cpu/online").read_text().strip())
    for request, one in qos_totals.refused:
        if one.error is not None and "is not mounted" in one.error:
            continue
        assert one.step.file == "cpuset.cpus", (request, one)
        assert not cpu_numbers(one.step.value) <= cpus, (request, one)
