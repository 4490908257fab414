"""Joins a run with a container runtime that speaks the CRI: which one, whether it fits, its pods."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from qoslet.app.runtimes.managers import take_up_managers
from qoslet.core.cgroup.names import monitors_of
from qoslet.core.node.node import seccomp_default
from qoslet.core.reconcile.steps import Step
from qoslet.core.workload.container_spec import SeccompProfiles
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.core.workload.security.seccomp import KUBELET_PROFILES
from qoslet.errors import BadInput, CannotDo
from qoslet.host.cgroupfs.v1 import HierarchiesV1
from qoslet.host.containers.log_files import LogLimits
from qoslet.host.linux.mountinfo import beside
from qoslet.host.linux.procfs import text
from qoslet.host.machine.installed import is_installed
from qoslet.host.state.folder import CRI, CRI_ENDPOINT, KEEPER, LOGS
from qoslet.host.systemd.select_driver import fits_runtime

if TYPE_CHECKING:
    from qoslet.agent.desired_state import ManifestSource
    from qoslet.app.options import RunOptions
    from qoslet.app.tree import OwnedTree
    from qoslet.core.api.pod import Pod
    from qoslet.core.node.node import Node
    from qoslet.core.workload.env import PodEnvironment
    from qoslet.core.workload.process_spec import PodSpec
    from qoslet.host.cri.runtime import CriRuntime
    from qoslet.host.cri.runtime_info import RuntimeFacts

ENDPOINTS = {
    "containerd": "unix:///run/containerd/containerd.sock",
    "cri-o": "unix:///var/run/crio/crio.sock",
}


class CriChoice(Struct, frozen=True):
    """A runtime that answers; ``unconfined``: pods may have the host's network instead of none."""

    name: str
    endpoint: str
    facts: RuntimeFacts
    unconfined: bool

    def read(self, pod: Pod, document: Mapping[str, Any], around: PodEnvironment) -> PodSpec:
        """A pod as containers of images."""
        return read_images(pod, document, around=around, unconfined=self.unconfined)

    def fits(self, node: Node) -> None:
        """Raise ``CannotDo`` where the runtime makes its groups with another driver."""
        fits_runtime(node.driver, self.name, self.facts.driver)


def choose(options: RunOptions, node: Node) -> CriChoice:
    """Ask the runtime what it is; ``options.flags`` say so from then on, and name its driver where
    nobody else does (``node`` is that without it). Raises ``CannotDo``, ``BadInput``."""
    if not (is_installed("grpc") and is_installed("google.protobuf")):
        raise CannotDo(
            "a container runtime needs grpcio and protobuf",
            where=f"--with {options.runs_with}",
            hint="pipx inject qoslet grpcio protobuf; in a venv, from the clone: pip install --require-hashes -r requirements-cri.lock",
        )
    from qoslet.host.cri.runtime import read_facts

    endpoint = options.endpoint or ENDPOINTS[options.runs_with]
    if not endpoint.startswith("unix://"):
        raise BadInput(
            f"{endpoint!r} is not a unix socket",
            where="--container-runtime-endpoint",
            hint="such as unix:///run/containerd/containerd.sock",
        )
    facts = read_facts(endpoint)
    flags = options.flags
    if not flags.runtime or flags.runtime == "process":
        flags = replace(flags, runtime=_known(facts))
    if flags.cgroup_driver is None and facts.driver and not _drives(node):
        flags = replace(flags, cgroup_driver=facts.driver)
    options.flags = flags
    return CriChoice(facts.name, endpoint, facts, options.unconfined)


def _known(facts: RuntimeFacts) -> str:
    """The runtime for the profile. Raises ``CannotDo`` for one whose ways are not known."""
    from qoslet.core.versions.runtime import runtime_of

    try:
        return runtime_of(facts.runtime).name
    except ValueError as error:
        raise CannotDo(
            f"unknown runtime version {facts.name} {facts.version}: {error}",
            where="--container-runtime-endpoint",
            hint="give --runtime with a version that writes the same, such as containerd-1.7+runc-1.1",
        ) from error


def _drives(node: Node) -> bool:
    """Whether somebody has named the driver."""
    origin = node.origins.get("driver")
    return origin not in (None, "probed", "assumed", node.origins.get("host.systemd"))


def taken_up(chosen: CriChoice, tree: OwnedTree, folder: str, source: ManifestSource) -> CriRuntime:
    """The pods of a tree in the runtime's hands, those of earlier agents known to ``source``.
    Raises ``CannotDo``."""
    if os.path.isdir(f"{folder}/{KEEPER}") and os.listdir(f"{folder}/{KEEPER}"):
        raise CannotDo(
            "pods of this root run with --with process",
            where=tree.place.root,
            hint="continue with qoslet run --with process, or stop them with qoslet release",
        )
    before = endpoint_of(folder)
    if not before and has_pods(folder):
        raise _unknown_runtime(folder)
    if before and before != chosen.endpoint and may_have_pods(tree, folder):
        raise CannotDo(
            f"pods of this root run with {before}",
            where="--container-runtime-endpoint",
            hint=f"use that one, or qoslet release --cgroup-root {tree.place.root} first",
        )
    keep_endpoint(chosen, folder)
    kubelet = source.live.node.kubelet
    limits = LogLimits(kubelet.container_log_max_size, kubelet.container_log_max_files)
    seccomp = SeccompProfiles(root=KUBELET_PROFILES, by_default=seccomp_default(source.live.node))
    runtime = _runtime(
        chosen.endpoint, chosen.facts, tree, folder, chosen.unconfined, limits, seccomp
    )
    try:
        pods = runtime.list_pods()
        take_up_managers(source, tree, folder, pods)
    except BaseException:
        runtime.close()
        raise
    return runtime


