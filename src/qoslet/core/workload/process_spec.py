"""What the process runtime needs of a pod document, and what of it cannot be honoured.

``read`` looks at every field of the pod: it becomes part of a ``ProcessSpec``, or concerns others
(the scheduler, the API server), or is named in a problem row. Nothing is dropped silently.

Source: core/v1 PodSpec, Container; kubelet kuberuntime_container.go, kubelet_pods.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.pod import Container, Pod, Role
from qoslet.core.problem import Problem
from qoslet.core.workload.container_spec import ContainerSpec, OciPod, PodMessages, Sandbox
from qoslet.core.workload.env import PodEnvironment, environment, launch_environment
from qoslet.core.workload.fields import RestartPolicy as RestartPolicy
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
from qoslet.core.workload.security_context import (
    Credentials,
    IsolationRefusal,
    ProcessRights,
    confine,
    pod_refusals,
    unhandled,
)
from qoslet.core.workload.volumes import MemoryVolume as MemoryVolume
from qoslet.core.workload.volumes import PodVolumes, mounts_of, volumes_of
from qoslet.core.workload.volumes import VolumeMount as VolumeMount

_ELSEWHERE_NAMES = (
    "initContainers containers ephemeralContainers restartPolicy securityContext overhead "
    "terminationGracePeriodSeconds resources nodeName nodeSelector affinity tolerations "
    "topologySpreadConstraints schedulerName schedulingGates priority priorityClassName "
    "preemptionPolicy readinessGates serviceAccount serviceAccountName imagePullSecrets os "
    "automountServiceAccountToken enableServiceLinks hostNetwork hostPID hostIPC hostUsers "
    "runtimeClassName shareProcessNamespace dnsPolicy volumes"
)
_ELSEWHERE = frozenset(_ELSEWHERE_NAMES.split())
"""Pod fields that are read here or in the plan, concern the scheduler or the API server, or
are covered by the sentence about the host's namespaces."""

_OWN_NAMES = (
    "name image imagePullPolicy command args env envFrom workingDir resources resizePolicy "
    "restartPolicy securityContext terminationMessagePath terminationMessagePolicy volumeMounts"
)
_OWN = frozenset(_OWN_NAMES.split())
"""Container fields that are read here or belong to the image and its API server defaults."""

_HINT = "use a container runtime for what needs it, or take it out of the manifest"


class ProcessSpec(Struct, frozen=True, omit_defaults=True):
    """One container as a process to start.

    ``grace`` and times are seconds; ``oom_score_adj`` comes from the plan (``scored``).
    ``stop_signal`` is a name such as ``SIGTERM``.
    """

    name: str
    role: Role
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str
    identity: Credentials
    restart: RestartPolicy
    oom_score_adj: int | None = None
    stop_signal: str = "SIGTERM"
    mounts: tuple[VolumeMount, ...] = ()
    contained: ContainerSpec | None = None
    """What a runtime that makes containers is asked for; None for a plain process."""


