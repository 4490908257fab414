"""The pods of an agent of qoslet that runs here, from its answer and the manifests that it names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from qoslet.core.api.manifest import Loaded, Options
from qoslet.errors import BadInputs
from qoslet.host.files.manifests import load

if TYPE_CHECKING:
    from qoslet.core.api.pod import Pod

PHASES = ("Pending", "Running", "Succeeded", "Failed")
ENDED = PHASES[2:]
PodDocuments = list[tuple["Pod", Mapping[str, Any]]]


def agent_pods(agent: Mapping[str, Any], options: Options) -> tuple[PodDocuments, str]:
    """The pods of an agent's ``PodStates``, from the manifests that it names, with their states as their
    status, and why some lack. ``options`` keep the documents."""
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
                    found[pod.uid] = pod, {**document, "status": _status(rows[pod.uid])}
    lacking = len(rows) - len(found)
    if lacking and not why and not (options.namespace or options.selector):
        why = f"{lacking} pods of the agent are not in the manifests that it names"
    return [found[uid] for uid in rows if uid in found], why


def _status(row: Mapping[str, Any]) -> dict[str, Any]:
    """A pod's state as an agent tells it, as the API has it."""
    return {
        "phase": row.get("phase") if row.get("phase") in PHASES else None,
        "qosClass": row.get("qosClass"),
        "startTime": row.get("createdAt"),
        "containerStatuses": [
            {
                "name": one.get("name"),
                "ready": one.get("ready"),
                "restartCount": one.get("restarts"),
                "state": _state(one),
            }
            for one in row.get("containers") or []
            if one.get("role") == "regular"
        ],
    }


def _state(row: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a container."""
    if row.get("running"):
        return {"running": {"startedAt": row.get("startedAt")}}
    if row.get("exitCode") is None:
        return {"waiting": {"reason": row.get("status")}}
    return {
        "terminated": {
            "exitCode": row.get("exitCode"),
            "reason": row.get("exitReason"),
            "finishedAt": row.get("finishedAt"),
        }
    }


def pod_documents(loaded: Loaded) -> PodDocuments:
    """Each pod with its document and its status."""
    return [
        (pod, {**loaded.raw.get(pod.uid, {}), "status": loaded.statuses.get(pod.uid)})
        for pod in loaded.pods
    ]
