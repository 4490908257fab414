"""Traps of pods as a whole: pods that fit nowhere, and pod-level resources."""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.api.aggregate import requests
from qoslet.core.lint.rule import LintPlace, PodSubject, Text, pod_rule
from qoslet.core.node.node import schedulable
from qoslet.core.quantity import ZERO, canonical


@pod_rule(
    "QL080",
    "error",
    Text(
        "a pod that fits on no such node",
        "It requests more than the empty node has left for pods: it stays Pending.",
        "Request less, or use larger nodes.",
        "kube-scheduler NodeResourcesFit; Kubernetes: node allocatable",
    ),
)
def fits_nowhere(subject: PodSubject) -> Iterator[LintPlace]:
    """Requests above what the scheduler counts with, on nodes that somebody described."""
    if not subject.described:
        return
    node = subject.policy.node
    left = schedulable(node)
    for name, asked in requests(subject.pod, subject.policy.sum_rules).items():
        room = left.get(name)
        if room is None and "/" in name and node.status_allocatable:
            # a node that reports what it has has nothing else of devices
            room = node.status_allocatable.get(name, ZERO)
        if room is not None and asked > room:
            text = f"requests {canonical(asked)} {name}, the node has {canonical(room)} for pods"
            yield LintPlace("spec.containers", text)


@pod_rule(
    "QL081",
    "warning",
    Text(
        "pod-level resources that the release ignores",
        "spec.resources counts only with the gate PodLevelResources: without it the containers' own "
        "requests and limits decide.",
        "Give the containers requests and limits, or use a release with the gate on.",
        "KEP-2837",
    ),
)
def ignored_pod_level(subject: PodSubject) -> Iterator[LintPlace]:
    """Pod-level resources without the feature."""
    written = subject.pod.written or subject.pod.resources
    if (
        written is not None
        and (written.requests or written.limits)
        and not subject.policy.pod_level
    ):
        release = subject.policy.node.profile.kubernetes
        yield LintPlace("spec.resources", f"Kubernetes {release} does not use them")


@pod_rule(
    "QL082",
    "info",
    Text(
        "a container that may take its pod's whole limit",
        "With a limit of the pod alone, one container's leak ends all of them.",
        "Limit the containers that may grow.",
        "KEP-2837",
        missing=True,
    ),
)
def takes_all(subject: PodSubject) -> Iterator[LintPlace]:
    """Containers without a limit of their own below one of the pod."""
    whole = subject.pod.written
    if whole is None or "memory" not in whole.limits or len(subject.regular) < 2:
        return
    for one in subject.regular:
        if "memory" not in one.resources.limits:
            text = f"only the pod's {canonical(whole.limits['memory'])} limit it"
            yield LintPlace(f"{one.field}.resources.limits.memory", text, one.name)
