"""Pods that their manifests no longer have, for the moment in which a file may come back.

``install``, ``tar`` and ``git checkout`` unlink a file before they write it again, and whoever
copies a file piece by piece closes it in between: that ends no pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import inf

from qoslet.agent.ports import FailedManifest
from qoslet.core.api.manifest_set import Entry

REMOVAL_SECONDS = 2.0
"""Seconds until a pod that no manifest has any more is no longer desired: twice as long as files
are polled where they cannot be watched."""


class Removals:
    """The pods that are about to leave, by UID. ``seconds`` of ``monotonic`` they may come back."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self.seconds = seconds
        self._monotonic = monotonic
        self._until: dict[str, float] = {}
        self._entries: dict[str, Entry] = {}
        self._names: dict[str, str] = {}

    @property
    def entries(self) -> Mapping[str, Entry]:
        """What the pods' manifests said last."""
        return self._entries

    def begin(self, entry: Entry) -> None:
        """No manifest has this pod any more."""
        uid = entry.pod.uid
        self._until[uid] = self._monotonic() + self.seconds
        self._entries[uid] = entry
        self._names[entry.pod.key] = uid

    def cancel(self, uid: str) -> None:
        """The pod is there again, or gone."""
        if uid in self._entries:
            entry = self._entries.pop(uid)
            del self._until[uid]
            if self._names.get(entry.pod.key) == uid:
                del self._names[entry.pod.key]

    def of_name(self, key: str) -> str:
        """The UID of the pod of this name that is about to leave; empty for none."""
        return self._names.get(key, "")

    def due(self, unread: FailedManifest) -> list[str]:
        """The pods that are gone: their time is over, for all of which their files and directories
        could be read. A directory that is there again may be filled file by file."""
        now = self._monotonic()
        for uid, until in self._until.items():
            if unread.fault_at(self._entries[uid].file):
                self._until[uid] = inf
            elif until == inf:
                self._until[uid] = now + self.seconds
        return [uid for uid, until in self._until.items() if until <= now]

    def wait(self) -> float | None:
        """Seconds until the next one may be due; None where none will be by itself."""
        now = self._monotonic()
        waits = (until - now for until in self._until.values() if now < until < inf)
        return min(waits, default=None)


def new_name(file: str, before: Collection[str], now: Collection[str]) -> str:
    """By which name a file goes on that is one of those ``before`` and not ``now``: of one beside it that
    came at once, else its own."""
    if file not in before or file in now:
        return file
    folder = file.rpartition("/")[0]
    came = (one for one in now if one not in before and one.rpartition("/")[0] == folder)
    return min(came, default=file)
