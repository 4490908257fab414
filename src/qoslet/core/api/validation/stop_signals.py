"""Which stop signals a container may name, by the operating system of its pod.

Source: KEP-4960, Cross validation with Pod spec.os.name.
"""

from __future__ import annotations

from typing import Any

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.schema import shown
from qoslet.core.api.validation.fields import Fields

_PLAIN = """
    SIGABRT SIGALRM SIGBUS SIGCHLD SIGCLD SIGCONT SIGFPE SIGHUP SIGILL SIGINT SIGIO SIGIOT SIGKILL
    SIGPIPE SIGPOLL SIGPROF SIGPWR SIGQUIT SIGSEGV SIGSTKFLT SIGSTOP SIGSYS SIGTERM SIGTRAP SIGTSTP
    SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ SIGRTMIN SIGRTMAX
"""
_LINUX = (
    *_PLAIN.split(),
    *(f"SIGRTMIN+{number}" for number in range(1, 16)),
    *(f"SIGRTMAX-{number}" for number in range(1, 15)),
)
_WINDOWS = ("SIGKILL", "SIGTERM")


def stop_signal(lifecycle: Any, path: str, faults: list[FieldFault], system: str | None) -> None:
    """The stop signal of the container whose ``lifecycle`` stands at ``path``; ``system`` is the
    ``spec.os.name`` of its pod. Where that is missing, an API server refuses the field or, with
    ContainerStopSignals off, drops it; here the pod counts as one of Linux, which pods of earlier
    releases of qoslet rely on."""
    if not isinstance(lifecycle, dict) or not isinstance(lifecycle.get("stopSignal"), str):
        return
    given = Fields(lifecycle, path, faults)
    known = _WINDOWS if system == "windows" else _LINUX
    if not lifecycle["stopSignal"]:
        given.refuse("stopSignal", "is empty", "remove it, or name a signal such as SIGTERM")
    elif lifecycle["stopSignal"] not in known:
        name = lifecycle["stopSignal"]
        near = [one for one in known if one == f"SIG{name.upper().removeprefix('SIG')}"]
        allowed = "SIGKILL, SIGTERM" if known is _WINDOWS else "names such as SIGQUIT, SIGRTMIN+3"
        given.refuse(
            "stopSignal",
            f"{shown(name, 60)!r} is not a stop signal of a {'windows' if known is _WINDOWS else 'linux'} pod",
            f"did you mean {near[0]}?" if near else f"use one of {allowed}",
        )