class PodSpec(Struct, frozen=True, omit_defaults=True):
    """A pod as processes. ``launches`` are in start order: init containers and sidecars, then
    the regular ones. ``runnable`` is False where a problem of severity error stands. It is the
    same again after a way through JSON (``msgspec.json``)."""

    uid: str
    key: str
    launches: tuple[ProcessSpec, ...]
    grace: float
    problems: tuple[Problem, ...]
    volumes: tuple[MemoryVolume, ...] = ()
    steady: str = ""
    """The digest where the environment tells resources, which change in place."""
    resize_restarts: tuple[tuple[str, str], ...] = ()
    """Container and resource for each ``resizePolicy`` that is ``RestartContainer``."""
    memo: str = ""
    """What a runtime is to tell again of the pod that it keeps (``Held.memo``)."""
    sandbox: Sandbox | None = None
    messages: PodMessages | None = None
    """The planned resources, for a runtime that writes the groups of containers itself."""
    bundles: OciPod | None = None
    """The same for an OCI runtime, with the program and its images."""

    @property
    def runnable(self) -> bool:
        """Whether the pod may be started."""
        return bool(self.launches) and all(p.severity != "error" for p in self.problems)

    def scored(self, scores: Mapping[str, int | None]) -> PodSpec:
        """The same pod with the plan's ``oom_score_adj`` by container name."""
        return replace(
            self,
            launches=tuple(
                replace(launch, oom_score_adj=scores.get(launch.name)) for launch in self.launches
            ),
        )

    def sourced(self, sources: Mapping[str, str]) -> PodSpec:
        """The same pod with the host's directory of each volume by its name, as a ``Volumes``
        port gives them. Raises KeyError for a mount of a volume that is not among them."""
        return replace(
            self,
            launches=tuple(
                replace(
                    launch,
                    mounts=tuple(
                        replace(mount, source=sources[mount.volume]) for mount in launch.mounts
                    ),
                )
                for launch in self.launches
            ),
        )

    def digest(self) -> str:
        """A short hash that differs where the processes would: of the launches and volume names,
        without what changes in place (``oom_score_adj``, sizes, variables from resources) or is
        this host's (sources)."""
        if self.steady:
            return self.steady
        # it loads OpenSSL: 4 MB for who never asks
        from hashlib import sha256

        plain = self.scored({}).sourced(dict.fromkeys(self._mounted(), ""))
        names = sorted(volume.name for volume in self.volumes)
        parts = [names, plain.launches, *([] if self.sandbox is None else [self.sandbox])]
        text = msgspec.json.encode(parts, order="deterministic")
        return sha256(text).hexdigest()[:32]

    def _mounted(self) -> list[str]:
        """The volumes that any launch mounts."""
        return [mount.volume for launch in self.launches for mount in launch.mounts]


def read(
    pod: Pod,
    document: Mapping[str, Any],
    *,
    around: PodEnvironment | None = None,
    powers: ProcessRights | None = None,
    unconfined: bool = False,
) -> PodSpec:
    """The processes of ``pod``, whose manifest is ``document``.

    With ``unconfined`` isolation that cannot be given is a warning instead of an error. A pod
    with an error has problems and no launches that may be started.
    """
    around, powers = around or PodEnvironment(), powers or ProcessRights()
    spec = mapping(document.get("spec"))
    found = _gather(pod, document, around, powers)
    made = PodSpec(
        uid=pod.uid,
        key=pod.key,
        launches=tuple(found.launches),
        grace=grace_of(spec),
        problems=(
            *found.errors,
            *(refusal_row(pod, refusal, unconfined) for refusal in dict.fromkeys(found.refusals)),
            *_told(pod, spec, found.missing),
        ),
        volumes=tuple(found.volumes.memory.values()),
        resize_restarts=resize_restarts(pod, spec),
    )
    if not tells_resources(pod, spec):
        return made
    same = _gather(pod, document, PodEnvironment(around.node_name, symbolic=True), powers)
    return replace(made, steady=replace(made, launches=tuple(same.launches)).digest())


def _gather(
    pod: Pod, document: Mapping[str, Any], around: PodEnvironment, powers: ProcessRights
) -> _Found:
    """Everything that is read of a pod."""
    spec = mapping(document.get("spec"))
    found = _Found(volumes_of(pod, spec, around, powers))
    found.refusals += pod_refusals(document)
    found.refusals += found.volumes.refusals
    found.errors += [fault_row(pod, note) for note in found.volumes.faults]
    found.missing += [f"spec.{name}" for name in spec if name not in _ELSEWHERE and spec[name]]
    found.missing += found.volumes.missing
    found.missing += unhandled(mapping(spec.get("securityContext")), "spec.securityContext")
    for shape in pod.containers:
        _add(found, pod, document, shape, around, powers)
    if pod.os == "windows":
        message = "a Windows pod cannot run here"
        found.errors.append(problem_row(pod, "error", "spec.os.name", message, "plan only"))
    return found


