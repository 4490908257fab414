"""A pod document as containers of images: what a CRI or OCI runtime is asked for.

The counterpart of ``pod_reader.read``, which makes plain processes of the same document. Isolation is
the runtime's to give here, so next to nothing has to be refused; what is not passed on is named in
a problem row.

Source: core/v1 PodSpec, Container; kubelet kuberuntime_container.go, kuberuntime_sandbox.go,
security_context.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from msgspec.structs import replace

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.pod import Container, Pod
from qoslet.core.workload.config.references import mapping
from qoslet.core.workload.container_spec import ContainerSpec, Pull, Sandbox, default_pull
from qoslet.core.workload.env import PodEnvironment
from qoslet.core.workload.fields import fault_row, policy_of, words
from qoslet.core.workload.pod_reader import PodReading, WorkloadReader, stop_signal_of
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.core.workload.security.context import (
    Credentials,
    IsolationRefusal,
    ProcessRights,
    fs_group,
)
from qoslet.core.workload.security.seccomp import LOCALHOST, path_fault, profile_of
from qoslet.core.workload.volumes import ContainerMounts, PodVolumes

_PULLS: Mapping[str, Pull] = {one: one for one in get_args(Pull)}
_CONTEXT_NAMES = (
    "runAsUser runAsGroup runAsNonRoot supplementalGroups fsGroup fsGroupChangePolicy "
    "capabilities allowPrivilegeEscalation privileged readOnlyRootFilesystem seccompProfile "
    "appArmorProfile sysctls"
)
_CONTEXT = frozenset(_CONTEXT_NAMES.split())
_HINT = "remove the pod if it must not run without it"


def read_images(
    pod: Pod,
    document: Mapping[str, Any],
    *,
    around: PodEnvironment | None = None,
    unconfined: bool = False,
    subpaths: bool = False,
) -> PodSpec:
    """The containers of ``pod``, whose manifest is ``document``. A pod with an error has problems
    and no launches that may be started. What a user namespace would isolate is an error, with
    ``unconfined`` a warning; so is a mount with a ``subPath``, except with ``subpaths``."""
    return _ImageReader(pod, document, subpaths).read(around, unconfined=unconfined)


class _ImageReader(WorkloadReader):
    """Reads a pod as containers of images."""

    pod_fields = WorkloadReader.pod_fields | {"hostname"}
    container_fields = WorkloadReader.container_fields | {"stdin", "stdinOnce", "tty", "ports"}
    hint = _HINT

    def __init__(self, pod: Pod, document: Mapping[str, Any], subpaths: bool) -> None:
        super().__init__(pod, document, ProcessRights())
        self._subpaths = subpaths

    def refusals(self, volumes: PodVolumes) -> Sequence[IsolationRefusal]:
        """Isolation that is not the runtime's to give."""
        if self.spec.get("hostUsers") is not False:
            return []
        return [IsolationRefusal("spec.hostUsers", "the runtime gets no user namespace")]

    def unread(self, context: Mapping[str, Any], where: str) -> list[str]:
        """Fields of a security context that are not passed on."""
        return [
            f"{where}.{name}"
            for name, value in context.items()
            if name not in _CONTEXT and value and (name, value) != ("procMount", "Default")
        ]

    def completed(self, spec: PodSpec) -> PodSpec:
        """The pod with its sandbox."""
        return replace(spec, sandbox=_sandbox(self.pod, self.document))

    def add_container(
        self,
        reading: PodReading,
        shape: Container,
        raw: Mapping[str, Any],
        variables: Mapping[str, str],
        mounted: ContainerMounts,
    ) -> None:
        """Read one container."""
        field = f"{shape.field}.volumeMounts"
        faults = [
            FieldFault(field, f"{mount.path}: the subPath is ignored", _HINT)
            for mount in mounted.mounts
            if mount.sub_path and mount.kind != "files" and not self._subpaths
        ]
        contained, wrong = _contained(self.spec, raw, shape, variables)
        faults += wrong
        if not contained.image:
            faults.append(FieldFault(f"{shape.field}.image", "no image", "name one"))
        reading.errors += [fault_row(self.pod, fault) for fault in faults]
        if contained.image:
            reading.launches.append(self._process(shape, raw, contained, mounted))

    def _process(
        self,
        shape: Container,
        raw: Mapping[str, Any],
        contained: ContainerSpec,
        mounted: ContainerMounts,
    ) -> ProcessSpec:
        """The process of one container, as far as its image does not say it."""
        uid, gid = contained.uid or 0, contained.gid or 0
        return ProcessSpec(
            name=shape.name,
            role=shape.role,
            argv=(*contained.command, *contained.args),
            env=contained.env,
            cwd=contained.cwd or "/",
            identity=Credentials(uid, gid, contained.groups, frozenset(), False),
            restart=policy_of(self.spec, raw, shape),
            stop_signal=stop_signal_of(raw),
            mounts=tuple(mounted.mounts),
            contained=contained,
        )


