"""``qoslet run --with containerd``: pods in a real containerd, on every level as planned."""

from __future__ import annotations

import asyncio
import json
import signal
from copy import deepcopy
from pathlib import Path

import pytest

from tests.live.agent.agents import MIB, SLOW
from tests.live.cri.pods import SLEEPS, Cri, amounts, container, pod
from tests.live.cri.roots import containerd as containerd
from tests.live.cri.roots import cri as cri
from tests.live.cri.roots import each as each
from tests.live.cri.roots import slices as slices

pytestmark = [pytest.mark.live, pytest.mark.timeout(240 * SLOW)]


EXAMPLES = (
    pod("report", container("busy")),
    pod("web", container("busy", resources=amounts("500m", "32Mi", memory_limit="128Mi"))),
    pod("database", container("busy", resources=amounts("500m", "64Mi", "500m", "64Mi"))),
    pod(
        "shop",
        container("app", resources=amounts("110m", "24Mi", "230m", "48Mi")),
        container("side", resources=amounts("15m", "16Mi", "15m", "32Mi")),
        initContainers=[
            container("prepare", "true", resources=amounts("10m", "16Mi", "50m", "32Mi")),
            container("proxy", restartPolicy="Always", resources=amounts("10m", "16Mi")),
        ],
        overhead={"cpu": "20m", "memory": "8Mi"},
    ),
)


def test_every_file_on_every_level_is_as_planned(each: Cri, record_property) -> None:
    each.put(*EXAMPLES)
    run = each.begin()
    each.until(lambda: each.running("report", "web", "database"), 60 * SLOW)
    each.soon(
        lambda: (
            [one["running"] for one in each.states("shop").values()] == [False, True, True, True]
        )
    )
    # the group of a container that has ended is gone
    (each.manifests / "shop.yaml").unlink()
    each.soon(lambda: "shop" not in each.pods())
    again = deepcopy(EXAMPLES[3])
    del again["spec"]["initContainers"][0]
    each.put(again)
    each.up("report", "web", "database", "shop")
    count, wrong = each.compared()
    assert not wrong
    assert count >= 40
    record_property("compared", count)
    said = each.ends(run)
    assert "Traceback" not in said


