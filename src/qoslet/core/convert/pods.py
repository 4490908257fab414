"""Converts pods on a node to cgroup files, CRI messages, OCI blocks or Windows job objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from qoslet.core.api.pod import Container, Pod, System
from qoslet.core.convert.convert import Conversion, ConversionRequest
from qoslet.core.convert.kernel_gaps import on_kernel
from qoslet.core.convert.options import WINDOWS_ONLY
from qoslet.core.convert.windows_fields import WindowsFields
from qoslet.core.convert.windows_job_object import BY_POD, OWN_MACHINE, Windows, object_part
from qoslet.core.convert.windows_parity import container_parity, pod_parity
from qoslet.core.node.node import Node
from qoslet.core.oci.resources import Block
from qoslet.core.oci.result import BlockResult, Row
from qoslet.core.oci.unit_rows import unit_rows
from qoslet.core.plan.cri_messages import cri as cri_messages
from qoslet.core.plan.cri_messages import oci as oci_messages
from qoslet.core.plan.plan import plan
from qoslet.core.plan.pod_planner import Planner
from qoslet.core.problem import Problem
from qoslet.core.quantity import from_int
from qoslet.core.resources.cgroup_tree import Cgroup, Setting
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.windows import windows_cri, windows_oci, windows_settings
from qoslet.core.resources.windows_isolation import asks_for_hyperv, hyperv, on_host
from qoslet.errors import BadInput


def are_of_windows(pods: Sequence[Pod]) -> bool:
    """Whether there are pods, and all of them are of Windows."""
    return bool(pods) and all(pod.os == "windows" for pod in pods)


def convert_pods(
    pods: Sequence[Pod], node: Node, request: ConversionRequest, problems: Sequence[Problem] = ()
) -> Conversion:
    """The files of pods' cgroups, as in a plan, or their messages. Raises BadInput where every pod is
    of the other operating system; such a pod among others is left out, with a row."""
    pods, left_out = _of_target(pods, node, request)
    problems = (*problems, *left_out)
    if request.to in WINDOWS_ONLY:
        return _windows_pods(pods, node, request, problems)
    hierarchy = node.hierarchy if request.to in ("oci", "cri") else request.hierarchy
    driver = request.driver if request.to == "systemd" else node.driver
    node, problems = on_kernel(node, problems, request.kernel)
    if request.windows.processors is not None and any(pod.os == "windows" for pod in pods):
        processors = from_int(request.windows.processors)
        node = structs.replace(node, capacity={**node.capacity, "cpu": processors})
    host = structs.replace(node.host, hierarchy=hierarchy)
    planned = plan(pods, structs.replace(node, host=host, driver=driver), problems)
    if request.to in ("oci", "cri"):
        items = oci_messages(planned) if request.to == "oci" else cri_messages(planned)
        parts = [part for item in items for part in _message_parts(item, request.to)]
    else:
        cgroups = [cgroup for cgroup in planned.cgroups if cgroup.pod is not None]
        parts = [_group_part(cgroup, request) for cgroup in cgroups]
    request = structs.replace(
        request, hierarchy=hierarchy, driver=driver, runtime=node.profile.runtime
    )
    return Conversion("pod", request, tuple(parts), planned.problems)


def _of_target(
    pods: Sequence[Pod], node: Node, request: ConversionRequest
) -> tuple[Sequence[Pod], list[Problem]]:
    """The pods whose containers the target can hold, and a row for each other one."""
    if request.to in ("oci", "cri"):
        return pods, []
    to_windows = request.to in WINDOWS_ONLY
    wrong: System = "linux" if to_windows else "windows"
    hint = "use --to v1, v2, systemd, cri or oci" if to_windows else "use --to windows, cri or oci"
    message = f"is of {wrong.capitalize()} containers"

    def is_other(pod: Pod) -> bool:
        if to_windows:
            return pod.misfit("windows") is not None
        return node.os == "windows" or pod.os == "windows"

    others = [pod for pod in pods if is_other(pod)]
    if others and len(others) == len(pods):
        raise BadInput(message, where=others[0].where, hint=hint)
    rows = [Problem("warning", pod.where, f"left out: it {message}", hint) for pod in others]
    return [pod for pod in pods if not is_other(pod)], rows


def _windows_pods(
    pods: Sequence[Pod], node: Node, request: ConversionRequest, problems: Sequence[Problem]
) -> Conversion:
    """The job object of each container, and the report of what Windows does not enforce."""
    isolation = "hyperv" if request.windows.isolated else node.isolation
    planner = Planner(structs.replace(node, os="windows", isolation=isolation))
    policy, parts = planner.policy, []
    if request.windows.processors is not None:
        policy = structs.replace(policy, processors=request.windows.processors)
    machines = []
    for pod in pods:
        windows = _machine(policy, hyperv(policy, pod))
        machines.append(windows)
        docker = request.to == "docker"
        if not docker:
            report = pod_parity(policy, pod, planner.qos(pod))
            parts.append(BlockResult(name=pod.key, parity=report))
        parts += [
            _windows_container(policy, pod, container, windows, docker)
            for container in pod.containers
        ]
    if machines:
        alike = all(one.isolation == machines[0].isolation for one in machines)
        shared = machines[0].isolation if alike else BY_POD
        request = structs.replace(request, windows=structs.replace(machines[0], isolation=shared))
    request = structs.replace(request, runtime=node.profile.runtime)
    if request.to == "docker":
        request = structs.replace(request, dockershim=_dockershim(policy))
    return Conversion("pod", request, tuple(parts), tuple(problems))


def _machine(policy: NodePolicy, isolated: bool) -> Windows:
    """The job objects of a release: Docker's until 1.17, containerd's after."""
    variant = policy.choices.windows
    return Windows(
        "hyperv" if isolated else "process",
        policy.processors,
        precedence=variant in ("1.10", "design"),
        machine=min(OWN_MACHINE, policy.processors) if variant not in ("1.10", "design") else None,
        percent=variant == "1.10",
    )


def _dockershim(policy: NodePolicy) -> int:
    """The minor of the node's dockershim, the last one for later releases."""
    from qoslet.core.convert.docker_host_config import LAST_PERCENT
    from qoslet.core.node.dockershim import LAST_DOCKERSHIM

    if policy.choices.windows == "design":
        return LAST_PERCENT
    return min(policy.node.profile.minor, LAST_DOCKERSHIM)


