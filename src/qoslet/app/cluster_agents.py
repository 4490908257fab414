"""The agents of a cluster, asked by ``kubectl exec``: so many at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct

from qoslet.errors import BadInput, CannotDo
from qoslet.host.cluster.client_library import ClusterAccess
from qoslet.host.cluster.kubectl import kubectl

LABEL = "app.kubernetes.io/name=qoslet"
"""What the pods of the agent have; ``deploy/`` gives it to them."""
JOBS = 8
"""Nodes that are asked at the same time, unless told otherwise."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_FIELDS = (".spec.nodeName", ".metadata.name", ".status.phase", ".metadata.deletionTimestamp")
_ROWS = "-o=jsonpath={range .items[*]}{" + "} {".join(_FIELDS) + '}{"\\n"}{end}'

Progress = Callable[[str, int, int], None]
T = TypeVar("T")


class ClusterAgents(Struct, frozen=True):
    """The agents in ``namespace``. Each method raises CannotDo where kubectl fails, and BadInput for
    what cannot be the name of a node."""

    access: ClusterAccess
    namespace: str

    def pods(self, node: str = "", *, running: bool = True) -> Mapping[str, str]:
        """The pods of agents by their nodes: of ``node`` alone, if given; with ``running`` only those
        that run. Of several on a node, as in a roll-out, the one that runs and stays."""
        if node:
            check_node_name(node)
        chosen = [f"spec.nodeName={node}"] if node else []
        chosen += ["status.phase=Running"] if running else []
        fields = (f"--field-selector={','.join(chosen)}",) if chosen else ()
        words = ("get", "pods", "--request-timeout=20s", f"--selector={LABEL}", *fields, _ROWS)
        listed = self._kubectl(node, *words)
        found = dict[str, tuple[bool, bool, str]]()
        for line in listed.decode(errors="replace").splitlines():
            name, pod, phase, deleted = [*line.split(" "), "", "", ""][:4]
            if name and pod:
                row = phase == "Running", not deleted, pod
                found[name] = max(row, found.get(name, row))
        return {name: row[-1] for name, row in found.items()}

    def execute(self, node: str, pod: str, *words: str, given: bytes | None = None) -> bytes:
        """What a command prints in the agent ``pod`` of a node; ``given`` is its standard input."""
        stdin = () if given is None else ("--stdin",)
        words = ("exec", pod, "--container=agent", *stdin, "--", *words)
        # of a container that does not run, the log says why
        hint = f"kubectl --namespace={self.namespace} logs {pod}"
        return self._kubectl(node, *words, given=given, hint=hint)

    def each(
        self, nodes: Collection[str], ask: Callable[[str], T], jobs: int, progress: Progress
    ) -> Iterator[T]:
        """What ``ask`` returns for each node, as it comes; it raises nothing. Raises CannotDo without
        nodes."""
        from concurrent.futures import ThreadPoolExecutor, as_completed

        if not nodes:
            hint = "install deploy/, or name its namespace: --agent-namespace"
            raise CannotDo(f"no agent runs in the namespace {self.namespace}", hint=hint)
        with ThreadPoolExecutor(max(1, min(jobs, len(nodes)))) as pool:
            progress("asking agents", 0, len(nodes))
            asked = [pool.submit(ask, node) for node in sorted(nodes)]
            for done, one in enumerate(as_completed(asked), 1):
                progress("asking agents", done, len(nodes))
                yield one.result()

    def lacking(self, node: str) -> CannotDo:
        """The error of a node without an agent."""
        hint = "install deploy/ there, or take qoslet bundle to the node"
        message = f"no agent runs on a node of this name in the namespace {self.namespace}"
        return CannotDo(message, where=f"node/{node}", hint=hint)

    def _kubectl(self, node: str, *words: str, given: bytes | None = None, hint: str = "") -> bytes:
        where, namespace = f"node/{node}" if node else "nodes", f"--namespace={self.namespace}"
        return kubectl(self.access, namespace, *words, where=where, given=given, hint=hint)


def check_node_name(name: str) -> None:
    """Raise BadInput for what cannot be the name of a node."""
    if not _NAME.fullmatch(name):
        raise BadInput("must be the name of a node", where=f"node/{name}")