def _contained(
    spec: Mapping[str, Any],
    raw: Mapping[str, Any],
    shape: Container,
    variables: Mapping[str, str],
) -> tuple[ContainerSpec, list[FieldFault]]:
    """What one container asks for, and what of it is wrong."""
    above, own = mapping(spec.get("securityContext")), mapping(raw.get("securityContext"))
    field = f"{shape.field}.securityContext"
    faults: list[FieldFault] = []

    def number(name: str) -> int | None:
        value = above.get(name) if own.get(name) is None else own[name]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
            faults.append(FieldFault(f"{field}.{name}", f"{value!r} is not a user or group ID"))
            return None
        return value

    uid, gid = number("runAsUser"), number("runAsGroup")
    non_root = (above if own.get("runAsNonRoot") is None else own).get("runAsNonRoot") is True
    faults += _contradictions(field, uid, gid, non_root)
    seccomp = profile_of(above, own)
    faults += _localhost_fault(field, seccomp)
    image = str(raw.get("image") or "")
    asked = mapping(own.get("capabilities"))
    made = ContainerSpec(
        image=image,
        pull=_PULLS.get(str(raw.get("imagePullPolicy")), default_pull(image)),
        command=words(raw.get("command"), variables),
        args=words(raw.get("args"), variables),
        env=tuple(variables.items()),
        cwd=str(raw.get("workingDir") or ""),
        uid=uid,
        gid=gid,
        groups=_groups(above),
        non_root=non_root,
        add=_capabilities(asked.get("add")),
        drop=_capabilities(asked.get("drop")),
        privileged=own.get("privileged") is True,
        read_only_root=own.get("readOnlyRootFilesystem") is True,
        no_new_privileges=own.get("allowPrivilegeEscalation") is False,
        seccomp=seccomp,
        apparmor=profile_of(above, own, "appArmorProfile"),
        tty=raw.get("tty") is True,
        stdin=raw.get("stdin") is True,
        stdin_once=raw.get("stdinOnce") is True,
    )
    return made, faults


def _localhost_fault(field: str, seccomp: str) -> list[FieldFault]:
    """A Localhost profile that names no file below the folder of profiles."""
    wrong = path_fault(seccomp) if seccomp.startswith(LOCALHOST) else ""
    hint = "name a file below the seccomp folder of the kubelet"
    where = f"{field}.seccompProfile.localhostProfile"
    return [FieldFault(where, wrong, hint)] if wrong else []


def _contradictions(
    field: str, uid: int | None, gid: int | None, non_root: bool
) -> list[FieldFault]:
    """What of a security context does not go together."""
    found = []
    if gid is not None and uid is None:
        found.append(FieldFault(f"{field}.runAsGroup", "runAsGroup needs runAsUser", "give both"))
    if non_root and uid == 0:
        found.append(FieldFault(f"{field}.runAsNonRoot", "the container would run as UID 0"))
    return found


def _groups(above: Mapping[str, Any]) -> tuple[int, ...]:
    """Supplemental groups; ``fsGroup`` is one of them."""
    asked = [*(above.get("supplementalGroups") or ()), fs_group(above)]
    return tuple(dict.fromkeys(g for g in asked if isinstance(g, int) and 0 <= g < 2**31))


def _capabilities(asked: object) -> tuple[str, ...]:
    """Names without ``CAP_``."""
    entries = asked if isinstance(asked, list) else []
    return tuple(str(one).upper().removeprefix("CAP_") for one in entries)


def _sandbox(pod: Pod, document: Mapping[str, Any]) -> Sandbox:
    """What the pod's containers share."""
    spec = mapping(document.get("spec"))
    labels = mapping(mapping(document.get("metadata")).get("labels"))
    host_network = spec.get("hostNetwork") is True
    sysctls = mapping(spec.get("securityContext")).get("sysctls")
    entries = [mapping(one) for one in sysctls] if isinstance(sysctls, list) else []
    return Sandbox(
        hostname="" if host_network else str(spec.get("hostname") or pod.name)[:63].rstrip("-."),
        host_network=host_network,
        host_pid=spec.get("hostPID") is True,
        host_ipc=spec.get("hostIPC") is True,
        share_pid=spec.get("shareProcessNamespace") is True,
        handler=str(spec.get("runtimeClassName") or ""),
        sysctls=tuple((str(one.get("name")), str(one.get("value"))) for one in entries),
        labels=tuple(sorted((str(key), str(value)) for key, value in labels.items())),
    )
