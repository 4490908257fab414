"""Why a pod goes on or ends, by what is known of its manifest."""

from __future__ import annotations

from qoslet.agent.ports import FailedManifest


def no_longer(manifest: str) -> str:
    """Why a pod is no longer desired."""
    return f"{manifest} no longer has it"


def why_kept(manifest: str, unread: FailedManifest) -> str:
    """Why it is not known whether a pod of an earlier agent is desired; empty where it is."""
    if fault := unread.fault_of(manifest):
        return f"{fault} cannot be read: the pod stays as it is until that is fixed"
    if unread.settling:
        return f"{manifest or 'no manifest'} does not have it now: the pod stays for a moment, in case the file is being replaced"
    return ""
