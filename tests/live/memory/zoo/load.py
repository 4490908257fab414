"""A row of the zoo: a load, its limit, and what an operator expects of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Expected = Literal[
    "finishes", "killed", "ends", "goes on", "as alone", "untouched", "left alone", "evicted"
]
"""``finishes``: the program reaches its end. ``killed``: the kernel's OOM killer ends it at its
limit. ``ends``: one of both, by what this kernel charges, or by chance. ``goes on``: it works to the end of the
watch. ``as alone``: so it does, or the kernel kills it, as it does with the limit alone where the disk is slow.
``untouched``: so it does, and nothing is decided about it. ``left alone``: nothing is decided
about it, however it gets on. ``evicted``: the pod is evicted for the node's or a QoS cgroup's sake."""

ENDING: Final = ("finishes", "killed", "ends", "evicted")
"""What is expected of loads that end."""
STALLED_SECONDS: Final = 3.0
"""The longest time without a step while usage stands at memory.high below the limit."""
CROWDED_SECONDS: Final = 8.0
"""The same with ten stalls at once."""


@dataclass(frozen=True)
class Load:
    """A pod that runs ``zoo`` with ``words``. Amounts in MiB; 0: none. ``high`` and ``guard`` are
    annotations; ``volume``: a memory volume at /scratch; ``containers`` run the same words each.
    ``cpu`` is the CPU limit of each, ``resized`` its memory limit from two seconds after the start. The last
    container runs ``sibling`` instead, if there is one. ``restarts``: what ends is begun again. ``first``: whether
    the first container is an init container, or one that stays beside the others. ``as_one``: the kernel kills
    all processes of a container at once."""

    name: str
    words: tuple[str | int, ...]
    expected: Expected
    limit: int = 96
    request: int = 16
    high: str = ""
    guard: str = ""
    volume: bool = False
    capable: bool = False
    containers: int = 1
    pod_limit: int = 0
    cpu: str = ""
    resized: int = 0
    sibling: tuple[str | int, ...] = ()
    priority: int = 0
    restarts: bool = False
    first: Literal["", "init", "sidecar"] = ""
    as_one: bool = False

    @property
    def quality(self) -> str:
        """The pod's QoS class."""
        if not self.limit and not self.request and not self.pod_limit:
            return "BestEffort"
        return "Guaranteed" if self.limit == self.request and not self.pod_limit else "Burstable"


def hog(
    name: str, load: str, amount: int, request: int = 0, volume: bool = False, capable: bool = False
) -> Load:
    """One that takes ``amount`` MiB of the node within ten seconds."""
    words = (load, amount, 10)
    return Load(name, words, "evicted", 0, request, volume=volume, capable=capable)
