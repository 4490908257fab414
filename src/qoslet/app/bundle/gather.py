"""Looks at this machine for a bundle; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from qoslet.app.bundle.contents import BundleSource, kubelet_document
from qoslet.app.node.agent_pods import PodDocuments, agent_pods, pod_documents
from qoslet.app.node.asked_guest import agent_held
from qoslet.app.node.assigned import kubelet_assignments
from qoslet.app.node.found_node import PODS as KUBELET_PODS
from qoslet.app.node.found_node import RELEASE, FoundNode, KubeletOptions, find_node
from qoslet.app.node.untold_release import possible_releases
from qoslet.app.own_tree import keeps_pods, own_containers, refuse_other_cgroups
from qoslet.app.waiting import kubelet_waiting
from qoslet.core.api.manifest import Options
from qoslet.core.audit.audit import read_request
from qoslet.core.bundle.allowed import PROPERTIES
from qoslet.core.bundle.parts import CGROUPS, KUBELET, NODE, PODS, UNITS
from qoslet.core.bundle.rows import UnitRow
from qoslet.core.cgroup import tree_owner as tree_owners
from qoslet.core.cgroup.names import (
    UNIT_ENDINGS,
    DriverName,
    concrete,
    given_root,
    is_at_or_below,
    names_root,
)
from qoslet.core.node.node import Node
from qoslet.core.plan.plan import plan
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.mounted import mounted
from qoslet.host.cgroupfs.observe.audit_reader import least_oom_score_adj
from qoslet.host.cgroupfs.observe.cgroup_rows import CgroupFilesReader, CgroupsResult
from qoslet.host.files.manifests import load, load_text, values_of
from qoslet.host.files.node import load_node

if TYPE_CHECKING:
    from qoslet.core.node.flags import Flags
    from qoslet.core.node.machine import Machine
    from qoslet.core.resources.cgroup_tree import Plan


class BundleOptions(Struct, frozen=True):
    """What a user says of the node: manifests, node documents, flags, and how pods are read."""

    paths: Sequence[str]
    nodes: Sequence[str]
    flags: Flags
    options: Options
    recursive: bool = False
    kubelet: KubeletOptions = KubeletOptions()
    live: bool = False
    """Ask the kubelet where manifests are given, too; somebody has to answer."""


def gather(asked: BundleOptions) -> BundleSource:
    """What a bundle of this machine is made of. Raises BadInput, BadInputs, CannotDo."""
    from qoslet.app.inspect import machine_with_tree
    from qoslet.host.machine.doctor_facts import look

    refuse_other_cgroups(asked.kubelet.pid)
    machine = look()
    missing: dict[str, str] = {}
    kubelet = _kubelet(asked, machine, missing)
    agent = _agent(asked, machine) if kubelet is None else None
    own = _own_flags(asked.flags, agent) if kubelet is None else None
    texts = _agent_texts(agent, missing) if kubelet is None else kubelet.texts()
    flags, own_tree = own or asked.flags, own is not None
    node, _ = load_node(asked.nodes, flags, acts=True, own_tree=own_tree, texts=texts)
    if not node.kubelet_given:
        missing.setdefault(
            KUBELET, "no KubeletConfiguration was given (--node): only flags are in it"
        )
    api_node = _api_node(asked.nodes, node)
    if api_node is None:
        missing[NODE] = "no Node of the API was given (--node)"
    pods = _pods(asked, node, kubelet, agent, machine, missing)
    planned = plan([pod for pod, _ in pods or ()], node, ())
    if kubelet is None:
        _check_records(planned, missing)
    trees, alone = _trees(planned, machine)
    rows = _cgroups(node, trees, alone, missing)
    if kubelet is not None:
        machine = machine_with_tree(machine, node)
    return BundleSource(
        node=node,
        kubelet=kubelet_document(node),
        api_node=api_node,
        machine=_machine_document(node, machine),
        pods=pods,
        cgroups=rows,
        units=_units(machine, rows, missing),
        versions=_versions(node, machine, api_node, kubelet),
        facts=machine,
        least_oom_score_adj=least_oom_score_adj(),
        work=None if kubelet is None or asked.paths else kubelet.work,
        kept=None if kubelet is None else kubelet_assignments(kubelet, node),
        releases=() if kubelet is None or asked.flags.kubernetes else possible_releases(kubelet),
        held={} if kubelet is None else agent_held(node.kubelet.cgroup_root),
        missing=missing,
    )


def _kubelet(asked: BundleOptions, machine: Machine, missing: dict[str, str]) -> FoundNode | None:
    """What the kubelet that runs here says: asked for by name, or where neither manifests nor a
    cgroup root are given. Raises BadInput where several run, CannotDo where neither one nor an agent
    of qoslet answers that is asked for."""
    runs = any(one.kind == "kubelet" for one in machine.programs)
    meant = runs and not asked.paths and asked.flags.cgroup_root is None
    if not meant and not asked.live:
        return None
    try:
        with kubelet_waiting():
            return find_node(asked.kubelet)
    except CannotDo as error:
        if not asked.live:
            missing[PODS] = f"the kubelet: {error.message}"
        elif _agent(asked, machine) is None:
            raise
        return None


def _own_flags(flags: Flags, agent: Mapping[str, Any] | None) -> Flags | None:
    """The flags, with what an agent does otherwise than a kubelet would; None where the tree is none of
    qoslet's. Without an ``agent`` that is asked, as with manifests, its records tell."""
    root = flags.cgroup_root or (None if agent is None else given_root(str(agent["root"])))
    kept = root is not None and keeps_pods(root)
    if agent is None and not kept:
        return None
    return replace(
        flags,
        cgroup_root=root,
        cgroup_driver=flags.cgroup_driver or (None if agent is None else str(agent["driver"])),
        runtime=flags.runtime or ("process" if kept else None),
    )


