"""The addresses of pages."""

from __future__ import annotations

from urllib.parse import quote


def pod_link(pod: str) -> str:
    """The address of the page of a pod, ``namespace/name``, for an attribute."""
    namespace, _, name = pod.partition("/")
    return f"/pods/{quote(namespace, safe='')}/{quote(name, safe='')}"
