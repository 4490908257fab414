"""Which cluster the options name."""

from __future__ import annotations

from qoslet.host.cluster.client_library import ClusterAccess


def cluster_access(values: object) -> ClusterAccess:
    """The access among the attributes of ``values``, as the command line has them."""
    kubeconfig = getattr(values, "kubeconfig", None) or ""
    return ClusterAccess(kubeconfig, getattr(values, "context", None) or "")
