"""Bundles of the nodes of a cluster, made by the agents that run on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from tempfile import NamedTemporaryFile

from msgspec import Struct

from qoslet.errors import BadInput, CannotDo, QosletError
from qoslet.host.cluster.client_library import ACCOUNT, ClusterAccess
from qoslet.host.cluster.kubectl import kubectl
from qoslet.host.files.bundle import write_bundle

LABEL = "app.kubernetes.io/name=qoslet"
"""What the pods of the agent have; ``deploy/`` gives it to them."""
JOBS = 8
"""Nodes that are asked at the same time, unless told otherwise."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_ROWS = '-o=jsonpath={range .items[*]}{.spec.nodeName} {.metadata.name}{"\\n"}{end}'
_GZIP = b"\x1f\x8b"


class NodeBundle(Struct, frozen=True):
    """The bundle of a node: the file of so many bytes, or why there is none."""

    node: str
    path: str = ""
    size: int = 0
    fault: str = ""


class ClusterAgents(Struct, frozen=True):
    """The agents of a cluster: those in ``namespace``."""

    access: ClusterAccess
    namespace: str

    def pods(self, node: str = "") -> Mapping[str, str]:
        """The running pods of agents by their nodes; only those of ``node``, if given. Raises
        CannotDo, BadInput."""
        where = f"node/{node}" if node else "nodes"
        if node and not _NAME.fullmatch(node):
            raise BadInput("must be the name of a node", where=where)
        chosen = f"spec.nodeName={node}," if node else ""
        listed = self._kubectl(
            where,
            *("get", "pods", "--request-timeout=20s", f"--selector={LABEL}"),
            *(f"--field-selector={chosen}status.phase=Running", _ROWS),
        )
        rows = (line.split() for line in listed.decode(errors="replace").splitlines())
        return {row[0]: row[1] for row in rows if len(row) == 2}

    def bundle(self, node: str, pod: str, options: Sequence[str] = ()) -> bytes:
        """What the agent ``pod`` of a node writes as its bundle. Raises CannotDo."""
        words = ("qoslet", "bundle", "-o", "-", "--live", f"--kubelet-token={ACCOUNT}/token")
        where = f"node/{node}"
        data = self._kubectl(where, "exec", pod, "--container=agent", "--", *words, *options)
        if not data.startswith(_GZIP):
            raise CannotDo(f"its agent {pod} answers with no bundle", where=where)
        return data

    def lacking(self, node: str) -> CannotDo:
        """The error of a node without an agent."""
        hint = "install deploy/ there, or take qoslet bundle to the node"
        message = f"no agent runs on a node of this name in the namespace {self.namespace}"
        return CannotDo(message, where=f"node/{node}", hint=hint)

    def _kubectl(self, where: str, *words: str) -> bytes:
        return kubectl(self.access, f"--namespace={self.namespace}", *words, where=where)


@contextmanager
def bundle_of_node(name: str, agents: ClusterAgents) -> Iterator[str]:
    """The path of a bundle of the node ``name``, while the context lasts. Raises BadInput, CannotDo."""
    pods = agents.pods(name)
    if name not in pods:
        raise agents.lacking(name)
    data = agents.bundle(name, pods[name])
    with NamedTemporaryFile(prefix=f"{name}-", suffix=".tar.gz") as file:
        file.write(data)
        file.flush()
        yield file.name


def bundles_of_nodes(
    agents: ClusterAgents,
    names: Collection[str],
    folder: str,
    progress: Callable[[str, int, int], None],
    *,
    jobs: int = JOBS,
    redact: bool = False,
) -> Iterator[NodeBundle]:
    """Have the agents of the nodes ``names``, of all nodes where none is given, make bundles, and write
    them as ``NODE.tar.gz`` into ``folder``: ``jobs`` at the same time. Raises BadInput, CannotDo."""
    from concurrent.futures import ThreadPoolExecutor, as_completed

    for name in names:
        if not _NAME.fullmatch(name):
            raise BadInput("must be the name of a node", where=f"node/{name}")
    pods = agents.pods()
    options = ("--redact",) if redact else ()

    def made(node: str) -> NodeBundle:
        try:
            if node not in pods:
                raise agents.lacking(node)
            data = agents.bundle(node, pods[node], options)
            path = f"{folder}/{node}.tar.gz"
            write_bundle(path, data)
        except QosletError as error:
            return NodeBundle(node, fault=str(error))
        return NodeBundle(node, path, len(data))

    wanted = sorted(set(names) or pods)
    if not wanted:
        hint = "install deploy/, or name its namespace: --agent-namespace"
        raise CannotDo(f"no agent runs in the namespace {agents.namespace}", hint=hint)
    with ThreadPoolExecutor(max(1, min(jobs, len(wanted)))) as pool:
        progress("asking agents", 0, len(wanted))
        for done, one in enumerate(as_completed([pool.submit(made, node) for node in wanted]), 1):
            progress("asking agents", done, len(wanted))
            yield one.result()
