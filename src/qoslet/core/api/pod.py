"""A pod, reduced to the fields that decide about resources.

Quantities are exact already (``quantity.Quantity``); an absent key means "not given", which is
not the same as zero. Reading documents is the work of ``manifest``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from qoslet.core.api.memory_annotations import NO_POLICY, MemoryPolicy
from qoslet.core.api.schema import shown
from qoslet.core.quantity import Quantity

Role = Literal["regular", "init", "sidecar", "ephemeral"]
QosClass = Literal["Guaranteed", "Burstable", "BestEffort"]
UidFrom = Literal["manifest", "generated", "config.hash"]

System = Literal["linux", "windows"]
OsClaim = tuple[str, System]
"""A field of a pod, and the operating system of a node that it asks for."""

Quantities = Mapping[str, Quantity]
"""Resource name (``cpu``, ``memory``, ``hugepages-2Mi``) to quantity."""

NO_QUANTITIES: Quantities = {}


class Resources(Struct, frozen=True, gc=False):
    """``resources`` of a container or of a pod: core/v1 ResourceRequirements."""

    requests: Quantities = NO_QUANTITIES
    limits: Quantities = NO_QUANTITIES


NO_RESOURCES = Resources()


class PodLevel(Struct, frozen=True, gc=False):
    """Pod-level resources as written and as defaulted, and the requests that were."""

    written: Resources | None = None
    resources: Resources | None = None
    defaulted: tuple[str, ...] = ()


NO_POD_LEVEL = PodLevel()


class LastExit(Struct, frozen=True, gc=False):
    """How a container ended the last time, by the pod's status; ``finished_at`` as the API writes it."""

    reason: str
    exit_code: int
    finished_at: str


class Container(Struct, frozen=True, gc=False):
    """One container of a pod, whatever its list.

    ``field`` is its path in the pod (``spec.containers[0]``). ``id`` is the runtime's id where
    the status knows it. ``defaulted`` names the requests that were copied from the limits.
    ``runs``: whether the status says that it runs now, None where it does not tell.
    ``image`` is as written. ``was_restarted``: whether the status says so. ``waits``: why it does not run,
    in one word, such as ``CrashLoopBackOff``.
    """

    name: str
    role: Role
    field: str
    resources: Resources = NO_RESOURCES
    id: str | None = None
    defaulted: tuple[str, ...] = ()
    runs: bool | None = None
    image: str | None = None
    was_restarted: bool = False
    waits: str = ""
    last_exit: LastExit | None = None


ISOLATION = "experimental.windows.kubernetes.io/isolation-type"
"""How Windows containers are isolated; source: kubelet pkg/kubelet/apis of 1.10 to 1.20."""


class Platform(Struct, frozen=True, gc=False):
    """What a pod says of the machine it wants.

    ``claims`` are the fields that name an operating system, the deciding one first.
    ``host_process``: a Windows container runs on the host itself. ``handler`` is that of its
    ``runtime_class``, None where the input does not hold it.
    """

    claims: tuple[OsClaim, ...] = ()
    host_process: bool = False
    runtime_class: str | None = None
    handler: str | None = None


NO_PLATFORM = Platform()


