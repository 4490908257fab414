"""What the kernel made of values that were written beside another manager: it tells them from those of
others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoslet.core.cgroup.accepts import same
from qoslet.core.reconcile.journal import CONTROL, ReadBack, record_done

if TYPE_CHECKING:
    from qoslet.agent.state.cgroup_executor import CgroupExecutor
    from qoslet.core.reconcile.steps import Outcome


def read_back(executor: CgroupExecutor, outcomes: Sequence[Outcome]) -> None:
    """Write down the values that the kernel keeps in another form than they were written in."""
    files, read = executor.journal.ledger.files, executor.observer.read_cgroup
    steps = [one.step for one in outcomes if one.error is None and not one.pending]
    written = {(one.path, one.file): one.value for one in steps}
    cgroups = {path: read(path) for path in dict.fromkeys(one.path for one in steps)}
    entries = [
        ReadBack(path, file, found)
        for (path, file), value in written.items()
        if (path, file) in files
        and file != CONTROL
        and (cgroup := cgroups[path]) is not None
        and (found := cgroup.values.get(file)) is not None
        and not same(file, value, found)
    ]
    if entries:
        record_done(executor.journal, entries)
