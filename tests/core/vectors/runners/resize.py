"""How the vectors of in-place resize are run."""

from __future__ import annotations

from math import inf

from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.reconcile.drift import Difference
from qoslet.core.reconcile.limit_shrink import eased
from qoslet.core.reconcile.resize import resize_phases
from qoslet.core.reconcile.step_order import magnitude
from tests.core.vectors import read_back
from tests.core.vectors.fixtures import Json, policy_for
from tests.core.vectors.runners.pods import config_of, pod_config
from tests.core.vectors.vectors import Vector, runs

Pair = tuple[object, object]
POD, CONTAINER = "/kubepods/pod", "/kubepods/pod/c"
MEMORY, QUOTA, SHARES = "memory.limit_in_bytes", "cpu.cfs_quota_us", "cpu.shares"
PARTS = {MEMORY: "pod.limit", QUOTA: "pod.limit", SHARES: "pod.request"}


def change(path: str, file: str, was: int, becomes: int) -> list[Difference]:
    """The difference of a file, none where it stays; 0 is "no limit"."""
    if was == becomes:
        return []
    found, wanted = (str(one or -1) for one in (was, becomes))
    return [Difference(path, "differs", file, wanted, found)]


@runs("cpu_request_from_config")
def cpu_request(vector: Vector, _: int) -> Pair:
    config = config_of(vector.given["config"])
    shares = config.cpu_shares if config else None
    return {"milliCPU": read_back.milli_of_shares(shares) if shares else None}, vector.expected


@runs("cpu_limit_from_config")
def cpu_limit(vector: Vector, _: int) -> Pair:
    config = config_of(vector.given["config"])
    quota, period = (config.cpu_quota or 0, config.cpu_period or 0) if config else (0, 0)
    limited = quota > 0 and period > 0
    return {
        "milliCPU": read_back.milli_of_quota(quota, period) if limited else None
    }, vector.expected


@runs("memory_limit_from_config")
def memory_limit(vector: Vector, _: int) -> Pair:
    config = config_of(vector.given["config"])
    limit = magnitude(MEMORY, str(config.memory)) if config and config.memory else inf
    return {"bytes": None if limit == inf else limit}, vector.expected


@runs("resize_memory_validation")
def validated(vector: Vector, _: int) -> Pair:
    """Under ``refuse`` a limit below the usage waits."""
    given = vector.given
    rows = change(
        CONTAINER, MEMORY, given["current"]["memoryLimit"], given["desired"]["memoryLimit"]
    )
    rows += change(POD, MEMORY, given["currentPodLimit"] or 0, given["desiredPodLimit"] or 0)
    used = {CONTAINER: given["containerUsage"], POD: given["podUsage"]}
    seen = {path: ObservedCgroup(path, 0, memory=usage) for path, usage in used.items()}
    waiting = eased(rows, Observed(0.0, seen), "refuse")[1]
    return "error" if waiting else "ok", vector.expected


@runs("resize_order")
def ordered(vector: Vector, _: int) -> Pair:
    given = vector.given
    assert given["resource"] == "cpu"
    rows = change(POD, QUOTA, given["currentPodLimit"], given["newPodLimit"])
    rows += change(POD, SHARES, given["currentPodRequest"], given["newPodRequest"])
    rows += change(CONTAINER, SHARES, 2, 3)
    phases = resize_phases(rows, [POD])
    parts = [PARTS[one.file] if one.path == POD else "containers" for (one,) in phases]
    return parts, vector.expected


def _resources(given: Json) -> dict[str, dict[str, str]]:
    """Milli CPU and bytes; zero is "not given"."""
    found: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for resource, unit in (("cpu", "m"), ("memory", "")):
        for kind in ("Request", "Limit"):
            if amount := given[f"{resource}{kind}"]:
                found[f"{kind.lower()}s"][resource] = f"{amount}{unit}"
    return found


@runs("resize_pod_cgroup_writes")
def written(vector: Vector, minor: int) -> Pair:
    """Each write of the pod's cgroup is a phase of its own; what is not desired stays."""
    given = vector.given
    others = [
        {"name": f"o{at}", "requests": one, "limits": one}
        for at, one in enumerate(given["otherContainers"])
    ]
    level = given["desiredPodLevel"]
    pod = {
        "containers": [{"name": "c", **_resources(given["desiredContainer"])}, *others],
        "resources": None if level is None else _resources(level),
    }
    desired = pod_config(policy_for(minor, host={"hierarchy": "v1"}), pod)
    current = config_of(given["currentPodCgroup"])
    assert current is not None
    rows: list[Difference] = []
    for file, field in ((MEMORY, "memory"), (QUOTA, "cpu_quota"), (SHARES, "cpu_shares")):
        was, becomes = getattr(current, field), getattr(desired, field)
        rows += change(POD, file, was or 0, (was if becomes is None else becomes) or 0)
    return {"setPodCgroupConfigCalls": len(resize_phases(rows, [POD]))}, vector.expected
