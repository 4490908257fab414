"""What qoslet asks of an API server and of kubelets, as RBAC has it. ``deploy/`` grants just this.

Source: pkg/kubelet/server/auth.go (KEP-2862) for ``nodes/…``; the rest are requests of ours, and of
kubectl exec, which is a GET since it uses WebSockets (KEP-4006).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Use = Literal["kubelet", "kubelet-before-1.33", "api", "evict", "node-condition", "fleet", "bundle"]
"""Pods from the kubelet, from one that knows no finer rights, from the API server; evictions; a
condition of the node; ``fleet``; and bundles of nodes by their agents."""


class Right(Struct, frozen=True):
    """Verbs on a resource, ``NAME.GROUP`` outside of the core group; cluster-wide, or in the
    ``namespace`` of the agent."""

    use: Use
    resource: str
    verbs: tuple[str, ...]
    namespace: bool = False


RIGHTS = (
    Right("kubelet", "nodes/configz", ("get",)),
    Right("kubelet", "nodes/pods", ("get",)),
    Right("kubelet", "nodes/metrics", ("get",)),
    Right("kubelet-before-1.33", "nodes/proxy", ("get",)),
    Right("api", "pods", ("list", "watch")),
    Right("evict", "pods", ("get", "list")),
    Right("evict", "pods/eviction", ("create",)),
    Right("evict", "leases.coordination.k8s.io", ("create", "get", "update"), namespace=True),
    Right("evict", "events.events.k8s.io", ("create",)),
    Right("node-condition", "nodes/status", ("patch",)),
    Right("fleet", "nodes", ("list",)),
    Right("fleet", "pods", ("list",)),
    Right("bundle", "pods", ("get", "list"), namespace=True),
    Right("bundle", "pods/exec", ("create", "get"), namespace=True),
)
