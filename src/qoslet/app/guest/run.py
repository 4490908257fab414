"""Runs the agent beside a kubelet as the command line asks for it, or says what it would write."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.agent.guest.guest_loop import run as run_loop
from qoslet.app.guest.file_pods import FilePods
from qoslet.app.guest.machine import joined
from qoslet.app.guest.node_inputs import NodeInputs
from qoslet.app.guest.policy_file import PolicyFile, is_strict
from qoslet.app.guest.serve import serving
from qoslet.app.node.found_node import KubeletOptions, find_node
from qoslet.app.node.sources.pod_source import Choice, pod_source
from qoslet.core.guest.policy_document import NO_FLAGS, PolicyFlags
from qoslet.core.node.flags import Flags
from qoslet.errors import CannotDo
from qoslet.host.cluster.client_library import ClusterAccess
from qoslet.host.files.watched_node import NodeFiles
from qoslet.host.linux.clock import Signals, WakingClock
from qoslet.host.linux.descriptors import raise_limit
from qoslet.host.questions.http_server import listen

if TYPE_CHECKING:
    from qoslet.app.agent.service import LogFormat
    from qoslet.core.node.running_kubelet.pods_reading import PodSource

SOURCES: tuple[Choice, ...] = ("auto", "kubelet", "api", "cri")
"""Values of ``--pods-from``; others name a file."""


class GuestOptions(Struct, frozen=True, kw_only=True):
    """What a user decides about an agent beside a kubelet. ``pods_from`` is one of
    ``SOURCES`` or a file; ``documents`` and ``flags`` describe the node."""

    pods_from: str
    documents: Sequence[str]
    flags: Flags
    kubelet: KubeletOptions
    access: ClusterAccess | None
    policy: str | None = None
    policy_flags: PolicyFlags = NO_FLAGS
    interval: float = 10.0
    seconds: float | None = None
    keep: bool = False
    log_format: LogFormat = "text"
    verbose: bool = False
    metrics_address: str | None = None


@contextmanager
def inputs_of(options: GuestOptions) -> Iterator[NodeInputs]:
    """The node that options name. Raises QosletError."""
    strict, find = is_strict(), None
    with ExitStack() as rest:
        paths = [] if options.policy is None else [options.policy]
        files = rest.enter_context(closing(NodeFiles(paths, time.monotonic, strict=strict)))
        policy = PolicyFile(options.policy, options.policy_flags, files)
        choice = next((one for one in SOURCES if one == options.pods_from), None)
        pods: PodSource
        if choice is None:
            pods = FilePods(options.pods_from, strict=strict)
        else:
            if choice != "api" or not options.documents:
                find = partial(find_node, options.kubelet)
            pods = pod_source(choice, options.kubelet, lambda: made.node_name, options.access)
        rest.callback(pods.close)
        made = NodeInputs(options.documents, options.flags, pods, policy, find)
        yield made


def run(
    options: GuestOptions, waiting: Callable[[], AbstractContextManager[None]] = nullcontext
) -> None:
    """Run the agent until it is told to end. ``waiting`` surrounds the first look at the node. Raises
    QosletError."""
    if os.geteuid() != 0:
        hint = "run it as root; qoslet audit --watch needs no more than to read"
        raise CannotDo("the agent beside a kubelet needs root's rights", hint=hint)
    raise_limit()
    with ExitStack() as rest:
        inputs = rest.enter_context(inputs_of(options))
        with waiting():
            view = inputs.current()
        listener = None
        if options.metrics_address is not None:
            listener = rest.enter_context(closing(listen(options.metrics_address)))
        signals = rest.enter_context(Signals(hangs_up=False))
        clock = WakingClock(signals, lambda: made.agent.descriptors())
        access = options.access or ClusterAccess()
        made = rest.enter_context(joined(inputs, clock, view, options.interval, access))
        surface, sockets = rest.enter_context(
            serving(made, clock, options.log_format, listener, verbose=options.verbose)
        )

        def mend() -> None:
            made.mend()
            sockets.mend()

        run_loop(
            made.agent,
            clock,
            signals,
            surface,
            keep=options.keep,
            seconds=options.seconds,
            mend=mend,
        )
