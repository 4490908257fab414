"""What the hooks of a container do to its life.

Source: kubelet kuberuntime_container.go startContainer, killContainer, executePreStopHook; events
FailedPostStartHook and FailedPreStopHook.
"""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.workload.hook_spec import Hook, HookKind
from qoslet.core.workload.life import Life

TEXT_LENGTH = 1024
"""Characters of what a hook or a probe says that are told."""


def hook_began(life: Life, kind: HookKind, now: float) -> Life:
    """A hook runs."""
    if kind == "postStart":
        return replace(life, post_start="running")
    return replace(life, pre_stop="running", pre_stop_at=now)


def hook_wanted(life: Life, kind: HookKind, number: int) -> bool:
    """Whether the end of a hook of the run ``number`` counts: its container runs, and nothing gave it
    up."""
    if kind == "postStart":
        wanted = life.post_start == "running" and not life.pre_stop and life.signalled_at is None
    else:
        wanted = life.pre_stop == "running"
    return wanted and life.phase == "running" and life.starts == number


def hook_ended(life: Life, hook: Hook, error: str | None, now: float, grace: float) -> Life:
    """A hook has ended; ``error`` is what it says where it failed. A container whose ``postStart``
    failed is ended within ``grace`` seconds."""
    said = life.failed_hooks
    if error is not None:
        words = f"{hook.title} failed: {error[:TEXT_LENGTH]}" if error else f"{hook.title} failed"
        said = {**said, hook.kind: words}
    state = life.post_start if hook.kind == "postStart" else life.pre_stop
    after = "done" if error is None else "failed"
    if state != "running":
        return life
    if hook.kind == "preStop":
        return replace(life, pre_stop=after, failed_hooks=said)
    end_by = now + grace if error is not None and life.end_by is None else life.end_by
    return replace(life, post_start=after, failed_hooks=said, end_by=end_by)


def taken_over(life: Life) -> Life:
    """The life of a container whose hooks nobody waits for any more, as who ran them has ended: one
    that runs has started, one that is to end runs its hook again, as after the restart of a kubelet."""
    known = life
    if life.post_start in ("due", "running"):
        known = replace(known, post_start="done")
    if life.pre_stop == "running":
        known = replace(known, pre_stop="")
    return known
