"""How many more of a pod a node takes, as the scheduler counts: requests against allocatable.

Source: kube-scheduler NodeResourcesFit (fit.go fitsRequest), NodeAffinity (nodeSelector too), NodePorts,
TaintToleration, NodeUnschedulable; core/v1 Toleration.ToleratesTaint; DaemonSet controller (one pod a
node, AddOrUpdateDaemonPodTolerations). What else limits where a pod runs is named, not considered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, ValidationError, convert

from qoslet.core.api.pod import Pod
from qoslet.core.fleet.node_affinity import NodeAffinity, node_affinity
from qoslet.core.fleet.outcome import NodeOutcome, NodePlanner, amounts
from qoslet.core.fleet.read import NodeRow, Taint
from qoslet.errors import BadInput

UNSCHEDULABLE = "unschedulable"
"""What binds on a node that was cordoned."""
SYSTEM = "os"
"""What binds on a node of another operating system."""
SELECTOR = "nodeSelector"
"""What binds on a node without the labels that the pod asks for."""
AFFINITY = "nodeAffinity"
"""What binds on a node that the pod's required node affinity does not select."""
DAEMON_SET = "daemonSet"
"""What binds where a DaemonSet runs its one pod."""
HOST_PORT = "hostPort"
"""What binds where a pod takes a port of the node: two of them cannot."""
TAINTS = "taints"
"""What binds on a node with a taint that the pod does not tolerate."""

# A pod that runs names the node that was chosen for it.
_LIMITING = ("nodeName", "topologySpreadConstraints", "resourceClaims", "runtimeClassName")
_BETWEEN_PODS = ("podAffinity", "podAntiAffinity")


_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_REPELLING = ("NoSchedule", "NoExecute")
_OF_DAEMONS = {
    "node.kubernetes.io/not-ready": "NoExecute",
    "node.kubernetes.io/unreachable": "NoExecute",
    "node.kubernetes.io/disk-pressure": "NoSchedule",
    "node.kubernetes.io/memory-pressure": "NoSchedule",
    "node.kubernetes.io/pid-pressure": "NoSchedule",
    _CORDON.key: "NoSchedule",
}
_OF_DAEMONS_IN_HOST_NETWORK = {"node.kubernetes.io/network-unavailable": "NoSchedule"}
"""What every pod of a DaemonSet tolerates."""


class Toleration(Struct, frozen=True, gc=False):
    """core/v1 Toleration; what is empty matches all."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether the pod may run in spite of a taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (
            self.operator in ("", "Equal") and self.value == taint.value
        )


class FitRequest(Struct, frozen=True):
    """A pod that is to fit on nodes, and what it demands of them."""

    pod: Pod
    labels: Mapping[str, str] = {}
    """What ``nodeSelector`` demands."""
    tolerations: tuple[Toleration, ...] = ()
    single: str = ""
    """Why a node can have only one such pod; empty if it can have several."""
    affinity: NodeAffinity | None = None
    """The node affinity that the pod requires."""
    ignored: tuple[str, ...] = ()
    """Fields of the spec that limit where the pod runs, and that are not considered."""


def fit_request(pod: Pod, spec: Mapping[str, Any]) -> FitRequest:
    """The request of ``pod``, which was read from ``spec``. Raises BadInput."""
    selector = spec.get("nodeSelector")
    labels = {str(key): str(value) for key, value in selector.items()} if selector else {}
    single = HOST_PORT if any(_host_ports(spec)) else ""
    is_daemon = pod.controller is not None and pod.controller[0] == "DaemonSet"
    tolerations = _tolerations(pod, spec.get("tolerations"))
    if is_daemon:
        single, tolerations = DAEMON_SET, (*tolerations, *_of_daemons(spec))
    affinity = node_affinity(spec.get("affinity"), pod.where)
    return FitRequest(pod, labels, tolerations, single, affinity, tuple(_ignored(spec)))


def _tolerations(pod: Pod, given: Any) -> tuple[Toleration, ...]:
    """The tolerations of the pod's spec. Raises BadInput."""
    if isinstance(given, list):
        given = [_given(one) for one in given]
    try:
        return tuple(convert(given or (), list[Toleration]))
    except ValidationError as error:
        where = f"{pod.where}: spec.tolerations"
        hint = "a list of {key: gpu, operator: Exists, effect: NoSchedule}"
        raise BadInput(f"cannot be read: {error}", where=where, hint=hint) from None


