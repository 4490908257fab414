"""Which groups' memory is followed, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping

from qoslet.agent.pods import Pace
from qoslet.agent.shared import Shared
from qoslet.core.memrow import Followed
from qoslet.core.quantity import ZERO
from qoslet.core.sums import requests


class MemoryGroups:
    """The groups of the tiers, of pods and their containers, by path."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._of_pod: dict[str, tuple[object, tuple[Followed, ...]]] = {}
        self._tiers: tuple[object, tuple[Followed, ...]] = (None, ())
        self.groups: Mapping[str, Followed] = {}

    def update(self) -> bool:
        """Follow what is there now; whether that differs from before."""
        shared = self._shared
        moved = False
        for uid in [uid for uid in self._of_pod if uid not in shared.paces]:
            del self._of_pod[uid]
            moved = True
        for pace in shared.paces.values():
            known = self._of_pod.get(pace.uid)
            if known is None or known[0] is not pace.groups:
                self._of_pod[pace.uid] = (pace.groups, tuple(_of_pod(pace)))
                moved = True
        upper = shared.live.upper()
        if moved or self._tiers[0] is not upper:
            self._tiers = (upper, tuple(self._above()))
            rows = [*self._tiers[1], *(row for _, rows in self._of_pod.values() for row in rows)]
            self.groups = {row.path: row for row in rows}
            return True
        return False

    def above(self, path: str) -> list[Followed]:
        """The followed groups above one, the topmost first."""
        found = []
        at = path.rpartition("/")[0]
        while at:
            row = self.groups.get(at)
            if row is not None:
                found.append(row)
            at = at.rpartition("/")[0]
        return found[::-1]

    def _above(self) -> list[Followed]:
        """The groups above the pods, each with the requests of all pods in it."""
        pods = [row for _, rows in self._of_pod.values() for row in rows if row.level == "pod"]
        return [
            Followed(
                path=group.path,
                level=group.level,
                title=group.name.rpartition("/")[2] or "/",
                request=sum(row.request for row in pods if row.path.startswith(f"{group.path}/")),
            )
            for group in self._shared.live.upper()
            if group.path is not None
        ]


def _of_pod(pace: Pace) -> list[Followed]:
    """A pod's groups."""
    found = []
    for group in pace.groups:
        if group.path is None or group.level not in ("pod", "container"):
            continue
        asked = group.container.resources.requests if group.container is not None else None
        if asked is None:
            asked = requests(pace.pod) if pace.pod is not None else {}
        found.append(
            Followed(
                path=group.path,
                level=group.level,
                title=f"{pace.key}/{group.container.name}" if group.container else pace.key,
                uid=pace.uid,
                pod=pace.key,
                container=group.container.name if group.container is not None else "",
                qos=pace.qos,
                request=asked.get("memory", ZERO).value,
            )
        )
    return found
