"""Joins a run with an OCI runtime: which one this machine has, and what its containers are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.node.doctor.programs import runc_finding
from qoslet.core.problem import Problem
from qoslet.core.versions.runtime import runtime_of
from qoslet.core.workload.container_spec import OciPod, OciRuntime, SeccompProfiles
from qoslet.core.workload.oci.oci_spec import read_oci
from qoslet.core.workload.security.seccomp import KUBELET_PROFILES
from qoslet.errors import BadInput
from qoslet.host.machine.runc_fix import runc_fix
from qoslet.host.oci.find_runtime import InstalledRuntime, Name, engine_of, find
from qoslet.host.oci.seccomp_profiles import distribution_profile, profile_fault

if TYPE_CHECKING:
    from qoslet.app.options import RunOptions
    from qoslet.core.api.pod import Pod
    from qoslet.core.node.node import Node
    from qoslet.core.workload.env import PodEnvironment
    from qoslet.core.workload.process_spec import PodSpec


class OciPodReader(Struct, frozen=True):
    """Reads pods for an OCI runtime."""

    engine: OciRuntime
    unconfined: bool

    def read(self, pod: Pod, document: Mapping[str, Any], around: PodEnvironment) -> PodSpec:
        """A pod as containers of images."""
        seccomp = replace(self.engine.seccomp, by_default=around.seccomp_default)
        spec = read_oci(
            pod,
            document,
            around=around,
            unconfined=self.unconfined,
            seccomp=seccomp,
            profile_fault=lambda name: profile_fault(name, seccomp.distribution, seccomp.root),
        )
        return replace(spec, bundles=OciPod(replace(self.engine, seccomp=seccomp), {}))


def choose(options: RunOptions) -> InstalledRuntime:
    """Find the runtime; ``options.flags`` plan for it from then on, unless they name another of
    its kind. Raises ``CannotDo``, ``BadInput``."""
    found = find(cast(Name, options.runs_with))
    if options.flags.runtime is None:
        options.flags = replace(options.flags, runtime=found.profile)
    else:
        _need_same_kind(options.flags.runtime, found)
    return found


def escape_rows(name: str) -> tuple[Problem, ...]:
    """What there is to say about this machine's runc and CVE-2024-21626."""
    if name != "runc":
        return ()
    found = find("runc")
    rows = [
        Problem(
            "warning" if row.state == "missing" else "info",
            f"runc {found.version}",
            f"{row.topic.removeprefix('runc ')}: {row.value}; {row.cost}",
            row.remedy,
        )
        for row in runc_finding(runc_fix(found.program, found.version))
    ]
    return tuple(rows)


def _need_same_kind(named: str, found: InstalledRuntime) -> None:
    """Raise BadInput where the plan would be for another program."""
    try:
        runtime = runtime_of(named)
    except ValueError:
        return
    if runtime.cri is not None or runtime.oci != found.name:
        raise BadInput(
            f"{named} is not {found.name}",
            where="--runtime",
            hint=f"remove it: {found.profile} was found",
        )


def naming(node: Node) -> Node:
    """The node as it is where qoslet itself calls the runtime, and names the containers."""
    runtime = replace(node.profile.runtime, bundles=True)
    return replace(node, profile=replace(node.profile, runtime=runtime))


def reader(options: RunOptions, found: InstalledRuntime, node: Node) -> OciPodReader:
    """Reads pods as containers of the runtime on this node. Raises BadInput."""
    engine = engine_of(
        found,
        images=options.images,
        trees=options.rootfs,
        storage=options.storage,
        systemd=(node.host.systemd or 0) if node.driver == "systemd" else None,
        v2=node.hierarchy == "v2",
    )
    seccomp = SeccompProfiles(distribution_profile(), KUBELET_PROFILES, optional=options.unconfined)
    return OciPodReader(replace(engine, seccomp=seccomp), options.unconfined)
