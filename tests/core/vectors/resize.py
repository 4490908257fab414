"""How the vectors of in-place resize are run."""

from __future__ import annotations

from qoslet.core.reconcile import pod_resize
from tests.core.vectors.fixtures import Json, policy_for, quantities
from tests.core.vectors.pods import config_of, pod_config, spelled
from tests.core.vectors.vectors import Vector, runs

Pair = tuple[object, object]


@runs("subtract_overhead")
def overhead(vector: Vector, _: int) -> Pair:
    config = config_of(vector.given["config"])
    assert config is not None
    found = pod_resize.without_overhead(config, quantities(vector.given["overhead"]))
    return spelled(found), vector.expected


@runs("merge_resource_config")
def merged(vector: Vector, _: int) -> Pair:
    given = vector.given
    found = pod_resize.merged(config_of(given["source"]), config_of(given["update"]))
    return spelled(found), vector.expected


@runs("cpu_request_from_config")
def cpu_request(vector: Vector, _: int) -> Pair:
    return {"milliCPU": pod_resize.cpu_request(config_of(vector.given["config"]))}, vector.expected


@runs("cpu_limit_from_config")
def cpu_limit(vector: Vector, _: int) -> Pair:
    return {"milliCPU": pod_resize.cpu_limit(config_of(vector.given["config"]))}, vector.expected


@runs("memory_limit_from_config")
def memory_limit(vector: Vector, _: int) -> Pair:
    return {"bytes": pod_resize.memory_limit(config_of(vector.given["config"]))}, vector.expected


@runs("resize_memory_validation")
def validated(vector: Vector, _: int) -> Pair:
    given = vector.given
    container = pod_resize.limit_fault(
        given["current"]["memoryLimit"], given["desired"]["memoryLimit"], given["containerUsage"]
    )
    pod = pod_resize.limit_fault(
        given["currentPodLimit"], given["desiredPodLimit"], given["podUsage"]
    )
    return "error" if container or pod else "ok", vector.expected


@runs("resize_order")
def ordered(vector: Vector, _: int) -> Pair:
    given = vector.given
    found = pod_resize.order(
        given["resource"],
        (given["currentPodLimit"], given["newPodLimit"]),
        (given["currentPodRequest"], given["newPodRequest"]),
    )
    return [step.part for step in found], vector.expected


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
    calls = [step for step in pod_resize.steps(current, desired) if step.part != "containers"]
    return {"setPodCgroupConfigCalls": len(calls)}, vector.expected
