"""The messages of NRI as values, and back."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from qoslet.core.api.schema import shown
from qoslet.core.cgroup.names import container_path, is_below
from qoslet.core.guest.nri_container import NriContainer, NriUpdate, Unified
from qoslet.host.cri.validation import BadMessage, identifier
from qoslet.host.nri.pb import nri_pb2 as pb


def container_of(pod: pb.PodSandbox, container: pb.Container, root: str) -> NriContainer:
    """A container below the cgroup ``root``. Raises BadMessage where its ID is none."""
    resources = container.linux.resources
    limit = resources.memory.limit.value
    return NriContainer(
        id=identifier(container.id, "Container.id"),
        uid=pod.uid,
        name=container.name,
        pod=shown(f"{pod.namespace}/{pod.name}", 200),
        path=_path(container.linux.cgroups_path, root),
        handler=pod.runtime_handler,
        memory_limit=limit if limit > 0 else None,
        unified=dict(resources.unified),
    )


def containers_of(
    pods: Iterable[pb.PodSandbox], containers: Iterable[pb.Container], root: str
) -> list[NriContainer]:
    """Those whose pod is there and whose ID is one."""
    known, found = {pod.id: pod for pod in pods}, list[NriContainer]()
    for one in containers:
        pod = known.get(one.pod_sandbox_id)
        if pod is None:
            continue
        with suppress(BadMessage):
            found.append(container_of(pod, one, root))
    return found


def _path(text: str, root: str) -> str | None:
    """Where the container's cgroup is; None where that is not below ``root``."""
    try:
        path = container_path(text)
    except ValueError:
        return None
    return path if is_below(path, root) else None


def resources_of(unified: Unified) -> pb.LinuxResources:
    """The resources that set these values and nothing else."""
    return pb.LinuxResources(unified=dict(unified))


def update_of(update: NriUpdate) -> pb.ContainerUpdate:
    """An update that fails alone: what the kernel refuses for one container stops no other."""
    linux = pb.LinuxContainerUpdate(resources=resources_of(update.unified))
    return pb.ContainerUpdate(container_id=update.id, linux=linux, ignore_failure=True)
