"""What a plan's reader should know: misfits, overcommit, quirks and traps, with what to do.

Pods of the same shape are judged once; a row names the first of them and counts the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from qoslet.core.api.pod import Pod, QosClass
from qoslet.core.node.node import Node, pods_limit, schedulable
from qoslet.core.plan.totals import Largest, NodeTotals, Part, TemplateSummary
from qoslet.core.problem import Problem
from qoslet.core.quantity import bytes_text, canonical, counted, from_milli
from qoslet.core.resources.cgroup_tree import Cgroup
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.rules.hugetlb import size_of_resource

_OS_FIELD = 24
"""The first minor whose API server keeps spec.os by default: gate IdentifyPodOS, beta in 1.24."""


def node_problems(
    policy: NodePolicy, totals: NodeTotals, upper: Sequence[Cgroup], largest: Largest
) -> list[Problem]:
    """The rows about the node."""
    return [*room_problems(policy, totals, largest), *upper_problems(policy, totals, upper)]


def upper_problems(
    policy: NodePolicy, totals: NodeTotals, upper: Sequence[Cgroup]
) -> Iterator[Problem]:
    """Those about the cgroups above the pods, and about what is set for the node. What decides
    whether there are such rows is ``upper`` and ``NodeTotals.marks``."""
    yield from _upper(policy, upper)
    yield from _node(policy, totals, upper)


def contradictions(pods: Iterable[tuple[Pod, QosClass]]) -> Iterator[Problem]:
    """Pods whose status names another class than their spec makes."""
    for pod, qos in pods:
        if pod.contradicts(qos):
            yield Problem(
                "warning",
                f"{pod.where}: status.qosClass",
                f"the status says {pod.status_qos}, the spec gives another QoS class",
                "the kubelet uses the status; fetch the pod again, or plan from its spec",
            )


def _text(name: str, amount: int) -> str:
    """For people, so that two sums compare."""
    return canonical(from_milli(amount)) if name == "cpu" else bytes_text(amount)


def _pods_limit(node: Node) -> tuple[str, str]:
    """The field that bounds the pods of a node, and its value."""
    limit, kubelet = pods_limit(node), node.kubelet
    if limit == kubelet.max_pods:
        return "maxPods", str(limit)
    return "podsPerCore", f"{kubelet.pods_per_core} on {node.capacity['cpu'].milli // 1000} CPUs"


def _by_whom(name: str, parts: Sequence[Part], total: int) -> str:
    """The pods that make most of a sum: ``; most by shop/db: 8, shop/web and 2 like it: 6, others: 9``."""
    if not parts:
        return ""
    pods = [
        part.pod
        + (f" and {part.count - 1} like it" if part.count > 1 else "")
        + f": {_text(name, part.amount)}"
        for part in parts
    ]
    rest = total - sum(part.amount for part in parts)
    others = f", others: {_text(name, rest)}" if rest > 0 else ""
    return f"; most by {', '.join(pods)}{others}"


def room_problems(policy: NodePolicy, totals: NodeTotals, largest: Largest) -> Iterator[Problem]:
    """Those about what the pods ask for and the node's room."""
    node = f"node {policy.node.name or 'this'}"
    left = schedulable(policy.node)
    for name in ("cpu", "memory", *(n for n in left if n.startswith("hugepages-"))):
        if name not in left:
            continue
        room = counted(name, left[name])
        asked = totals.requests.get(name, 0)
        if asked > room:
            yield Problem(
                "warning",
                node,
                f"the pods request {_text(name, asked)} {name}, {_text(name, room)} is allocatable"
                f"{_by_whom(name, largest.of(name), asked)}",
                "the scheduler would not place all of them, and the kubelet rejects pods that do not fit",
            )
    if totals.pods > pods_limit(policy.node):
        field, limit = _pods_limit(policy.node)
        text = f"{totals.pods} pods exceed {field} {limit}"
        yield Problem("warning", node, text, f"raise {field} or move pods")
    limits, room = totals.memory_limits, 0
    if "memory" in policy.enforced:
        room = policy.enforced["memory"].value
    if room and limits > room:
        yield Problem(
            "info",
            node,
            f"memory limits add up to {_text('memory', limits)} of {_text('memory', room)}"
            f"{_by_whom('memory', largest.of('memory', limits=True), limits)}",
            "limits are overcommitted; under pressure the kernel kills by oom_score_adj"
            if policy.node.os == "linux"
            else "limits are overcommitted; Windows pages to disk, and the kubelet evicts",
        )


def _upper(policy: NodePolicy, upper: Sequence[Cgroup]) -> Iterator[Problem]:
    for group in upper:
        for row in group.settings:
            if row.file in ("memory.max", "memory.limit_in_bytes") and row.value.startswith("-"):
                yield Problem(
                    "error",
                    f"{group.name}: {row.file}",
                    f"the limit is {row.value}, which the kernel rejects",
                    "lower --qos-reserved or the requests; the kubelet does not clamp the limit either",
                )
        if group.level == "node" and policy.enforced.get("memory") is not None:
            memory = policy.enforced["memory"].value
            if memory == 0 and group.name.endswith("kubepods"):
                yield Problem(
                    "error",
                    group.name,
                    "the reservations leave no memory for pods",
                    "lower kubeReserved or systemReserved",
                )


