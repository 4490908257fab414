"""The pods of an agent, as a document: ``kind: PodStates`` of ``qoslet/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.core.status.pod_reason import exit_reason, last_reason, retry_at, waiting_reason
from qoslet.render.documents import API_VERSION, Document, problem_row
from qoslet.render.documents.agent.memory import memory_document
from qoslet.render.documents.plan import controller_block
from qoslet.render.documents.timestamps import moment

if TYPE_CHECKING:
    from qoslet.core.status.snapshot import Snapshot
    from qoslet.core.workload.container_state import ContainerState
    from qoslet.core.workload.pod_status import PodRow, PodUsage


def pods_document(
    snapshot: Snapshot, root: str, driver: str, directory: str | None = None
) -> Document:
    """Every pod with its containers, and how the agent is; ``directory`` is where relative
    manifests begin."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PodStates",
        "root": root,
        "driver": driver,
        "workingDirectory": directory,
        "summary": snapshot.summary,
        "cycle": snapshot.cycle,
        "lastSyncSeconds": _rounded(snapshot.last_sync_seconds),
        "items": [_pod(row) for row in snapshot.pods],
        "pending": list(snapshot.pending),
        "waiting": list(snapshot.waiting),
        "errors": list(snapshot.errors),
        "problems": [problem_row(row) for row in snapshot.problems],
        "memory": memory_document(snapshot.memory_view),
    }


def _pod(row: PodRow) -> Document:
    return {
        "namespace": row.namespace,
        "name": row.name,
        "uid": row.uid,
        "qosClass": row.qos,
        "phase": row.phase,
        "status": row.status or row.reason or row.phase,
        "reason": row.reason or None,
        "message": row.message or None,
        "since": moment(row.since) if row.since else None,
        "createdAt": moment(row.created) if row.created else None,
        "retries": row.retries,
        "retryInSeconds": None if row.retry_in is None else round(row.retry_in, 3),
        "resize": row.resize or None,
        "resizeReason": row.resize_reason or None,
        "editRejected": row.edit_rejected or None,
        "manifest": row.manifest or None,
        "usage": _usage(row.usage.get("")),
        "containers": [container_row(state, row) for state in row.containers],
        "containersWanted": _wanted(row),
        "controller": controller_block(row.controller),
    }


def _wanted(row: PodRow) -> int:
    """How many containers and sidecars the pod is to have, made or not; those of a pod that is only
    known by what runs are all that it has."""
    roles = row.roles or {one.name: "regular" for one in row.containers}
    return sum(role in ("regular", "sidecar") for role in roles.values())


def _usage(usage: PodUsage | None) -> Document | None:
    if usage is None:
        return None
    return {
        "seconds": _rounded(usage.seconds),
        "cpuCores": _rounded(usage.cpu),
        "cpuLimitCores": _rounded(usage.cpu_limit),
        "cpuOfLimit": _rounded(usage.cpu_share),
        "throttledSeconds": usage.throttled,
        "memoryBytes": usage.memory,
        "memoryLimitBytes": usage.memory_limit,
        "memoryOfLimit": _rounded(usage.memory_share),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _last_exit(state: ContainerState) -> Document | None:
    """How a container ended last, also while it runs again."""
    if state.exit_code is None:
        return None
    return {
        "exitCode": state.exit_code,
        "reason": last_reason(state),
        "finishedAt": None if state.finished_at is None else moment(state.finished_at),
        "afterProbe": state.probe_ended,
    }


def container_row(state: ContainerState, row: PodRow) -> Document:
    """One container of a pod."""
    restart = retry_at(state)
    is_up = state.running and not state.starting
    return {
        "name": state.name,
        "role": row.roles.get(state.name, "regular"),
        "cgroup": state.cgroup,
        "running": is_up,
        "ready": is_up if state.ready is None else is_up and state.ready,
        "pid": state.pid,
        "exitCode": state.exit_code,
        "reason": state.reason or None,
        "status": waiting_reason(state) or exit_reason(state) or None,
        "exitReason": exit_reason(state) or None,
        "restartAt": None if restart is None else moment(restart),
        "restarts": state.restarts,
        "unhealthy": list(state.unhealthy),
        "oomKilled": state.oom_killed,
        "startedAt": None if state.started_at is None else moment(state.started_at),
        "finishedAt": None if state.finished_at is None else moment(state.finished_at),
        "log": state.log or None,
        "lastExit": _last_exit(state),
        "usage": _usage(row.usage.get(state.name)),
    }