def _windows_container(
    policy: NodePolicy, pod: Pod, container: Container, windows: Windows, docker: bool
) -> BlockResult:
    settings = windows_settings(policy, pod, container)
    message = windows_cri(settings)
    name = f"{pod.key}/{container.name}"
    if docker:
        # imported where Docker is asked for
        from qoslet.core.convert.docker_host_config import windows_host_config

        made = windows_host_config(WindowsFields(**message), _dockershim(policy), policy.processors)
        return structs.replace(made, name=name)
    # one that asks for both gets neither
    both = on_host(policy, pod) and asks_for_hyperv(policy, pod)
    machine = structs.replace(windows, isolation="hyperv") if both else windows
    part = object_part(WindowsFields(**message, host_process=both), machine)
    report = container_parity(policy, container, part, windows)
    messages: dict[str, object] = {"cri": message, "oci": windows_oci(settings)}
    return BlockResult(
        (*_rows(settings), *part.rows), part.refusal, part.lost, messages, name, report
    )


def _message_parts(item: Mapping[str, Any], to: str) -> list[BlockResult]:
    """A pod's sandbox and containers as messages, or as parts of their configs."""
    label = f"{item['namespace']}/{item['name']}"
    parts = []
    if to == "cri" and item["sandbox"]:
        parts.append(BlockResult(message=item["sandbox"]["linux"], name=f"{label} sandbox"))
    for container in item["containers"]:
        message = {k: v for k, v in container.items() if k not in ("name", "role")}
        if to == "cri" and "linux" in message:
            message = message["linux"]["resources"]
        parts.append(BlockResult(message=message, name=f"{label}/{container['name']}"))
    return parts


def _group_part(cgroup: Cgroup, request: ConversionRequest) -> BlockResult:
    assert cgroup.pod is not None
    name = f"{cgroup.pod.namespace}/{cgroup.pod.name}"
    name += f"/{cgroup.container.name}" if cgroup.container is not None else ""
    name += " sandbox" if cgroup.level == "sandbox" else ""
    rows = _rows(cgroup.settings)
    if request.to == "systemd":
        rows = unit_rows(rows, Block(), request.hierarchy, request.runtime, request.systemd)
    return BlockResult(rows, name=name)


def _rows(settings: Sequence[Setting]) -> tuple[Row, ...]:
    """Settings as rows of a conversion; a row's field is the setting's writer."""
    return tuple(Row(s.file, s.value, s.writer, s.rule, s.inputs, s.effective) for s in settings)
