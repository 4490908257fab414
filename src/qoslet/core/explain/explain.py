"""Explains values: the rule, its inputs and their fields, the profile, and when it is written.

``explain`` derives the values of the selected cgroups. ``alternatives`` plans again to show what
other releases, runtimes and variants of Memory QoS would write.
"""

from __future__ import annotations

from msgspec import Struct, structs

from qoslet.core.api.pod import Pod, QosClass
from qoslet.core.cgroup.interface_files import MEMORY_QOS, PROTECTION
from qoslet.core.explain.absent import UnwrittenFile, reason_absent
from qoslet.core.explain.absent_windows import WINDOWS_FIELDS, windows_absent
from qoslet.core.explain.alternatives import Alternative, Axis, grouped
from qoslet.core.explain.annotations import refusals
from qoslet.core.explain.effective_memory import LIMITING, loss, sentence
from qoslet.core.explain.fact import Fact
from qoslet.core.explain.inputs import facts, origin
from qoslet.core.explain.selector import OOM, known_file, select
from qoslet.core.plan.effective_memory import FullNodeCgroup, standings
from qoslet.core.plan.memory_annotation_effects import (
    GuardMode,
    findings,
    guard_mode,
    with_refusals,
)
from qoslet.core.plan.plan import plan as planned
from qoslet.core.plan.pod_planner import Planner
from qoslet.core.problem import Problem
from qoslet.core.reconcile.file_writers import Level, resets, writer_of
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, key_of
from qoslet.core.resources.node_policy import NodePolicy, node_policy
from qoslet.core.resources.pod_template import as_release_sees, without_copied_requests
from qoslet.core.resources.qos_cgroups import numbers_of
from qoslet.core.resources.qos_class import decided_by
from qoslet.core.rules.catalog import RULES
from qoslet.core.versions import kubernetes
from qoslet.core.versions.kubernetes import Profile


class Value(Struct, frozen=True, kw_only=True):
    """One file of a cgroup, explained. ``value`` is None if it is not written; ``because`` says
    why. ``profile`` and ``evidence`` name the choice behind the rule and how it is known."""

    file: str
    value: str | None = None
    effective: str | None = None
    writer: str | None = None
    because: str
    rule: str | None = None
    source: str | None = None
    facts: tuple[Fact, ...]
    profile: str
    evidence: str | None = None
    when: str | None = None
    overwritten: str | None = None
    alternatives: tuple[Alternative, ...] = ()
    worth: int | None = None
    """Bytes of protection on a full node; None for other files, and without Memory QoS."""
    standing: str | None = None
    """The effect of the value under the cgroups above, in a sentence."""
    lost: str | None = None
    """The same in short, if the effect is less than the value."""


class ExplainedCgroup(Struct, frozen=True):
    """One cgroup with its values."""

    cgroup: Cgroup
    qos: QosClass | None
    values: tuple[Value, ...]


class Explanation(Struct, frozen=True):
    """The result. If the target is a pod or in one: the ``pod``, the fields that ``decided`` its
    class, the ``guard`` mode, and the ``findings`` about annotations that do not count."""

    plan: Plan
    target: str
    pod: Pod | None
    qos: QosClass | None
    decided: tuple[str, ...]
    groups: tuple[ExplainedCgroup, ...]
    guard: GuardMode | None = None
    findings: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        """The explanation in one short line."""
        return f"Explanation({self.target!r}, qos={self.qos!r}, cgroups={len(self.groups)})"


_CHOICES: tuple[tuple[str, str], ...] = (
    ("memory.high", "memory_qos"),
    ("memory.min", "memory_qos"),
    ("memory.low", "memory_qos"),
    ("memory.protection", "memory_qos"),
    ("memory.oom.group", "oom_group"),
    ("swap.equal", ""),
    ("swap.", "swap"),
    ("hugetlb.request", "hugepages"),
    ("cpuset.all", "kubepods_cpuset"),
    ("memory.limit.reserve.joined", "qos_reserved_joined"),
    ("memory.limit.reserve", "qos_reserved_gate"),
    ("oom.guaranteed", "guaranteed_oom"),
    ("oom.critical", "critical_oom"),
    ("windows.", "windows"),
)
"""The choice of a profile by the prefix of the rule's id."""


