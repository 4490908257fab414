"""What configures the nodes of a fleet, bundles, and the pod that is to fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from qoslet.core.api.documents import Options
from qoslet.core.api.input.label_selector import label_selector
from qoslet.core.fleet.cluster import BundledNode
from qoslet.core.fleet.fit import FitRequest, fit_request
from qoslet.core.fleet.nodes import Configuration, NodeFactory
from qoslet.core.fleet.read import NodeRow
from qoslet.core.node.flags import Flags, flags_of
from qoslet.errors import BadInput, BadInputs
from qoslet.host.files.bounds import READ_ONCE
from qoslet.host.files.manifests import load, text_documents
from qoslet.host.files.node import node_values

if TYPE_CHECKING:
    import argparse

    from qoslet.core.api.pod import Pod


class Configured(Struct, frozen=True):
    """The sides of a fleet: flags and documents of each. ``exact``: pods of a node may depend on
    each other."""

    flags: tuple[Flags, ...]
    configurations: tuple[tuple[Configuration, ...], ...]
    paths: tuple[tuple[str, ...], ...]
    exact: bool

    def factories(self) -> list[NodeFactory]:
        """What makes the nodes of each side."""
        sides = zip(self.flags, self.configurations, strict=True)
        return [NodeFactory(flags, some) for flags, some in sides]


def configured(args: argparse.Namespace, sides: Sequence[argparse.Namespace]) -> Configured:
    """What the command line gives for each side. Raises BadInput, BadInputs."""
    chosen = [
        Configuration(_documents(path), label_selector(selector))
        for selector, path in args.node_with
    ]
    flags, configurations, exact = [], [], False
    for side in sides:
        own = Configuration([one for path in side.node for one in _documents(path)])
        flags.append(flags_of(side))
        configurations.append((*((own,) if side.node else ()), *chosen))
        for some in (own, *chosen):
            exact |= _is_exact(flags[-1], some)
    paths = tuple(tuple(side.node) for side in sides)
    return Configured(tuple(flags), tuple(configurations), paths, exact)


_LARGE = b'{"status": {"capacity": {"cpu": "1024", "memory": "16Ti", "pods": "1000"}}}'


def _is_exact(flags: Flags, configuration: Configuration) -> bool:
    """Whether pods of a node may depend on each other: CPUs or memory are assigned to each, or
    containers stand side by side without the cgroup of a pod. Raise BadInputs for options and
    documents that are wrong on any node: each node of the cluster would be broken by them."""
    places = ("--", *(place for place, _ in configuration.documents))
    try:
        found = NodeFactory(flags, [Configuration(configuration.documents)]).of(
            NodeRow("any", "any node", _LARGE, {})
        )
    except BadInputs as error:
        wrong = [one for one in error.faults if one.where.startswith(places)]
        if wrong:
            raise BadInputs(wrong) from None
        return True
    kubelet = found.node.kubelet
    policies = kubelet.cpu_manager_policy, kubelet.memory_manager_policy
    return not kubelet.cgroups_per_qos or any(one.lower() == "static" for one in policies)


def _documents(path: str) -> list[tuple[str, Any]]:
    """The documents of a file as ``load_node`` reads them. Raises BadInputs."""
    found = []
    for where, value in node_values(path):
        if not isinstance(value, dict):
            raise BadInputs([BadInput("must be an object", where=where)])
        items = value.get("items")
        if any(map(_is_of_cluster, items if isinstance(items, list) else [value])):
            hint = "give it with -f: --node configures the nodes of the fleet"
            raise BadInputs([BadInput("describes nodes of a cluster", where=where, hint=hint)])
        found.append((where, value))
    if found and all(value.get("kind") == "Pod" for _, value in found):
        hint = "give pods with -f, what configures nodes with --node"
        raise BadInputs([BadInput("contains a pod, but no node", where=found[0][0], hint=hint)])
    return found


def _is_of_cluster(value: Any) -> bool:
    """Whether it is a Node of the API."""
    return isinstance(value, dict) and (value.get("kind"), value.get("apiVersion")) == (
        "Node",
        "v1",
    )


def fit_of(path: str) -> FitRequest:
    """What ``--fit`` asks for. Raises BadInputs."""
    loaded = load([path], Options(keep_raw=True))
    if len(loaded.pods) != 1:
        message = f"contains {len(loaded.pods)} pods"
        raise BadInputs([BadInput(message, where=f"--fit {path}", hint="give one pod or workload")])
    (pod,) = loaded.pods
    return fit_request(pod, loaded.raw[pod.uid]["spec"])


def read_bundle(path: str, chosen: Configured) -> tuple[BundledNode, list[Pod]]:
    """The node of a bundle on each side, and its pods. Raises BadInput, BadInputs."""
    from qoslet.app.bundle.inputs import BundleInputs

    bundle = BundleInputs(path)
    found = [
        bundle.node(paths, flags) for paths, flags in zip(chosen.paths, chosen.flags, strict=True)
    ]
    node, problems = found[0]
    loaded = bundle.pods(Options(node_name=node.name))
    row = NodeRow(node.name or path, f"{path}: Node {node.name}", b"{}", {}, bundled=True)
    told = (*problems, *loaded.problems)
    return BundledNode(row, tuple(one for one, _ in found), told), list(loaded.pods)


def yaml_texts(first: bytes, rest: Iterator[bytes], name: str) -> Iterator[bytes]:
    """YAML as JSON text, document by document. Raises BadInputs."""
    parts = [first]
    size = len(first)
    for block in rest:
        parts.append(block)
        size += len(block)
        if size > READ_ONCE.yaml_size:
            hint = "use JSON: kubectl get nodes,pods -A -o json"
            raise BadInput("is YAML larger than 64 MiB", where=name, hint=hint)
    faults = []
    for one in text_documents(b"".join(parts), name):
        if isinstance(one, BadInput):
            faults.append(one)
        else:
            yield bytes(one.data) + b"\n"
    if faults:
        raise BadInputs(faults)
