"""What a kubelet is about to do: end pods that it no longer names, read its pods and update QoS cgroups
after its start.

Source: kubelet pod_workers.go SyncTerminatingPod; kuberuntime killPodWithSyncResult; kubelet.go
SyncTerminatedPod, which removes the cgroup of the pod and leaves the QoS cgroups; cm
qos_container_manager_linux.go UpdateCgroups, which counts active pods, and setHugePagesUnbounded, which
takes away the limits of kubepods that a start has written; kubelet.go SyncPod, which ends a pod that runs
without its cgroup; cm/cpumanager cpu_manager.go reconcileState. Some seconds after the kubelet answers: Start
there, which makes the QoS cgroups, and cm/node_container_manager_linux.go enforceNodeAllocatableCgroups.
"""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.audit.finding import AuditReport, Finding, pending, unexplained, unlike
from qoslet.core.audit.verdicts.groups import is_container
from qoslet.core.audit.verdicts.left_behind import CPUSETS
from qoslet.core.cgroup.interface_files import PROTECTION
from qoslet.core.cgroup.names import pod_uid
from qoslet.core.node.running_kubelet.work import KubeletWork

_SUMS = (
    "cpu.shares",
    "cpu.weight",
    "memory.min",
    "memory.low",
    "memory.max",
    "memory.limit_in_bytes",
)
"""Files of QoS cgroups whose values come from the requests of all pods."""
_STARTED = "the kubelet has just started and updates it within a minute"
_READING = "the kubelet has just started and may not have read all its pods"
_MAKING = "the kubelet has just started and makes it within seconds"
_REPLACING = "the kubelet has just started and starts pods again whose cgroups it does not find"
_CHANGED = "it counts pods as they were until its next update, a minute later at most"
_ASSIGNING = "the kubelet has just assigned CPUs and sends them to all containers within 10 seconds"
_UNKNOWN = "the pods of the node could not be read since"
_OFF = ("drift", "latent")
_QOS = ("kubepods", "burstable", "besteffort")


def without_kubelet_work(report: AuditReport, work: KubeletWork) -> AuditReport:
    """The report, with each finding pending that the kubelet is about to settle:

    - a cgroup of a pod that the runtime still has, and values of QoS cgroups that count such a pod, or
      one that has changed since;
    - what a kubelet that has just started has not created, updated or read yet;
    - what a pod without its sandbox or a container lacks, which the kubelet starts again;
    - what follows from pods that could not be read.
    """
    rows = (_judged_by_age(finding, work) for finding in report.findings)
    report = replace(
        report, findings=tuple(_pending_start(finding, work.ready) for finding in rows)
    )
    uids = _plain(work.running)
    ending = [
        finding
        for finding in report.findings
        if finding.verdict == "orphan" and pod_uid(finding.path) in uids
    ]
    changed = replace(work, has_changed=work.has_changed or bool(ending))
    findings = []
    for finding in report.findings:
        if finding in ending:
            findings.append(
                _pending(finding, "its runtime still has it, as while a pod is being ended")
            )
        elif finding.verdict == "orphan" and work.is_new:
            findings.append(_pending(finding, _READING))
        elif work.is_new and finding.pod is None and _is_to_be_made(finding):
            findings.append(_pending(finding, _MAKING))
        elif work.is_new and finding.pod is not None and _is_replaced(finding):
            findings.append(_pending(finding, _REPLACING))
        elif finding.verdict in _OFF and (why := _to_come(finding, changed)):
            findings.append(_pending(finding, why))
        elif work.lacks_pods and _is_whole(finding):
            findings.append(_pending(finding, _UNKNOWN))
        else:
            findings.append(finding)
    return replace(report, findings=tuple(findings))


def is_sum(leaf: str, file: str | None) -> bool:
    """Whether a value of a cgroup, by the last part of its abstract name, comes from all pods."""
    return leaf in _QOS and file in _SUMS