def _given(toleration: Any) -> Any:
    """A toleration without its null fields, which count as absent."""
    if not isinstance(toleration, dict):
        return toleration
    return {key: value for key, value in toleration.items() if value is not None}


def _of_daemons(spec: Mapping[str, Any]) -> Iterator[Toleration]:
    """The tolerations that the DaemonSet controller adds to its pods."""
    added = _OF_DAEMONS | (_OF_DAEMONS_IN_HOST_NETWORK if spec.get("hostNetwork") else {})
    for key, effect in added.items():
        yield Toleration(key, "Exists", "", effect)


def _host_ports(spec: Mapping[str, Any]) -> Iterator[int]:
    """The ports of the node that the pod occupies while it runs."""
    sidecars = (
        one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"
    )
    for container in (*sidecars, *(spec.get("containers") or ())):
        for port in container.get("ports") or ():
            # in the node's network a container's port is one of the node
            found = port.get("hostPort") or (spec.get("hostNetwork") and port.get("containerPort"))
            if found:
                yield int(found)


def _ignored(spec: Mapping[str, Any]) -> Iterator[str]:
    """The fields that limit where a pod runs and are not considered."""
    affinity = spec.get("affinity") or {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if any((affinity.get(name) or {}).get(required) for name in _BETWEEN_PODS):
        yield "affinity"
    yield from (name for name in _LIMITING if spec.get(name))
    if any(
        "persistentVolumeClaim" in one or "ephemeral" in one for one in spec.get("volumes") or ()
    ):
        yield "volumes"


class Fit(Struct, frozen=True, gc=False):
    """How many pods a node takes beside those that it has, and the resource that ends first; empty
    where nothing bounds them."""

    count: int
    binding: str


class Fitter:
    """Fits one pod on nodes that are equal but for their names and labels."""

    def __init__(self, planner: NodePlanner, request: FitRequest) -> None:
        self._request = request
        self._suits = request.pod.misfit(planner.node.os) is None
        template = planner.planner.templates.of(request.pod)
        self._needs = {"pods": 1, **amounts(template.sums.requests)}
        self._room = planner.schedulable

    def fit(self, outcome: NodeOutcome, row: NodeRow) -> Fit:
        """How many more fit on a node."""
        refused = self._refused(row)
        if refused:
            return Fit(0, refused)
        used = {**outcome.requested, "pods": outcome.pods}
        rooms = [
            (max(0, self._room.get(name, 0) - used.get(name, 0)) // amount, name)
            for name, amount in self._needs.items()
            if amount > 0
        ]
        if self._request.single:
            rooms.append((1, self._request.single))
        return Fit(*min(rooms))

    def _refused(self, row: NodeRow) -> str:
        """Why the node takes none, whatever room it has; empty where it takes some."""
        request = self._request
        if row.unschedulable and not self._tolerates(_CORDON):
            return UNSCHEDULABLE
        if not self._suits:
            return SYSTEM
        if row.bundled:
            return ""
        if any(row.labels.get(key) != value for key, value in request.labels.items()):
            return SELECTOR
        if request.affinity is not None and not request.affinity.selects(row.name, row.labels):
            return AFFINITY
        repelling = (one for one in row.taints if one.effect in _REPELLING)
        return "" if all(map(self._tolerates, repelling)) else TAINTS

    def _tolerates(self, taint: Taint) -> bool:
        return any(one.tolerates(taint) for one in self._request.tolerations)
