"""Runs the plugin of the container runtime as the command line asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.agent.nri.planned_values import WAIT_SECONDS, PlannedValues
from qoslet.agent.nri.plugin import NriPlugin
from qoslet.agent.nri.plugin_loop import PluginParts, PluginReconciler
from qoslet.app.agent.service import Log, log_on_stderr
from qoslet.app.guest.machine import location_of
from qoslet.app.guest.run import GuestOptions, inputs_of
from qoslet.app.node.found_node import runtime_endpoint
from qoslet.core.cgroup.names import DEFAULT_POINT
from qoslet.errors import CannotDo
from qoslet.host.linux.clock import Signals, WakingClock
from qoslet.host.linux.descriptors import owned
from qoslet.host.linux.procfs import text
from qoslet.host.machine.installed import is_installed
from qoslet.host.machine.thread_priority import ThreadPriority, lacking_priority
from qoslet.host.state.folder import own_state_directory
from qoslet.host.systemd.sd_notify import Notifier

if TYPE_CHECKING:
    from qoslet.agent.nri.ports import KeptValues
    from qoslet.app.guest.node_inputs import NodeInputs
    from qoslet.app.node.found_node import KubeletOptions
    from qoslet.app.tree import TreeLocation
    from qoslet.core.guest.nri_container import Unified


SWITCH_SECONDS = 0.0005
"""How long one thread may go on while another waits for the interpreter."""

_UNITS = (
    "containers that exist are left to qoslet agent: with the systemd driver their values are "
    "properties of units"
)


class NriOptions(Struct, frozen=True, kw_only=True):
    """What a user decides about the plugin; ``socket`` None: where runtimes listen. ``index`` orders
    plugins, two digits. ``endpoint`` is the runtime's CRI socket, None: the kubelet's configuration
    names it."""

    socket: str | None = None
    index: str = "99"
    endpoint: str | None = None


class Wakeup:
    """Ends the loop's wait, from any thread."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def __call__(self) -> None:
        os.eventfd_write(self.descriptor, 1)

    def drain(self) -> None:
        """Take note of the wake-ups so far."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)

    def close(self) -> None:
        """Wake nobody any more."""
        os.close(self.descriptor)


class PluginService:
    """Matches ``agent.nri.ports.PluginSurface``."""

    def __init__(self, log: Log, notifier: Notifier, wakeup: Wakeup) -> None:
        self._log = log
        self._notifier = notifier
        self._wakeup = wakeup
        self._is_ready = False

    def synced(self, summary: str) -> None:
        """The loop has turned."""
        self._wakeup.drain()
        self._notifier.alive()
        self._notifier.status(summary)
        if not self._is_ready:
            self._is_ready = True
            self._notifier.ready(summary)
            self._log.line("info", summary)

    def log(self, line: str, *, wrong: bool = False) -> None:
        """One line, from any thread."""
        self._log.line("warning" if wrong else "info", line)

    def warn(self, line: str) -> None:
        """What went wrong, from any thread."""
        self.log(line, wrong=True)


def check(options: NriOptions) -> str:
    """Whether a runtime with NRI listens; the line that says so. Raises CannotDo with what to do."""
    from qoslet.host.nri.link import SOCKET
    from qoslet.host.nri.link import check as check_socket

    path = options.socket or SOCKET
    check_socket(path)
    return f"a runtime with NRI listens at {path}"


def run(options: GuestOptions, nri: NriOptions) -> None:
    """Run the plugin until it is told to end. Raises QosletError."""
    if os.geteuid() != 0:
        raise CannotDo("the plugin of a runtime needs root's rights", hint="run it as root")
    needs_protobuf()
    # an answer waits for no more than this of a plan that is being made
    sys.setswitchinterval(SWITCH_SECONDS)
    with ExitStack() as rest:
        inputs = rest.enter_context(inputs_of(options))
        location = location_of(inputs.current())
        mount = needs_v2(location)
        log = rest.enter_context(log_on_stderr(options.log_format))
        notifier = Notifier(os.environ)
        rest.callback(notifier.close)
        wakeup = rest.enter_context(closing(Wakeup()))
        signals = rest.enter_context(Signals(hangs_up=False))
        clock = WakingClock(signals, inputs.descriptors)
        clock.further.append(wakeup.descriptor)
        if notifier.watchdog_seconds is not None:
            clock.longest = notifier.watchdog_seconds / 4
        service = PluginService(log, notifier, wakeup)
        specs = KeptByRuntime(nri.endpoint, options.kubelet)
        made = partial(_parts, location, nri, inputs, wakeup, specs)
        parts = rest.enter_context(made(CgroupFiles(mount), clock, service))
        PluginReconciler(parts).run(signals, keep=options.keep, seconds=options.seconds)


@contextmanager
def _parts(
    location: TreeLocation,
    nri: NriOptions,
    inputs: NodeInputs,
    wakeup: Wakeup,
    specs: KeptValues,
    cgroups: CgroupFiles,
    clock: WakingClock,
    service: PluginService,
) -> Iterator[PluginParts]:
    """The plugin with its journal and its connection. Raises CannotDo where another plugin runs."""
    from qoslet.host.nri.link import SOCKET, NriLink
    from qoslet.host.nri.plugin_journal import PluginJournal

    if lacks := lacking_priority():
        service.log(f"callbacks may wait for a CPU on a busy node: {lacks}")
    root, state = location.root, own_state_directory()
    with closing(PluginJournal(root, state)) as journal:
        writes = location.driver != "systemd"
        # what is not answered in time would wait for the agent
        planned = (
            PlannedValues(wakeup) if writes else PlannedValues(wakeup, WAIT_SECONDS, WAIT_SECONDS)
        )
        if not writes:
            service.log(_UNITS)
        plugin = NriPlugin(planned, journal, cgroups, specs, service.warn, writes=writes)
        path = nri.socket or SOCKET
        link = NriLink(path, root, nri.index, plugin, service.warn, wakeup)
        with closing(link):
            hurry = ThreadPriority()
            yield PluginParts(plugin, planned, inputs, link, clock, service, hurry)


class KeptByRuntime:
    """Matches ``agent.nri.ports.KeptValues``: of the runtime at ``endpoint``, else of the kubelet's."""

    def __init__(self, endpoint: str | None, kubelet: KubeletOptions) -> None:
        self._endpoint = endpoint
        self._kubelet = kubelet

    def give_back(self, values: Mapping[str, Unified]) -> Mapping[str, str]:
        """Have containers keep these values; why each that failed has not."""
        if not is_installed("grpc"):
            return dict.fromkeys(values, "grpcio is not installed")
        from qoslet.host.nri.kept_values import CriKeptValues

        return CriKeptValues(self._find).give_back(values)

    def _find(self) -> str:
        if self._endpoint is None:
            return runtime_endpoint(self._kubelet)
        return f"unix://{self._endpoint.removeprefix('unix://')}"


