"""Lifecycle fields that the API server of a node's release does not take.

Source: KEP-3960 (PodLifecycleSleepAction), KEP-4818 (PodLifecycleSleepActionAllowZero), KEP-4960
(ContainerStopSignals); pkg/api/pod/util.go dropDisabledFields; validateSleepAction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qoslet.core.api.pod import Pod
from qoslet.core.problem import Problem
from qoslet.core.versions.feature_gates import versions
from qoslet.core.workload.config.references import mapping
from qoslet.core.workload.fields import problem_row
from qoslet.core.workload.hook_spec import HOOKS

STOP_SIGNALS = "ContainerStopSignals"
SLEEP = "PodLifecycleSleepAction"
ZERO = "PodLifecycleSleepActionAllowZero"
GATES = (STOP_SIGNALS, SLEEP, ZERO)


def gated_fields(
    raw: Mapping[str, Any], field: str, gates_off: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """The fields of the container ``raw`` at ``field`` whose gate is off, with that gate."""
    if not gates_off:
        return
    lifecycle = mapping(raw.get("lifecycle"))
    if lifecycle.get("stopSignal") and STOP_SIGNALS in gates_off:
        yield f"{field}.lifecycle.stopSignal", STOP_SIGNALS
    for kind in HOOKS:
        sleep = mapping(lifecycle.get(kind)).get("sleep")
        if sleep is None:
            continue
        if SLEEP in gates_off:
            yield f"{field}.lifecycle.{kind}.sleep", SLEEP
        elif ZERO in gates_off and not mapping(sleep).get("seconds"):
            yield f"{field}.lifecycle.{kind}.sleep.seconds", ZERO


def gate_row(pod: Pod, field: str, gate: str) -> Problem:
    """What an API server of the release does with such a field; here it counts all the same."""
    verb = "refuses 0 seconds" if gate == ZERO else "drops the field"
    message = f"{gate} is disabled in this release: its API server {verb}; run takes it"
    hint = f"enable it with --feature-gates {gate}=true; it is a gate of {versions(gate)}"
    return problem_row(pod, "warning", field, message, hint)
