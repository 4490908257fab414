"""A container as its runtime sees it."""

from __future__ import annotations

from msgspec import Struct

from qoslet.core.workload.hook_spec import HookKind


class ContainerState(Struct, frozen=True, gc=False, omit_defaults=True):
    """A container as its runtime sees it. ``exit_code`` is set once it ended; ``oom_killed``
    tells that the kernel killed it at its memory limit. ``started_at`` and ``finished_at`` are
    wall-clock seconds of the last start and the last end, ``log`` is the file of its output.
    ``message`` is a sentence for people about the reason. ``end_reason`` is that of the last end, also
    while it runs again. ``backoff`` is how many seconds after its
    end it starts again, 0 for one that does not wait to. ``starting``: there is a process, which does
    not execute the command yet, or whose ``postStart`` has not ended. ``ready`` is what its probes say, None: as it runs; ``unhealthy`` is
    what they say in words. ``probe_kills`` counts how often one had it ended, ``killing`` tells the last in words,
    ``probe_ended`` whether the last end was such a one. ``failed_hooks`` are the hooks of
    this run that failed, in words. ``awaits_cgroup``: it starts as soon as its cgroup was created
    again. ``not_updated`` says why a container that runs does not have its planned resources yet,
    where the runtime writes them."""

    pod_uid: str
    name: str
    cgroup: str
    running: bool
    pid: int | None = None
    exit_code: int | None = None
    restarts: int = 0
    reason: str = ""
    oom_killed: bool = False
    started_at: float | None = None
    finished_at: float | None = None
    log: str = ""
    message: str = ""
    backoff: float = 0.0
    starting: bool = False
    ready: bool | None = None
    unhealthy: tuple[str, ...] = ()
    probe_kills: int = 0
    killing: str = ""
    probe_ended: bool = False
    end_reason: str = ""
    failed_hooks: tuple[tuple[HookKind, str], ...] = ()
    awaits_cgroup: bool = False
    not_updated: str = ""
