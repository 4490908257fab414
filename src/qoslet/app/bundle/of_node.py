"""Bundles of the nodes of a cluster, made by the agents that run on them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from tempfile import NamedTemporaryFile

from msgspec import Struct

from qoslet.app.cluster_agents import JOBS, ClusterAgents, Progress, check_node_name
from qoslet.errors import CannotDo, QosletError
from qoslet.host.cluster.client_library import ACCOUNT
from qoslet.host.files.bundle import write_bundle

_GZIP = b"\x1f\x8b"


class NodeBundle(Struct, frozen=True):
    """The bundle of a node: the file of so many bytes, or why there is none."""

    node: str
    path: str = ""
    size: int = 0
    fault: str = ""


@contextmanager
def bundle_of_node(name: str, agents: ClusterAgents) -> Iterator[str]:
    """The path of a bundle of the node ``name``, while the context lasts. Raises BadInput, CannotDo."""
    pods = agents.pods(name)
    if name not in pods:
        raise agents.lacking(name)
    data = _bundle(agents, name, pods[name])
    with NamedTemporaryFile(prefix=f"{name}-", suffix=".tar.gz") as file:
        file.write(data)
        file.flush()
        yield file.name


def bundles_of_nodes(
    agents: ClusterAgents,
    names: Collection[str],
    folder: str,
    progress: Progress,
    *,
    jobs: int = JOBS,
    redact: bool = False,
) -> Iterator[NodeBundle]:
    """Have the agents of the nodes ``names``, of all nodes where none is given, make bundles, and write
    them as ``NODE.tar.gz`` into ``folder``: ``jobs`` at the same time. Raises BadInput, CannotDo."""
    for name in names:
        check_node_name(name)
    pods = agents.pods()
    options = ("--redact",) if redact else ()

    def made(node: str) -> NodeBundle:
        try:
            if node not in pods:
                raise agents.lacking(node)
            data = _bundle(agents, node, pods[node], options)
            path = f"{folder}/{node}.tar.gz"
            write_bundle(path, data)
        except QosletError as error:
            return NodeBundle(node, fault=str(error))
        return NodeBundle(node, path, len(data))

    return agents.each(set(names) or pods, made, jobs, progress)


def _bundle(agents: ClusterAgents, node: str, pod: str, options: Sequence[str] = ()) -> bytes:
    """What an agent writes as the bundle of its node. Raises CannotDo."""
    words = ("qoslet", "bundle", "-o", "-", f"--kubelet-token={ACCOUNT}/token")
    data = agents.execute(node, pod, *words, *options)
    if not data.startswith(_GZIP):
        raise CannotDo(f"its agent {pod} answers with no bundle", where=f"node/{node}")
    return data
