"""A pod document as containers to start, and what of it cannot be honoured.

A ``WorkloadReader`` looks at every field of the pod: it becomes part of a ``ProcessSpec``, or concerns
others (the scheduler, the API server), or is named in a problem row. Nothing is dropped silently.
``read`` makes plain processes of it; ``image_spec`` containers of images.

Source: core/v1 PodSpec, Container; kubelet kuberuntime_container.go, kubelet_pods.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.pod import Container, Pod
from qoslet.core.problem import Problem
from qoslet.core.workload.config.references import UnmetReference, mapping, uses_config
from qoslet.core.workload.env import PodEnvironment, environment, launch_environment
from qoslet.core.workload.fields import (
    documents_by_name,
    fault_row,
    grace_of,
    policy_of,
    problem_row,
    refusal_row,
    resize_restarts,
    tells_resources,
    unmet_row,
    word_faults,
    words,
)
from qoslet.core.workload.hook_gates import gate_row, gated_fields
from qoslet.core.workload.hook_spec import HOOKS, ReadHooks, failing_row, hooks_of
from qoslet.core.workload.probe_spec import KINDS, probes_of
from qoslet.core.workload.process_spec import PodSpec, ProcessSpec
from qoslet.core.workload.security.context import (
    Credentials,
    IsolationRefusal,
    ProcessRights,
    confine,
    pod_refusals,
    unhandled,
    unknown_additions,
)
from qoslet.core.workload.volumes import ContainerMounts, PodVolumes, mounts_of, volumes_of

_POD_NAMES = (
    "initContainers containers ephemeralContainers restartPolicy securityContext overhead "
    "terminationGracePeriodSeconds resources nodeName nodeSelector affinity tolerations "
    "topologySpreadConstraints schedulerName schedulingGates priority priorityClassName "
    "preemptionPolicy readinessGates serviceAccount serviceAccountName os hostNetwork hostPID "
    "hostIPC hostUsers runtimeClassName shareProcessNamespace volumes dnsPolicy "
    "automountServiceAccountToken enableServiceLinks"
)
_CONTAINER_NAMES = (
    "name image imagePullPolicy command args env envFrom workingDir resources resizePolicy "
    "restartPolicy securityContext terminationMessagePath terminationMessagePolicy volumeMounts "
    "lifecycle"
)


_PROBES = frozenset(f"{kind}Probe" for kind in KINDS)


class PodReading(Struct):
    """What reading a pod gathers. ``missing`` are fields that are not honoured,
    ``failing`` hooks that always fail, ``gated`` fields with their disabled gates, ``unmet`` what the pod has to wait for, ``mounted`` the volumes that a container mounts."""

    volumes: PodVolumes
    launches: list[ProcessSpec] = []
    errors: list[Problem] = []
    refusals: list[IsolationRefusal] = []
    missing: list[str] = []
    unmet: list[UnmetReference] = []
    mounted: set[str] = set()
    failing: list[str] = []
    gated: list[tuple[str, str]] = []


class WorkloadReader:
    """Reads one pod. What its containers come to is a subclass's: ``add_container``."""

    pod_fields = frozenset(_POD_NAMES.split())
    """Pod fields that are read here or in the plan, concern the scheduler or the API server, or
    are covered by a sentence about namespaces."""
    container_fields = frozenset(_CONTAINER_NAMES.split())
    """Container fields that are read here or belong to the image and its API server defaults."""
    lifecycle_fields = frozenset({*HOOKS, "stopSignal"})
    seccomp_default = False
    hint = ""
    """What to do about fields that are not honoured."""

    def __init__(self, pod: Pod, document: Mapping[str, Any], rights: ProcessRights) -> None:
        self.pod = pod
        self.document = document
        self.spec = mapping(document.get("spec"))
        self.rights = rights

    def refusals(self, volumes: PodVolumes) -> Sequence[IsolationRefusal]:
        """Isolation of the pod that cannot be given."""
        raise NotImplementedError

    def unread(self, context: Mapping[str, Any], where: str) -> list[str]:
        """Fields of a security context that are not honoured."""
        raise NotImplementedError

    def remarks(self) -> list[Problem]:
        """Rows about every pod that is read so."""
        return []

    def add_container(
        self,
        reading: PodReading,
        shape: Container,
        raw: Mapping[str, Any],
        variables: Mapping[str, str],
        mounted: ContainerMounts,
    ) -> None:
        """Read one container whose document is ``raw``."""
        raise NotImplementedError

    def read(self, around: PodEnvironment | None, *, unconfined: bool) -> PodSpec:
        """The pod. With ``unconfined`` isolation that cannot be given is a warning instead of an
        error. A pod with an error has problems and no launches that may be started."""
        around = around or PodEnvironment()
        self.seccomp_default = around.seccomp_default
        reading = self._gather(around)
        refused = dict.fromkeys(reading.refusals)
        rows = [
            *reading.errors,
            *(refusal_row(self.pod, refusal, unconfined) for refusal in refused),
            *self.remarks(),
            *(unmet_row(self.pod, unmet) for unmet in reading.unmet),
        ]
        if reading.missing:
            message = f"ignored: {', '.join(dict.fromkeys(reading.missing))}"
            rows.append(problem_row(self.pod, "warning", "spec", message, self.hint))
        rows += [failing_row(self.pod, field) for field in dict.fromkeys(reading.failing)]
        rows += [gate_row(self.pod, *gated) for gated in dict.fromkeys(reading.gated)]
        made = PodSpec(
            uid=self.pod.uid,
            key=self.pod.key,
            launches=tuple(reading.launches),
            grace=grace_of(self.spec),
            problems=tuple(rows),
            volumes=tuple(reading.volumes.memory.values()),
            resize_restarts=resize_restarts(self.pod, self.spec),
            from_config=uses_config(self.spec),
            unmet=tuple(reading.unmet),
            folders=reading.volumes.made(reading.mounted),
            asked_volumes=reading.volumes.asked(reading.mounted),
        )
        made = self.completed(made)
        if not tells_resources(self.pod, self.spec) and not made.from_config:
            return made
        same = self._gather(PodEnvironment(around.node_name, symbolic=True))
        return replace(made, steady=replace(made, launches=tuple(same.launches)).digest())

    def completed(self, spec: PodSpec) -> PodSpec:
        """The pod with what its containers share."""
        return spec

    def _gather(self, around: PodEnvironment) -> PodReading:
        """Everything that is read of the pod."""
        volumes = volumes_of(self.pod, self.document, around, self.rights)
        reading = PodReading(volumes)
        reading.refusals += self.refusals(volumes)
        reading.errors += [fault_row(self.pod, fault) for fault in volumes.faults]
        reading.missing += [
            f"spec.{name}" for name in self.spec if name not in self.pod_fields and self.spec[name]
        ]
        context = mapping(self.spec.get("securityContext"))
        reading.missing += self.unread(context, "spec.securityContext")
        documents = documents_by_name(self.spec)
        for shape in self.pod.containers:
            if shape.role == "ephemeral":
                reading.missing.append(shape.field)
            else:
                raw = documents.get(shape.name, {})
                self._read_container(reading, shape, raw, around)
        reading.missing += volumes.ignored(reading.mounted)
        reading.unmet += volumes.unmet(reading.mounted)
        wrong = self.pod.misfit("linux")
        if wrong is not None:
            fault = FieldFault(wrong[0], "a Windows pod cannot run here", "plan only")
            reading.errors.append(fault_row(self.pod, fault))
        return reading

    def _read_container(
        self,
        reading: PodReading,
        shape: Container,
        raw: Mapping[str, Any],
        around: PodEnvironment,
    ) -> None:
        """Read one container into ``reading``."""
        found = environment(self.document, raw, self.pod, shape, around)
        variables = found.values
        mounted = mounts_of(raw, shape, reading.volumes, variables)
        is_init = shape.role == "init"
        probes, wrong = ((), []) if is_init else probes_of(raw, shape.field)
        read = ReadHooks() if is_init else hooks_of(raw, shape.field)
        faults = [*mounted.faults, *word_faults(raw, shape, variables), *wrong, *read.faults]
        reading.failing += read.failing
        reading.gated += gated_fields(raw, shape.field, around.gates_off)
        reading.errors += [fault_row(self.pod, fault) for fault in faults]
        reading.missing += [*self._missing(raw, shape), *found.missing, *mounted.missing]
        reading.unmet += found.unmet
        reading.mounted |= mounted.volumes
        reading.refusals += mounted.refusals
        made = len(reading.launches)
        self.add_container(reading, shape, raw, variables, mounted)
        reading.launches[made:] = [
            replace(launch, probes=probes, hooks=read.hooks) for launch in reading.launches[made:]
        ]

    def _missing(self, raw: Mapping[str, Any], shape: Container) -> list[str]:
        """Fields of a container that are not honoured."""
        lifecycle = mapping(raw.get("lifecycle"))
        known = self.container_fields
        if shape.role != "init":
            known |= _PROBES
        names = [name for name in raw if name not in known and raw[name]]
        names += [f"lifecycle.{name}" for name in lifecycle if name not in self.lifecycle_fields]
        resources = mapping(raw.get("resources"))
        if resources.get("claims"):
            names.append("resources.claims")
        limits = mapping(resources.get("limits"))
        names += [f"resources.limits ({name})" for name in limits if not _is_written(name)]
        context = mapping(raw.get("securityContext"))
        names += [f"securityContext.capabilities ({name})" for name in unknown_additions(context)]
        fields = [f"{shape.field}.{name}" for name in names]
        return fields + self.unread(context, f"{shape.field}.securityContext")


