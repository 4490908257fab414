"""What documents say of a node, sorted by who wrote them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from qoslet.core.problem import Problem

Fields = dict[str, tuple[Any, str]]
"""Dotted field to (decoded value, ``file: field``). A null counts as not given."""

KUBELET_API = "kubelet.config.k8s.io/v1beta1"
OWN_API = "qoslet/v1"

LISTED_KINDS = (
    "KubeletConfig",
    "MachineConfig",
    "EC2NodeClass",
    "AKSNodeClass",
    "NodePool",
    "Provisioner",
    "Shoot",
)
"""Kinds of objects that hold a KubeletConfiguration and that kubectl prints in a List."""


class Sources(Struct):
    """What the documents give, per kind. ``kubelet`` is None without a KubeletConfiguration;
    ``kubeadm`` are fields of a node that other documents lack."""

    kubelet: Fields | None = None
    own: Fields | None = None
    api: Fields | None = None
    problems: list[Problem] = []
    kubeadm: Fields = {}
    is_whole: bool = False
    """A KubeletConfiguration is among them, not only a part of one."""
    from_distribution: bool = False
    """A part of one is, of a distribution that sets others itself."""
    entries: dict[str, dict[str, str]] = {}
    """Of fields that several KubeletConfigurations give a part of: the place of each entry."""
    arguments: list[tuple[str, Any]] = []
    """Places of flags of the kubelet, and the flags as they stand there."""
    gates: tuple[Any, str] | None = None
    """Feature gates that win over those of the KubeletConfiguration, one by one."""
    over_defaults: bool = False
    """Only drop-ins give hard eviction thresholds: the defaults were set before them."""
    unknown: list[tuple[str, str]] = []
    """Fields of KubeletConfigurations that there are not, with their places."""

    @property
    def is_partial(self) -> bool:
        """Whether a distribution sets the rest of the configuration."""
        return self.from_distribution and not self.is_whole
