"""What a container's probes came to, read from its life."""

from __future__ import annotations

from qoslet.core.workload.life import Life
from qoslet.core.workload.lifecycle import in_post_start
from qoslet.core.workload.process_spec import ProcessSpec


def has_started(launch: ProcessSpec, life: Life) -> bool:
    """Whether a container has started: it runs, its ``postStart`` has ended and its startup probe has
    succeeded."""
    waits = launch.has_probe("startup")
    runs = life.phase == "running" and not in_post_start(life)
    return runs and (life.started or not waits)


def is_ready(launch: ProcessSpec, life: Life) -> bool:
    """Whether a container is ready: it has started, and its readiness probe succeeds. Source:
    kubelet prober_manager.go UpdatePodStatus."""
    asks = launch.has_probe("readiness")
    return has_started(launch, life) and (life.ready or not asks)


def probe_kill_text(launch: ProcessSpec, life: Life) -> str:
    """That a probe had the container ended, as the kubelet's event says it; empty where none had.
    Source: kuberuntime_manager.go computePodActions."""
    if not life.failed_probe:
        return ""
    then = "" if launch.restart == "Never" else ", will be restarted"
    return f"Container {launch.name} failed {life.failed_probe} probe{then}"
