"""Pods and nodes in the vectors' spelling, as the core's values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qoslet.core.api.pod import Container, Pod, Resources, Role
from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.node.node import HostFacts, Kubelet, Node
from qoslet.core.oci.resources import block_of
from qoslet.core.oci.result import Row
from qoslet.core.oci.write import files as convert_files
from qoslet.core.quantity import Quantity, parse
from qoslet.core.resources.cgroup_tree import Setting
from qoslet.core.resources.node_policy import NodePolicy, node_policy
from qoslet.core.versions.kubernetes import Profile, resolve
from qoslet.core.versions.runtime import converting_runtime

Json = Mapping[str, Any]

SIZES = {"2MB": 2 << 20, "4MB": 4 << 20, "1GB": 1 << 30}


def quantities(given: Mapping[str, object] | None) -> dict[str, Quantity]:
    """Texts or numbers as quantities."""
    return {name: parse(str(text)) for name, text in (given or {}).items()}


def resources(given: Json | None) -> Resources:
    """A resources block."""
    given = given or {}
    return Resources(quantities(given.get("requests")), quantities(given.get("limits")))


def containers(given: Iterable[Json], kind: str) -> list[Container]:
    """A list of a pod's spec; ``kind`` is ``init`` or ``regular``."""
    found = []
    for at, one in enumerate(given):
        role: Role = "init" if kind == "init" else "regular"
        if kind == "init" and one.get("restartPolicy") == "Always":
            role = "sidecar"
        field = f"spec.{'initContainers' if kind == 'init' else 'containers'}[{at}]"
        defaulted = tuple(one.get("defaulted", ()))
        found.append(Container(one["name"], role, field, resources(one), defaulted=defaulted))
    return found


def pod_of(given: Json, *, critical: bool = False) -> Pod:
    """A pod of a vector. Nothing is defaulted, as in the kubelet; ``defaulted`` of a container says
    which of its requests an API server copied."""
    level = given.get("resources")
    return Pod(
        namespace="default",
        name="p",
        uid=given.get("uid", "uid"),
        where="vector",
        containers=(
            *containers(given.get("initContainers", ()), "init"),
            *containers(given.get("containers", ()), "regular"),
        ),
        resources=None if level is None else resources(level),
        overhead=quantities(given.get("overhead")),
        critical=critical or given.get("priority", 0) >= 2_000_000_000,
        node_critical=given.get("nodeCritical", False),
        status_qos=given.get("status", {}).get("qosClass"),
    )


def node_of(
    release: int | str | Profile,
    *,
    capacity: Mapping[str, object] | None = None,
    host: Mapping[str, Any] | None = None,
    gates: Mapping[str, bool] | None = None,
    swap: int = 0,
    runtime: str = "runc-1.4.0",
    isolation: Any = None,
    os: Any = "linux",
    driver: Any = "cgroupfs",
    **kubelet: Any,
) -> Node:
    """A node: what is not given is a plain v2 host without swap controller and reservations."""
    if isinstance(release, int):
        release = f"1.{release}"
    return Node(
        name="n1",
        capacity=quantities(capacity),
        swap=swap,
        host=HostFacts(**{"swap_controller": False, **(host or {})}),
        kubelet=Kubelet(feature_gates=dict(gates or {}), **kubelet),
        profile=resolve(release, runtime) if isinstance(release, str) else release,
        driver=driver,
        os=os,
        isolation=isolation,
    )


def policy_for(release: int | str | Profile, **given: Any) -> NodePolicy:
    """The basis of such a node."""
    return node_policy(node_of(release, **given))


def files(settings: Iterable[Setting | Row]) -> dict[str, str]:
    """Settings as file to value."""
    return {row.file: row.value for row in settings}


def pairs(settings: Iterable[Setting | Row]) -> list[tuple[str, str]]:
    """Settings as pairs, for what reads a group."""
    return [(row.file, row.value) for row in settings]


def block_rows(policy: NodePolicy, block: Json) -> tuple[Row, ...]:
    """The v2 rows of an OCI block by the runtime of a basis; ValueError where it refuses it."""
    choices = policy.choices
    documents = choices.bfq_weight == "scaled" and choices.swap_conversion == "same"
    other = "runc-1.4.0" if policy.runtime.tables else policy.runtime.name
    runtime = converting_runtime("kep-2254" if documents else other)
    ground = KernelFeatures(rsvd=policy.node.host.hugetlb_rsvd)
    part = convert_files(block_of(block), "v2", runtime, ground)
    if part.refusal is not None:
        raise ValueError(part.refusal.message)
    return part.rows