def _choice_of(rule: str) -> str:
    return next((choice for start, choice in _CHOICES if rule.startswith(start)), "")


def _chosen(policy: NodePolicy, rule: str, by_runtime: bool) -> tuple[str, str | None]:
    """The choice of the profile behind a rule, and its evidence."""
    node = policy.node
    if rule.startswith("cpu.weight.") and by_runtime:
        runtime = node.profile.runtime
        return f"runtime {runtime.name}: the {runtime.curve} curve", runtime.curve_evidence
    if rule.startswith("cpu.weight.linear"):
        return (
            "cgroups that the kubelet writes: the linear curve in every release",
            "read: up to 1.36",
        )
    release = f"Kubernetes {node.profile.kubernetes}"
    choice = _choice_of(rule)
    row = kubernetes.evidence(node.profile.kubernetes, choice) if choice else None
    if choice == "memory_qos":
        return _variant(policy, release, row)
    if row is None:
        return release, None
    value = str(row.value).lower() if isinstance(row.value, bool) else str(row.value)
    since = f" since 1.{row.since}" if row.since else ""
    text = f"{release}: {choice.replace('_', ' ')} {value}{since}"
    return text, f"{row.evidence}: {row.source}"


def _variant(
    policy: NodePolicy, release: str, row: kubernetes.ReleaseChange | None
) -> tuple[str, str | None]:
    """The variant of Memory QoS, and its evidence."""
    node, variant = policy.node, policy.memory_qos
    how = f", {origin(node, 'memoryQos')}" if node.profile.memory_qos_forced else ""
    if variant == "qoslet":
        unnamed = how or ", because no Kubernetes release is given"
        return f"Memory QoS qoslet{unnamed}", "qoslet's variant: docs/explanation/memory-qos.md"
    known = f"{row.evidence}: {row.source}" if row is not None else None
    if not policy.v2:
        return f"{release}: Memory QoS disabled: the node has cgroup v1", None
    if variant == "off":
        gate = " (gate MemoryQoS)" if node.profile.memory_qos != "off" else ""
        return f"{release}: Memory QoS disabled{how or gate}", known
    since = "" if how or row is None or not row.since else f" since 1.{row.since}"
    return f"{release}: Memory QoS {variant}{since}{how}", known


def _times(
    cgroup: Cgroup, file: str, writer: str, minor: int, windows: bool = False
) -> tuple[str, str]:
    """When a file is written, and what resets a value set by hand."""
    level: Level = "reserved"
    if windows:
        level = "windows"
    elif writer == "qoslet":
        level = "qoslet"
    elif cgroup.level != "node":
        level = cgroup.level
    elif cgroup.name.endswith("kubepods"):
        level = "kubepods"
    row = writer_of(level, file, minor)
    when = "when the cgroup is created" if row is None else row.when
    return when, resets(row, file, unit=cgroup.unit is not None)


def _written(plan: Plan, policy: NodePolicy, cgroup: Cgroup) -> list[Value]:
    minor, values = plan.node.profile.minor, []
    for setting in cgroup.settings:
        windows = plan.is_windows(cgroup)
        when, overwritten = _times(cgroup, setting.file, setting.writer, minor, windows)
        chosen, evidence = _chosen(policy, setting.rule, setting.writer != "kubelet")
        values.append(
            Value(
                file=setting.file,
                value=setting.value,
                effective=setting.effective,
                writer=setting.writer,
                because=with_refusals(setting.because, refusals(cgroup, setting.file)),
                rule=setting.rule,
                source=setting.source,
                facts=facts(plan, policy, cgroup, setting.file, setting.rule, setting.inputs),
                profile=chosen,
                evidence=evidence,
                when=when,
                overwritten=overwritten,
            )
        )
    if cgroup.oom_score_adj is not None and cgroup.oom_rule:
        values.append(_oom(plan, policy, cgroup))
    return values


