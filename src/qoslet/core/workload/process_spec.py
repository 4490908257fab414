"""A pod as a runtime gets it: the process of each container, and what the containers share."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.pod import Role
from qoslet.core.problem import Problem
from qoslet.core.workload.config.references import UnmetReference
from qoslet.core.workload.container_spec import ContainerSpec, OciPod, PodMessages, Sandbox
from qoslet.core.workload.fields import RestartPolicy as RestartPolicy
from qoslet.core.workload.folders.types import FolderVolume
from qoslet.core.workload.hook_spec import Hook, HookKind
from qoslet.core.workload.probe_spec import Kind as ProbeKind
from qoslet.core.workload.probe_spec import Probe
from qoslet.core.workload.security.context import Credentials
from qoslet.core.workload.volumes import MemoryVolume as MemoryVolume
from qoslet.core.workload.volumes import VolumeMount as VolumeMount

PodVolume = MemoryVolume | FolderVolume
"""A volume of any kind that is made."""


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
    probes: tuple[Probe, ...] = ()
    hooks: tuple[Hook, ...] = ()

    def has_probe(self, kind: ProbeKind) -> bool:
        """Whether it has a probe of this kind."""
        return any(probe.kind == kind for probe in self.probes)

    def hook(self, kind: HookKind) -> Hook | None:
        """Its hook of this kind; None where it has none."""
        return next((hook for hook in self.hooks if hook.kind == kind), None)


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
    """What a runtime is to tell again of the pod that it keeps (``RuntimePod.allocation``)."""
    sandbox: Sandbox | None = None
    messages: PodMessages | None = None
    """The planned resources, for a runtime that writes the groups of containers itself."""
    bundles: OciPod | None = None
    """The same for an OCI runtime, with the program and its images."""
    manifest: str = ""
    """The file that it comes from, as ``memo``."""
    folders: tuple[FolderVolume, ...] = ()
    """The volumes that are no tmpfs for data, until they are made (``sourced``): no runtime gets
    what is in them."""
    asked_volumes: tuple[str, ...] = ()
    """What the manifest says of them."""
    from_config: bool = False
    """Whether variables come from ConfigMaps or Secrets, as they are now: later starts of its
    containers may get others."""
    unmet: tuple[UnmetReference, ...] = ()
    """What the input lacks: as long as there is any, the pod does not start, and one that runs
    stays as it is."""

    def launch(self, name: str) -> ProcessSpec:
        """The container of that name."""
        return next(launch for launch in self.launches if launch.name == name)

    @property
    def roles(self) -> dict[str, Role]:
        """The roles of its containers by their names."""
        return {launch.name: launch.role for launch in self.launches}

    @property
    def runnable(self) -> bool:
        """Whether the pod may be started."""
        return bool(self.launches) and all(p.severity != "error" for p in self.problems)

    def without_variables(self) -> PodSpec:
        """The same pod without any variable, for places that others may read."""
        launches = tuple(
            replace(
                launch,
                env=(),
                contained=launch.contained and replace(launch.contained, env=()),
            )
            for launch in self.launches
        )
        return replace(self, launches=launches)

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
            folders=(),
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
        without what changes in place (``oom_score_adj``, sizes, files, variables from resources and
        objects) or is this host's (sources)."""
        if self.steady:
            return self.steady
        # it loads OpenSSL: 4 MB for who never asks
        from hashlib import sha256

        plain = self.scored({}).sourced(dict.fromkeys(self._mounted(), "")).unprobed()
        names = sorted(volume.name for volume in self.volumes)
        parts = [names, plain.launches, *([] if self.sandbox is None else [self.sandbox])]
        parts += self.asked_volumes
        text = msgspec.json.encode(parts, order="deterministic")
        return sha256(text).hexdigest()[:32]

    def unprobed(self) -> PodSpec:
        """The same pod without probes and hooks, which change in place."""
        launches = tuple(replace(one, probes=(), hooks=()) for one in self.launches)
        return replace(self, launches=launches)

    def _mounted(self) -> list[str]:
        """The volumes that any launch mounts."""
        return [mount.volume for launch in self.launches for mount in launch.mounts]