class Pod(Struct, frozen=True, gc=False):
    """One pod. ``containers`` holds init containers and sidecars first, in their order, then
    the regular ones, then the ephemeral ones: the order in which a kubelet starts them.

    ``resources`` are the pod-level ones (KEP-2837), defaulted as 1.34 to 1.36 do, None where the
    field is absent, which differs from an empty one. ``where`` names the document for messages.
    """

    namespace: str
    name: str
    uid: str
    where: str
    containers: tuple[Container, ...]
    uid_from: UidFrom = "manifest"
    resources: Resources | None = None
    overhead: Quantities = NO_QUANTITIES
    os: System = "linux"
    """The system of its containers: the first of ``platform.claims``, else linux."""
    critical: bool = False
    """Static, mirror, or priority at least 2000000000: kubelet types.IsCriticalPod."""
    node_critical: bool = False
    """priorityClassName system-node-critical: oom_score_adj -997."""
    status_qos: str | None = None
    node_name: str | None = None
    phase: str | None = None
    isolation: Literal["process", "hyperv"] | None = None
    """From the annotation experimental.windows.kubernetes.io/isolation-type."""
    priority: int | None = None
    """``spec.priority``; None where admission has not set it."""
    defaulted: tuple[str, ...] = ()
    """Pod-level requests that were filled by defaulting."""
    memory: MemoryPolicy = NO_POLICY
    """What its annotations say of memory."""
    platform: Platform = NO_PLATFORM
    """The operating system, the RuntimeClass and the isolation that it asks for."""
    written: Resources | None = None
    """``resources`` before defaulting, which differs between releases."""
    controller: tuple[str, str] | None = None
    """Kind and name of what made it, or whose template it stands for."""
    was_changed: bool | None = None
    """Whether its spec was, since it was created (``metadata.generation``): of resources only an
    in-place resize changes it. None where that is not told."""
    reason: str = ""
    """Why its status is as it is, in one word, such as ``Evicted``; empty where nobody says."""
    message: str = ""
    """The same in a sentence."""
    host_ipc: bool = False
    is_leaving: bool = False
    """Whether it is being deleted: it has ``metadata.deletionTimestamp``."""

    @property
    def key(self) -> str:
        """``namespace/name``: how people and commands name the pod."""
        return f"{self.namespace}/{self.name}"

    def contradicts(self, qos: QosClass) -> bool:
        """Whether its status names another class than ``qos``, that of its spec."""
        return self.status_qos not in (None, "", qos)

    @property
    def has_ended(self) -> bool:
        """Whether all of its containers have, for good. A kubelet says Failed as soon as it ends a pod
        (deadline, eviction), and counts it until its containers have ended: kubelet_pods.go isPodInactive."""
        return self.phase in ("Succeeded", "Failed") and not any(
            one.runs for one in self.containers
        )

    def misfit(self, system: System) -> tuple[str, System] | None:
        """The field that keeps it off nodes of this operating system, and what it asks for; None
        where there is none. A pod that names no system fits on each. A node rejects another: it is Failed, gets
        no cgroup and counts in no sum. Source: kubelet lifecycle/predicate.go (``PodOSNotSupported``,
        ``NodeAffinity``), kubelet.go canAdmitPod, qos_container_manager_linux.go, which sums active pods."""
        claims = self.platform.claims
        if not claims:
            if self.os != "windows":
                return None
            claims = (("spec.os.name", "windows"),)
        return next((claim for claim in claims if claim[1] != system), None)

    def left_out(self, node_name: str | None) -> str:
        """Why it uses nothing of the node of that name (None: any node); empty where it does."""
        if self.has_ended:
            why = f" ({shown(self.reason)})" if self.reason else ""
            return f"left out: it has {(self.phase or '').lower()}{why} and uses no resources"
        if node_name and self.node_name not in (None, node_name):
            return f"left out: it runs on node {self.node_name}"
        return ""

    def __repr__(self) -> str:
        """The pod by its name, in one short line."""
        return f"Pod({self.key!r}, uid={self.uid!r}, containers={len(self.containers)})"


class PodSequence:
    """What has ``pods`` and counts and gives them in their order."""

    pods: list[Pod]

    def __len__(self) -> int:
        """How many pods there are."""
        return len(self.pods)

    def __iter__(self) -> Iterator[Pod]:
        """The pods, in their order."""
        return iter(self.pods)

    def __getitem__(self, index: int) -> Pod:
        """The pod at ``index``."""
        return self.pods[index]

    def __bool__(self) -> bool:
        """True, whether there are pods or none: it is an answer either way."""
        return True

    def __repr__(self) -> str:
        """The pods by name, the first ones of many."""
        names = [pod.key for pod in self.pods[:5]]
        more = ["..."] if len(self.pods) > len(names) else []
        return f"{type(self).__name__}({len(self.pods)} pods: {', '.join([*names, *more])})"
