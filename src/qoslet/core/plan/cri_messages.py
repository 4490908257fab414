"""A plan as the messages of the CRI and the blocks of the OCI, pod by pod."""

from __future__ import annotations

from typing import Any

from qoslet.core.api.pod import Container, Pod
from qoslet.core.cgroup import names
from qoslet.core.oci.resources import plain
from qoslet.core.plan.pod_planner import Planner
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.core.resources.cgroup_writer import linux_cri, oci_block
from qoslet.core.resources.pod_template import is_windows
from qoslet.core.resources.windows import windows_cri, windows_oci, windows_settings
from qoslet.core.workload.container_spec import PlannedBlock, PodMessages


def _pod(pod: Pod) -> dict[str, Any]:
    return {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _sandbox(planner: Planner, pod: Pod) -> dict[str, Any]:
    """LinuxPodSandboxConfig, as far as resources go."""
    _, parent = planner.pod_places(pod, planner.templates.of(pod).qos)
    config: dict[str, Any] = {"cgroup_parent": parent}
    resources, overhead = planner.sandbox_messages(pod)
    if resources is not None:
        config["overhead"] = linux_cri(overhead) if overhead is not None else {}
        config["resources"] = linux_cri(resources)
    return {"linux": config}


def _planner(plan: Plan) -> Planner:
    planner = Planner(plan.node)
    planner.pin([planned.pod for planned in plan.pods])
    return planner


def _cri_linux(planner: Planner, pod: Pod, container: Container) -> dict[str, Any]:
    block = linux_cri(planner.message(pod, container))
    if (cpus := planner.cpus(pod, container)) is not None:
        block["cpuset_cpus"] = cpus[0]
    if mems := planner.mems(pod, container):
        block["cpuset_mems"] = mems
    return block


def pod_messages(planner: Planner, pod: Pod) -> PodMessages:
    """The same for one pod that was planned, for the runtime that is to run it."""
    resources, overhead = planner.sandbox_messages(pod)
    return PodMessages(
        parent=planner.above_containers(pod, planner.templates.of(pod).qos),
        containers={one.name: _cri_linux(planner, pod, one) for one in pod.containers},
        resources=None if resources is None else linux_cri(resources),
        overhead=None if overhead is None else linux_cri(overhead),
    )


def cri(plan: Plan) -> list[dict[str, Any]]:
    """For each pod what the kubelet sends: the sandbox's and each container's resources, in the
    protobuf's field names, unset fields left out. Windows pods have no sandbox resources."""
    planner, found = _planner(plan), []
    for planned in plan.pods:
        pod = planned.pod
        windows = is_windows(planner.policy, pod)
        containers = []
        for container in pod.containers:
            row: dict[str, Any] = {"name": container.name, "role": container.role}
            if windows:
                rows = windows_settings(planner.policy, pod, container)
                row["windows"] = {"resources": windows_cri(rows)}
            else:
                row["linux"] = {"resources": _cri_linux(planner, pod, container)}
            containers.append(row)
        sandbox = {} if windows else _sandbox(planner, pod)
        found.append({**_pod(pod), "sandbox": sandbox, "containers": containers})
    return found


def _oci_linux(planner: Planner, pod: Pod, container: Container) -> dict[str, Any]:
    message = planner.message(pod, container)
    parent = planner.above_containers(pod, planner.templates.of(pod).qos)
    block: dict[str, Any] = {}
    runtime = planner.policy.runtime
    id = container.id if runtime.oci == "process" else planner.container_id(pod, container)
    if id is not None:
        block["cgroupsPath"] = names.cgroups_path(runtime.cri, parent, id)
    resources = plain(oci_block(runtime, planner.policy.node.host.swap_controller, message))
    if (cpus := planner.cpus(pod, container)) is not None:
        resources["cpu"] = resources.get("cpu", {}) | {"cpus": cpus[0]}
    if mems := planner.mems(pod, container):
        resources["cpu"] = resources.get("cpu", {}) | {"mems": mems}
    block["resources"] = resources
    return {"process": {"oomScoreAdj": message.oom_score_adj}, "linux": block}


def pod_blocks(planner: Planner, pod: Pod) -> dict[str, PlannedBlock]:
    """What ``oci`` says of the containers of one pod that was planned, by name."""
    found = {}
    for container in pod.containers:
        linux = _oci_linux(planner, pod, container)["linux"]
        found[container.name] = PlannedBlock(linux["cgroupsPath"], linux["resources"])
    return found


def oci(plan: Plan) -> list[dict[str, Any]]:
    """For each container the part of its OCI config that is about resources."""
    planner, found = _planner(plan), []
    for planned in plan.pods:
        pod = planned.pod
        containers = []
        for container in pod.containers:
            row: dict[str, Any] = {"name": container.name, "role": container.role}
            if is_windows(planner.policy, pod):
                rows = windows_settings(planner.policy, pod, container)
                row["windows"] = {"resources": windows_oci(rows)}
            else:
                row |= _oci_linux(planner, pod, container)
            containers.append(row)
        found.append({**_pod(pod), "containers": containers})
    return found
