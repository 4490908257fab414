"""The status of a guest: its last sync, joined for surfaces."""

from __future__ import annotations

from qoslet.agent.guest.guest_agent import GuestAgent
from qoslet.core.guest.status import ContestedFile, GuestStatus, HeldFile
from qoslet.core.pressure.guard_report import NO_GUARD_REPORT
from qoslet.core.reconcile.file_writers import level_of, resets_at, writer_of
from qoslet.core.reconcile.journal import CONTROL
from qoslet.core.resources.node_policy import node_policy


def status_of(agent: GuestAgent, now: float) -> GuestStatus:
    """What the agent is doing; ``now`` in monotonic seconds. The agent has synced once."""
    view = agent.view
    assert view is not None
    node, rewrites = view.plan.node, agent.files.rewrites
    return GuestStatus(
        node=node.name or "",
        root=agent.executor.root,
        driver=node.driver,
        hierarchy=node.hierarchy,
        memory_qos=node_policy(node).memory_qos,
        policy=view.policy,
        pods=len(view.plan.pods),
        source=view.source,
        findings=agent.audit.findings,
        compared=agent.audit.compared,
        held=_held(agent),
        contested=_contested(agent, now),
        waiting=tuple(agent.last.waiting),
        errors=agent.errors,
        notes=agent.notes,
        missing=len(agent.last.missing),
        writes=agent.files.writes,
        rewrites=rewrites.rewrites,
        resets=rewrites.resets,
        failures=agent.files.failures,
        syncs=agent.syncs,
        guard=NO_GUARD_REPORT if agent.guard is None else agent.guard.report,
    )


def _held(agent: GuestAgent) -> tuple[HeldFile, ...]:
    """The files that hold a value of ours, by the journal."""
    ledger, root = agent.executor.journal.ledger, agent.executor.root
    found = []
    for (path, file), (before, value) in sorted(ledger.files.items()):
        if file == CONTROL:
            continue
        writer = writer_of(level_of(path, root.rpartition("/")[0]), file)
        name = None if writer is None else writer.writer
        reset_by = resets_at(path, file, root.rpartition("/")[0], owned=False)
        found.append(HeldFile(path, file, value, before, name, reset_by))
    return tuple(found)


def _contested(agent: GuestAgent, now: float) -> tuple[ContestedFile, ...]:
    """The files that another manager resets."""
    root, ledger = agent.executor.root, agent.executor.journal.ledger
    wanted = {
        (one.path, row.file): row.value
        for one in agent.executor.with_overrides(agent.governed)
        for row in one.settings
    }
    found = []
    for (path, file), contest in sorted(agent.files.rewrites.contests.items()):
        value = wanted.get((path, file)) or ledger.files.get((path, file), ("", ""))[1]
        wait = max(0.0, contest.retry_at - now) if contest.is_reset else None
        reset_by = resets_at(path, file, root.rpartition("/")[0], owned=False)
        found.append(ContestedFile(path, file, value, contest, wait, reset_by))
    return tuple(found)
