"""Pods on their way out: the kubelet no longer names them, its runtime still runs them.

Source: kubelet pod_workers.go SyncTerminatingPod; kuberuntime killPodWithSyncResult; cm
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
_QOS = ("kubepods", "burstable", "besteffort")


def without_terminating(report: AuditReport, running: frozenset[str]) -> AuditReport:
    """The report; cgroups of pods that the runtime still has (``running`` are their UIDs) are
    pending, and so are the values of QoS cgroups that count those pods until they are gone."""
    uids = {uid.replace("_", "-") for uid in running}
    ending = [one for one in report.findings if one.verdict == "orphan" and _uid(one) in uids]
    if not ending:
        return report
    findings = []
    for one in report.findings:
        if one in ending:
            message = f"{one.message}: its runtime still has it, as while the kubelet ends a pod"
            findings.append(replace(pending(one, message), fix=None))
        elif _is_sum(one):
            message = f"{one.message}: a pod that ends counts until it is gone"
            findings.append(replace(pending(one, message), fix=None))
        else:
            findings.append(one)
    return replace(report, findings=tuple(findings))


def _uid(finding: Finding) -> str:
    """The UID in the name of a pod's cgroup."""
    leaf = finding.path.rpartition("/")[2].removesuffix(SLICE)
    return leaf.rpartition("pod")[2].replace("_", "-")


def _is_sum(finding: Finding) -> bool:
    leaf = finding.name.rpartition("/")[2]
    return finding.verdict in ("drift", "latent") and leaf in _QOS and finding.file in _SUMS
