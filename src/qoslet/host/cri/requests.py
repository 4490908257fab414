"""What a runtime is asked for: a pod's sandbox and containers as messages of the CRI.

Source: kubelet kuberuntime_sandbox.go (generatePodSandboxConfig), kuberuntime_container.go
(generateContainerConfig), securitycontext util.go (masked and read-only paths); containerd
updateOCIResource, CRI-O toCRIResources and the kernel's defaults of the v2 files for updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from qoslet.core.api.memory_annotations import PREFIX
from qoslet.core.convert.cri_fields import ENUMS
from qoslet.core.workload.container_spec import ContainerSpec, Sandbox, SeccompProfiles
from qoslet.core.workload.cri_log import path_of
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec, VolumeMount
from qoslet.errors import CannotDo
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.pod_record import CriPod

ROOT = f"{PREFIX}root"
"""The label of every sandbox and container of ours: whose they are."""
OLD_ROOT = "qoslet.root"
"""The same for agents of 0.1.0 and of what they began: a runtime is asked for this one, which all
have."""
UID = "io.kubernetes.pod.uid"
NAME = "io.kubernetes.pod.name"
NAMESPACE = "io.kubernetes.pod.namespace"
CONTAINER = "io.kubernetes.container.name"
SPEC = f"{PREFIX}spec"
"""The annotation that tells what a sandbox was begun for, as JSON of a ``PodSpec``."""
DIGEST = f"{PREFIX}digest"
OLD_SPEC, OLD_DIGEST = "qoslet.spec", "qoslet.digest"
"""Those of sandboxes that 0.1.0 began."""

_MASKED_NAMES = (
    "/proc/asound /proc/acpi /proc/kcore /proc/keys /proc/latency_stats /proc/timer_list "
    "/proc/timer_stats /proc/sched_debug /proc/scsi /sys/firmware /sys/devices/virtual/powercap"
)
_MASKED = tuple(_MASKED_NAMES.split())
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def labels_of(spec: PodSpec, root: str) -> dict[str, str]:
    """What tells a sandbox or a container of a pod from others."""
    namespace, _, name = spec.key.partition("/")
    return {ROOT: root, OLD_ROOT: root, UID: spec.uid, NAME: name, NAMESPACE: namespace}


_NO_PROFILES = SeccompProfiles()


def spec_text(annotations: Mapping[str, str]) -> str:
    """What a sandbox was begun for, as JSON of a ``PodSpec``; empty where nothing says it."""
    return annotations.get(SPEC) or annotations.get(OLD_SPEC, "")


def digest_text(annotations: Mapping[str, str]) -> str:
    """The digest of that; empty where nothing says it."""
    return annotations.get(DIGEST) or annotations.get(OLD_DIGEST, "")


def pod_of_sandbox(box: pb.PodSandbox) -> CriPod:
    """The pod of a sandbox of ours, as that says. Raises ``CannotDo``."""
    try:
        spec = msgspec.json.decode(spec_text(box.annotations), type=PodSpec)
        if spec.uid != box.labels.get(UID):
            raise ValueError("of another pod")
    except (msgspec.MsgspecError, ValueError) as error:
        raise CannotDo(
            f"sandbox {box.id} has the qoslet label but no pod: {error}; leaving it"
        ) from None
    pod = CriPod(spec, digest_text(box.annotations) or spec.digest())
    pod.attempt = box.metadata.attempt + 1
    pod.created = box.created_at / 1e9
    if box.state == pb.SANDBOX_READY:
        pod.sandbox = box.id
    return pod


def resources(block: Mapping[str, Any]) -> pb.LinuxContainerResources:
    """A block in the protobuf's field names (``linux_cri``) as the message."""
    plain = {key: value for key, value in block.items() if key != "hugepage_limits"}
    made = pb.LinuxContainerResources(**plain)
    for row in block.get("hugepage_limits", ()):
        made.hugepage_limits.add(page_size=row.get("page_size", ""), limit=row.get("limit", 0))
    return made


def sandbox_config(
    spec: PodSpec, digest: str, root: str, logs: str, attempt: int, host_network: bool
) -> pb.PodSandboxConfig:
    """The sandbox of a pod; ``logs`` is the directory of its log files, ``host_network`` overrides
    what the pod says."""
    namespace, _, name = spec.key.partition("/")
    box = spec.sandbox or Sandbox()
    assert spec.messages is not None
    privileged = any(one.contained and one.contained.privileged for one in spec.launches)
    linux = pb.LinuxPodSandboxConfig(
        cgroup_parent=spec.messages.parent,
        sysctls=dict(box.sysctls),
        security_context=pb.LinuxSandboxSecurityContext(
            namespace_options=_namespaces(box, host_network),
            privileged=privileged,
            seccomp=pb.SecurityProfile(profile_type=pb.SecurityProfile.RuntimeDefault),
        ),
    )
    if spec.messages.resources is not None:
        linux.resources.CopyFrom(resources(spec.messages.resources))
        linux.overhead.CopyFrom(resources(spec.messages.overhead or {}))
    # who may look at a sandbox may not know the pod's Secrets
    plain = spec.without_variables() if spec.from_config else spec
    kept = msgspec.structs.replace(plain, problems=())
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(
            name=name, uid=spec.uid, namespace=namespace, attempt=attempt
        ),
        hostname="" if host_network else box.hostname,
        log_directory=logs,
        labels={**dict(box.labels), **labels_of(spec, root)},
        annotations={SPEC: msgspec.json.encode(kept).decode(), DIGEST: digest},
        linux=linux,
    )


