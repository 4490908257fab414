"""Has a runtime take values out of containers that its plugin set there: it keeps them in the container's
spec, and writes all of the spec with each change of the container's resources.

It is asked over the CRI, as the kubelet asks it; what a request leaves out stays as it is. NRI's own
UpdateContainers would do the same, and may stop the runtime (containerd issue 13733).
Source: CRI UpdateContainerResources, ContainerStatus (verbose); containerd cri opts.WithResources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct, field

from qoslet.core.api.schema import DECODE_ERRORS
from qoslet.core.guest.nri_container import Unified
from qoslet.errors import QosletError
from qoslet.host.cri.calls import CallFailed, Calls
from qoslet.host.cri.pb import cri_pb2 as pb

CALL_SECONDS = 10.0
WHOLE_SECONDS = 60.0
"""For all containers: less than the 90 s that systemd gives a service to stop."""
CREATION_SECONDS = 1.0
"""A runtime knows a container shortly after its plugins were asked about it."""
AT_ONCE = 4


class _KeptValues(Struct):
    unified: dict[str, str] = field(default_factory=dict)


class _Linux(Struct):
    resources: _KeptValues = field(default_factory=_KeptValues)


class _OciDocument(Struct):
    linux: _Linux = field(default_factory=_Linux)


class _StatusDocument(Struct):
    runtimeSpec: _OciDocument | None = None  # noqa: N815


class CriKeptValues:
    """Matches ``agent.nri.ports.KeptValues``. ``find`` names the socket of the runtime
    (``unix://...``), or raises QosletError."""

    def __init__(self, find: Callable[[], str]) -> None:
        self._find = find

    def give_back(self, values: Mapping[str, Unified]) -> dict[str, str]:
        """Have containers, by ID, keep these values where their spec has others; why each that failed
        has not. One that is gone has not failed."""
        try:
            return asyncio.run(_give_back(self._find(), values))
        except QosletError as error:
            return dict.fromkeys(values, str(error))


async def _give_back(endpoint: str, values: Mapping[str, Unified]) -> dict[str, str]:
    """Raises CallFailed where nobody answers."""
    calls, room = Calls(endpoint), asyncio.Semaphore(AT_ONCE)
    failed = dict.fromkeys(values, f"{endpoint}: no answer within {WHOLE_SECONDS:g} s")
    unknown = set[str]()

    async def one(id: str) -> None:
        async with room:
            try:
                await _put(calls, id, values[id])
            except QosletError as error:
                if not (isinstance(error, CallFailed) and error.code == "NOT_FOUND"):
                    failed[id] = str(error)
                    return
                unknown.add(id)
            failed.pop(id, None)

    try:
        await calls.open()
        async with asyncio.timeout(WHOLE_SECONDS):
            await asyncio.gather(*map(one, values))
            if unknown:
                await asyncio.sleep(CREATION_SECONDS)
                await asyncio.gather(*map(one, tuple(unknown)))
    except TimeoutError:
        return failed
    finally:
        await calls.close()
    return failed


async def _put(calls: Calls, id: str, back: Unified) -> None:
    """Raises CallFailed, BadMessage."""
    asked = pb.ContainerStatusRequest(container_id=id, verbose=True)
    told = await calls("ContainerStatus", asked, pb.ContainerStatusResponse, CALL_SECONDS)
    has = _unified(told.info.get("info", ""))
    wanted = {
        file: value for file, value in back.items() if has is None or has.get(file, value) != value
    }
    if wanted:
        linux = pb.LinuxContainerResources(unified=wanted)
        change = pb.UpdateContainerResourcesRequest(container_id=id, linux=linux)
        await calls("UpdateContainerResources", change, pb.Empty, CALL_SECONDS)


def _unified(info: str) -> Unified | None:
    """What the spec of a container has, as containerd and CRI-O tell it; None where they do not."""
    try:
        spec = msgspec.json.decode(info, type=_StatusDocument).runtimeSpec
    except DECODE_ERRORS:
        return None
    return None if spec is None else spec.linux.resources.unified
