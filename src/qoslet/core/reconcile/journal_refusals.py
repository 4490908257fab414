"""Trees that a journal says are another command's, or another driver's."""

from __future__ import annotations

from qoslet.core.reconcile.journal import AGENT, GUEST, GUESTS, Header, JournalState
from qoslet.errors import CannotDo

_COMMANDS = {GUEST: "audit --fix", AGENT: "agent"}


def refuse_other_driver(before: Header, now: Header, state: JournalState) -> None:
    """Raise ``CannotDo`` where another driver made the cgroups that stand."""
    if before.driver != now.driver and state.cgroups:
        raise CannotDo(
            f"the tree was created with the {before.driver} driver",
            where=now.root,
            hint=f"--cgroup-driver {before.driver}, or qoslet release first",
        )


def refuse_other_command(before: Header | None, now: Header, state: JournalState) -> None:
    """Raise ``CannotDo`` where another command made the cgroups that stand, or has left values in a
    tree of others: neither of the two knows which of the other's to give back."""
    if before is None or before.verb == now.verb:
        return
    if state.files and before.verb in GUESTS and now.verb in GUESTS:
        raise CannotDo(
            f"qoslet {_COMMANDS[before.verb]} has written values in this tree",
            where=now.root,
            hint=f"qoslet release --cgroup-root {now.root} restores them",
        )
    if state.cgroups:
        pods = "stops its pods and " if before.verb == "run" else ""
        raise CannotDo(
            f"qoslet {before.verb} has created this tree",
            where=now.root,
            hint=f"use another root; qoslet release --cgroup-root {now.root} {pods}removes it",
        )
