"""What the agent beside a kubelet exports, and what to watch of it: panels of a dashboard and alerts.

A query names a metric by its row here, ``{findings}``.
"""

from __future__ import annotations

from qoslet.core.status.fields import Metric
from qoslet.core.status.monitoring import Alert, Panel, Query


def _row(name: str, help: str, *labels: str, counter: bool = False) -> tuple[str, Metric]:
    return name, Metric(f"qoslet_agent_{name}", help, labels, counter)


GUEST_METRICS = dict(
    (
        _row("info", "The agent: its mode and its variant of Memory QoS.", "mode", "memory_qos"),
        _row("pods", "Pods of the node."),
        _row("source_complete", "Whether the source of pods has all of them.", "source"),
        _row("source_age_seconds", "Time since the source of pods answered last.", "source"),
        _row(
            "source_requests", "Requests for pods to the API server since the start.", counter=True
        ),
        _row("findings", "Findings of the last audit.", "verdict", "severity"),
        _row("compared_values", "Values that the last audit compared."),
        _row("held_files", "Files that hold a value of the agent's."),
        _row("contested_files", "Files that another process resets."),
        _row("errors", "What is wrong now: policy, sources, writes, audits."),
        _row("guard_overrides", "Cgroups whose memory.high the guard has changed."),
        _row("syncs", "Syncs since the start.", counter=True),
        _row("writes", "Values written since the start.", counter=True),
        _row("rewrites", "Values written again after another process reset them.", counter=True),
        _row("resets", "Values that another process reset.", counter=True),
        _row("write_failures", "Writes that the kernel or systemd refused.", counter=True),
        _row("guard_decisions", "Decisions of the guard.", "mode", "answer", counter=True),
    )
)
"""By the names that queries have for them."""

_INSTANCE = "{{instance}}"

GUEST_PANELS: tuple[Panel, ...] = (
    Panel(
        "Findings",
        "Findings of the last audit that count: warnings and errors, by verdict.",
        "short",
        (
            Query(
                'sum by (verdict, severity) ({findings}{{severity=~"warning|error"}})',
                "{{verdict}} {{severity}}",
            ),
        ),
    ),
    Panel(
        "Nodes by mode",
        "Agents by what their policy lets them do.",
        "short",
        (Query("count by (mode, memory_qos) ({info})", "{{mode}} {{memory_qos}}"),),
    ),
    Panel(
        "Values held",
        "Files that hold a value of an agent's, and those that another process resets.",
        "short",
        (
            Query("{held_files}", f"{_INSTANCE} held"),
            Query("{contested_files}", f"{_INSTANCE} reset"),
        ),
    ),
    Panel(
        "Writes",
        "Values written and written again, resets by others, and writes that were refused.",
        "short",
        (
            Query("sum(rate({writes}[$__rate_interval]))", "written"),
            Query("sum(rate({rewrites}[$__rate_interval]))", "written again"),
            Query("sum(rate({resets}[$__rate_interval]))", "reset"),
            Query("sum(rate({write_failures}[$__rate_interval]))", "refused"),
        ),
    ),
    Panel(
        "Guard",
        "What guards decided, by mode and answer, and cgroups whose memory.high they hold up.",
        "short",
        (
            Query(
                "sum by (mode, answer) (increase({guard_decisions}[$__rate_interval]))",
                "{{mode}} {{answer}}",
            ),
            Query("sum({guard_overrides})", "held"),
        ),
    ),
    Panel(
        "Age of the pods",
        "Time since the source of pods answered last.",
        "s",
        (Query("{source_age_seconds}", f"{_INSTANCE} {{{{source}}}}"),),
    ),
    Panel(
        "Requests to the API server",
        "Requests for pods within the last hour; none while kubelets are asked.",
        "short",
        (Query("increase({source_requests}[1h])", _INSTANCE),),
    ),
    Panel(
        "Wrong now",
        "Sources that do not answer, writes that are refused, audits that fail.",
        "short",
        (Query("{errors}", _INSTANCE),),
    ),
    Panel(
        "Compared",
        "Values that the last audit compared.",
        "short",
        (Query("{compared_values}", _INSTANCE),),
    ),
)

GUEST_ALERTS: tuple[Alert, ...] = (
    Alert(
        "QosletNodeDiffers",
        'sum by (instance, verdict) ({findings}{{severity=~"warning|error"}}) > 0',
        "10m",
        "warning",
        "{{ $labels.verdict }} of cgroups on {{ $labels.instance }}",
        "qoslet audit node/NAME says what differs, who may have written it and what resets it.",
    ),
    Alert(
        "QosletAgentStuck",
        "rate({syncs}[10m]) == 0",
        "5m",
        "critical",
        "the agent on {{ $labels.instance }} has stopped looking",
        "Its values stay, and nothing guards the pods: look at its log, and restart it.",
    ),
    Alert(
        "QosletAgentErrors",
        "{errors} > 0",
        "15m",
        "warning",
        "something is wrong for the agent on {{ $labels.instance }}",
        "qoslet agent --status says what: a policy that it does not take, writes, audits.",
    ),
    Alert(
        "QosletPodsUnknown",
        "{source_complete} == 0",
        "15m",
        "warning",
        "the agent on {{ $labels.instance }} does not know all pods of its node",
        "qoslet agent --status says which source fails and why.",
    ),
    Alert(
        "QosletValuesContested",
        "{contested_files} > 0",
        "15m",
        "warning",
        "another process resets values of the agent on {{ $labels.instance }}",
        "qoslet agent --status names the files; take them out of the policy, or end the other writer.",
    ),
    Alert(
        "QosletWritesRefused",
        "increase({write_failures}[15m]) > 0",
        "0m",
        "warning",
        "writes of the agent on {{ $labels.instance }} are refused",
        "qoslet agent --status names the files and the errors of the kernel or systemd.",
    ),
    Alert(
        "QosletGuardEndsContainers",
        'increase({guard_decisions}{{mode="act", answer=~"end|evict"}}[10m]) > 0',
        "0m",
        "warning",
        "the guard on {{ $labels.instance }} ended a container or evicted a pod",
        "Events of the pod and the agent's log say which; its memory.high or limit is too low.",
    ),
)
