"""How the options of a command have pods read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.core.api.documents import Options

if TYPE_CHECKING:
    import argparse


def pod_options(
    args: argparse.Namespace, node_name: str | None, *, allocated: bool | None = None
) -> Options:
    """What ``args`` say of the pods of a node; ``allocated`` stands over ``--resources``. The namespace
    of a command with a target is that one's: pods of all namespaces are read."""
    if allocated is None:
        allocated = args.resources == "allocated"
    namespace = None if hasattr(args, "target") else args.namespace
    return Options(args.expand, allocated, node_name, namespace=namespace, selector=args.selector)