def test_init_containers_and_sidecars_in_their_order_with_their_logs(cri: Cri) -> None:
    cri.put(
        pod(
            "shop",
            container(
                "app",
                f"cat /data/note; {SLEEPS}",
                volumeMounts=[{"name": "v", "mountPath": "/data"}],
            ),
            initContainers=[
                container(
                    "one",
                    "echo one > /data/note",
                    volumeMounts=[{"name": "v", "mountPath": "/data"}],
                ),
                container("side", SLEEPS, restartPolicy="Always"),
                container(
                    "two",
                    "echo two >> /data/note",
                    volumeMounts=[{"name": "v", "mountPath": "/data"}],
                ),
            ],
            volumes=[{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
        )
    )
    run = cri.begin()
    cri.soon(lambda: cri.answers() and bool(cri.states("shop").get("app", {}).get("running")), 40)
    cri.soon(lambda: cri.log("shop/app") == "one\ntwo\n")
    states = cri.states("shop")
    assert [states[name]["exitCode"] for name in ("one", "two")] == [0, 0]
    assert states["one"]["reason"] == "Completed"
    assert states["side"]["running"]
    times = [states[name]["startedAt"] for name in ("one", "side", "two", "app")]
    assert times == sorted(times)
    cri.ends(run)


def test_who_watches_over_a_pod_is_charged_to_it(each: Cri) -> None:
    each.put(pod("web", container("a"), container("b")))
    run = each.begin()
    each.up("web")
    [shim] = each.containerd.shims()
    leaf = next(path for path in each.groups() if path.endswith(("/monitor", "-monitor.scope")))
    each.soon(lambda: shim in each.tree.members(leaf))
    above = leaf.rpartition("/")[0]
    assert not each.tree.members(above), "no process in an inner group"
    inside = {
        pid
        for path in each.groups()
        if path.startswith(f"{above}/")
        for pid in each.tree.members(path)
    }
    assert {shim, each.pid("web", "a"), each.pid("web", "b")} < inside
    each.ends(run)


def test_the_agents_own_tree_is_audited_whole(each: Cri) -> None:
    each.put(pod("a", container("app", resources=amounts("100m", "16Mi", "", "64Mi"))))
    each.put(pod("b"))
    run = each.service()
    each.up("a", "b")
    words = ("-o", "json", "--cgroup-root", each.root)
    told = json.loads(each.qoslet("audit", *words))
    assert (told["findings"], told["notes"], told["unread"]) == ([], [], [])
    each.stop(run)
    each.release()
    each.nothing_left()


def test_a_resize_reaches_running_containers(each: Cri) -> None:
    each.put(pod("web", container("app", resources=amounts("100m", "16Mi", "200m", "32Mi"))))
    run = each.begin()
    each.up("web")
    pid, path = each.pid("web"), each.states("web")["app"]["cgroup"]
    assert each.limit(path) == 32 * MIB
    each.put(pod("web", container("app", resources=amounts("100m", "16Mi", "400m", "48Mi"))))
    each.soon(lambda: each.limit(path) == 48 * MIB)
    each.soon(lambda: each.pods()["web"]["resize"] == "Done")
    each.soon(lambda: not each.compared()[1])
    each.put(pod("web", container("app", resources=amounts("100m", "16Mi", "150m", "24Mi"))))
    each.soon(lambda: each.limit(path) == 24 * MIB)
    each.soon(lambda: not each.compared()[1], 60)
    assert each.pid("web") == pid
    each.ends(run)


def test_v2_memory_qos_of_running_containers_follows_the_node(cri: Cri, tmp_path: Path) -> None:
    if not cri.v2:
        pytest.skip("Memory QoS needs cgroup v2; make test-vm has it")
    node = tmp_path / "node.yaml"
    text = (
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "featureGates: {{MemoryQoS: true}}\nmemoryThrottlingFactor: {0}\n"
        "memoryReservationPolicy: TieredReservation\n"
    )
    node.write_text(text.format(0.9))
    cri.put(pod("web", container("app", resources=amounts("100m", "16Mi", memory_limit="64Mi"))))
    words = ["--kubernetes", "1.36", "--node", str(node)]
    run = cri.begin(*words)
    cri.up("web")
    pid, path = cri.pid("web"), cri.states("web")["app"]["cgroup"]
    high = cri.read(path, "memory.high")
    assert high != "max"
    assert not cri.compared(*words)[1]
    node.write_text(text.format(0.5))
    cri.soon(lambda: cri.read(path, "memory.high") not in (high, "max"))
    cri.soon(lambda: not cri.compared(*words)[1])
    assert cri.pid("web") == pid
    cri.ends(run)


def test_v2_a_container_that_stalls_at_its_memory_high_gets_on(each: Cri) -> None:
    """And what was raised for it comes back, though the agent is killed."""
    if not each.v2:
        pytest.skip("memory.high needs cgroup v2; make test-vm has it")
    fills = f"dd if=/dev/zero of=/dev/null bs=90M count=1 2>/dev/null; echo filled; {SLEEPS}"
    asked = amounts("100m", "16Mi", memory_limit="96Mi")
    each.put(pod("hog", container("app", fills, resources=asked)))
    words = ["--memory-qos", "1.22", "--guard", "act"]
    first = each.service(*words)
    each.up("hog")
    each.soon(lambda: each.log("hog") == "filled\n", 30)
    path = each.states("hog")["app"]["cgroup"]
    assert each.read(path, "memory.high") == "max"
    told = json.loads(each.qoslet("ps", "-o", "json", "--cgroup-root", each.root))
    [held] = told["memory"]["guard"]["overrides"]
    assert held["cgroup"] == path
    first.kill()
    first.communicate()
    second = each.service(*words)
    each.soon(lambda: each.read(path, "memory.high") == str(held["plannedHighBytes"]), 30)
    assert not each.compared("--memory-qos", "1.22")[1]
    assert "another process" not in each.stop(second)
    each.release()
    each.nothing_left()


def test_ends_are_told_with_code_and_reason(cri: Cri) -> None:
    hog = "dd if=/dev/zero of=/dev/null bs=96M count=1; sleep 1"
    small = amounts("10m", "16Mi", "500m", "24Mi")
    cri.put(
        pod("oom", container("app", hog, resources=small), restartPolicy="Never"),
        pod("bad", container("app") | {"command": ["/none-such"]}, restartPolicy="Never"),
        pod("fine", container("app", "echo fine"), restartPolicy="Never"),
        pod("again", container("app", "exit 1")),
    )
    run = cri.begin()
    cri.until(lambda: cri.answers() and len(cri.pods()) == 4, 40 * SLOW)
    cri.soon(lambda: cri.pods()["fine"]["phase"] == "Succeeded", 30)
    cri.soon(lambda: cri.pods()["bad"]["phase"] == "Failed", 30)
    assert cri.states("bad")["app"]["reason"] == "StartError"
    assert cri.states("bad")["app"]["exitCode"] == 128
    cri.soon(lambda: cri.states("again")["app"]["restarts"] >= 1, 30)
    assert cri.states("again")["app"]["exitCode"] == 1
    cri.soon(lambda: cri.states("oom")["app"]["exitCode"] is not None, 30)
    assert cri.log("fine") == "fine\n"
    cri.ends(run, 1)


def test_sandboxes_of_others_are_left_alone(cri: Cri, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Cri(tmp_path / "other", cri.containerd)
    other.put(pod("theirs"))
    theirs = other.service()
    try:
        other.up("theirs")
        pid = other.pid("theirs")
        cri.put(pod("ours"))
        run = cri.begin()
        cri.up("ours")
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=60 * SLOW)
        assert not cri.groups()
        assert other.pid("theirs") == pid
    finally:
        other.stop(theirs)
        other.clean()
    cri.nothing_left()


def test_stats_are_what_the_runtime_reports(cri: Cri, record_property) -> None:
    cri.put(pod("a", container("app", "sleep 1000", resources=amounts("10m", "16Mi", "", "32Mi"))))
    run = cri.begin()
    cri.up("a")
    compared = 0

    def numbers() -> dict[str, int]:
        [one] = json.loads(cri.qoslet("ps", "a", "-o", "stats", "--cgroup-root", cri.root))["stats"]
        [found] = one["linux"]["containers"]
        assert "usageNanoCores" in one["linux"]["cpu"]
        assert int(one["linux"]["process"]["processCount"]["value"]) >= 3
        rows = {**found["memory"], **found["cpu"]}
        told = {
            key: int(row["value"])
            for key, row in rows.items()
            if isinstance(row, dict) and "value" in row
        }
        return told | stalls({kind: found.get(kind, {}).get("psi", {}) for kind in STALLED})

    before, theirs, after = numbers(), reported(cri, "a", "app"), numbers()
    names = {"usage_core_nano_seconds": "usageCoreNanoSeconds", "working_set_bytes": "workingSetBytes",
             "usage_bytes": "usageBytes", "rss_bytes": "rssBytes", "page_faults": "pageFaults",
             "major_page_faults": "majorPageFaults", "available_bytes": "availableBytes"}  # fmt: skip
    # a containerd that knows no pressure tells none
    names |= {key: key for key in theirs if key.endswith("Total")}
    for name, ours in names.items():
        if name not in theirs:
            continue
        low, high = sorted((before[ours], after[ours]))
        assert low <= theirs[name] <= high, (name, theirs[name], before[ours], after[ours])
        compared += 1
    assert compared >= 3
    record_property("compared", compared)
    cri.ends(run)


STALLED = ("cpu", "memory", "io")


def stalls(psi: dict[str, dict[str, dict[str, object]]]) -> dict[str, int]:
    """The times of pressure, by where and how."""
    return {
        f"{kind}{how}Total": int(str(row["Total"]))
        for kind, rows in psi.items()
        for how, row in rows.items()
    }


def reported(cri: Cri, name: str, of: str) -> dict[str, int]:
    """What containerd tells of a container, by field."""
    from qoslet.host.cri.calls import Calls
    from qoslet.host.cri.pb import cri_pb2 as pb

    async def ask() -> pb.ContainerStats:
        calls = Calls(cri.containerd.endpoint)
        try:
            request = pb.ContainerStatsRequest(container_id=cri.record(name)["ids"][of])
            return (await calls("ContainerStats", request, pb.ContainerStatsResponse)).stats
        finally:
            await calls.close()

    stats = asyncio.run(ask())
    rows = [*stats.cpu.ListFields(), *stats.memory.ListFields()]
    told = {field.name: row.value for field, row in rows if hasattr(row, "value")}
    psi = {
        kind: {
            row.name: {"Total": data.Total} for row, data in getattr(stats, kind).psi.ListFields()
        }
        for kind in STALLED
    }
    return told | stalls(psi)
