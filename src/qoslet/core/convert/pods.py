"""Pods on a node into the files of their groups, their messages or Windows' objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from qoslet.core.api.pod import Container, Pod
from qoslet.core.convert.convert import Conversion, Wish
from qoslet.core.convert.windows_fields import Fields
from qoslet.core.convert.windows_job_object import OWN_MACHINE, Windows, object_part
from qoslet.core.convert.windows_parity import container_parity, pod_parity
from qoslet.core.node.node import Node
from qoslet.core.oci.resources import Block
from qoslet.core.oci.result import Part, Row
from qoslet.core.oci.unit_rows import unit_rows
from qoslet.core.plan.messages import cri as cri_messages
from qoslet.core.plan.messages import oci as oci_messages
from qoslet.core.plan.plan import plan
from qoslet.core.plan.pod_planner import Planner
from qoslet.core.problem import Problem
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.windows import hyperv, windows_cri, windows_oci, windows_settings


def convert_pods(
    pods: Sequence[Pod], node: Node, wish: Wish, problems: Sequence[Problem] = ()
) -> Conversion:
    """Pods on a node: the files of their groups as ``plan`` has them, or their messages."""
    if wish.to == "windows":
        return _windows_pods(pods, node, wish, problems)
    hierarchy = node.hierarchy if wish.to in ("oci", "cri") else wish.hierarchy
    driver = wish.driver if wish.to == "systemd" else node.driver
    host = structs.replace(node.host, hierarchy=hierarchy)
    made = plan(pods, structs.replace(node, host=host, driver=driver), problems)
    if wish.to in ("oci", "cri"):
        items = oci_messages(made) if wish.to == "oci" else cri_messages(made)
        parts = [part for item in items for part in _message_parts(item, wish.to)]
    else:
        groups = [group for group in made.cgroups if group.pod is not None]
        parts = [_group_part(group, wish) for group in groups]
    wish = structs.replace(wish, hierarchy=hierarchy, driver=driver, runtime=node.profile.runtime)
    return Conversion("pod", wish, tuple(parts), made.problems)


def _windows_pods(
    pods: Sequence[Pod], node: Node, wish: Wish, problems: Sequence[Problem]
) -> Conversion:
    """What Windows makes of each container, and the report of what it cannot do."""
    isolation = "hyperv" if wish.windows.isolated else node.isolation
    planner = Planner(structs.replace(node, os="windows", isolation=isolation))
    policy, parts = planner.policy, []
    if wish.windows.processors is not None:
        policy = structs.replace(policy, processors=wish.windows.processors)
    for pod in pods:
        on = _machine(policy, hyperv(policy, pod))
        parts.append(Part(name=pod.key, parity=pod_parity(policy, pod, planner.qos(pod))))
        parts += [_windows_container(policy, pod, one, on) for one in pod.containers]
    wish = structs.replace(wish, windows=on) if pods else wish
    wish = structs.replace(wish, runtime=node.profile.runtime)
    return Conversion("pod", wish, tuple(parts), tuple(problems))


def _machine(policy: NodePolicy, isolated: bool) -> Windows:
    """What a release's containers end in: Docker's objects until 1.17, containerd's after."""
    form = policy.choices.windows
    return Windows(
        "hyperv" if isolated else "process",
        policy.processors,
        precedence=form in ("1.10", "design"),
        machine=min(OWN_MACHINE, policy.processors) if form not in ("1.10", "design") else None,
        percent=form == "1.10",
    )


def _windows_container(policy: NodePolicy, pod: Pod, container: Container, on: Windows) -> Part:
    settings = windows_settings(policy, pod, container)
    message = windows_cri(settings)
    part = object_part(Fields(**message), on)
    sent = tuple(
        Row(row.file, row.value, row.writer, row.rule, row.inputs, row.effective)
        for row in settings
    )
    report = container_parity(policy, container, part, on)
    forms: dict[str, object] = {"cri": message, "oci": windows_oci(settings)}
    name = f"{pod.key}/{container.name}"
    return Part((*sent, *part.rows), part.refusal, part.lost, forms, name, report)


def _message_parts(item: Mapping[str, Any], to: str) -> list[Part]:
    """A pod's sandbox and containers as messages, or as parts of their configs."""
    label = f"{item['namespace']}/{item['name']}"
    found = []
    if to == "cri" and item["sandbox"]:
        found.append(Part(message=item["sandbox"]["linux"], name=f"{label} sandbox"))
    for container in item["containers"]:
        kept = {k: v for k, v in container.items() if k not in ("name", "role")}
        if to == "cri" and "linux" in kept:
            kept = kept["linux"]["resources"]
        found.append(Part(message=kept, name=f"{label}/{container['name']}"))
    return found


def _group_part(group: Cgroup, wish: Wish) -> Part:
    assert group.pod is not None
    name = f"{group.pod.namespace}/{group.pod.name}"
    name += f"/{group.container.name}" if group.container is not None else ""
    name += " sandbox" if group.level == "sandbox" else ""
    rows = tuple(
        Row(row.file, row.value, row.writer, row.rule, row.inputs, row.effective)
        for row in group.settings
    )
    if wish.to == "systemd":
        rows = unit_rows(rows, Block(), wish.hierarchy, wish.runtime, wish.systemd)
    return Part(rows, name=name)
