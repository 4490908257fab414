"""Values that the plugin of a container runtime had set, taken over into the journal of the agent."""

from __future__ import annotations

from collections.abc import Mapping

from qoslet.core.cgroup.accepts import same
from qoslet.core.cgroup.observed import ObservedCgroup
from qoslet.core.reconcile.journal import JournalState, Set


def taken_over(
    ledger: JournalState,
    plugin: JournalState,
    observed: Mapping[str, ObservedCgroup],
    page_size: int,
) -> list[Set]:
    """An entry for each file that holds what the plugin had set, and that ``ledger`` does not have:
    from then on it is restored as if the agent had written it."""
    found = list[Set]()
    for (path, file), (before, value) in plugin.files.items():
        cgroup = observed.get(path)
        actual = None if cgroup is None else cgroup.values.get(file)
        if actual is None or (path, file) in ledger.files:
            continue
        if same(file, value, actual, page_size):
            found.append(Set(path, file, before, value))
    return found
