"""The options of what asks a cluster, as kubectl has them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from qoslet.errors import BadInput

if TYPE_CHECKING:
    import argparse


def add_cluster_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """``--cluster``, ``--kubeconfig`` and ``--context``, in the group that is returned."""
    group = parser.add_argument_group("access to a cluster")
    group.add_argument(
        "--cluster", action="store_true", help="Read the cluster of the current context"
    )
    group.add_argument(
        "--kubeconfig", metavar="FILE", help="Read this kubeconfig (default: as kubectl)"
    )
    group.add_argument(
        "--context", metavar="NAME", help="Context of the kubeconfig (default: current)"
    )
    return group


def add_agent_namespace(group: argparse._ArgumentGroup) -> None:
    """``--agent-namespace``, for what agents do on their nodes."""
    group.add_argument(
        "--agent-namespace",
        default="qoslet",
        metavar="NAME",
        help="Namespace of the agents (default: qoslet)",
    )


def node_named(word: str, usage: str) -> str:
    """The name in ``node/NAME``. Raises BadInput, which shows ``usage``."""
    kind, _, name = word.partition("/")
    if kind != "node" or not name:
        raise BadInput("names no node of the cluster", where=word, hint=usage)
    return name


def is_plugin() -> bool:
    """Whether this is ``kubectl qoslet``: kubectl begins the program of that name."""
    return os.path.basename(sys.argv[0]) == "kubectl-qoslet"