def _namespaces(box: Sandbox, host_network: bool) -> pb.NamespaceOption:
    """The namespaces of a pod's containers."""
    pid = pb.POD if box.share_pid else pb.CONTAINER
    return pb.NamespaceOption(
        network=pb.NODE if host_network else pb.POD,
        pid=pb.NODE if box.host_pid else pid,
        ipc=pb.NODE if box.host_ipc else pb.POD,
    )


def container_config(
    spec: PodSpec,
    launch: ProcessSpec,
    image: str,
    root: str,
    attempt: int,
    host_network: bool,
    seccomp: SeccompProfiles = _NO_PROFILES,
) -> pb.ContainerConfig:
    """One container of a pod; ``image`` is what the runtime calls its image."""
    asked = launch.contained
    assert asked is not None
    assert spec.messages is not None
    block = dict(spec.messages.containers.get(launch.name, {}))
    if launch.oom_score_adj is not None:
        block["oom_score_adj"] = launch.oom_score_adj
    return pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=launch.name, attempt=attempt),
        image=pb.ImageSpec(image=image),
        command=asked.command,
        args=asked.args,
        working_dir=asked.cwd,
        envs=[pb.KeyValue(key=key, value=value) for key, value in asked.env],
        mounts=[
            pb.Mount(container_path=one.path, host_path=_host_path(one), readonly=one.read_only)
            for one in launch.mounts
        ],
        labels={**labels_of(spec, root), CONTAINER: launch.name},
        log_path=f"{launch.name}/{attempt}.log",
        stdin=asked.stdin,
        stdin_once=asked.stdin_once,
        tty=asked.tty,
        stop_signal=_stop_signal(launch.stop_signal),
        linux=pb.LinuxContainerConfig(
            resources=resources(block),
            security_context=_security(spec.sandbox or Sandbox(), asked, host_network, seccomp),
        ),
    )


def _stop_signal(name: str) -> str:
    """A signal as the CRI names it; the image's for SIGTERM, which nothing asks for by itself."""
    word = name.replace("+", "PLUS").replace("-", "MINUS")
    return word if word in ENUMS["Signal"] and word != "SIGTERM" else "RUNTIME_DEFAULT"


def _host_path(one: VolumeMount) -> str:
    """What is mounted: of files of ours, where nobody else can put a link, also a part of them."""
    if one.kind == "files" and one.sub_path:
        return f"{one.source}/..data/{one.sub_path}"
    return one.source


def _security(
    box: Sandbox, asked: ContainerSpec, host_network: bool, seccomp: SeccompProfiles
) -> pb.LinuxContainerSecurityContext:
    """Who the container's process is, and what it may see."""
    default = "RuntimeDefault" if seccomp.by_default else "Unconfined"
    made = pb.LinuxContainerSecurityContext(
        capabilities=pb.Capability(add_capabilities=asked.add, drop_capabilities=asked.drop),
        privileged=asked.privileged,
        namespace_options=_namespaces(box, host_network),
        readonly_rootfs=asked.read_only_root,
        supplemental_groups=asked.groups,
        no_new_privs=asked.no_new_privileges,
        masked_paths=() if asked.privileged else _MASKED,
        readonly_paths=() if asked.privileged else _READ_ONLY,
        seccomp=_profile(asked.seccomp or default, seccomp.root),
    )
    if asked.uid is not None:
        made.run_as_user.value = asked.uid
    if asked.gid is not None:
        made.run_as_group.value = asked.gid
    if asked.apparmor:
        made.apparmor.CopyFrom(_profile(asked.apparmor))
    return made


def _profile(text: str, root: str = "") -> pb.SecurityProfile:
    """``RuntimeDefault``, ``Unconfined`` or ``Localhost/PROFILE``; a runtime is told the path of a
    file, which is below ``root``. Source: kubelet security_context.go fieldSeccompProfile."""
    kind, _, profile = text.partition("/")
    if root and profile:
        profile = f"{root}/{profile}"
    kinds = {
        "RuntimeDefault": pb.SecurityProfile.RuntimeDefault,
        "Localhost": pb.SecurityProfile.Localhost,
    }
    return pb.SecurityProfile(
        profile_type=kinds.get(kind, pb.SecurityProfile.Unconfined), localhost_ref=profile
    )


def log_path(folder: str, spec: PodSpec, name: str, attempt: int) -> str:
    """The file of one run's output."""
    return f"{folder}/{path_of(spec.key, spec.uid)}/{name}/{attempt}.log"
