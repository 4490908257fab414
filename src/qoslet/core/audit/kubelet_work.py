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
    """The report; cgroups of pods that the runtime still has are pending, and so are the values of
    QoS cgroups that count those pods until they are gone, that counted one which has changed, or that
    a new kubelet has not updated. So is what is missing of a pod without a sandbox, which its kubelet
    starts again, what a new kubelet has not made or may not have read yet, and whatever follows from pods
    that could not be read."""
    rows = (_with_age(one, work) for one in report.findings)
    report = replace(report, findings=tuple(_starting(one, work.ready) for one in rows))
    uids = _plain(work.running)
    ending = [
        one for one in report.findings if one.verdict == "orphan" and pod_uid(one.path) in uids
    ]
    changed = replace(work, has_changed=work.has_changed or bool(ending))
    findings = []
    for one in report.findings:
        if one in ending:
            findings.append(
                _pending(one, "its runtime still has it, as while a pod is being ended")
            )
        elif one.verdict == "orphan" and work.is_new:
            findings.append(_pending(one, _READING))
        elif work.is_new and one.pod is None and _is_to_be_made(one):
            findings.append(_pending(one, _MAKING))
        elif work.is_new and one.pod is not None and _is_replaced(one):
            findings.append(_pending(one, _REPLACING))
        elif one.verdict in _OFF and (why := _to_come(one, changed)):
            findings.append(_pending(one, why))
        elif work.lacks_pods and _is_whole(one):
            findings.append(_pending(one, _UNKNOWN))
        else:
            findings.append(one)
    return replace(report, findings=tuple(findings))


def is_sum(leaf: str, file: str | None) -> bool:
    """Whether a value of a cgroup, by the last part of its abstract name, comes from all pods."""
    return leaf in _QOS and file in _SUMS


def _to_come(one: Finding, work: KubeletWork) -> str:
    """Why a value is what the next QoS update writes, or a new kubelet's start; empty if neither does. Of
    kubepods the first has protection only; its other values and those of the cgroups of what is
    reserved come from the configuration."""
    leaf, file = one.name.rpartition("/")[2], one.file
    summed = is_sum(leaf, file) and (leaf != "kubepods" or file in PROTECTION)
    if summed and work.has_changed:
        return _CHANGED
    # its CPU manager gives containers their CPUs each cpuManagerReconcilePeriod
    is_given = file in CPUSETS and one.container is not None
    is_planned = one.rule is not None and (one.pod is None or is_given)
    if work.is_new and (summed or (is_planned and leaf not in ("burstable", "besteffort"))):
        return _STARTED
    if work.is_assigning and is_planned and is_given and file == "cpuset.cpus":
        return _ASSIGNING
    return _UNKNOWN if summed and work.lacks_pods else ""


def _pending(one: Finding, why: str) -> Finding:
    return pending(one, f"{one.message}: {why}")


def _is_whole(one: Finding) -> bool:
    """Whether it is about a cgroup, which is there or not as pods are."""
    return one.verdict in ("orphan", "missing", "foreign") and one.file is None and not one.found


def _is_to_be_made(one: Finding) -> bool:
    """Whether it is about a cgroup that is not there, or controllers that come with the first pod in it."""
    return one.verdict == "controller" or (one.verdict == "missing" and _is_whole(one))


def _is_replaced(one: Finding) -> bool:
    """Whether it is about a cgroup of a pod that is not there, or a container's that no status names."""
    made = one.verdict == "foreign" and is_container(one.path.rpartition("/")[2])
    return _is_whole(one) and (one.verdict == "missing" or made)


def _starting(one: Finding, ready: frozenset[str] | None) -> Finding:
    """The finding, pending where it is of a pod that lacks its sandbox or a container: a cgroup that
    is not there yet, or one that no status names yet, or controllers that systemd takes from a pod
    without containers."""
    uid = pod_uid(one.path)
    if ready is None or one.pod is None or not uid or uid in _plain(ready):
        return one
    if (one.verdict in ("missing", "foreign") and _is_whole(one)) or one.verdict == "controller":
        why = "the runtime does not run what its status names, as while the kubelet starts it"
        return _pending(one, why)
    return one


def _with_age(one: Finding, work: KubeletWork) -> Finding:
    """The finding, drift where an earlier configuration would explain a value of a pod that this kubelet
    created: it reads its configuration at its start. A pod without a sandbox beside others tells no age. Stale
    where the pods that have the value are those that it did not create, as far as they tell."""
    if work.older is None:
        return one
    known = _plain(work.older)
    uid = pod_uid(one.path)
    if one.is_earlier and uid not in known and (not work.running or uid in _plain(work.running)):
        plain = unexplained(one.file, one.found, one.planned)
        return replace(one, verdict="drift", message=plain, is_earlier=False)
    doubt = one.doubt
    if doubt is None or not _plain(doubt.having) <= known or _plain(doubt.lacking) & known:
        return one
    is_odd = not doubt.lacking or _plain(doubt.differing) & known
    if is_odd and not (doubt.is_default or doubt.follows):
        return one
    plain = unlike(one.file, one.found, one.planned)
    told = f"{plain}: left by {doubt.told}; restarting the pod sets it"
    return replace(one, verdict="stale", message=told)


def _plain(uids: frozenset[str]) -> set[str]:
    """The UIDs as names of cgroups have them."""
    return {uid.replace("_", "-") for uid in uids}