def _runtime(
    endpoint: str,
    facts: RuntimeFacts,
    tree: OwnedTree,
    folder: str,
    unconfined: bool,
    limits: LogLimits | None = None,
    seccomp: SeccompProfiles | None = None,
) -> CriRuntime:
    from qoslet.host.cri.engine import CriSettings
    from qoslet.host.cri.runtime import CriRuntime

    look_beside(tree)
    setting = CriSettings(
        tree.place.root,
        f"{folder}/{CRI}",
        # without the link, which may be removed
        os.path.realpath(f"{folder}/{LOGS}"),
        host_network=unconfined and bool(facts.network),
        limits=limits or LogLimits(),
        seccomp=seccomp or SeccompProfiles(root=KUBELET_PROFILES),
    )
    return CriRuntime(endpoint, facts, setting, partial(_charge, tree))


def look_beside(tree: OwnedTree) -> None:
    """On v1, let the cgroups that a runtime of containers made in other hierarchies go with ours."""
    layout = tree.driver.layout
    if isinstance(layout, HierarchiesV1):
        layout.beside = beside([one.point for one in layout.trees])


def runtime_of_pods(tree: OwnedTree, folder: str) -> CriRuntime:
    """The runtime that has the pods of a root. Raises ``CannotDo`` where it does not answer."""
    from qoslet.host.cri.runtime import read_facts

    endpoint = endpoint_of(folder)
    if not endpoint:
        raise _unknown_runtime(folder)
    return _runtime(endpoint, read_facts(endpoint), tree, folder, False)


def _unknown_runtime(folder: str) -> CannotDo:
    """The refusal of pods of which nobody knows the runtime: in another one they would run twice."""
    return CannotDo(
        "pods run, but this file does not say in which container runtime",
        where=f"{folder}/{CRI_ENDPOINT}",
        hint=f"write its socket there: echo {ENDPOINTS['containerd']} > {folder}/{CRI_ENDPOINT}",
    )


def _charge(tree: OwnedTree, path: str, pid: int) -> None:
    """Put a process of the runtime into the monitors' group of a pod. Raises ``CannotDo``."""
    leaf = monitors_of(path)
    steps = [] if tree.driver.identity(leaf) is not None else [Step("create", leaf)]
    outcomes = tree.driver.perform([*steps, Step("attach", leaf, pid=pid)])
    wrong = [one.error for one in outcomes if one.error is not None]
    if wrong:
        raise CannotDo(wrong[0])


def refuse_others(tree: OwnedTree, folder: str) -> None:
    """Raise ``CannotDo`` where pods of a container runtime stand in a tree that is to be run
    otherwise."""
    if may_have_pods(tree, folder):
        raise CannotDo(
            f"pods of this root run with {endpoint_of(folder) or 'a container runtime'}",
            where=tree.place.root,
            hint="continue with qoslet run --with containerd, or stop them with qoslet release",
        )


def has_pods(folder: str, records: str = CRI) -> bool:
    """Whether there are records of pods that a container runtime has."""
    try:
        return bool(os.listdir(f"{folder}/{records}"))
    except OSError:
        return False


def has_records(folder: str) -> bool:
    """Whether a runtime keeps pods of a root."""
    return has_pods(folder) or has_pods(folder, KEEPER)


def may_have_pods(tree: OwnedTree, folder: str) -> bool:
    """Whether a container runtime may have pods of a root: there are records, or they are lost, and
    something runs in a tree whose pods were in a runtime that is known."""
    if has_pods(folder) or has_pods(folder, KEEPER) or not endpoint_of(folder):
        return has_pods(folder)
    return any(tree.driver.members(path) for path in tree.driver.below(tree.place.root))


def endpoint_of(folder: str) -> str:
    """Whose socket the pods of a root were begun with; empty where that is not known."""
    return (text(f"{folder}/{CRI_ENDPOINT}") or "").strip()


def keep_endpoint(chosen: CriChoice, folder: str) -> None:
    """Write down in which runtime the pods of a root are. Raises OSError."""
    path = f"{folder}/{CRI_ENDPOINT}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{chosen.endpoint}\n")


def mend_endpoint(chosen: CriChoice, folder: str) -> None:
    """The same where it was removed; tried again where that fails."""
    if not os.path.lexists(f"{folder}/{CRI_ENDPOINT}"):
        with suppress(OSError):
            keep_endpoint(chosen, folder)