def _valued(value: Value, known: FullNodeCgroup | None) -> Value:
    """The value with its effect."""
    if known is None or value.file not in (*PROTECTION, *LIMITING):
        return value
    return structs.replace(
        value,
        worth=known.kept(value.file) if value.file in PROTECTION else None,
        standing=sentence(known, value.file),
        lost=loss(known, value.file),
    )


def _oom(plan: Plan, policy: NodePolicy, cgroup: Cgroup) -> Value:
    rule = cgroup.oom_rule or ""
    when, overwritten = _times(cgroup, OOM, "runtime", plan.node.profile.minor)
    chosen, evidence = _chosen(policy, rule, True)
    return Value(
        file=OOM,
        value=str(cgroup.oom_score_adj),
        writer="runtime",
        because=RULES[rule].because(*cgroup.oom_inputs),
        rule=rule,
        source=RULES[rule].source,
        facts=facts(plan, policy, cgroup, OOM, rule, cgroup.oom_inputs)
        if rule == "oom.burstable"
        else (),
        profile=chosen,
        evidence=evidence,
        when=when,
        overwritten=overwritten,
    )


def _absent(plan: Plan, policy: NodePolicy, cgroup: Cgroup, file: str) -> Value:
    windows = plan.is_windows(cgroup) and cgroup.pod is not None
    field = windows and file in WINDOWS_FIELDS
    chosen, evidence = _chosen(policy, "windows." if field else file, field)
    if windows:
        reason = windows_absent(policy, cgroup, file)
    else:
        unwritten = Planner(plan.node).unwritten(cgroup, [row.pod for row in plan.pods])
        reason = reason_absent(UnwrittenFile(policy, cgroup, file, unwritten))
    return Value(
        file=file,
        because=with_refusals(reason, refusals(cgroup, file)),
        facts=facts(plan, policy, cgroup, file, "", ()),
        profile=chosen,
        evidence=evidence,
    )


def explain(
    plan: Plan, target: str, file: str | None = None, namespace: str | None = None
) -> Explanation:
    """Explain all values of a pod, a container or a cgroup, or those of ``file`` with their
    alternatives. Raises BadInput for an unknown target or file."""
    cgroups = select(plan, target, namespace)
    policy = node_policy(plan.node)
    qos = {row.pod.uid: row.qos for row in plan.pods}
    if file is not None:
        known_file(file, cgroups)
    explained = []
    standing_by_cgroup = standings(plan) if policy.memory_qos != "off" else {}
    for cgroup in cgroups:
        qos_class = qos.get(cgroup.pod.uid) if cgroup.pod is not None else None
        values = _written(plan, policy, cgroup)
        values = [_valued(value, standing_by_cgroup.get(key_of(cgroup))) for value in values]
        if file is not None:
            values = [value for value in values if value.file == file] or [
                _absent(plan, policy, cgroup, file)
            ]
            others = alternatives(plan, cgroup, file)
            values = [structs.replace(value, alternatives=others) for value in values]
        explained.append(ExplainedCgroup(cgroup, qos_class, tuple(values)))
    pods = {c.pod.uid: c.pod for c in cgroups if c.pod is not None}
    pod = next(iter(pods.values())) if len(pods) == 1 else None
    if pod is None:
        return Explanation(plan, target, None, None, (), tuple(explained))
    return Explanation(
        plan,
        target,
        pod,
        qos[pod.uid],
        tuple(decided_by(pod, policy.qos_rules)),
        tuple(explained),
        guard_mode(policy, pod),
        _findings(plan, policy, pod, qos[pod.uid]),
    )


