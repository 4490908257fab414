"""One registration with a runtime: its events as calls of a plugin, whose answers change nothing where
anything goes wrong, so that no container is refused because of it.

The plugin answers, and never asks for updates by itself: runtimes deadlock (containerd issue 13733).
A runtime waits for each answer, at most its plugin_request_timeout, and closes the connection of a
plugin that is late. An error as the answer would fail the container's creation, so none is ever sent.
Source: containerd/nri pkg/adaptation.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from qoslet.core.guest.nri_container import NO_VALUES, NriContainer, NriUpdate, Unified
from qoslet.errors import QosletError
from qoslet.host.cri.validation import BadMessage, parsed
from qoslet.host.nri.connection import Connection
from qoslet.host.nri.messages import container_of, containers_of, resources_of, update_of
from qoslet.host.nri.pb import nri_pb2 as pb

NAME = "qoslet"
REGISTER_SECONDS = 5.0
"""As the runtime's plugin_registration_timeout."""
LATE_SECONDS = 1.0
"""A callback that takes longer is said; the runtime gives up after 2 s."""
MOST_CONTAINERS = 20_000
"""Of one synchronization, whose messages are kept until the last has come."""

_RUNTIME, _PLUGIN = "nri.pkg.api.v1alpha1.Runtime", "nri.pkg.api.v1alpha1.Plugin"
_EVENTS = (
    pb.RUN_POD_SANDBOX,
    pb.CREATE_CONTAINER,
    pb.UPDATE_CONTAINER,
    pb.POST_UPDATE_CONTAINER,
    pb.REMOVE_CONTAINER,
)
_MASK = sum(1 << (event - 1) for event in _EVENTS)

M = TypeVar("M", bound=Message)


class PluginHandler(Protocol):
    """What decides. All is called in the session's thread; what it raises is logged, and nothing is
    set."""

    def synchronized(self, containers: Sequence[NriContainer]) -> None:
        """Every container that there is."""

    def pod_started(self) -> None:
        """A pod has its sandbox: its containers are created next."""

    def created(self, container: NriContainer) -> Unified:
        """What to set in a container that is being created."""

    def updated(self, container: NriContainer, taken: Unified) -> Unified:
        """What to set in a container whose resources the kubelet changes; ``taken`` is set by others,
        ``memory_limit`` is the new one."""

    def written(self, id: str) -> None:
        """The runtime has written the resources of a container after ``updated``."""

    def removed(self, id: str) -> None:
        """A container is gone."""


class RuntimeSession:
    """From the registration to the end of the connection. ``log`` and ``ended`` are called in its
    thread."""

    def __init__(
        self,
        sock: socket.socket,
        root: str,
        index: str,
        handler: PluginHandler,
        log: Callable[[str], None],
        ended: Callable[[str], None],
    ) -> None:
        self._root = root
        self._handler = handler
        self._log = log
        self._synchronizing = pb.SynchronizeRequest()
        self._methods: dict[str, Callable[[bytes], Message]] = {
            "Configure": self._configure,
            "Synchronize": self._synchronize,
            "CreateContainer": self._create,
            "UpdateContainer": self._update,
            "PostUpdateContainer": self._post_update,
            "RunPodSandbox": self._run_pod,
            "RemoveContainer": self._remove,
            "StateChange": self._state_change,
        }
        self._connection = Connection(sock, self._serve, ended)
        request = pb.RegisterPluginRequest(plugin_name=NAME, plugin_idx=index)
        try:
            self._call("RegisterPlugin", request, REGISTER_SECONDS)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """End the registration."""
        self._connection.close()

    def _call(self, method: str, request: Message, seconds: float) -> bytes:
        return self._connection.call(_RUNTIME, method, request.SerializeToString(), seconds)

    def _serve(self, service: str, method: str, payload: bytes) -> bytes:
        """Answer a call; nothing (which is an empty answer of any method) where that fails."""
        begun = time.monotonic()
        handle = self._methods.get(method) if service == _PLUGIN else None
        if handle is None:
            return b""
        try:
            answer = handle(payload).SerializeToString()
        except (QosletError, OSError) as error:
            self._log(f"{method}: nothing is set: {error}")
            return b""
        except Exception as error:  # noqa: BLE001 (whatever it is, the container is created)
            self._log(
                f"{method}: nothing is set, a fault of qoslet: {type(error).__name__}: {error}"
            )
            return b""
        took = time.monotonic() - begun
        if took > LATE_SECONDS:
            self._log(f"{method} took {took:.1f} s, the runtime waits 2 s by default")
        return answer

    def _configure(self, payload: bytes) -> Message:
        parsed(pb.ConfigureRequest, payload)
        return pb.ConfigureResponse(events=_MASK)

    def _synchronize(self, payload: bytes) -> Message:
        part = parsed(pb.SynchronizeRequest, payload)
        whole = self._synchronizing
        whole.pods.extend(part.pods)
        whole.containers.extend(part.containers)
        if len(whole.pods) + len(whole.containers) > MOST_CONTAINERS:
            self._synchronizing = pb.SynchronizeRequest()
            raise BadMessage(f"more than {MOST_CONTAINERS} pods and containers")
        if part.more:
            return pb.SynchronizeResponse(more=True)
        self._synchronizing = pb.SynchronizeRequest()
        found = containers_of(whole.pods, whole.containers, self._root)
        self._handler.synchronized(found)
        return pb.SynchronizeResponse()

    def _create(self, payload: bytes) -> Message:
        asked = parsed(pb.CreateContainerRequest, payload)
        unified = self._handler.created(container_of(asked.pod, asked.container, self._root))
        if not unified:
            return pb.CreateContainerResponse()
        linux = pb.LinuxContainerAdjustment(resources=resources_of(unified))
        return pb.CreateContainerResponse(adjust=pb.ContainerAdjustment(linux=linux))

    def _update(self, payload: bytes) -> Message:
        asked = parsed(pb.UpdateContainerRequest, payload)
        limit = asked.linux_resources.memory.limit.value
        if limit > 0:
            asked.container.linux.resources.memory.limit.value = limit
        container = container_of(asked.pod, asked.container, self._root)
        taken = dict(asked.linux_resources.unified)
        unified = self._handler.updated(container, taken or NO_VALUES)
        if not unified:
            return pb.UpdateContainerResponse()
        return pb.UpdateContainerResponse(update=[update_of(NriUpdate(container.id, unified))])

    def _run_pod(self, _payload: bytes) -> Message:
        self._handler.pod_started()
        return pb.UpdateContainerResponse()

    def _post_update(self, payload: bytes) -> Message:
        self._handler.written(parsed(pb.PostUpdateContainerRequest, payload).container.id)
        return pb.UpdateContainerResponse()

    def _remove(self, payload: bytes) -> Message:
        self._handler.removed(parsed(pb.RemoveContainerRequest, payload).container.id)
        return pb.UpdateContainerResponse()

    def _state_change(self, payload: bytes) -> Message:
        """Runtimes before NRI 0.10 tell all that needs no answer in this way."""
        told = parsed(pb.StateChangeEvent, payload)
        if told.event == pb.RUN_POD_SANDBOX:
            self._handler.pod_started()
        elif told.event == pb.POST_UPDATE_CONTAINER:
            self._handler.written(told.container.id)
        elif told.event == pb.REMOVE_CONTAINER:
            self._handler.removed(told.container.id)
        return pb.UpdateContainerResponse()
