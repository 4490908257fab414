"""A CRI server of the tests' own: sandboxes and containers that are values, answers as a runtime
gives them, or as no runtime should.

It takes after CRI-O where ``name`` says so: its refusal of the other driver's parents, its minimum
of memory, its errors. What is not here, such as processes, is told by the test.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from qoslet.host.cri.pb import cri_pb2 as pb

MIB = 1 << 20


class No(Exception):
    """A refusal with its code."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class CriServer(grpc.GenericRpcHandler):
    """``asked`` are the requests, ``answers`` take the place of a method's answer once or, with
    ``always``, each time: bytes, or an exception."""

    def __init__(self, folder: Any, name: str = "containerd", version: str = "1.7.24") -> None:
        self.endpoint = f"unix://{folder}/cri.sock"
        self.name, self.version = name, version
        self.versions = {"v1"}
        self.driver: pb.CgroupDriver | None = None
        self.config = ""
        self.events = True
        self.network = True
        self.least = 12 * MIB if name == "cri-o" else 0
        self.images = {"localhost/app:1"}
        self.commands: dict[str, tuple[int, bytes]] = {}
        """What ExecSync answers by the command's first word: its exit code and output."""
        self.asked: list[tuple[str, Any]] = []
        self.heard: set[str] = set()
        """Methods that were called, those too whose answer is held."""
        self.once: dict[str, list[bytes | Exception]] = {}
        self.always: dict[str, bytes | Exception] = {}
        self.boxes: dict[str, pb.PodSandbox] = {}
        self.containers: dict[str, pb.ContainerStatus] = {}
        self.configs: dict[str, pb.ContainerConfig] = {}
        self.resources: dict[str, list[pb.LinuxContainerResources]] = {}
        self.owners: dict[str, str] = {}
        self.turning = threading.Event()
        """Answers wait until it is set: a runtime that hangs, or was stopped with a signal."""
        self.turning.set()
        self.held = ""
        """A method whose answers wait while it stands here."""
        self.stubborn = threading.Event()
        """Containers do not end while this is set, except killed."""
        self.sandbox_pid = 0
        """The process that a verbose status of any sandbox tells."""
        self._count = 0
        self._lock = threading.RLock()
        self._listeners: list[queue.Queue[pb.ContainerEventResponse | None]] = []
        self._server: grpc.Server | None = None

    def __enter__(self) -> CriServer:
        self.begin()
        return self

    def begin(self) -> None:
        """Listen."""
        self._server = grpc.server(ThreadPoolExecutor(16), handlers=[self])
        assert self._server.add_insecure_port(self.endpoint)
        self._server.start()

    def end(self) -> None:
        """Hang up on everybody."""
        self.turning.set()
        self.held = ""
        self.stubborn.clear()
        for one in self._listeners:
            one.put(None)
        self._listeners.clear()
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None

    def __exit__(self, *_: object) -> None:
        self.end()

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        """The handler of a method."""
        _, service, method = details.method.split("/")
        version = service.split(".")[1]
        if version not in self.versions:
            return None
        if method == "GetContainerEvents":
            return grpc.unary_stream_rpc_method_handler(self._follow) if self.events else None
        does = getattr(self, "_" + re.sub(r"(?<!^)(?=[A-Z])", "_", method).lower(), None)
        if does is None or (method == "RuntimeConfig" and self.driver is None):
            return None
        kind = getattr(pb, f"{method}Request", pb.Empty)
        return grpc.unary_unary_rpc_method_handler(
            lambda data, context: self._answer(method, does, kind.FromString(data), context)
        )

    def _answer(self, method: str, does: Callable[[Any], Any], request: Any, context: Any) -> bytes:
        self.turning.wait()
        self.heard.add(method)
        while method in self.held.split():
            time.sleep(0.01)
        with self._lock:
            self.asked.append((method, request))
        if method == "StopContainer" and request.timeout:
            while self.stubborn.is_set() and self._runs(request.container_id):
                time.sleep(0.01)
        with self._lock:
            given = self.once.get(method)
            instead = given.pop(0) if given else self.always.get(method)
            try:
                if isinstance(instead, Exception):
                    raise instead
                return instead if instead is not None else does(request).SerializeToString()
            except No as error:
                context.abort(error.code, str(error))
        raise AssertionError

    def _runs(self, id: str) -> bool:
        one = self.containers.get(id)
        return one is not None and one.state == pb.CONTAINER_RUNNING

    def _follow(self, request: bytes, context: Any) -> Iterator[bytes]:
        mine: queue.Queue[pb.ContainerEventResponse | None] = queue.Queue()
        self._listeners.append(mine)
        while (event := mine.get()) is not None:
            yield event.SerializeToString()

    def exit(self, name: str, code: int = 0, reason: str = "") -> None:
        """The newest container of this name ends."""
        with self._lock:
            id = self.id(name)
            one = self.containers[id]
            one.state, one.exit_code = pb.CONTAINER_EXITED, code
            one.reason = reason or ("Completed" if code == 0 else "Error")
            one.finished_at = one.started_at + 1
            event = pb.ContainerEventResponse(
                container_id=id, container_event_type=pb.CONTAINER_STOPPED_EVENT
            )
            for listener in self._listeners:
                listener.put(event)

    def id(self, name: str) -> str:
        """The newest container of this name."""
        return [id for id, one in self.containers.items() if one.metadata.name == name][-1]

    def _new(self) -> str:
        self._count += 1
        return f"{self._count:064x}"

    def _version(self, request: Any) -> Any:
        return pb.VersionResponse(
            version="0.1.0", runtime_name=self.name, runtime_version=self.version,
            runtime_api_version="v1",
        )  # fmt: skip

    def _status(self, request: Any) -> Any:
        made = pb.StatusResponse()
        made.status.conditions.add(type="RuntimeReady", status=True)
        made.status.conditions.add(
            type="NetworkReady", status=self.network, reason="" if self.network else "NoCni",
            message="" if self.network else "no network plugin",
        )  # fmt: skip
        if request.verbose:
            made.info["config"] = self.config
        return made

    def _runtime_config(self, request: Any) -> Any:
        made = pb.RuntimeConfigResponse()
        assert self.driver is not None
        made.linux.cgroup_driver = self.driver
        return made

    def _run_pod_sandbox(self, request: Any) -> Any:
        config = request.config
        slices = config.linux.cgroup_parent.endswith(".slice")
        if self.name == "cri-o" and slices != (self.driver == pb.SYSTEMD):
            mine = "systemd" if self.driver == pb.SYSTEMD else "cgroupfs"
            got = "received systemd slice" if slices else "did not receive slice"
            raise No(
                grpc.StatusCode.UNKNOWN,
                f"cri-o configured with {mine} cgroup manager, but {got} as parent: "
                f"{config.linux.cgroup_parent}",
            )
        id = self._new()
        self.boxes[id] = pb.PodSandbox(
            id=id, metadata=config.metadata, state=pb.SANDBOX_READY, created_at=self._count,
            labels=config.labels, annotations=config.annotations,
        )  # fmt: skip
        return pb.RunPodSandboxResponse(pod_sandbox_id=id)

    def _stop_pod_sandbox(self, request: Any) -> Any:
        if request.pod_sandbox_id in self.boxes:
            self.boxes[request.pod_sandbox_id].state = pb.SANDBOX_NOTREADY
        return pb.Empty()

    def _remove_pod_sandbox(self, request: Any) -> Any:
        self.boxes.pop(request.pod_sandbox_id, None)
        for id in [id for id, box in self.owners.items() if box == request.pod_sandbox_id]:
            self.containers.pop(id, None)
        return pb.Empty()

    def _pod_sandbox_status(self, request: Any) -> Any:
        box = self.boxes.get(request.pod_sandbox_id)
        if box is None:
            raise No(grpc.StatusCode.NOT_FOUND, "no such sandbox")
        status = pb.PodSandboxStatus(
            id=box.id, metadata=box.metadata, state=box.state, created_at=box.created_at,
            labels=box.labels, annotations=box.annotations,
            network=pb.PodSandboxNetworkStatus(ip="127.0.0.2"),
        )  # fmt: skip
        told = request.verbose and self.sandbox_pid
        info = {"info": f'{{"pid": {self.sandbox_pid}}}'} if told else {}
        return pb.PodSandboxStatusResponse(status=status, info=info)

    def _exec_sync(self, request: Any) -> Any:
        if request.cmd[0] not in self.commands:
            raise No(grpc.StatusCode.UNKNOWN, f"failed to exec in container: {request.cmd[0]!r}")
        code, output = self.commands[request.cmd[0]]
        return pb.ExecSyncResponse(exit_code=code, stdout=output)

    def _list_pod_sandbox(self, request: Any) -> Any:
        wanted = dict(request.filter.label_selector).items()
        found = [one for one in self.boxes.values() if wanted <= dict(one.labels).items()]
        return pb.ListPodSandboxResponse(items=found)

    def _create_container(self, request: Any) -> Any:
        config = request.config
        limit = config.linux.resources.memory_limit_in_bytes
        if 0 < limit < self.least:
            raise No(
                grpc.StatusCode.UNKNOWN,
                f"set memory limit {limit} too low; should be at least {self.least} bytes",
            )
        if any(
            one.labels == config.labels and one.metadata == config.metadata
            for one in self.containers.values()
        ):
            raise No(grpc.StatusCode.UNKNOWN, "failed to reserve container name")
        id = self._new()
        self.owners[id] = request.pod_sandbox_id
        self.configs[id] = config
        self.resources[id] = [config.linux.resources]
        self.containers[id] = pb.ContainerStatus(
            id=id, metadata=config.metadata, state=pb.CONTAINER_CREATED, created_at=self._count,
            labels=config.labels,
        )  # fmt: skip
        return pb.CreateContainerResponse(container_id=id)

    def _start_container(self, request: Any) -> Any:
        one = self._container(request.container_id)
        if one.state != pb.CONTAINER_CREATED:
            raise No(grpc.StatusCode.UNKNOWN, "the container is not in CONTAINER_CREATED state")
        one.state, one.started_at = pb.CONTAINER_RUNNING, 10**18 + self._count
        return pb.Empty()

    def _stop_container(self, request: Any) -> Any:
        one = self._container(request.container_id)
        if one.state == pb.CONTAINER_RUNNING:
            self.exit(one.metadata.name, 143)
        return pb.Empty()

    def _remove_container(self, request: Any) -> Any:
        self.containers.pop(request.container_id, None)
        return pb.Empty()

    def _container_status(self, request: Any) -> Any:
        return pb.ContainerStatusResponse(status=self._container(request.container_id))

    def _list_containers(self, request: Any) -> Any:
        made = pb.ListContainersResponse()
        wanted = dict(request.filter.label_selector).items()
        for id, one in self.containers.items():
            box = self.owners[id]
            if request.filter.pod_sandbox_id in ("", box) and wanted <= dict(one.labels).items():
                made.containers.add(
                    id=id, pod_sandbox_id=box, metadata=one.metadata, state=one.state,
                    created_at=one.created_at, labels=one.labels,
                )  # fmt: skip
        return made

    def _reopen_container_log(self, request: Any) -> Any:
        self._container(request.container_id)
        return pb.Empty()

    def _update_container_resources(self, request: Any) -> Any:
        self._container(request.container_id)
        self.resources[request.container_id].append(request.linux)
        return pb.Empty()

    def _image_status(self, request: Any) -> Any:
        made = pb.ImageStatusResponse()
        if request.image.image in self.images:
            made.image.id = f"sha256:{request.image.image}"
        return made

    def _pull_image(self, request: Any) -> Any:
        if "none" in request.image.image:
            raise No(grpc.StatusCode.NOT_FOUND, f"{request.image.image}: not found")
        self.images.add(request.image.image)
        return pb.PullImageResponse(image_ref=request.image.image)

    def _container(self, id: str) -> Any:
        if id not in self.containers:
            raise No(grpc.StatusCode.NOT_FOUND, "no such container")
        return self.containers[id]