class CgroupFiles:
    """Matches ``agent.nri.ports.CgroupValues``, below a mount of cgroup v2."""

    def __init__(self, mount: str) -> None:
        self._mount = mount

    def read(self, path: str, files: Iterable[str]) -> dict[str, str]:
        """What those of the files hold that can be read."""
        found = {file: text(f"{self._mount}{path}/{file}") for file in files}
        return {file: value.strip() for file, value in found.items() if value is not None}

    def write(self, path: str, file: str, value: str) -> None:
        """Write a file that is there. Raises OSError."""
        with owned(
            os.open(f"{self._mount}{path}/{file}", os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        ) as descriptor:
            os.write(descriptor, value.encode())


def needs_v2(location: TreeLocation) -> str:
    """Where cgroup v2 is mounted. Raises CannotDo on v1, and where the tree has no memory
    controller."""
    if location.hierarchy != "v2":
        raise CannotDo(
            "cgroup v1 has no values that a runtime could set at creation",
            hint="use qoslet agent alone, or boot with cgroup v2",
        )
    mount = location.mounts.get("unified") or DEFAULT_POINT
    place = f"{mount}{location.root}"
    if os.path.isdir(place) and not os.path.exists(f"{place}/memory.high"):
        raise CannotDo("the memory controller is not enabled", where=place, hint="qoslet doctor")
    return mount


def needs_protobuf() -> None:
    """Raise CannotDo where what NRI needs is not installed."""
    if not is_installed("google.protobuf"):
        hint = "pipx inject qoslet protobuf; in a venv: pip install 'qoslet[cri]'"
        raise CannotDo("NRI needs protobuf", hint=hint)