def _agent(asked: BundleOptions, machine: Machine) -> dict[str, Any] | None:
    """The pods of the agent whose tree is meant: the one that ``--cgroup-root`` names, or the first
    that answers. None where manifests are given, or nobody answers."""
    from qoslet.app.inspect import pod_states

    wanted = asked.flags.cgroup_root
    if asked.paths:
        return None
    for root in machine.agents or ():
        if wanted is None or names_root(wanted, root):
            try:
                return pod_states(root)
            except CannotDo:
                continue
    return None


def _agent_texts(
    agent: Mapping[str, Any] | None, missing: dict[str, str]
) -> list[tuple[str, bytes]]:
    """The node of that agent as documents, each with its place; none where it does not tell."""
    if agent is None:
        return []
    from qoslet.app.node.running_agent import agent_node

    try:
        return agent_node(str(agent["root"]))
    except CannotDo as error:
        missing[KUBELET] = f"{error.where}: {error.message}"
        return []


def _api_node(paths: Sequence[str], node: Node) -> Mapping[str, Any] | None:
    """The Node of the API among the documents of the node."""
    values = [value for path in paths if path != "-" for _, value in values_of(path)]
    lists = [value["items"] if _is_list(value) else [value] for value in values]
    found = [
        one
        for items in lists
        for one in items
        if isinstance(one, dict) and (one.get("kind"), one.get("apiVersion")) == ("Node", "v1")
    ]
    named = [one for one in found if (one.get("metadata") or {}).get("name") == node.name]
    return next(iter([*named, *found]), None)


def _is_list(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("items"), list)


def _pods(
    asked: BundleOptions,
    node: Node,
    kubelet: FoundNode | None,
    agent: Mapping[str, Any] | None,
    machine: Machine,
    missing: dict[str, str],
) -> PodDocuments | None:
    """The pods as documents: of the manifests, else those of the kubelet or of the agent."""
    options = replace(asked.options, keep_raw=True, node_name=node.name)
    if asked.paths:
        return pod_documents(load(asked.paths, options, recursive=asked.recursive))
    if kubelet is not None and kubelet.pods is not None:
        return pod_documents(load_text(kubelet.pods[1], options, name=kubelet.pods[0]))
    if kubelet is not None:
        lacking = kubelet.note(KUBELET_PODS)
        why = f"{lacking.value} ({lacking.remedy or lacking.cost})"
        missing[PODS] = f"the kubelet does not give its pods: {why}"
        return None
    if agent is None:
        missing.setdefault(PODS, _no_pods(machine.agents or (), asked.flags.cgroup_root))
        return None
    found, why = agent_pods(agent, options)
    if why:
        missing[PODS] = why
    return found


def _no_pods(agents: Sequence[str], wanted: str | None) -> str:
    """Why nobody could be asked for pods: no agent runs at ``wanted`` or below, or none answers."""
    roots = [root for root in agents if wanted is None or is_at_or_below(root, wanted)]
    if not roots:
        return "no pods were given (-f), and no agent of qoslet runs here"
    beside = [root for root in roots if tree_owners.tree_owner(root) == tree_owners.KUBELET]
    if not beside:
        return f"no pods were given (-f), and no agent answers; they run for {', '.join(roots)}"
    return (
        f"no pods were given (-f), and no kubelet runs here; the agent beside that of "
        f"{', '.join(beside)} still runs, and what it knows is in qoslet agent --status"
    )