class _Found(Struct):
    """What reading a pod gathers."""

    volumes: PodVolumes
    launches: list[ProcessSpec] = []
    errors: list[Problem] = []
    refusals: list[IsolationRefusal] = []
    missing: list[str] = []


def _add(
    found: _Found,
    pod: Pod,
    document: Mapping[str, Any],
    shape: Container,
    around: PodEnvironment,
    powers: ProcessRights,
) -> None:
    """Read one container into ``found``."""
    spec = mapping(document.get("spec"))
    raw = document_of(spec, shape)
    if shape.role == "ephemeral":
        found.missing.append(shape.field)
        return
    identity, refused = confine(
        mapping(spec.get("securityContext")),
        mapping(raw.get("securityContext")),
        shape.field,
        powers,
    )
    found.refusals += refused
    variables, lost = environment(document, raw, pod, shape, around)
    mounted = mounts_of(raw, shape, found.volumes, variables)
    faults = [*mounted.faults, *nul_faults(raw, shape, variables)]
    found.errors += [fault_row(pod, note) for note in faults]
    found.missing += [*_not_honoured(raw, shape), *lost, *mounted.missing]
    launch = _launch(raw, shape, policy_of(spec, raw, shape), identity, variables)
    if launch.argv:
        launch = replace(launch, mounts=tuple(mounted.mounts))
        found.launches.append(launch)
    else:
        found.errors.append(_no_command(pod, shape, raw))


def _launch(
    raw: Mapping[str, Any],
    shape: Container,
    restart: RestartPolicy,
    identity: Credentials,
    variables: Mapping[str, str],
) -> ProcessSpec:
    """The process of one container; ``argv`` is empty where only an image knows the command."""
    command = words(raw.get("command"), variables)
    args = words(raw.get("args"), variables)
    stop = mapping(raw.get("lifecycle")).get("stopSignal")
    return ProcessSpec(
        name=shape.name,
        role=shape.role,
        argv=(*command, *args) if command else (),
        env=launch_environment(variables, identity.uid),
        cwd=str(raw.get("workingDir") or "/"),
        identity=identity,
        restart=restart,
        stop_signal=str(stop or "SIGTERM"),
    )


_HONOURED_LIFECYCLE = {"stopSignal"}


def _not_honoured(raw: Mapping[str, Any], shape: Container) -> list[str]:
    """Fields of a container that a plain process does not have."""
    found = [
        f"{shape.field}.{name}"
        for name, value in raw.items()
        if name not in _OWN and name != "lifecycle" and value
    ]
    found += [
        f"{shape.field}.lifecycle.{name}"
        for name in mapping(raw.get("lifecycle"))
        if name not in _HONOURED_LIFECYCLE
    ]
    if mapping(raw.get("resources")).get("claims"):
        found.append(f"{shape.field}.resources.claims")
    found += unhandled(mapping(raw.get("securityContext")), f"{shape.field}.securityContext")
    return found


def _told(pod: Pod, spec: Mapping[str, Any], missing: Iterable[str]) -> list[Problem]:
    """The rows that say what a plain process is not: once per pod."""
    images = sorted(
        {
            str(raw["image"])
            for kind in ("initContainers", "containers")
            for raw in spec.get(kind) or ()
            if isinstance(raw, Mapping) and raw.get("image")
        }
    )
    instead = f" instead of {', '.join(images)}" if images else ""
    rows = [
        problem_row(
            pod,
            "info",
            "spec",
            f"runs as plain processes on this host's file system, network and PIDs{instead}",
            "",
        )
    ]
    fields = list(dict.fromkeys(missing))
    if fields:
        rows.append(
            problem_row(pod, "warning", "spec", f"not honoured: {', '.join(fields)}", _HINT)
        )
    return rows


def _no_command(pod: Pod, shape: Container, raw: Mapping[str, Any]) -> Problem:
    """The row for a container whose command is only in its image."""
    image = raw.get("image")
    of = f" of image {image}" if image else ""
    message = f"no command: the process runtime cannot read the entrypoint{of}"
    return problem_row(pod, "error", f"{shape.field}.command", message, "give a command")
