"""Why a pod goes on or ends, by what is known of its manifest."""

from __future__ import annotations

from collections.abc import Iterable

from qoslet.agent.ports import DesiredState


def no_longer(
    key: str, manifest: str, desired: DesiredState, uids: Iterable[str] | None = None
) -> str:
    """Why the pod named ``key`` that was started from ``manifest`` is no longer desired. Where ``uids``
    are given, another pod of that name is one of them."""
    others = desired.pods if uids is None else desired.pods.keys() & set(uids)
    namesakes = (desired.pods[uid].manifest for uid in others if desired.pods[uid].pod.key == key)
    if namesake := next(namesakes, ""):
        return f"{namesake} has another pod of this name"
    if not manifest:
        return "no manifest has it"
    if not desired.follows(manifest):
        return f"{manifest} is not among this agent's manifests"
    return f"{manifest} no longer has it{desired.chosen}"


def why_kept(key: str, manifest: str, desired: DesiredState) -> str:
    """Why it is not known whether a pod of an earlier agent is desired; empty where it is."""
    if fault := desired.unread.fault_of(manifest):
        return f"{fault} cannot be read: the pod stays as it is until that is fixed"
    if desired.unread.settling:
        why = no_longer(key, manifest, desired)
        return f"{why}: the pod stays for a moment, in case a file is being replaced"
    return ""
