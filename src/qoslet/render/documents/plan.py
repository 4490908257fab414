"""The plan and its relatives as documents: the JSON contract of ``apiVersion: qoslet/v1``.

The schemas in ``qoslet/schema`` describe what comes out; tests hold both together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qoslet.core.cgroup.interface_files import PROTECTION
from qoslet.core.node.node import allocatable, enforced
from qoslet.core.plan.memory_annotation_effects import guard_mode
from qoslet.core.resources.cgroup_tree import key_of, named
from qoslet.core.resources.node_policy import NodePolicy, node_policy
from qoslet.core.resources.pod_template import is_windows
from qoslet.render.documents import API_VERSION, Document, problem_row

if TYPE_CHECKING:
    from qoslet.core.api.pod import Pod, Quantities
    from qoslet.core.plan.effective_memory import FullNodeCgroup
    from qoslet.core.plan.memory_annotation_effects import GuardMode
    from qoslet.core.resources.cgroup_tree import Cgroup, Plan, Setting


def quantities(amounts: Quantities) -> dict[str, str]:
    """Resource name to canonical quantity."""
    return {name: str(amount) for name, amount in amounts.items()}


def node_block(plan: Plan) -> Document:
    """The ``node`` part: what was chosen for this node and what is left for pods."""
    node = plan.node
    return {
        "name": node.name,
        "hierarchy": node.hierarchy,
        "driver": node.driver,
        "kubernetes": node.profile.kubernetes,
        "runtime": node.profile.runtime.name,
        "memoryQos": node.profile.memory_qos,
        "capacity": quantities(node.capacity),
        "allocatable": quantities(allocatable(node)),
        "enforced": quantities(enforced(node)),
        "probed": list(node.probed),
        "memoryQosInForce": node_policy(node).memory_qos != "off",
        "assumed": [
            {"field": one.field, "value": one.value, "why": one.why} for one in node.assumed
        ],
        "os": node.os,
        "cgroupsInForce": node.os == "linux",
    }


class Properties:
    """The systemd property of each file of this plan's node, None without the systemd driver."""

    def __init__(self, plan: Plan) -> None:
        from qoslet.core.cgroup.interface_files import property_of

        self._of = property_of
        self._systemd = plan.node.driver == "systemd"
        self._hierarchy = plan.node.hierarchy
        self._version = plan.node.host.systemd
        self._known: dict[str, str | None] = {}

    def __call__(self, file: str) -> str | None:
        """The unit property that carries ``file``."""
        if not self._systemd:
            return None
        if file not in self._known:
            self._known[file] = self._of(file, self._hierarchy, self._version)
        return self._known[file]


def _setting(
    setting: Setting, properties: Properties, standing: FullNodeCgroup | None = None
) -> Document:
    row: Document = {
        "file": setting.file,
        "value": setting.value,
        "writer": setting.writer,
        "property": properties(setting.file),
        "rule": setting.rule,
        "because": setting.because,
        "source": setting.source,
    }
    if setting.effective is not None and setting.effective != setting.value:
        row["effective"] = setting.effective
    if standing is not None and setting.file in PROTECTION:
        row["worth"] = str(standing.kept(setting.file))
    if standing is not None and setting.file in ("memory.high", "memory.max"):
        row["binds"] = _binds(standing)
    return row


def _binds(standing: FullNodeCgroup) -> Document | None:
    first = standing.binds
    if first is None:
        return None
    return {"name": named(first.path), "file": first.file, "value": str(first.limit)}


def cgroup_block(
    cgroup: Cgroup, properties: Properties, standing: FullNodeCgroup | None = None
) -> Document:
    """One row of ``cgroups``; with a standing, what its memory values are worth."""
    pod, container = cgroup.pod, cgroup.container
    return {
        "name": cgroup.name,
        "level": cgroup.level,
        "role": cgroup.role,
        "path": cgroup.path,
        "unit": cgroup.unit,
        "pod": None if pod is None else {"namespace": pod.namespace, "name": pod.name},
        "container": None if container is None else container.name,
        "oomScoreAdj": cgroup.oom_score_adj,
        "settings": [_setting(setting, properties, standing) for setting in cgroup.settings],
    }


def standings_of(plan: Plan) -> Mapping[str, FullNodeCgroup]:
    """What the memory values are worth; empty where Memory QoS is off."""
    if node_policy(plan.node).memory_qos == "off":
        return {}
    # imported where a plan has values to judge
    from qoslet.core.plan.effective_memory import standings

    return standings(plan)


def plan_document(plan: Plan) -> Document:
    """The whole plan, as ``qoslet plan -o json`` prints it."""
    properties, known, policy = Properties(plan), standings_of(plan), node_policy(plan.node)
    return {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "node": node_block(plan),
        "pods": [
            {
                "namespace": row.pod.namespace,
                "name": row.pod.name,
                "uid": row.pod.uid,
                "uidFrom": row.pod.uid_from,
                "qosClass": row.qos,
                "guard": guard_block(guard_mode(policy, row.pod)),
                "isolation": _isolation(policy, row.pod),
                "controller": controller_block(row.pod.controller),
            }
            for row in plan.pods
        ],
        "cgroups": [
            cgroup_block(cgroup, properties, known.get(key_of(cgroup))) for cgroup in plan.cgroups
        ],
        "problems": [problem_row(problem) for problem in plan.problems],
    }


def controller_block(controller: tuple[str, str] | None) -> Document | None:
    """What made a pod, or whose template it stands for; None where nothing did."""
    if controller is None:
        return None
    kind, name = controller
    return {"kind": kind, "name": name}


def _isolation(policy: NodePolicy, pod: Pod) -> str | None:
    """How the containers of a pod are isolated on Windows; None for Linux containers."""
    if not is_windows(policy, pod):
        return None
    # imported for Windows containers
    from qoslet.core.resources.windows_isolation import hyperv, on_host

    return "host" if on_host(policy, pod) else "hyperv" if hyperv(policy, pod) else "process"


def guard_block(guard: GuardMode | None) -> Document | None:
    """What the guard of ``qoslet run`` may do to a pod; None where there is no guard."""
    if guard is None:
        return None
    return {"mode": guard.mode, "from": guard.origin, "because": guard.because}


def cri_document(plan: Plan) -> Document:
    """The CRI resource blocks of the plan's containers and sandboxes."""
    from qoslet.core.plan.cri_messages import cri

    return {"apiVersion": API_VERSION, "kind": "Cri", "items": cri(plan)}


def oci_document(plan: Plan) -> Document:
    """The OCI resource blocks of the plan's containers and sandboxes."""
    from qoslet.core.plan.cri_messages import oci

    return {"apiVersion": API_VERSION, "kind": "Oci", "items": oci(plan)}