def _findings(plan: Plan, policy: NodePolicy, pod: Pod, qos: QosClass) -> tuple[Problem, ...]:
    """The annotations of a pod that do not count."""
    requests = numbers_of(policy, as_release_sees(policy, pod)).requests
    pod = without_copied_requests(policy, pod)
    pod_cgroups = [
        cgroup for cgroup in plan.cgroups if cgroup.pod is not None and cgroup.pod.uid == pod.uid
    ]
    written = [setting for cgroup in pod_cgroups for setting in cgroup.settings]
    return tuple(findings(policy, pod, qos, requests, written))


RUNTIMES = ("runc-1.2.6", "runc-1.4.0", "crun-1.22", "crun-1.23")
"""Runtimes before and after each change."""


def replanned(plan: Plan, other: Profile) -> Plan:
    """The same pods and node with another profile. Kubelet defaults that depend on the release
    change with it."""
    kubelet = plan.node.kubelet
    if "singleProcessOOMKill" not in plan.node.origins:
        single = plan.node.hierarchy == "v1" or not other.choices.oom_group
        kubelet = structs.replace(kubelet, single_process_oom_kill=single)
    node = structs.replace(plan.node, profile=other, kubelet=kubelet)
    return planned([row.pod for row in plan.pods], node)


def _value_in(plan: Plan, cgroup: Cgroup, file: str) -> str | None:
    """The value of the same file and cgroup in another plan."""
    for other in plan.cgroups:
        if not _counterpart(cgroup, other):
            continue
        if file == OOM:
            return None if other.oom_score_adj is None else str(other.oom_score_adj)
        setting = other.by_file.get(file)
        return None if setting is None else setting.value
    return None


def _counterpart(cgroup: Cgroup, other: Cgroup) -> bool:
    if cgroup.level != other.level:
        return False
    if cgroup.pod is None or other.pod is None:
        return cgroup.name == other.name
    names = [c.container.name if c.container is not None else None for c in (cgroup, other)]
    return cgroup.pod.uid == other.pod.uid and names[0] == names[1]


def alternatives(plan: Plan, cgroup: Cgroup, file: str) -> tuple[Alternative, ...]:
    """The value with other releases, variants of Memory QoS and runtimes; an axis without a
    difference has one row."""
    if cgroup.pod is not None and file != "cpuset.cpus":
        # of a pod's values only its exclusive CPUs depend on other pods
        pods = tuple(row for row in plan.pods if row.pod.uid == cgroup.pod.uid)
        plan = structs.replace(plan, pods=pods)
    now = plan.node.profile
    forced = now.memory_qos if now.memory_qos_forced else None
    releases = [f"1.{minor}" for minor in range(kubernetes.OLDEST, kubernetes.NEWEST + 1)]
    rows: list[tuple[Axis, str, str | None]] = []
    for release in (*releases, "design"):
        runtime = now.runtime.name if "runtime" in plan.node.origins else None
        other = kubernetes.resolve(release, runtime, forced)
        rows.append(("kubernetes", release, _value_in(replanned(plan, other), cgroup, file)))
    of_memory_qos = file in MEMORY_QOS
    unnamed = now.memory_qos == "qoslet" and forced is None
    result = grouped(rows, "" if of_memory_qos and unnamed else now.kubernetes)
    if of_memory_qos:
        variants: list[tuple[Axis, str, str | None]] = []
        for variant in kubernetes.MEMORY_QOS_VARIANTS:
            other = kubernetes.resolve(now.kubernetes, now.runtime.name, variant)
            variants.append(("memoryQos", variant, _value_in(replanned(plan, other), cgroup, file)))
        result += grouped(variants, node_policy(plan.node).memory_qos)
    if cgroup.container is not None and file == "cpu.weight":
        names = dict.fromkeys((now.runtime.name, *RUNTIMES))
        others = [kubernetes.resolve(now.kubernetes, name, forced) for name in names]
        runtimes: list[tuple[Axis, str, str | None]] = [
            ("runtime", other.runtime.name, _value_in(replanned(plan, other), cgroup, file))
            for other in others
        ]
        result += grouped(runtimes, now.runtime.name)
    return tuple(result)
