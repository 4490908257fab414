"""The journal of a tree that stays: taken up where it was left, by one process at a time."""

from __future__ import annotations

from errno import ENOENT

from qoslet.core.reconcile.journal import Header, JournalState, read
from qoslet.errors import CannotDo
from qoslet.host.state.folder import JOURNAL, escaped
from qoslet.host.state.journal_file import (
    JournalFile,
    Owned,
    locked,
    refuse_foreign,
    same_place,
    this_boot,
)


def open_journal(
    root: str,
    tree: Owned,
    *,
    state: str,
    given: bool = False,
    boot: str | None = None,
    driver: str = "cgroupfs",
    verb: str | None = "apply",
) -> JournalFile:
    """Take up the tree at ``root``, or begin one. ``given``: the root may be another's group
    that was handed to us, with groups of others in it. ``verb``: what the tree is of; None takes
    up any.

    Its file is written with the first entry. Raises ``CannotDo`` where another process has it,
    and where a tree stands there that no journal of ours names. A journal of another boot or hierarchy is put aside.
    """
    journal, header = locked(
        root,
        tree.hierarchy,
        state=state,
        boot=boot,
        verb=verb or _verb_of(root, state),
        driver=driver,
    )
    try:
        _take_up(journal, tree, header, given)
    except BaseException:
        journal.close(gone=False)
        raise
    return journal


def _verb_of(root: str, state: str) -> str:
    """What the tree at a root is of, by its journal."""
    try:
        with open(f"{state}/{escaped(root)}/{JOURNAL}", "rb") as file:
            header = read(file.readline()).header
    except OSError:
        header = None
    return header.verb if header is not None else "apply"


def _take_up(journal: JournalFile, tree: Owned, header: Header, given: bool) -> None:
    """What the journal says that still stands; written anew where it says anything else."""
    old = journal.read()
    ledger = journal.ledger
    stale = bool(old.bad)
    if old.header is not None and same_place(old.header, header):
        ledger.add(old.entries)
        if old.header.driver != header.driver and ledger.cgroups:
            raise CannotDo(
                f"the tree was created with the {old.header.driver} driver",
                where=header.root,
                hint=f"--cgroup-driver {old.header.driver}, or qoslet release first",
            )
        stale = stale or old.header.verb != header.verb
    elif journal.archive(old.header):
        what = "that cannot be read"
        if old.header is not None:
            what = "of another boot" if old.header.boot != header.boot else "of another hierarchy"
        journal.notes.append(f"{header.root}: ignoring a journal {what}")
    if old.bad:
        journal.notes.append(f"{header.root}: {old.bad} torn or damaged lines of the journal")
    stale = prune(ledger, tree) or stale
    if old.header is not None and old.header.verb != header.verb and ledger.cgroups:
        other = {"apply": "an apply", "run": "a run"}.get(old.header.verb, "another verb")
        raise CannotDo(
            f"qoslet {other} has created this tree",
            where=header.root,
            hint=f"qoslet release --cgroup-root {header.root} removes it",
        )
    _check_root(header.root, tree, ledger, given)
    if stale:
        journal.rewrite()


def _check_root(root: str, tree: Owned, ledger: JournalState, given: bool) -> None:
    """Raise ``CannotDo`` where the root stands and is neither ours nor given to us."""
    inode = tree.identity(root)
    if inode is not None and not given and not ledger.is_owned(root, inode):
        refuse_foreign(tree, root, [root], ledger, valid=False)


def prune(ledger: JournalState, tree: Owned) -> bool:
    """Drop groups that are gone or were made anew by somebody; know the inodes of all others.
    True if that changed anything."""
    changed = False
    for path, (standing, inode) in list(ledger.cgroups.items()):
        now = tree.identity(path)
        if now is not None and now == inode:
            continue
        changed = True
        if now is None or inode != 0:
            ledger.forget(path)
        else:
            ledger.cgroups[path] = (standing, now)
    return changed


def read_journal(
    root: str, tree: Owned, *, state: str, given: bool = False, boot: str | None = None
) -> tuple[JournalState, Header]:
    """What the journal of a root says, without taking it; empty where it says nothing about this
    boot and hierarchy. Raises ``CannotDo`` where it cannot be read, or the root is another's."""
    header, ledger = Header(boot or this_boot(), tree.hierarchy, root), JournalState()
    try:
        with open(f"{state}/{escaped(root)}/{JOURNAL}", "rb") as file:
            old = read(file.read())
        if old.header is not None and same_place(old.header, header):
            ledger.add(old.entries)
            header = old.header
    except OSError as error:
        if error.errno != ENOENT:
            raise CannotDo(
                f"cannot read the journal: {error.strerror}", where=f"{state}/{escaped(root)}"
            ) from error
    prune(ledger, tree)
    _check_root(root, tree, ledger, given)
    return ledger, header