def _is_written(resource: str) -> bool:
    """Whether a limit of a resource is the kernel's to hold: disk space and devices are not."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def stop_signal_of(raw: Mapping[str, Any]) -> str:
    """The signal that asks a container to end."""
    return str(mapping(raw.get("lifecycle")).get("stopSignal") or "SIGTERM")


def read(
    pod: Pod,
    document: Mapping[str, Any],
    *,
    around: PodEnvironment | None = None,
    powers: ProcessRights | None = None,
    unconfined: bool = False,
) -> PodSpec:
    """The plain processes of ``pod``, whose manifest is ``document``."""
    return ProcessReader(pod, document, powers or ProcessRights()).read(
        around, unconfined=unconfined
    )


class ProcessReader(WorkloadReader):
    """Reads a pod as processes on this host's file system."""

    pod_fields = WorkloadReader.pod_fields | {"imagePullSecrets"}
    hint = "use a container runtime, or remove it from the manifest"

    def refusals(self, volumes: PodVolumes) -> Sequence[IsolationRefusal]:
        """Isolation that a plain process does not have."""
        return [*pod_refusals(self.document), *volumes.refusals]

    def unread(self, context: Mapping[str, Any], where: str) -> list[str]:
        """Fields of a security context that are not honoured."""
        return unhandled(context, where)

    def remarks(self) -> list[Problem]:
        """What a plain process is not."""
        entries = [
            raw for kind in ("initContainers", "containers") for raw in self.spec.get(kind) or ()
        ]
        images = {str(raw["image"]) for raw in map(mapping, entries) if raw.get("image")}
        instead = f" instead of {', '.join(sorted(images))}" if images else ""
        message = f"runs as plain processes on this host's file system, network and PIDs{instead}"
        rows = [problem_row(self.pod, "info", "spec", message, self._root_hint(entries))]
        if self.seccomp_default:
            message = "seccompDefault: no seccomp profile is loaded for plain processes"
            hint = "run it --with runc, crun or containerd"
            rows.append(problem_row(self.pod, "warning", "spec.securityContext", message, hint))
        return rows

    def _root_hint(self, entries: Sequence[object]) -> str:
        """What to do where a container would be root of this host, whom no cgroup holds."""
        pods = mapping(self.spec.get("securityContext")).get("runAsUser")
        own = (mapping(mapping(raw).get("securityContext")) for raw in entries)
        users = [context.get("runAsUser", pods) for context in own]
        if self.rights.uid or all(users):
            return ""
        return (
            "root can leave its cgroups: set runAsUser, or run it --with runc, crun or containerd"
        )

    def add_container(
        self,
        reading: PodReading,
        shape: Container,
        raw: Mapping[str, Any],
        variables: Mapping[str, str],
        mounted: ContainerMounts,
    ) -> None:
        """Read one container; only an image knows the command of one that gives none."""
        credentials, refused = confine(
            mapping(self.spec.get("securityContext")),
            mapping(raw.get("securityContext")),
            shape.field,
            self.rights,
        )
        reading.refusals += refused
        if command := words(raw.get("command"), variables):
            argv = (*command, *words(raw.get("args"), variables))
            reading.launches.append(self.process(shape, raw, argv, credentials, variables, mounted))
            return
        of = f" of image {raw['image']}" if raw.get("image") else ""
        message = f"no command: the process runtime cannot read the entrypoint{of}"
        field = f"{shape.field}.command"
        reading.errors.append(problem_row(self.pod, "error", field, message, "set a command"))

    def process(
        self,
        shape: Container,
        raw: Mapping[str, Any],
        argv: tuple[str, ...],
        credentials: Credentials,
        variables: Mapping[str, str],
        mounted: ContainerMounts,
    ) -> ProcessSpec:
        """The process of one container."""
        return ProcessSpec(
            name=shape.name,
            role=shape.role,
            argv=argv,
            env=launch_environment(variables, credentials.uid),
            cwd=str(raw.get("workingDir") or "/"),
            identity=credentials,
            restart=policy_of(self.spec, raw, shape),
            stop_signal=stop_signal_of(raw),
            mounts=tuple(mounted.mounts),
        )
