"""A plan completed by what qoslet itself keeps of a tree: where its containers are, and which run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from qoslet.app.recorded import ended_pods, kept_containers
from qoslet.core.cgroup.names import SLICE, is_below, process_leaf
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.mounted import mounted
from qoslet.host.state.folder import JOURNAL, KEEPER, escaped, state_folder

if TYPE_CHECKING:
    import argparse

    from qoslet.core.api.pod import Pod
    from qoslet.core.cgroup.names import DriverName


def keeps_pods(root: str) -> bool:
    """Whether an agent of qoslet keeps, or has kept, pods below a cgroup root as processes."""
    return bool(_kept(root))


def choose_source(args: argparse.Namespace) -> None:
    """Decide where the pods of ``args`` come from, and set its ``agent``, ``cgroup_root``, ``runtime`` and
    ``live``: the documents of ``-f``, or the agent of qoslet or the kubelet that runs here. Raises
    BadInput if several agents run."""
    from qoslet.app.node.running_agent import running_agent

    names_kubelet = getattr(args, "kubelet_pid", None) is not None
    args.agent = None if args.filename or names_kubelet else running_agent(args.cgroup_root)
    args.cgroup_root = args.agent or args.cgroup_root
    kept = args.runtime is None and args.cgroup_root and keeps_pods(args.cgroup_root)
    if kept:
        args.runtime = "process"
    args.live = args.live or args.agent is not None or not (args.filename or kept)


def choose_tree(args: argparse.Namespace) -> None:
    """``choose_source``, for a command that reads cgroups: also choose the driver by the tree if no option
    describes the node. Raises CannotDo if the kubelet of ``--kubelet-pid`` sees other cgroups than are
    mounted here."""
    choose_source(args)
    if args.cgroup_root and not (args.live or args.node or args.cgroup_driver):
        args.cgroup_driver = _made_with(args.cgroup_root)
    refuse_other_cgroups(getattr(args, "kubelet_pid", None))


def _made_with(root: str) -> DriverName | None:
    """The driver that made qoslet's tree at a cgroup root; None if there is no such tree."""
    try:
        folder = state_folder(root)
    except CannotDo:
        return None
    if not os.path.exists(f"{folder}/{JOURNAL}"):
        return None
    return "cgroupfs" if os.path.basename(folder) == escaped(root) else "systemd"


def refuse_other_cgroups(pid: int | None) -> None:
    """Raise CannotDo if a process is a kubelet that sees other cgroups than are mounted here."""
    from qoslet.host.kubelet.processes import kubelet_processes, shares_cgroups

    named = [] if pid is None else kubelet_processes(named=pid)[0]
    if any(one.pid == pid and shares_cgroups(one) is False for one in named):
        message = f"the kubelet (process {pid}) has other cgroups than are mounted here"
        raise CannotDo(message, hint="run qoslet in its container; plan and diff need no cgroups")


def _kept(root: str) -> dict[tuple[str, str], tuple[str, bool]]:
    try:
        folder = state_folder(root, KEEPER)
    except CannotDo:
        return {}
    return kept_containers(folder)


def without_ended(pods: Sequence[Pod], root: str) -> Sequence[Pod]:
    """The pods without those that have ended for good, by qoslet's records of the root."""
    try:
        ended = ended_pods(state_folder(root, KEEPER))
    except CannotDo:
        return pods
    return [pod for pod in pods if pod.uid not in ended] if ended else pods


def own_containers(plan: Plan) -> Plan:
    """The plan with the paths of containers by qoslet's records. Raises CannotDo if qoslet runs its
    containers and the records cannot be read."""
    kept = _kept(plan.node.kubelet.cgroup_root)
    if not kept:
        _refuse_unrecorded(plan)
        return plan
    return replace(plan, cgroups=tuple(_completed(cgroup, kept) for cgroup in plan.cgroups))


def _completed(cgroup: Cgroup, kept: dict[tuple[str, str], tuple[str, bool]]) -> Cgroup:
    pod, container = cgroup.pod, cgroup.container
    if pod is None or container is None:
        return cgroup
    found = kept.get((pod.uid, container.name))
    if found is None:
        return cgroup
    path, runs = found
    leaf = path.rpartition("/")[2]
    return replace(
        cgroup,
        path=path,
        unit=leaf if leaf.endswith(".scope") and is_below(path, "/") else None,
        container=replace(container, runs=runs),
    )


def _refuse_unrecorded(plan: Plan) -> None:
    """Raise CannotDo if a container has the cgroup that qoslet gives it, and this user cannot read root's
    records: without them the container would count as foreign, and ended pods as missing."""
    if os.geteuid() == 0:
        return
    pods = {one.pod.uid: one.path for one in plan.cgroups if one.level == "pod" and one.pod}
    here = mounted()
    tops = [top for top in (here.unified, *here.mounts.values()) if top is not None]
    for one in plan.cgroups:
        parent = pods.get(one.pod.uid) if one.pod is not None else None
        if one.container is None or one.path is not None or parent is None:
            continue
        name = one.container.name
        path = f"{parent}/{process_leaf(parent, name) if parent.endswith(SLICE) else name}"
        if any(os.path.isdir(f"{top}{path}") for top in tops):
            message = "qoslet runs this container, and its records of it cannot be read"
            raise CannotDo(message, where=path, hint="run it as root")
