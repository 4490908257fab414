"""A pod document as containers that qoslet lets an OCI runtime make: ``image_spec`` for what it asks,
and what takes a CRI runtime's place: which program, the plan's own words, shared memory.

Source: core/v1 PodSpec, SecurityContext; kubelet kuberuntime_sandbox_linux.go; containerd cri
sandbox_run_linux.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.ids import bundle_id, container_id_fault
from qoslet.core.api.pod import Pod
from qoslet.core.problem import Problem
from qoslet.core.workload.container_spec import ContainerSpec, Sandbox, SeccompProfiles
from qoslet.core.workload.env import PodEnvironment
from qoslet.core.workload.fields import problem_row, refusal_row
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.core.workload.security.context import IsolationRefusal, capabilities
from qoslet.core.workload.security.seccomp import (
    LOCALHOST,
    PACKAGE_HINT,
    RUNTIME_DEFAULT,
    path_fault,
)
from qoslet.core.workload.volumes import MemoryVolume, VolumeMount

Kind = Literal["network", "uts", "ipc", "pid"]

SHARED_MEMORY = "dev.shm"
"""The volume behind ``/dev/shm``: no volume of a pod can have this name."""
SHARED_MEMORY_BYTES = 64 * 1024 * 1024
"""Its size, as containerd makes it."""

_SAFE_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.", "net.")
"""Those that a namespace of the pod has; others are the machine's."""


def shared(box: Sandbox) -> tuple[Kind, ...]:
    """The namespaces that the containers of a pod share with each other alone."""
    network: tuple[Kind, ...] = () if box.host_network else ("network", "uts")
    ipc: tuple[Kind, ...] = () if box.host_ipc else ("ipc",)
    return network + ipc


class _Said(Struct):
    """The rows about a pod beyond those of ``image_spec``."""

    pod: Pod
    unconfined: bool
    rows: list[Problem] = []

    def refuse(self, field: str, message: str) -> None:
        """Isolation that was asked for and is not there."""
        self.rows.append(refusal_row(self.pod, IsolationRefusal(field, message), self.unconfined))

    def wrong(self, field: str, message: str, hint: str) -> None:
        """What cannot be run."""
        self.rows.append(problem_row(self.pod, "error", field, message, hint))


def read_oci(
    pod: Pod,
    document: Mapping[str, Any],
    *,
    around: PodEnvironment | None = None,
    unconfined: bool = False,
    seccomp: SeccompProfiles | None = None,
    profile_fault: Callable[[str], str] = lambda profile: (
        f"the seccomp profile ({profile}) is not loaded"
    ),
) -> PodSpec:
    """The containers of ``pod`` for an OCI runtime; isolation that takes more than this one gives
    is an error, with ``unconfined`` a warning. ``profile_fault`` tells why a seccomp profile cannot
    be loaded, empty where it can."""
    spec = read_images(pod, document, around=around, unconfined=unconfined, subpaths=True)
    box = spec.sandbox
    assert box is not None
    said = _Said(pod, unconfined)
    for field, launch in _shaped(pod, spec):
        _judge(said, field, launch.contained)
        _judge_seccomp(said, field, launch.contained, seccomp or SeccompProfiles(), profile_fault)
        fault = container_id_fault(bundle_id(pod.uid, launch.name))
        if fault is not None:
            said.wrong(f"{field}.name", fault, "shorten the pod's UID")
    if box.handler:
        said.refuse("spec.runtimeClassName", f"{box.handler!r} does not run it")
    if box.share_pid and not box.host_pid:
        message = "no process holds one PID namespace for several containers"
        said.wrong("spec.shareProcessNamespace", message, "use hostPID: true, or --with containerd")
    for name, _ in box.sysctls:
        if not name.startswith(_SAFE_SYSCTLS) or (name.startswith("net.") and box.host_network):
            said.wrong(
                "spec.securityContext.sysctls", f"{name} belongs to the whole machine", "sysctl -w"
            )
    if not box.host_network:
        message = "its network namespace has only the loopback interface: qoslet has no CNI"
        hint = "use hostNetwork: true for the host's network"
        said.rows.append(problem_row(pod, "info", "spec.hostNetwork", message, hint))
    spec = replace(spec, problems=(*spec.problems, *said.rows))
    return spec if box.host_ipc else _with_shared_memory(spec)


def _shaped(pod: Pod, spec: PodSpec) -> list[tuple[str, ProcessSpec]]:
    """Each container's place in the document."""
    fields = {shape.name: shape.field for shape in pod.containers}
    return [(fields[launch.name], launch) for launch in spec.launches]


def _judge(said: _Said, field: str, asked: ContainerSpec | None) -> None:
    """What of one container's wishes is not there."""
    if asked is None:
        return
    if asked.apparmor not in ("", "Unconfined"):
        where = f"{field}.securityContext.appArmorProfile"
        said.refuse(where, f"the AppArmor profile ({asked.apparmor}) is not loaded")
    _, unknown = capabilities(asked.add, asked.drop, asked.privileged)
    for name in unknown:
        said.refuse(f"{field}.securityContext.capabilities", f"capability {name} is not known")
    if asked.tty or asked.stdin:
        message = "it gets no terminal: its input is empty and its output goes to the log"
        said.rows.append(problem_row(said.pod, "warning", f"{field}.tty", message, "remove it"))


def _judge_seccomp(
    said: _Said,
    field: str,
    asked: ContainerSpec | None,
    profiles: SeccompProfiles,
    profile_fault: Callable[[str], str],
) -> None:
    """A seccomp profile that cannot be loaded."""
    profile = "" if asked is None else profiles.of(asked)
    if not profile or (profile.startswith(LOCALHOST) and path_fault(profile)):
        return
    if fault := profile_fault(profile):
        way = PACKAGE_HINT if profile == RUNTIME_DEFAULT else "create the file"
        hint = f"{way}; --unconfined runs it without"
        where = f"{field}.securityContext.seccompProfile"
        refusal = IsolationRefusal(where, fault, hint)
        said.rows.append(refusal_row(said.pod, refusal, said.unconfined))


def _with_shared_memory(spec: PodSpec) -> PodSpec:
    """One ``/dev/shm`` for all containers of the pod, but for those that mount their own there."""
    volume = MemoryVolume(SHARED_MEMORY, SHARED_MEMORY_BYTES)
    mount = VolumeMount(SHARED_MEMORY, "/dev/shm")
    launches = tuple(
        launch
        if any(one.path == mount.path for one in launch.mounts)
        else replace(launch, mounts=(*launch.mounts, mount))
        for launch in spec.launches
    )
    return replace(spec, launches=launches, volumes=(*spec.volumes, volume))
