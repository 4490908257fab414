"""Which cluster the options name."""

from __future__ import annotations

from qoslet.host.cluster.client_library import ClusterAccess as ClusterAccess


def cluster_access(values: object) -> ClusterAccess | None:
    """The access among the attributes of ``values``, as the command line has them; None where no
    cluster is named."""
    kubeconfig = getattr(values, "kubeconfig", None) or ""
    context = getattr(values, "context", None) or ""
    if not (kubeconfig or context or getattr(values, "cluster", False)):
        return None
    return ClusterAccess(kubeconfig, context)


def current() -> ClusterAccess:
    """The access that kubectl has without options."""
    return ClusterAccess()
