"""What to know about a pod under the design documents: where they count otherwise than any release."""

from __future__ import annotations

from collections.abc import Iterator

from qoslet.core.plan.totals import TemplateSummary
from qoslet.core.problem import Problem
from qoslet.core.resources.node_policy import NodePolicy
from qoslet.core.resources.pod_template import without_copied_requests

_DEFAULTING = (
    "an API server copies the limit to the request before a kubelet sees the pod;"
    " write the request to plan that"
)
_SUMS = "releases count the largest init step and, since 1.24, the overhead"


def design_problems(policy: NodePolicy, template: TemplateSummary) -> Iterator[Problem]:
    """The rows about pods of one shape."""
    pod, where = template.pod, template.where
    for container in pod.containers:
        if container not in without_copied_requests(policy, pod).containers:
            field = f"{where}: {container.field}.resources.requests.memory"
            message = "counts as 0, because only the limit is set (KEP-2570, Burstable case III)"
            yield Problem("info", field, message, _DEFAULTING)
    uncounted = [
        container.name
        for container in pod.containers
        if container.role in ("init", "sidecar")
        and (container.resources.requests or container.resources.limits)
    ]
    if uncounted:
        message = f"the documents sum only spec.containers: {', '.join(uncounted)} adds nothing"
        yield Problem("info", f"{where}: spec.initContainers", message, _SUMS)
    if pod.overhead:
        message = "the documents sum only spec.containers: the overhead adds nothing"
        yield Problem("info", f"{where}: spec.overhead", message, _SUMS)
