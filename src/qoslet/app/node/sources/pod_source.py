"""Which sources an agent takes the pods of its node from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from qoslet.app.node.sources.preferred import PreferredPods
from qoslet.app.node.sources.reader import PodReader
from qoslet.errors import CannotDo
from qoslet.host.cluster.client_library import HINT, ClusterAccess, is_installed

if TYPE_CHECKING:
    from qoslet.app.node.found_node import KubeletOptions
    from qoslet.core.node.running_kubelet.pods_reading import PodSource

Choice = Literal["auto", "kubelet", "api", "cri"]


def pod_source(
    choice: Choice,
    options: KubeletOptions,
    node_name: Callable[[], str | None],
    access: ClusterAccess | None = None,
) -> PodSource:
    """The source that was chosen; with ``auto`` the kubelet, then the API server where this program
    may ask it, then the container runtime. Raises CannotDo where what it needs is not installed."""
    return PreferredPods(readers(choice, options, node_name, access))


def readers(
    choice: Choice,
    options: KubeletOptions,
    node_name: Callable[[], str | None],
    access: ClusterAccess | None,
) -> list[PodReader]:
    """The readers of a choice, the best first. Raises CannotDo. Without ``access`` the service account
    of the pod that this runs in is it."""
    from qoslet.app.node.sources.api_pods import ApiReader
    from qoslet.app.node.sources.kubelet_pods import KubeletReader, RuntimeReader

    if choice == "api" and not is_installed():
        message = "needs the Python client of Kubernetes"
        raise CannotDo(message, where="--pods-from api", hint=HINT)
    found: list[PodReader] = []
    if choice in ("auto", "kubelet"):
        found.append(KubeletReader(options))
    chosen = access or ClusterAccess()
    may_ask = access is not None or chosen.in_cluster
    if choice == "api" or (choice == "auto" and may_ask and is_installed()):
        found.append(ApiReader(chosen, node_name))
    if choice in ("auto", "cri"):
        found.append(RuntimeReader(options))
    return found
