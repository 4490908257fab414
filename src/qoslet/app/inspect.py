"""Looks at this machine, at a running agent and at its files, for the commands that only read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qoslet.errors import CannotDo, QosletError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qoslet.app.node.found_node import FoundNode
    from qoslet.core.node.doctor.finding import DoctorFinding
    from qoslet.core.node.flags import Flags
    from qoslet.core.node.machine import Machine
    from qoslet.core.node.node import Node
    from qoslet.core.problem import Problem
    from qoslet.host.containers.log_reader import LogLine as LogLine
    from qoslet.host.containers.log_reader import LogLocation as LogLocation
    from qoslet.host.containers.log_reader import LogRun as LogRun


def machine() -> Machine:
    """What this machine offers, for ``doctor``."""
    from qoslet.host.machine.doctor_facts import look

    return look()


def kubelet(machine: Machine, values: object) -> tuple[Machine, Sequence[DoctorFinding]]:
    """The machine with the tree of the kubelet that runs here, and findings about what can be read of it
    and which rights are missing; no finding if none runs. ``values`` has the options as attributes."""
    if not any(one.kind == "kubelet" for one in machine.programs):
        return machine, ()
    from qoslet.app.node.found_node import find_node, kubelet_options
    from qoslet.app.waiting import kubelet_waiting
    from qoslet.core.node.doctor.finding import DoctorFinding

    try:
        with kubelet_waiting():
            found = find_node(kubelet_options(values))
    except QosletError as error:
        where = f"{error.where}: " if error.where else ""
        value = f"{where}{error.message}"
        return machine, (DoctorFinding("kubelet configuration", "unknown", value, "", error.hint),)
    return _with_tree_of(machine, found), found.notes[1:]


def _with_tree_of(machine: Machine, found: FoundNode) -> Machine:
    """The machine with the tree of a kubelet, where its configuration can be read."""
    from qoslet.core.node.flags import Flags
    from qoslet.host.files.node import load_node

    try:
        node, _ = load_node([], Flags(), texts=found.texts())
    except QosletError:
        return machine
    return machine_with_tree(machine, node)


def machine_with_tree(machine: Machine, node: Node) -> Machine:
    """The machine with the cgroup of all pods of its kubelet's ``node``."""
    from msgspec.structs import replace

    from qoslet.core.cgroup.names import concrete

    root = concrete(node.kubelet.pods_cgroup, node.driver)
    return replace(machine, kubelet_trees=tuple(dict.fromkeys((*machine.kubelet_trees, root))))


def node(paths: Sequence[str], flags: Flags) -> tuple[Node, Sequence[Problem]]:
    """The node that files and flags describe, and what to know about them. Raises BadInputs."""
    from qoslet.host.files.node import load_node

    return load_node(paths, flags)


def agent_root(given: str | None) -> str:
    """The cgroup root whose pods are asked for: what ``--cgroup-root`` names, else the default one, or the
    only other one of this user's that has an agent, or pods of one, with a note. Raises BadInput."""
    from qoslet.core.cgroup.names import checked_root
    from qoslet.host.state.agents import pod_roots
    from qoslet.host.state.folder import own_state_directory

    root = checked_root(given)
    if given is not None:
        return root
    try:
        roots = pod_roots(own_state_directory(write=False))
    except CannotDo:
        return root
    if root in roots or len(roots) != 1:
        return root
    from qoslet.render.text.streams import note

    note(f"agent of {roots[0]} (--cgroup-root)")
    return roots[0]


def pod_states(root: str) -> dict[str, Any]:
    """The ``PodStates`` document of the agent at ``root``. Raises CannotDo."""
    from msgspec import DecodeError, json

    from qoslet.host.questions.http_client import BusyAgent, ask
    from qoslet.host.state.folder import AGENT_SOCKET, LOCK, state_folder

    try:
        folder = state_folder(root, AGENT_SOCKET, LOCK)
        document = json.decode(ask(folder, "/v1/pods"), type=dict[str, Any])
    except BusyAgent:
        raise
    except CannotDo as error:
        raise with_other_agents(error) from error
    except DecodeError as error:
        raise CannotDo(f"the agent's answer cannot be read: {error}", where=folder) from error
    return document


def pod_stats(items: Sequence[Mapping[str, Any]], seconds: float) -> list[dict[str, Any]]:
    """What the pods of a ``PodStates`` use, from two looks ``seconds`` apart. Raises CannotDo."""
    from qoslet.host.cgroupfs.observe.stats import stats

    return stats(items, seconds)


def with_other_agents(error: CannotDo) -> CannotDo:
    """The error of a root without an agent, with where agents are in its hint."""
    from os import geteuid

    from qoslet.host.state.agents import where_else

    hint = "; ".join(filter(None, (error.hint, where_else(geteuid()))))
    return CannotDo(error.message, where=error.where, hint=hint)


def log_folder(root: str) -> str:
    """The state folder of ``root`` that has logs. Raises CannotDo."""
    from qoslet.host.state.folder import LOGS, state_folder

    try:
        return state_folder(root, LOGS)
    except CannotDo as error:
        raise with_other_agents(error) from error


def log_places(folder: str) -> list[LogLocation]:
    """Each container that has logs below a state folder."""
    from qoslet.host.containers.log_reader import log_locations
    from qoslet.host.state.folder import LOGS

    return log_locations(f"{folder}/{LOGS}")


def log_run(place: LogLocation, number: int, folder: str) -> LogRun:
    """One run of a container, which can be followed."""
    from qoslet.host.containers.log_reader import LogRun
    from qoslet.host.state.folder import KEEPER

    return LogRun(place, number, f"{folder}/{KEEPER}")


def log_stamp(nanoseconds: int) -> bytes:
    """A time as it stands in logs, which sorts as it does."""
    from qoslet.host.containers.log_files import stamp

    return stamp(nanoseconds)