def _node(policy: NodePolicy, totals: NodeTotals, upper: Sequence[Cgroup]) -> Iterator[Problem]:
    node = f"node {policy.node.name or 'this'}"
    runtime = policy.runtime
    if policy.node.os == "windows":
        return
    if policy.v2 and runtime.curve == "quadratic" and runtime.oci != "process" and totals.pods:
        yield Problem(
            "info",
            node,
            f"the kubelet writes cpu.weight with a linear curve for pods, {runtime.name} with a quadratic curve for containers",
            "compare weights only between siblings",
        )
    if runtime.cri is not None and runtime.name.count("+") == 0:
        yield Problem(
            "info",
            node,
            f"the OCI runtime of {runtime.name} is not given: qoslet assumes"
            f" {runtime.oci} {'.'.join(map(str, runtime.oci_version))}",
            f"name it: --runtime {runtime.name}+runc-VERSION",
        )
    if policy.memory_qos != "off":
        # imported where a node has Memory QoS: the rows about it need much that no other plan does
        from qoslet.core.plan.memory_problems import memory_problems

        yield from memory_problems(policy, node, totals, upper)


def pod_problems(policy: NodePolicy, template: TemplateSummary) -> Iterator[Problem]:
    """The rows about pods of one shape."""
    pod = template.pod
    wrong = pod.misfit(policy.node.os)
    if wrong is not None:
        field, system = wrong
        hint = "the kubelet rejects it"
        if field == "spec.os.name" and policy.node.profile.minor < _OS_FIELD:
            release = policy.node.profile.kubernetes
            hint = f"{release} has no spec.os: use nodeSelector kubernetes.io/os: {system}"
        message = f"a {system} pod on a {policy.node.os} node"
        yield Problem("warning", f"{template.where}: {field}", message, hint)
    if policy.node.os == "windows":
        # imported for nodes with Windows
        from qoslet.core.plan.windows_problems import windows_pod_problems

        yield from windows_pod_problems(policy, template)
        return
    yield from _class_quirks(policy, template)
    yield from _numbers(policy, template)
    yield from _rounded(policy, template)
    yield from _hugepages(policy, template)
    if policy.node.profile.kubernetes == "design" and pod.os == "linux":
        # imported for the documents alone
        from qoslet.core.plan.design_problems import design_problems

        yield from design_problems(policy, template)
    if policy.memory_qos != "off" or pod.memory.given:
        # as above: without Memory QoS only an annotation gives such a row
        from qoslet.core.plan.memory_problems import pod_memory_problems

        yield from pod_memory_problems(policy, template)


def _class_quirks(policy: NodePolicy, template: TemplateSummary) -> Iterator[Problem]:
    pod = template.pod
    level = pod.resources
    if level is None:
        return
    if not policy.pod_level:
        yield Problem(
            "warning",
            f"{template.where}: spec.resources",
            f"Kubernetes {policy.node.profile.kubernetes} ignores pod-level resources here",
            "the gate PodLevelResources is disabled or unknown; set resources on the containers",
        )
    elif not level.requests and not level.limits and policy.choices.empty_pod_level:
        yield Problem(
            "warning",
            f"{template.where}: spec.resources",
            "an empty pod-level block makes the pod BestEffort, whatever its containers request",
            "remove the empty block; fixed in 1.37",
        )


def _numbers(policy: NodePolicy, template: TemplateSummary) -> Iterator[Problem]:
    floor = 1000 * 1000 // policy.period_us
    for container in template.pod.containers:
        limit = container.resources.limits.get("cpu")
        if limit is not None and 0 < limit.milli < floor and policy.node.kubelet.cpu_cfs_quota:
            yield Problem(
                "warning",
                f"{template.where}: {container.field}.resources.limits.cpu",
                f"the minimum quota is 1000 us: {limit} acts as {floor}m with a period of"
                f" {policy.period_us} us",
                "raise the limit, or lengthen cpuCFSQuotaPeriod",
            )
        request = container.resources.requests.get("cpu")
        if request is not None and abs(request.milli) >= 2**63 // 1024:
            yield Problem(
                "warning",
                f"{template.where}: {container.field}.resources.requests.cpu",
                f"{request} overflows int64 when converted to CPU shares and becomes 2",
                "lower the request",
            )


def _rounded(policy: NodePolicy, template: TemplateSummary) -> Iterator[Problem]:
    if policy.node.driver != "systemd":
        return
    for container, rows in zip(template.pod.containers, template.containers, strict=True):
        for row in rows:
            if row.effective is not None and row.file in ("cpu.max", "cpu.cfs_quota_us"):
                yield Problem(
                    "info",
                    f"{template.where}: {container.field}.resources.limits.cpu",
                    f"systemd rounds the quota up to whole percent of a CPU: {row.value} becomes"
                    f" {row.effective}",
                    "use limits in steps of 10m, or the cgroupfs driver",
                )


def _hugepages(policy: NodePolicy, template: TemplateSummary) -> Iterator[Problem]:
    asked = [name for name in template.requests if name.startswith("hugepages-")]
    if not asked:
        return
    offered = {size for _, size in policy.hugepages}
    for name in asked:
        size = size_of_resource(name)
        if size in offered:
            continue
        what = "huge pages of this size"
        hint = "add the size to host.hugepageSizes, or reserve huge pages on the node"
        if size in policy.node.host.hugepage_sizes:
            what, hint = "hugetlb controller", "use a kernel with CONFIG_CGROUP_HUGETLB"
        message = f"the host has no {what}: no limit is written"
        yield Problem("warning", f"{template.where}: {name}", message, hint)
    if not policy.runtime.hugetlb:
        yield Problem(
            "info",
            f"{template.where}: {asked[0]}",
            f"{policy.runtime.name} drops hugepage limits of containers by default: only the pod"
            " is limited",
            "use containerd or CRI-O, which pass them on"
            if policy.runtime.cri == "docker"
            else "set disable_hugetlb_controller = false in containerd's CRI plugin",
        )
