"""What the container runtime of a kubelet tells: itself, and the containers of the kubelet's pods.

Source: kubelet kuberuntime/labels.go (``io.kubernetes.*``); CRI ListPodSandbox, ListContainers.
"""

from __future__ import annotations

import asyncio

from qoslet.core.node.running_kubelet.containers import RuntimeContainer, RuntimeSandbox
from qoslet.errors import CannotDo, QosletError
from qoslet.host.cri.calls import CallFailed, Calls, answered
from qoslet.host.cri.pb import cri_pb2 as pb
from qoslet.host.cri.runtime_info import RuntimeFacts, facts_of
from qoslet.host.kubelet.client import AnswerTimes

SECONDS = 6.0
_TIMES = AnswerTimes(SECONDS)
_NAME, _UID = "io.kubernetes.container.name", "io.kubernetes.pod.uid"


def look(
    endpoint: str,
) -> tuple[RuntimeFacts, list[RuntimeSandbox], list[RuntimeContainer]]:
    """The runtime at ``endpoint`` (``unix://...``), the sandboxes and the containers of pods of
    Kubernetes, newest first. It has ``SECONDS`` to answer, shortly after it had not only one. Raises CannotDo."""
    seconds = _TIMES.seconds(endpoint)

    async def ask() -> tuple[RuntimeFacts, list[RuntimeSandbox], list[RuntimeContainer]]:
        calls = Calls(endpoint)
        try:
            async with asyncio.timeout(seconds):
                facts = await facts_of(calls)
                return facts, await _sandboxes(calls), await _containers(calls)
        finally:
            await calls.close()

    try:
        return answered(ask())
    except TimeoutError:
        _TIMES.missed(endpoint, seconds)
        raise CannotDo("the container runtime does not answer in time", where=endpoint) from None
    except CallFailed as error:
        message = f"the container runtime does not answer: {error.message}"
        raise CannotDo(message, where=endpoint) from error
    except QosletError as error:
        raise CannotDo(error.message, where=error.where or endpoint) from error


async def _sandboxes(calls: Calls) -> list[RuntimeSandbox]:
    answer = await calls("ListPodSandbox", pb.ListPodSandboxRequest(), pb.ListPodSandboxResponse)
    return [
        RuntimeSandbox(
            one.id,
            one.metadata.uid,
            one.metadata.namespace,
            one.metadata.name,
            one.state == pb.SANDBOX_READY,
            one.created_at / 1e9,
        )
        for one in sorted(answer.items, key=lambda one: -one.created_at)
        if _UID in one.labels
    ]


async def _containers(calls: Calls) -> list[RuntimeContainer]:
    answer = await calls("ListContainers", pb.ListContainersRequest(), pb.ListContainersResponse)
    return [
        RuntimeContainer(
            one.id,
            one.labels.get(_UID, ""),
            one.labels[_NAME],
            one.state == pb.CONTAINER_RUNNING,
            one.state == pb.CONTAINER_CREATED,
        )
        for one in sorted(answer.containers, key=lambda one: -one.created_at)
        if _NAME in one.labels
    ]