def _to_come(finding: Finding, work: KubeletWork) -> str:
    """Why the kubelet will write the value without being asked to; empty if it will not. The periodic QoS
    update writes the sums of all pods, of kubepods only its memory protection; the CPU manager writes the
    cpusets of containers; a new kubelet also writes what its configuration decides about kubepods and
    the reserved cgroups."""
    leaf, file = finding.name.rpartition("/")[2], finding.file
    summed = is_sum(leaf, file) and (leaf != "kubepods" or file in PROTECTION)
    if summed and work.has_changed:
        return _CHANGED
    # its CPU manager gives containers their CPUs each cpuManagerReconcilePeriod
    is_given = file in CPUSETS and finding.container is not None
    is_planned = finding.rule is not None and (finding.pod is None or is_given)
    if work.is_new and (summed or (is_planned and leaf not in ("burstable", "besteffort"))):
        return _STARTED
    if work.is_assigning and is_planned and is_given and file == "cpuset.cpus":
        return _ASSIGNING
    return _UNKNOWN if summed and work.lacks_pods else ""


def _pending(finding: Finding, why: str) -> Finding:
    return pending(finding, f"{finding.message}: {why}")


def _is_whole(finding: Finding) -> bool:
    """Whether the finding is that a whole cgroup is there or is absent."""
    return (
        finding.verdict in ("orphan", "missing", "foreign")
        and finding.file is None
        and not finding.found
    )


def _is_to_be_made(finding: Finding) -> bool:
    """Whether a starting kubelet creates what the finding misses: a cgroup, or controllers that come
    with the first pod in it."""
    return finding.verdict == "controller" or (finding.verdict == "missing" and _is_whole(finding))


def _is_replaced(finding: Finding) -> bool:
    """Whether the finding is that a pod lacks a cgroup, or has a container's that no status names."""
    made = finding.verdict == "foreign" and is_container(finding.path.rpartition("/")[2])
    return _is_whole(finding) and (finding.verdict == "missing" or made)


def _pending_start(finding: Finding, ready: frozenset[str] | None) -> Finding:
    """The finding, pending if its pod lacks its sandbox or a container and that explains it: a cgroup
    that does not exist yet or that no status names yet, or controllers that systemd takes from a pod
    without containers."""
    uid = pod_uid(finding.path)
    if ready is None or finding.pod is None or not uid or uid in _plain(ready):
        return finding
    if (
        finding.verdict in ("missing", "foreign") and _is_whole(finding)
    ) or finding.verdict == "controller":
        why = "the runtime does not run what its status names, as while the kubelet starts it"
        return _pending(finding, why)
    return finding


def _judged_by_age(finding: Finding, work: KubeletWork) -> Finding:
    """The finding, with what the age of its pod proves. A value that an earlier configuration would
    explain is drift if this kubelet created the pod, because a kubelet reads its configuration when it
    starts. It is stale if the pods that have it are, as far as known, those that an earlier kubelet
    created. A pod without a sandbox has no known age, unless no pod has one."""
    if work.older is None:
        return finding
    known = _plain(work.older)
    uid = pod_uid(finding.path)
    if (
        finding.is_earlier
        and uid not in known
        and (not work.running or uid in _plain(work.running))
    ):
        plain = unexplained(finding.file, finding.found, finding.planned)
        return replace(finding, verdict="drift", message=plain, is_earlier=False)
    doubt = finding.doubt
    if doubt is None or not _plain(doubt.having) <= known or _plain(doubt.lacking) & known:
        return finding
    is_odd = not doubt.lacking or _plain(doubt.differing) & known
    if is_odd and not (doubt.is_default or doubt.follows):
        return finding
    plain = unlike(finding.file, finding.found, finding.planned)
    told = f"{plain}: left by {doubt.told}; restarting the pod sets it"
    return replace(finding, verdict="stale", message=told)


def _plain(uids: frozenset[str]) -> set[str]:
    """The UIDs as names of cgroups have them."""
    return {uid.replace("_", "-") for uid in uids}
