"""The journal of a tree that stays: taken up where it was left, by one process at a time.

Where it is damaged or missing, what it said is recovered from what stands.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.cgroup.names import is_at_or_below
from qoslet.core.cgroup.tree_owner import KUBELET, tree_owner
from qoslet.core.reconcile.journal import (
    AGENT,
    GUEST,
    GUESTS,
    Created,
    CreateIntent,
    Header,
    JournalState,
    ParsedJournal,
    damaged_lines,
    read,
)
from qoslet.core.reconcile.journal_refusals import refuse_other_command, refuse_other_driver
from qoslet.errors import CannotDo
from qoslet.host.linux.descriptors import owned
from qoslet.host.linux.procfs import this_boot
from qoslet.host.state.folder import (
    JOURNAL,
    PLUGIN_JOURNAL,
    UNREADABLE,
    escaped,
    has_logs_of,
    is_of_pods,
    own_log_directory,
)
from qoslet.host.state.journal_file import (
    JournalFile,
    Owned,
    contents,
    locked,
    refuse_foreign,
    same_place,
)
from qoslet.host.state.keepers import keepers_of
from qoslet.host.state.moved import refuse_moved
from qoslet.host.state.prune import Recorded, prune
from qoslet.host.state.root_lock import cannot

DAMAGED_SHOWN = 5
"""Damaged lines whose numbers are logged."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Parts(Struct):
    """What can be read of a journal."""

    parsed: ParsedJournal
    lost: bool
    """Whether it has no header."""
    boot_known: bool
    """Whether it has no header and is of this boot all the same."""
    aside: bool
    """Whether an earlier version put it aside as unreadable."""
    verb: str
    """The command that made the tree, as what is left of the journal suggests."""
    damaged: list[int] = []
    """The numbers of the damaged lines."""
    torn: bool = False
    """Whether the last line alone is damaged: that of a write that was never done."""

    @property
    def lacks_values(self) -> bool:
        """Whether values that a journal of this boot named may be lost with its damaged lines."""
        if self.parsed.header is None:
            return self.boot_known
        return bool(self.damaged) and not self.torn

    def header_like(self, header: Header) -> Header | None:
        """Its header; if that is lost and the boot is known, ``header`` with the journal's verb."""
        if self.parsed.header is None and self.boot_known:
            return replace(header, verb=self.verb)
        return self.parsed.header


def open_journal(
    root: str,
    tree: Owned,
    *,
    state: str,
    given: bool = False,
    boot: str | None = None,
    driver: str = "cgroupfs",
    verb: str | None = "apply",
    recorded: Recorded = tuple,
) -> JournalFile:
    """Lock a root and read the journal of its tree, or begin one. ``given``: the root may be a cgroup of
    somebody else, with other cgroups in it, that qoslet was told to use. ``verb`` is the command that
    makes or has made the tree; None accepts any.

    The file is written with the first entry. A journal of another boot or hierarchy is put aside.
    Raises ``CannotDo`` if another process holds the root, or if a tree exists there that no journal of
    ours names.
    """
    journal, header = lock_root(
        root, tree.hierarchy, state=state, boot=boot, driver=driver, verb=verb
    )
    take_up(journal, tree, header, given=given, recorded=recorded)
    return journal


def lock_root(
    root: str,
    hierarchy: str,
    *,
    state: str,
    boot: str | None = None,
    driver: str = "cgroupfs",
    verb: str | None = "apply",
) -> tuple[JournalFile, Header]:
    """Lock a root before anything is read of its tree. Returns its journal and header for ``take_up``.
    Raises ``CannotDo`` if another process holds it."""
    known = verb or verb_of(root, state)
    return locked(
        root, hierarchy, state=state, boot=boot, verb=known, driver=driver, releasing=verb is None
    )


def take_up(
    journal: JournalFile,
    tree: Owned,
    header: Header,
    *,
    given: bool = False,
    recorded: Recorded = tuple,
) -> None:
    """Read the journal of a locked root as ``open_journal`` does. Raises ``CannotDo`` after unlocking the
    root."""
    try:
        _take_up(journal, tree, header, given or header.verb in GUESTS, recorded)
        if journal.ledger.cgroups or journal.ledger.files:
            journal.reserve()
    except BaseException:
        journal.close(gone=False)
        raise


