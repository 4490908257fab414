"""What a running kubelet is about to do, as far as it is known."""

from __future__ import annotations

from msgspec import Struct


class KubeletWork(Struct, frozen=True):
    """What is known of a kubelet's work."""

    running: frozenset[str] = frozenset()
    """UIDs of the pods of which the container runtime has a sandbox, those of the last minute, too."""
    ready: frozenset[str] | None = None
    """UIDs of those with a sandbox that is ready and the containers that their statuses name; None where
    the runtime cannot be asked."""
    is_new: bool = False
    """Whether it has just started, so that its first QoS update may be to come, or has not read all its
    static manifests since: it may name fewer pods than it has."""
    has_changed: bool = False
    """Whether a pod ended or was resized within the last minute: QoS cgroups may still count it as it
    was."""
    lacks_pods: bool = False
    """Whether its pods could not be read since."""
    older: frozenset[str] | None = None
    """UIDs of the pods whose sandbox is older than its process, which read its configuration when it
    started; None where that is not known."""
    is_assigning: bool = False
    """Whether its CPU manager has given or taken CPUs a moment ago."""
