"""Pods begun by an earlier version, taken over by this one: nothing restarts until it is asked to."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.live.adoption.versions import COUNTS, Installed, installed
from tests.live.agent.test_run import EMULATED, PATIENCE
from tests.live.cri.containerd import need_containerd
from tests.live.oci.bundles import found

pytestmark = [pytest.mark.live, pytest.mark.timeout(6 * PATIENCE)]

RUNNING = 3
"""Containers that stay."""


def web(place: Installed, cpu: str, memory: str) -> dict[str, Any]:
    """A pod with a container that more memory restarts, and one that nothing does."""
    policy = [
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
    ]
    amounts = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": "64Mi"}}
    app = place.container("app", resources=amounts, resizePolicy=policy)
    app["command"][-1] = f"echo x >> /tmp/cache/starts; wc -l < /tmp/cache/starts; {COUNTS}"
    first = {**place.container("first"), "command": ["sh", "-c", "exit 0"]}
    volume = {"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}
    app["volumeMounts"] = [{"name": "cache", "mountPath": "/tmp/cache"}]
    return pod("web", [app, place.container("side")], initContainers=[first], volumes=[volume])


def pod(name: str, containers: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"{name}-0"},
        "spec": {
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 3,
            "containers": containers,
            **spec,
        },
    }


def shares(place: Installed, name: str) -> str:
    """What a container's share of CPU is now."""
    path = place.containers()[name]["cgroup"]
    return place.value(path, "cpu.weight" if place.v2 else "cpu.shares")


def kept(place: Installed) -> dict[str, tuple[int, int, bool]]:
    """What must not change of what runs: process, restarts, whether it runs."""
    return {
        name: (one["pid"], one["restarts"], one["running"])
        for name, one in place.containers().items()
        if one["running"]
    }


Keeper = Literal["stays", "is killed last", "is killed first", "there is none"]

CASES = [
    pytest.param("process", signal.SIGTERM, "stays", id="process"),
    pytest.param("process", signal.SIGKILL, "stays", id="process-killed"),
    pytest.param("process", signal.SIGKILL, "is killed last", id="process-killed-with-its-keeper"),
    pytest.param("process", signal.SIGTERM, "is killed first", id="process-after-its-keeper"),
    pytest.param("runc", signal.SIGTERM, "stays", id="runc"),
    pytest.param("runc", signal.SIGKILL, "is killed last", id="runc-killed-with-its-keeper"),
    pytest.param("runc", signal.SIGTERM, "is killed first", id="runc-after-its-keeper"),
    pytest.param("crun", signal.SIGKILL, "is killed last", id="crun-killed-with-its-keeper"),
    pytest.param("containerd", signal.SIGTERM, "there is none", id="containerd"),
    pytest.param("containerd", signal.SIGKILL, "there is none", id="containerd-killed"),
]
ONCE = (
    "process-after-its-keeper",
    "runc-killed-with-its-keeper",
    "crun-killed-with-its-keeper",
    "containerd-killed",
)
if EMULATED:
    # a start of Python takes seconds there: each runtime once, with as much killed as can be
    CASES = [one for one in CASES if one.id in ONCE]


@pytest.mark.parametrize(("runtime", "number", "keeper"), CASES)
def test_pods_of_an_earlier_version_are_taken_over(
    runtime: str,
    number: int,
    keeper: Keeper,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    assert os.getuid() == 0, "live tests write to this machine's kernel: run them as root"
    if runtime == "containerd":
        need_containerd()
    elif runtime != "process" and isinstance(wrong := found(runtime), str):
        pytest.skip(wrong)
    with installed(tmp_path, runtime) as place:
        place.put(web(place, "100m", "32Mi"))
        place.put(pod("own", [place.container("app")]))
        place.serve()
        before = place.up(RUNNING)
        assert not (place.site / "qoslet" / "core" / "reconcile").exists(), "this is no old version"
        place.upgrade()
        assert place.mains() == before, "this version asks the agent of the earlier one"
        old = keeper_of(place)
        assert (old == 0) == (keeper == "there is none")
        if keeper == "is killed first":
            os.kill(old, signal.SIGKILL)
            place.soon(
                lambda: keeper_of(place) not in (0, old), "the old agent starts a new keeper"
            )
            old = keeper_of(place)
            place.soon(lambda: place.mains() == before, "it knows all containers")
        place.part(number)
        if keeper == "is killed last":
            os.kill(old, signal.SIGKILL)
        is_taken_over(place, before)
        assert (keeper_of(place) == old) == (keeper != "is killed last")
        is_resized(place, before)
        is_restarted(place, before)
        place.part(signal.SIGTERM)
        place.release()
        assert place.groups() == []
        assert not place.folder.exists(), list(place.folder.iterdir())
        assert place.alive(set(before.values())) == []
        record_property("compared", 3 * len(before))


def keeper_of(place: Installed) -> int:
    """The process that keeps the containers; 0 where a container runtime does."""
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            try:
                words = (one / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[1:4] == [b"-I", b"-S", b"-c"] and words[5] == place.root.encode():
                return int(one.name)
    return 0


def is_taken_over(place: Installed, before: dict[str, int]) -> None:
    """The next agent knows all containers as they are."""
    seen = len(place.printed("own"))
    place.serve()
    assert place.up(RUNNING) == before
    place.soon(lambda: "as planned" in place.summary(), "the tree is as planned")
    pods = place.pods()
    assert {name: one["phase"] for name, one in pods.items()} == {
        "web": "Running",
        "own": "Running",
    }
    assert place.mains() == before
    assert all(one["restarts"] == 0 for one in place.containers().values())
    first = place.containers()["web/first"]
    assert (first["running"], first["exitCode"]) == (False, 0)
    assert place.pids() >= set(before.values())
    place.soon(lambda: len(place.printed("own")) > seen + 5, "output is read on")
    assert place.printed("web")[:1] == [1]
    numbers = place.printed("own")
    steps = [later - earlier for earlier, later in pairwise(numbers)]
    # what a keeper had in its hands when it was killed goes with it
    assert (numbers[0], min(steps)) == (0, 1), numbers
    assert sum(step > 1 for step in steps) <= 2, numbers


def is_resized(place: Installed, before: dict[str, int]) -> None:
    """An edit of the manifest changes a running container."""
    was = shares(place, "web/app")
    place.put(web(place, "300m", "32Mi"))
    place.soon(lambda: shares(place, "web/app") not in ("", was), "the resize is written")
    assert place.mains() == before


def is_restarted(place: Installed, before: dict[str, int]) -> None:
    """What restarts a container restarts that one only."""
    place.put(web(place, "300m", "40Mi"))
    place.soon(lambda: place.containers()["web/app"]["restarts"] == 1, "it is restarted")
    after = place.up(RUNNING)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"web/app"}
    assert place.alive({before["web/app"]}) == []
    place.soon(lambda: place.printed("web")[:1] == [2], "its volume has what the first run left")