def _check_records(planned: Plan, missing: dict[str, str]) -> None:
    """Say that containers of qoslet run which only its records name, where these cannot be read."""
    try:
        own_containers(planned)
    except CannotDo as error:
        missing.setdefault(PODS, f"{error.where}: {error.message} ({error.hint})")


def _trees(planned: Plan, machine: Machine) -> tuple[list[str], list[str]]:
    """The cgroups whose whole trees count (those of the pods of this node, of kubelets and agents),
    and those beside them that an audit reads."""
    root = planned.node.kubelet.pods_cgroup
    drivers: tuple[DriverName, ...] = ("cgroupfs", "systemd")
    roots = [concrete(root, driver) for driver in drivers]
    trees = list(dict.fromkeys([*roots, *machine.kubelet_trees, *(machine.agents or ())]))
    read = read_request(planned).cgroups
    return trees, [path for path in read if not any(is_at_or_below(path, tree) for tree in trees)]


def _cgroups(
    node: Node, trees: Sequence[str], alone: Sequence[str], missing: dict[str, str]
) -> CgroupsResult:
    """The cgroups of this machine; none where no hierarchy is mounted."""
    here = mounted()
    if here.hierarchy is None:
        missing[CGROUPS] = "no cgroup file system is mounted"
        return CgroupsResult([], [])
    reader = CgroupFilesReader(here.hierarchy, here.points, _page_sizes(node))
    try:
        found = reader.read(trees, alone)
    finally:
        reader.close()
    if found.left_out:
        missing[CGROUPS] = f"{found.left_out} cgroups are left out: the machine has too many"
    return found


def _page_sizes(node: Node) -> list[str]:
    """The sizes of huge pages as cgroup files name them: ``2MB``."""
    from qoslet.core.rules.hugetlb import size_text

    return [size_text(size) for size in node.host.hugepage_sizes]


def _units(machine: Machine, rows: CgroupsResult, missing: dict[str, str]) -> list[UnitRow] | None:
    """The units of the cgroups; None where systemd is not there to be asked."""
    if not machine.probed.systemd_runs:
        missing[UNITS] = "systemd is not PID 1"
        return None
    from qoslet.host.systemd.show_units import show_units

    names = {row.path.rpartition("/")[2] for row in rows.rows}
    wanted = sorted(name for name in names if name.endswith(UNIT_ENDINGS))
    try:
        found = show_units(wanted, PROPERTIES)
    except CannotDo as error:
        missing[UNITS] = error.message
        return None
    return [UnitRow(name, found[name]) for name in wanted if name in found]


def _machine_document(node: Node, machine: Machine) -> dict[str, Any]:
    """qoslet's Node document, with what a plan under other options may need of the CPUs."""
    from qoslet.core.explain.node_config import documents

    probed = machine.probed
    of_machine = {"capacity.cpu", "capacity.memory"} <= set(node.probed)
    host = node.host
    if of_machine and host.layout is None and probed.layout is not None:
        host = replace(host, layout=probed.layout)
    if of_machine and not host.numa and probed.numa:
        host = replace(host, numa=probed.numa)
    return documents(replace(node, host=host))[0]


def _versions(
    node: Node, machine: Machine, api_node: Mapping[str, Any] | None, kubelet: FoundNode | None
) -> dict[str, Any]:
    """The programs of the node whose version is known."""
    from qoslet.version import VERSION

    found: dict[str, Any] = {"qoslet": VERSION}
    found |= {one.name: one.version for one in machine.oci_programs if one.version}
    runtime = node.profile.runtime
    if kubelet is not None and runtime.cri is not None and "runtime" in node.origins:
        found[runtime.cri] = runtime.name.removeprefix(f"{runtime.cri}-").partition("+")[0]
    info = ((api_node or {}).get("status") or {}).get("nodeInfo") or {}
    name, _, version = str(info.get("containerRuntimeVersion", "")).partition("://")
    if version:
        found[name] = version
    if kubelet is not None and (release := kubelet.note(RELEASE)).state == "ok":
        found["kubelet"] = release.value
    if info.get("kubeletVersion"):
        found["kubelet"] = str(info["kubeletVersion"])
    if machine.probed.systemd:
        found["systemd"] = str(machine.probed.systemd)
    return found
