"""What a damaged journal no longer says, from what stands: groups by their names, by the values that
were written in them, by the groups below them and by the records of pods."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from qoslet.core.cgroup.names import is_at_or_below, is_below, is_pod
from qoslet.core.reconcile.journal import Adopted, Created, JournalState

_NAMES = ("kubepods", "burstable", "besteffort")


def recover(
    ledger: JournalState,
    standing: Mapping[str, int],
    root: str,
    *,
    recorded: Collection[str] = (),
    empty: Collection[str] = (),
    given: bool = False,
) -> list[Created | Adopted]:
    """The groups that a journal must have named, parents first. ``standing`` are all below
    ``root`` and those that the journal has values of, with their inodes; ``recorded`` are those that
    the record of a pod of this boot names, ``empty`` those without a process in or below them.
    ``given``: the root is another's.

    A group below the root is ours where one of ours is below it (in a group of others nothing is
    made), where a value of ours was written in it, where a record names it, or where it is empty and
    has a name that only a tree of pods has.
    """
    ours = {path for path, inode in standing.items() if ledger.is_owned(path, inode)}
    ours |= {path for path in recorded if path in standing}
    ours |= {path for path in ledger.names if path in standing}
    ours |= {path for path in empty if _is_named_ours(path, root)}
    found: list[Created | Adopted] = []
    for path in sorted({one for each in ours for one in _up_to(each, root)}):
        inode = standing.get(path)
        if inode is None or ledger.is_owned(path, inode) or ledger.adopted.get(path) == inode:
            continue
        inside = is_below(path, root) or (path == root and not given)
        if inside and path not in ledger.adopted:
            found.append(Created(path, inode))
        elif not inside and ledger.names.get(path):
            found.append(Adopted(path, inode))
    return found


def written_elsewhere(ledger: JournalState, root: str) -> list[str]:
    """The groups outside ``root`` of which a journal has values but not whose they are."""
    return [
        path
        for path in ledger.names
        if path not in ledger.adopted and not is_at_or_below(path, root)
    ]


def _up_to(path: str, root: str) -> Iterator[str]:
    """A group and those above it, up to the root where it is below that."""
    yield path
    while is_below(path, root):
        path = path.rpartition("/")[0]
        yield path


def _is_named_ours(path: str, root: str) -> bool:
    """Whether all names from the root to a group are such as a tree of pods has."""
    if path == root:
        return True
    if not is_below(path, root):
        return False
    pod = False
    for name in path.removeprefix(root).strip("/").split("/"):
        plain = name.removesuffix(".slice").rpartition("-")[2]
        if not pod and not (name in _NAMES or plain in _NAMES or is_pod(name)):
            return False
        pod = pod or is_pod(name)
    return True
