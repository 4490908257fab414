"""The pods of an agent of qoslet that runs here, from its answer and the manifests that it names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from qoslet.core.api.manifest import Loaded, Options
from qoslet.core.problem import plural
from qoslet.errors import BadInputs
from qoslet.host.files.manifests import load

if TYPE_CHECKING:
    from qoslet.core.api.pod import Pod

PHASES = ("Pending", "Running", "Succeeded", "Failed")
ENDED = PHASES[2:]
_RUNTIME_ID = re.compile("(?<![0-9a-f])([0-9a-f]{64})(?:[.]scope)?$")
PodDocuments = list[tuple["Pod", Mapping[str, Any]]]


def agent_pods(agent: Mapping[str, Any], options: Options) -> tuple[PodDocuments, str]:
    """The pods of an agent's ``PodStates``, from the manifests that it names, with their states as their
    status, and why some lack other than those that end without one. ``options`` keep the documents."""
    rows = {str(row.get("uid")): row for row in agent.get("items") or []}
    found: dict[str, tuple[Pod, Mapping[str, Any]]] = {}
    why = ""
    begin = str(agent.get("workingDirectory") or "")
    for file in sorted({str(row["manifest"]) for row in rows.values() if row.get("manifest")}):
        path = os.path.join(begin, file)
        for expand in (False, True):
            if len(found) == len(rows):
                break
            try:
                loaded = load([path], replace(options, expand=expand))
            except BadInputs as error:
                why = f"a manifest of the agent cannot be read: {error.faults[0].message}"
                break
            for pod, document in pod_documents(loaded):
                if pod.uid in rows:
                    row = rows[pod.uid]
                    found[pod.uid] = _identified(pod, row), {**document, "status": _status(row)}
    lacking = len(set(rows) - set(found) - ending_pods(agent))
    if lacking and not why and not (options.namespace or options.selector):
        why = f"the manifests that the agent names lack {plural(lacking, 'pod')} of it"
    return [found[uid] for uid in rows if uid in found], why


def ending_pods(agent: Mapping[str, Any]) -> frozenset[str]:
    """The UIDs of pods that an agent stops because no manifest has them any more."""
    return frozenset(
        str(row.get("uid"))
        for row in agent.get("items") or []
        if row.get("phase") == "Terminating" and not row.get("manifest")
    )


def _status(row: Mapping[str, Any]) -> dict[str, Any]:
    """A pod's state as an agent tells it, as the API has it."""
    containers = row.get("containers") or []
    regular = [_container_status(one) for one in containers if one.get("role") == "regular"]
    others = [_container_status(one) for one in containers if one.get("role") != "regular"]
    return {
        "phase": row.get("phase") if row.get("phase") in PHASES else None,
        "qosClass": row.get("qosClass"),
        "startTime": row.get("createdAt"),
        "containerStatuses": regular,
        "initContainerStatuses": others,
    }


def _container_status(row: Mapping[str, Any]) -> dict[str, Any]:
    """A container's state in the same way."""
    return {
        "name": row.get("name"),
        "ready": row.get("ready"),
        "restartCount": row.get("restarts"),
        **_states(row),
        **_identity(row),
    }


def _identified(pod: Pod, row: Mapping[str, Any]) -> Pod:
    """The pod with why its containers do not run, and their IDs where a container runtime made them."""
    rows = {str(one.get("name")): one for one in row.get("containers") or []}
    ids = {name: found["containerID"] for name, one in rows.items() if (found := _identity(one))}
    containers = [replace(one, waits=_waits(rows.get(one.name, {}))) for one in pod.containers]
    if ids:
        containers = [
            replace(one, id=ids.get(one.name), runs=bool(rows.get(one.name, {}).get("running")))
            for one in containers
        ]
    return replace(pod, containers=tuple(containers))


def _identity(row: Mapping[str, Any]) -> dict[str, str]:
    """The ID of a container that runs, where its cgroup is named by one."""
    found = _RUNTIME_ID.search(str(row.get("cgroup") or ""))
    return {"containerID": found[1]} if found and row.get("running") else {}


def _waits(row: Mapping[str, Any]) -> str:
    """Why a container does not run yet, in one word; empty for one that runs or has ended for good."""
    if row.get("running") or (row.get("exitCode") is not None and row.get("restartAt") is None):
        return ""
    return str(row.get("status") or "")


def _states(row: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a container, and the one before where it waits to start again."""
    if row.get("running"):
        return {"state": {"running": {"startedAt": row.get("startedAt")}}}
    waiting = {"state": {"waiting": {"reason": row.get("status")}}}
    if row.get("exitCode") is None:
        return waiting
    ended = {
        "terminated": {
            "exitCode": row.get("exitCode"),
            "reason": row.get("exitReason"),
            "finishedAt": row.get("finishedAt"),
        }
    }
    return {**waiting, "lastState": ended} if _waits(row) else {"state": ended}


def pod_documents(loaded: Loaded) -> PodDocuments:
    """Each pod with its document and its status."""
    return [
        (pod, {**loaded.raw.get(pod.uid, {}), "status": loaded.statuses.get(pod.uid)})
        for pod in loaded.pods
    ]