def verb_of(root: str, state: str) -> str:
    """The command that made the tree at a root, by its journal; without one, by the root's name."""
    folder = _opened(f"{state}/{escaped(root)}")
    if folder < 0:
        return GUEST if tree_owner(root) == KUBELET else "apply"
    with owned(folder):
        with suppress(OSError), open(f"/proc/self/fd/{folder}/{JOURNAL}", "rb") as file:
            if (header := read(file.readline()).header) is not None:
                return header.verb
        parts = _parts(folder, root, tuple)
        if parts.parsed.header is not None:
            return parts.parsed.header.verb
        # only a plugin beside an agent has one
        return AGENT if PLUGIN_JOURNAL in os.listdir(folder) else parts.verb


def _opened(path: str) -> int:
    """The descriptor of a state folder; -1 if there is none. Raises ``CannotDo``."""
    try:
        return os.open(path, _FOLDER)
    except FileNotFoundError:
        return -1
    except OSError as error:
        raise cannot("cannot read the journal", error, path) from error


def _parts(folder: int, root: str, recorded: Recorded) -> _Parts:
    """Read the journal in the state folder of ``root``. Raises ``CannotDo``."""
    data, aside, name = contents(folder), False, JOURNAL
    parsed = read(data)
    damaged = damaged_lines(data) if parsed.bad else []
    if parsed.header is None and not parsed.entries:
        name = f"{JOURNAL}.{UNREADABLE}"
        other = read(contents(folder, name))
        if other.header is not None or other.entries:
            parsed, aside = other, True
    lost = parsed.header is None
    pods = lost or bool(parsed.bad)
    pods = pods and any(map(is_of_pods, os.listdir(folder)))
    verb = "run" if pods else "apply"
    if not pods and _is_guests(parsed, root):
        verb = GUEST
    known = lost and (
        _written_since_boot(folder, name if aside else JOURNAL) or (pods and bool(recorded()))
    )
    torn = len(damaged) == 1 and not data.endswith(b"\n")
    return _Parts(parsed, lost, known, aside, verb, damaged, torn)


def _is_guests(parsed: ParsedJournal, root: str) -> bool:
    """Whether a journal without a header is about a tree of another manager, in which nothing is ours."""
    if any(isinstance(entry, CreateIntent | Created) for entry in parsed.entries):
        return False
    return bool(parsed.entries) or tree_owner(root) == KUBELET


def _written_since_boot(folder: int, name: str) -> bool:
    """Whether a file was written in this boot, by its time."""
    try:
        written = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
    except OSError:
        return False
    return written > time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def _recovered(
    ledger: JournalState, parts: _Parts, tree: Owned, root: str, given: bool, recorded: Recorded
) -> list[str]:
    """Add to ``ledger`` the cgroups that a damaged journal must have named. Returns lines about that."""
    # what most journals never need
    from qoslet.core.reconcile.recover import recover, written_elsewhere

    parsed, notes = parts.parsed, list[str]()
    if parsed.bad:
        numbers = ", ".join(map(str, parts.damaged[:DAMAGED_SHOWN]))
        notes.append(f"{root}: {parsed.bad} torn or damaged lines of the journal (line {numbers})")
    if (parts.parsed.header.verb if parts.parsed.header else parts.verb) in GUESTS:
        # the cgroups that stand there are another manager's, whatever their names and values
        if parts.lost and not parsed.bad:
            notes.append(f"{root}: the journal is empty, no file, or without its beginning")
        return notes
    standing = {path: tree.identity(path) or 0 for path in tree.below(root)}
    others = {path: tree.identity(path) for path in written_elsewhere(ledger, root)}
    standing |= {path: inode for path, inode in others.items() if inode is not None}
    full = {path for path in standing if path not in others and tree.members(path)}
    full = {path for path in standing if any(is_at_or_below(one, path) for one in full)}
    found = recover(
        ledger,
        standing,
        root,
        recorded=recorded(),
        empty=standing.keys() - full - others.keys(),
        given=given,
    )
    ledger.add(found)
    if found:
        some = ", ".join(one.path for one in found[:3]) + (", ..." if len(found) > 3 else "")
        notes.append(
            f"{root}: recovered {len(found)} cgroups from their names, values and records: {some}"
        )
    if parts.lost:
        what = "is damaged" if parsed.bad else "is missing"
        notes.append(
            f"{root}: the journal {what}: values of other cgroups that only it knew are not restored"
        )
    return notes


