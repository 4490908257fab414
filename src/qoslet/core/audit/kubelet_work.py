"""What a kubelet is about to do: end pods that it no longer names, update QoS cgroups after its start.

Source: kubelet pod_workers.go SyncTerminatingPod; kuberuntime killPodWithSyncResult; kubelet.go
SyncTerminatedPod, which updates QoS cgroups after it removed that of the pod; cm
qos_container_manager_linux.go UpdateCgroups, which counts active pods.
"""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.audit.audit import pending
from qoslet.core.audit.finding import AuditReport, Finding
from qoslet.core.cgroup.names import SLICE

_SUMS = (
    "cpu.shares",
    "cpu.weight",
    "memory.min",
    "memory.low",
    "memory.max",
    "memory.limit_in_bytes",
)
"""Files of QoS cgroups whose values come from the requests of all pods."""
_STARTED = "the kubelet started less than a minute ago and updates it within the next"
_CHANGED = "it counts pods as they were until its next update, a minute later at most"
_QOS = ("kubepods", "burstable", "besteffort")


def without_kubelet_work(
    report: AuditReport,
    running: frozenset[str],
    *,
    ready: frozenset[str] | None = None,
    is_new: bool = False,
    has_changed: bool = False,
) -> AuditReport:
    """The report; cgroups of pods that the runtime still has (``running`` are their UIDs) are
    pending, and so are the values of QoS cgroups that count those pods until they are gone, that
    counted one which ``has_changed`` within the last minute (ended or was resized), or that a kubelet which ``is_new`` has not updated. So is
    what lacks of a pod without a sandbox (``ready`` are the UIDs of those that have one, None where
    that is not known): its kubelet starts it again."""
    report = replace(report, findings=tuple(_starting(one, ready) for one in report.findings))
    uids = _plain(running)
    ending = [one for one in report.findings if one.verdict == "orphan" and _uid(one) in uids]
    if not (ending or is_new or has_changed):
        return report
    why = _CHANGED if ending or has_changed else _STARTED
    findings = []
    for one in report.findings:
        if one in ending:
            message = f"{one.message}: its runtime still has it, as while the kubelet ends a pod"
            findings.append(replace(pending(one, message), fix=None))
        elif _is_sum(one):
            findings.append(replace(pending(one, f"{one.message}: {why}"), fix=None))
        else:
            findings.append(one)
    return replace(report, findings=tuple(findings))


def _starting(one: Finding, ready: frozenset[str] | None) -> Finding:
    """The finding, pending where it is the cgroup of a pod that no sandbox runs of."""
    leaf = one.path.rpartition("/")[2]
    if one.verdict != "missing" or one.file is not None or one.pod is None or "pod" not in leaf:
        return one
    if ready is None or one.container is not None or _uid(one) in _plain(ready):
        return one
    message = f"{one.message}: the runtime has no sandbox of it, as while the kubelet starts a pod"
    return replace(pending(one, message), fix=None)


def _plain(uids: frozenset[str]) -> set[str]:
    """The UIDs as names of cgroups have them."""
    return {uid.replace("_", "-") for uid in uids}


def _uid(finding: Finding) -> str:
    """The UID in the name of a pod's cgroup."""
    leaf = finding.path.rpartition("/")[2].removesuffix(SLICE)
    return leaf.rpartition("pod")[2].replace("_", "-")


def _is_sum(finding: Finding) -> bool:
    leaf = finding.name.rpartition("/")[2]
    return finding.verdict in ("drift", "latent") and leaf in _QOS and finding.file in _SUMS
