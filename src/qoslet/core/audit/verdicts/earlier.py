"""Values that pods keep from the configuration under which they were created: a restart of the kubelet
with another one does not write them again.

Source: kubelet kubelet.go SyncPod (a pod's cgroup that exists is not updated), kuberuntime
(Memory QoS is in a container's creation), cm/pod_container_manager_linux.go EnsureExists.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from qoslet.core.audit.context import AuditContext
from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.interface_files import released
from qoslet.core.resources.cgroup_tree import Cgroup, Setting

_QOS = ("memory.min", "memory.low", "memory.high")
_LEAST = 2
"""How many values have to tell the same: one alone may be a change by hand."""
_LEAST_IN_A_ROW = 3
"""How many pods, created one after the other, where others have what is planned; and how many cgroups
have it that were created later, where one value alone differs."""


class EarlierConfiguration:
    """What the pods of an audit have from an earlier configuration."""

    def __init__(self, context: AuditContext) -> None:
        self._context = context

    def left_by(self, cgroup: Cgroup, setting: Setting, found: str) -> str | None:
        """What left a value of a pod or container, as the end of the sentence "left by …"; None: no
        earlier configuration that is known."""
        pod = cgroup.pod
        if pod is None or self._context.is_own:
            return None
        if setting.file == "pids.max" and cgroup.level == "pod":
            pods = self._created_in_a_row(found)
            told = f"another podPidsLimit, in force when {pods} pods were created"
            is_all = _LEAST <= pods == len(self._limits)
            return told if is_all or pods >= _LEAST_IN_A_ROW else None
        if setting.file in _QOS and pod.uid in self._unprotected:
            return "a configuration without Memory QoS, in force when the pod was created"
        return None

    def _created_in_a_row(self, limit: str) -> int:
        """How many pods have this value of pids.max, where no other pod was created between them."""
        if limit not in self._limits:
            return 0
        first = self._limits.index(limit)
        count = self._limits.count(limit)
        return count if self._limits[first : first + count] == [limit] * count else 0

    @cached_property
    def _limits(self) -> list[str]:
        """pids.max of each pod, in the order in which the pods were created: the kernel gives
        identities in this order."""
        cgroups, live = self._context.plan.cgroups, self._context.live.cgroups
        paths = [one.path or "" for one in cgroups if one.level == "pod"]
        pods = [live[path] for path in paths if path in live]
        pods.sort(key=lambda one: one.identity)
        return [one.values.get("pids.max", "") for one in pods]

    @cached_property
    def _unprotected(self) -> frozenset[str]:
        """UIDs of pods of which no file has what Memory QoS plans."""
        hierarchy, page = self._context.node.hierarchy, self._context.node.host.page_size
        bare: Counter[str] = Counter()
        others = set[str]()
        first: dict[str, int] = {}
        later: list[int] = []
        for cgroup in self._context.plan.cgroups:
            live = self._context.live.cgroups.get(cgroup.path or "")
            if cgroup.pod is None or live is None:
                continue
            for one in cgroup.settings:
                fresh, found = released(one.file, hierarchy), live.values.get(one.file)
                if one.file not in _QOS or fresh is None or found is None:
                    continue
                if same(one.file, one.applied, fresh, page):
                    continue
                if same(one.file, fresh, found, page):
                    bare[cgroup.pod.uid] += 1
                    first.setdefault(cgroup.pod.uid, live.identity)
                else:
                    others.add(cgroup.pod.uid)
                    later.append(live.identity)
        whole = {uid: count for uid, count in bare.items() if uid not in others}
        if sum(whole.values()) >= _LEAST:
            return frozenset(whole)
        # the last pod of before: the kernel gives identities in the order of creation
        oldest = len(later) >= _LEAST_IN_A_ROW
        return frozenset(uid for uid in whole if oldest and first[uid] < min(later))