def _take_up(
    journal: JournalFile, tree: Owned, header: Header, given: bool, recorded: Recorded
) -> None:
    """Take from the journal what still holds, and rewrite its file if that says anything else."""
    parts = _parts(journal.folder, header.root, recorded)
    ledger, root = journal.ledger, header.root
    before = parts.header_like(header)
    current = before if before is not None and same_place(before, header) else None
    stale = bool(parts.parsed.bad) or parts.aside or (parts.lost and parts.boot_known)
    if current is not None:
        ledger.add(parts.parsed.entries)
        if stale:
            journal.notes += _recovered(ledger, parts, tree, root, given, recorded)
        if current.verb in GUESTS and parts.lacks_values:
            _keep_aside(journal)
        refuse_other_driver(current, header, ledger)
        stale = stale or current.verb != header.verb
    stale = prune(ledger, tree, recorded) or stale
    refuse_other_command(before, header, ledger)
    if parts.lost:
        # what cannot be read stays where it is until it is known that nothing needs it
        _check_root(root, tree, ledger, given, parts, journal.path)
    if current is None and journal.archive(parts.parsed.header):
        journal.notes.append(f"{root}: ignoring a journal {_whose(parts.parsed.header, header)}")
    _check_root(root, tree, ledger, given, parts, journal.path)
    if stale:
        journal.rewrite()
        journal.forget_aside()


def _whose(found: Header | None, header: Header) -> str:
    """Why a journal does not count, for a note: it is of another boot or hierarchy."""
    if found is None:
        return "that cannot be read"
    return f"of another {'boot' if found.boot != header.boot else 'hierarchy'}"


def _keep_aside(journal: JournalFile) -> None:
    """Keep a copy of a damaged journal beside the one that replaces it. Raises ``CannotDo``."""
    from qoslet.host.state.damaged import keep_aside

    try:
        keep_aside(journal.folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot("cannot keep the damaged journal", error, journal.path) from error


def damaged_journals(root: str, state: str) -> list[str]:
    """Paths of the damaged journals of a kubelet's tree: those kept aside, and the current one.
    Raises ``CannotDo``."""
    from qoslet.host.state.damaged import kept_aside

    path = f"{state}/{escaped(root)}"
    folder = _opened(path)
    if folder < 0:
        return []
    with owned(folder):
        parts = _parts(folder, root, tuple)
    return [*kept_aside(path), *([f"{path}/{JOURNAL}"] if parts.lacks_values else [])]


def _check_root(
    root: str, tree: Owned, ledger: JournalState, given: bool, parts: _Parts | None, folder: str
) -> None:
    """Raise ``CannotDo`` if the root exists and is neither ours nor ``given``. ``folder`` is the path of its
    state folder."""
    inode = tree.identity(root)
    if inode is None or given or ledger.is_owned(root, inode):
        return
    if keepers := keepers_of(folder):
        raise CannotDo(
            f"the state of this tree was removed, but its keeper (process {keepers[0]}) has its pods",
            where=root,
            hint="start them nowhere else; the keeper writes their records again: repeat this in a few seconds",
        )
    refuse_moved(root, folder)
    damaged = parts is not None and (parts.parsed.bad or parts.boot_known or parts.verb == "run")
    logs = f"{own_log_directory()}/{os.path.basename(folder)}"
    if damaged or has_logs_of(logs, tree.below(root)):
        raise CannotDo(
            "the journal of this tree is damaged or missing, and what runs in it is not recorded",
            where=root,
            hint="its pods may still run, so start them nowhere else: stop the processes below it, "
            "rmdir its cgroups, then run qoslet release",
        )
    refuse_foreign(tree, root, [root], ledger, valid=False)


def read_journal(
    root: str,
    tree: Owned,
    *,
    state: str,
    given: bool = False,
    boot: str | None = None,
    recorded: Recorded = tuple,
) -> tuple[JournalState, Header]:
    """Read the journal of a root without locking it; the state is empty if the journal is not about this
    boot and hierarchy. Raises ``CannotDo`` if it cannot be read, or if the root is somebody else's."""
    header, ledger = Header(boot or this_boot(), tree.hierarchy, root), JournalState()
    folder = _opened(f"{state}/{escaped(root)}")
    parts: _Parts | None = None
    if folder >= 0:
        with owned(folder):
            parts = _parts(folder, root, recorded)
        before = parts.header_like(header)
        if before is not None and same_place(before, header):
            ledger.add(parts.parsed.entries)
            header, given = before, given or before.verb in GUESTS
            if parts.parsed.bad or parts.lost:
                _recovered(ledger, parts, tree, root, given, recorded)
    prune(ledger, tree, recorded)
    _check_root(root, tree, ledger, given, parts, f"{state}/{escaped(root)}")
    return ledger, header
