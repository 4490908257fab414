"""The options of what asks a cluster, as kubectl has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """``--kubeconfig`` and ``--context``, in a group of their own."""
    group = parser.add_argument_group("access to a cluster")
    group.add_argument(
        "--kubeconfig", metavar="FILE", help="kubeconfig (default: as kubectl finds it)"
    )
    group.add_argument(
        "--context", metavar="NAME", help="Context of the kubeconfig (default: the current one)"
    )
