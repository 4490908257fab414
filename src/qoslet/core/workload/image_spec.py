"""A pod document as containers of images: what a CRI or OCI runtime is asked for.

The counterpart of ``podspec.read``, which makes plain processes of the same document. Isolation is
the runtime's to give here, so next to nothing has to be refused; what is not passed on is named in
a problem row.

Source: core/v1 PodSpec, Container; kubelet kuberuntime_container.go, kuberuntime_sandbox.go,
security_context.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.pod import Container, Pod
from qoslet.core.workload.container_spec import ContainerSpec, Pull, Sandbox, default_pull
from qoslet.core.workload.env import PodEnvironment, environment
from qoslet.core.workload.fields import (
    document_of,
    fault_row,
    grace_of,
    mapping,
    nul_faults,
    policy_of,
    problem_row,
    refusal_row,
    resize_restarts,
    tells_resources,
    words,
)
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.core.workload.security_context import (
    Credentials,
    IsolationRefusal,
    ProcessRights,
    fs_group,
)
from qoslet.core.workload.volumes import PodVolumes, mounts_of, volumes_of

_PULLS: dict[str, Pull] = {
    "Always": "Always",
    "IfNotPresent": "IfNotPresent",
    "Never": "Never",
}
_POD_NAMES = (
    "initContainers containers ephemeralContainers restartPolicy securityContext overhead "
    "terminationGracePeriodSeconds resources nodeName nodeSelector affinity tolerations "
    "topologySpreadConstraints schedulerName schedulingGates priority priorityClassName "
    "preemptionPolicy readinessGates serviceAccount serviceAccountName os hostNetwork hostPID "
    "hostIPC runtimeClassName shareProcessNamespace volumes automountServiceAccountToken "
    "enableServiceLinks hostname dnsPolicy"
)
_POD = frozenset(_POD_NAMES.split())
_OWN_NAMES = (
    "name image imagePullPolicy command args env envFrom workingDir resources resizePolicy "
    "restartPolicy securityContext terminationMessagePath terminationMessagePolicy volumeMounts "
    "stdin stdinOnce tty ports"
)
_OWN = frozenset(_OWN_NAMES.split())
_CONTEXT_NAMES = (
    "runAsUser runAsGroup runAsNonRoot supplementalGroups fsGroup fsGroupChangePolicy "
    "capabilities allowPrivilegeEscalation privileged readOnlyRootFilesystem seccompProfile "
    "appArmorProfile sysctls"
)
_CONTEXT = frozenset(_CONTEXT_NAMES.split())
_HINT = "take it out of the manifest where the pod must not run without it"


class _Found(Struct):
    """What reading a pod gathers."""

    volumes: PodVolumes
    launches: list[ProcessSpec] = []
    faults: list[FieldFault] = []
    missing: list[str] = []


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
    around = around or PodEnvironment()
    spec = mapping(document.get("spec"))
    found = _gather(pod, document, around, subpaths)
    errors = [fault_row(pod, note) for note in found.faults]
    if spec.get("hostUsers") is False:
        refusal = IsolationRefusal("spec.hostUsers", "no user namespace is asked of the runtime")
        errors.append(refusal_row(pod, refusal, unconfined))
    fields = list(dict.fromkeys(found.missing))
    if fields:
        message = f"not honoured: {', '.join(fields)}"
        errors.append(problem_row(pod, "warning", "spec", message, _HINT))
    made = PodSpec(
        uid=pod.uid,
        key=pod.key,
        launches=tuple(found.launches),
        grace=grace_of(spec),
        problems=tuple(errors),
        volumes=tuple(found.volumes.memory.values()),
        resize_restarts=resize_restarts(pod, spec),
        sandbox=_sandbox(pod, document),
    )
    if not tells_resources(pod, spec):
        return made
    same = _gather(pod, document, PodEnvironment(around.node_name, symbolic=True), subpaths)
    return replace(made, steady=replace(made, launches=tuple(same.launches)).digest())


def _gather(
    pod: Pod, document: Mapping[str, Any], around: PodEnvironment, subpaths: bool
) -> _Found:
    """Everything that is read of a pod."""
    spec = mapping(document.get("spec"))
    found = _Found(volumes_of(pod, spec, around, ProcessRights()))
    found.faults += found.volumes.faults
    found.missing += [
        f"spec.{name}" for name in spec if name not in {*_POD, "hostUsers"} and spec[name]
    ]
    found.missing += found.volumes.missing
    found.missing += _unread(mapping(spec.get("securityContext")), "spec.securityContext")
    for shape in pod.containers:
        if shape.role == "ephemeral":
            found.missing.append(shape.field)
        else:
            _add(found, pod, document, shape, around, subpaths)
    if pod.os == "windows":
        found.faults.append(
            FieldFault("spec.os.name", "a Windows pod cannot run here", "plan only")
        )
    return found


def _add(
    found: _Found,
    pod: Pod,
    document: Mapping[str, Any],
    shape: Container,
    around: PodEnvironment,
    subpaths: bool,
) -> None:
    """Read one container into ``found``."""
    spec = mapping(document.get("spec"))
    raw = document_of(spec, shape)
    variables, lost = environment(document, raw, pod, shape, around)
    mounted = mounts_of(raw, shape, found.volumes, variables)
    found.faults += [*mounted.faults, *nul_faults(raw, shape, variables)]
    found.faults += [
        FieldFault(
            f"{shape.field}.volumeMounts", f"{mount.path}: a subPath is not passed on", _HINT
        )
        for mount in mounted.mounts
        if mount.sub_path and not subpaths
    ]
    found.missing += [*_not_passed(raw, shape), *lost, *mounted.missing]
    contained, faults = _contained(spec, raw, shape, variables)
    found.faults += faults
    if not contained.image:
        found.faults.append(FieldFault(f"{shape.field}.image", "no image", "name one"))
        return
    stop = mapping(raw.get("lifecycle")).get("stopSignal")
    found.launches.append(
        ProcessSpec(
            name=shape.name,
            role=shape.role,
            argv=(*contained.command, *contained.args),
            env=contained.env,
            cwd=contained.cwd or "/",
            identity=Credentials(
                contained.uid or 0, contained.gid or 0, contained.groups, frozenset(), False
            ),
            restart=policy_of(spec, raw, shape),
            stop_signal=str(stop or "SIGTERM"),
            mounts=tuple(mounted.mounts),
            contained=contained,
        )
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
            faults.append(FieldFault(f"{field}.{name}", f"{value!r} is no user or group number"))
            return None
        return value

    uid, gid = number("runAsUser"), number("runAsGroup")
    non_root = (above if own.get("runAsNonRoot") is None else own).get("runAsNonRoot") is True
    faults += _contradictions(field, uid, gid, non_root)
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
        seccomp=_profile(above, own, "seccompProfile"),
        apparmor=_profile(above, own, "appArmorProfile"),
        tty=raw.get("tty") is True,
        stdin=raw.get("stdin") is True,
        stdin_once=raw.get("stdinOnce") is True,
    )
    return made, faults


def _contradictions(
    field: str, uid: int | None, gid: int | None, non_root: bool
) -> list[FieldFault]:
    """What of a security context does not go together."""
    found = []
    if gid is not None and uid is None:
        found.append(FieldFault(f"{field}.runAsGroup", "a group needs runAsUser, too", "give both"))
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


def _profile(above: Mapping[str, Any], own: Mapping[str, Any], name: str) -> str:
    """A security profile as one word."""
    chosen = mapping(own.get(name)) or mapping(above.get(name))
    kind = str(chosen.get("type") or "")
    return f"{kind}/{chosen.get('localhostProfile') or ''}" if kind == "Localhost" else kind


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


def _not_passed(raw: Mapping[str, Any], shape: Container) -> list[str]:
    """Fields of a container that its runtime is not told."""
    found = [
        f"{shape.field}.{name}"
        for name, value in raw.items()
        if name not in _OWN and name != "lifecycle" and value
    ]
    found += [
        f"{shape.field}.lifecycle.{name}"
        for name in mapping(raw.get("lifecycle"))
        if raw["lifecycle"]
    ]
    if mapping(raw.get("resources")).get("claims"):
        found.append(f"{shape.field}.resources.claims")
    return found + _unread(mapping(raw.get("securityContext")), f"{shape.field}.securityContext")


def _unread(context: Mapping[str, Any], where: str) -> list[str]:
    """Fields of a security context that are not passed on."""
    return [f"{where}.{name}" for name in context if name not in _CONTEXT and context[name]]
