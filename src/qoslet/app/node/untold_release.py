"""Which releases a kubelet may be that did not tell its own: /metrics takes seconds on a busy node."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from qoslet.app.node.found_node import RELEASE, FoundNode
from qoslet.core.node.flags import Flags
from qoslet.core.node.node import Node
from qoslet.core.node.running_kubelet.release import oldest_release
from qoslet.core.versions.kubernetes import NEWEST
from qoslet.host.files.node import load_node


def possible_releases(found: FoundNode) -> tuple[str, ...]:
    """The releases that the kubelet may be besides the newest, which is assumed; none where it told its own, or
    nothing tells which they are."""
    if found.note(RELEASE).state == "ok":
        return ()
    configurations = (document.get("kubeletconfig") for _, document in found.documents)
    oldest = next((oldest_release(one) for one in configurations if one is not None), None)
    return () if oldest is None else tuple(f"1.{minor}" for minor in range(oldest, NEWEST))


def other_releases(found: FoundNode, paths: Sequence[str], flags: Flags) -> dict[str, Node]:
    """The node as ``load_node`` has it, with each release that the kubelet may be besides the one that is
    assumed; none where ``flags`` give it. Raises BadInputs."""
    if flags.kubernetes is not None:
        return {}
    return {
        one: load_node(paths, replace(flags, kubernetes=one), texts=found.texts())[0]
        for one in possible_releases(found)
    }
