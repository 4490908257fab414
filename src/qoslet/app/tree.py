"""Joins real parts for one pass over a tree that stays: what ``apply`` and ``release`` need."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from qoslet.app.waiting import say_waiting
from qoslet.core.cgroup.interface_files import UNMANAGED, controller
from qoslet.core.cgroup.names import DEFAULT_ROOT, checked_root, is_at_or_below, is_below
from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.reconcile.journal import CONTROL, GUESTS, Adopted, Header, JournalState, Set
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.delegation import Delegation, missing_below, own_root, probe_delegation
from qoslet.host.cgroupfs.layout import unified
from qoslet.host.cgroupfs.mounted import required_mounts
from qoslet.host.linux.openat import parent
from qoslet.host.state.folder import (
    escaped,
    state_directory,
)
from qoslet.host.state.resume import (
    damaged_journals,
    lock_root,
    read_journal,
    take_up,
    verb_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from qoslet.core.cgroup.names import DriverName
    from qoslet.core.node.node import Hierarchy
    from qoslet.core.reconcile.restore import TreeState
    from qoslet.host.cgroupfs.driver import Cgroupfs
    from qoslet.host.cgroupfs.observe.fast_observer import FastObserver
    from qoslet.host.cgroupfs.observe.observer import CgroupObserver
    from qoslet.host.state.journal_file import JournalFile
    from qoslet.host.systemd.bus import Bus


class TreeLocation(Struct, frozen=True):
    """Where a tree stands or will stand on this machine."""

    hierarchy: Hierarchy
    mounts: Mapping[str, str]
    root: str
    driver: DriverName = "cgroupfs"


class OwnedTree:
    """A root as ``tree`` opens it, with its driver, observer and ledger.

    ``journal`` is None if the tree was not opened to be written. ``verb`` is the command that made the
    tree. ``notes`` say what opening it found; ``damage`` is the error about damaged journals of
    another manager's tree. ``identities`` are the inodes that opening it has read: the first
    ``read_planned`` uses them up.
    """

    def __init__(self, place: TreeLocation, reached: Delegation, driver: Cgroupfs) -> None:
        self.place = place
        self.reach = reached
        self.driver = driver
        self.ledger = JournalState()
        self.journal: JournalFile | None = None
        self.notes: list[str] = []
        self.verb = "apply"
        self.damage: CannotDo | None = None
        self.identities: Mapping[str, int] = {}
        self._files: tuple[str, ...] = ()
        self._observer: CgroupObserver | None = None
        self._fast_observer: FastObserver | None = None

    @property
    def observer(self) -> CgroupObserver:
        """The observer; a fast look that finds everything as planned needs none."""
        if self._observer is None:
            from qoslet.host.cgroupfs.observe.observer import CgroupObserver

            self._observer = CgroupObserver(self.place.hierarchy, self.reach.mounts)
            self._observer.watch(self._files)
        return self._observer

    def watch(self, files: Iterable[str]) -> None:
        """Read these files besides the known ones."""
        from qoslet.host.cgroupfs.observe.fast_observer import FastObserver

        self._files = tuple(files)
        if self._observer is not None:
            self._observer.watch(self._files)
        if self._fast_observer is not None:
            self._fast_observer.close()
        self._fast_observer = FastObserver(self.place.hierarchy, self.reach.mounts, self._files)

    def observe(self, root: str, *, values: bool = True) -> Observed:
        """The subtree below and including ``root``."""
        return self.observer.observe(root, values=values)

    def read_cgroup(self, path: str) -> ObservedCgroup | None:
        """One group, None where it is absent."""
        return self.observer.read_cgroup(path)

    def identity(self, path: str) -> int | None:
        """The inode of a group, None where it is absent."""
        return self.observer.identity(path)

    def exists(self, path: str) -> bool:
        """Whether a group is there."""
        return self.driver.identity(path) is not None

    def read_planned(self, paths: Iterable[str]) -> Observed | None:
        """The settings of these groups; None if one of them is absent, or ``watch`` was not called."""
        if self._fast_observer is None:
            return None
        identities, self.identities = self.identities, {}
        return self._fast_observer.observe(paths, identities)

    def reclaimable_cache(self, path: str) -> int:
        """Bytes of page cache in a group that can be taken back without a kill."""
        return self.observer.reclaimable_cache(path)

    def allow_foreign_writes(self, others: Iterable[str]) -> None:
        """Let the driver write in these groups of others."""
        self.driver.others.update(others)

    def adopt(self, others: Collection[str]) -> None:
        """Let the driver write in these groups of others, and record in the journal which controllers it
        may enable above them for that."""
        self.allow_foreign_writes(others)
        for path in others:
            self.record_controllers(path)

    def record_controllers(self, group: str = "") -> bool:
        """Record in the journal which controllers the driver will enable above the root when it creates
        that, or above ``group`` when it writes there. Returns whether there are any."""
        if unified(self.driver.layout) is None or self.journal is None:
            return False
        wanted, is_any = self.reach.controllers, False
        if self.place.driver == "systemd":
            # the others it switches by itself, as its units need them
            wanted &= UNMANAGED & {controller(file) for file in self._files}
        come: set[str] = set()
        for path in self._above(group or self.place.root):
            # what is enabled above comes along
            there = self._words(path, "cgroup.controllers").keys() | come
            given = self._words(path, CONTROL)
            added = (wanted & there) - given.keys()
            come = given.keys() | added
            above = self.observer.read_cgroup(path or "/")
            if above is None or not added:
                continue
            name, is_any = path or "/", True
            after = " ".join([*given, *sorted(added)])
            self.journal.record(
                [Adopted(name, above.identity), Set(name, CONTROL, " ".join(given), after)]
            )
        return is_any

    def _above(self, path: str) -> list[str]:
        """The groups above ``path`` that are not ours, from the hierarchy's top (``""``) down."""
        found = []
        while path not in ("", "/"):
            path = parent(path)
            if not is_at_or_below(path, self.place.root):
                found.append(path)
        return found[::-1]

    def _words(self, path: str, file: str) -> dict[str, None]:
        """The words of a file on v2, in their order."""
        return dict.fromkeys(self.driver.layout.trees[0].read(path, file).split())

    def close(self) -> None:
        """Close every descriptor but the journal's."""
        for observer in (self._fast_observer, self._observer):
            if observer is not None:
                observer.close()
        self.driver.close()

    def finish(self) -> None:
        """Clear the ledger after everything was undone."""
        self.ledger.files.clear()
        self.ledger.adopted.clear()
        self.forget_gone()

    def forget_gone(self) -> None:
        """Forget cgroups that do not exist: systemd or a runtime removed them, or none was created."""
        for path in list(self.ledger.cgroups):
            inode = self.driver.identity(path)
            if inode is None or not self.ledger.is_owned(path, inode):
                self.ledger.forget(path)
        for path, inode in list(self.ledger.adopted.items()):
            if is_below(path, self.place.root) and self.driver.identity(path) != inode:
                self.ledger.forget(path)

    def standing(self) -> TreeState:
        """The state of the tree from which ``release`` works out its steps."""
        from qoslet.core.reconcile.restore import TreeState

        root, driver = self.place.root, self.driver
        self.observer.watch({file for _, file in self.ledger.files if file != CONTROL})
        seen = self.observer.observe(root)
        # On v1 somebody may have made a group in one hierarchy only.
        every = {**self.observer.observe(root, values=False).cgroups, **seen.cgroups}
        tree = {
            path: replace(one, identity=self._inode(one), pids=tuple(sorted(driver.members(path))))
            for path, one in every.items()
        }
        controls = [path for path, file in self.ledger.files if file == CONTROL]
        if controls:
            self.observer.watch([CONTROL])
        looked = {path: self.observer.read_cgroup(path) for path in self.ledger.adopted}
        others = {path: one for path, one in looked.items() if one is not None}
        beside = {path: self._beside(path) for path in controls}
        return TreeState(root, Observed(seen.at, tree), others, beside)

    def _inode(self, seen: ObservedCgroup) -> int:
        """The inode by which the journal knows a cgroup. On v1 systemd removes a scope hierarchy by
        hierarchy: the rest of one that is gone in the first is still the one that the journal names."""
        _, known = self.ledger.cgroups.get(seen.path, ("", seen.identity))
        gone = self.driver.layout.trees[0].identity(seen.path) is None
        return known if gone else seen.identity

    def _beside(self, path: str) -> list[ObservedCgroup]:
        """The groups directly below ``path`` except the one towards our root."""
        above = "" if path == "/" else path
        below = self.driver.layout.trees[0].children(above)
        root = self.place.root
        looked = [
            self.observer.read_cgroup(one)
            for one in below
            if one != root and not is_below(root, one)
        ]
        return [one for one in looked if one is not None]


def default_root() -> str:
    """``/qoslet``; for a user without rights ``qoslet`` in the delegated group it runs in."""
    user = os.geteuid()
    if user == 0:
        return DEFAULT_ROOT
    return own_root(*required_mounts(), user) or DEFAULT_ROOT


def chosen_root(given: str | None) -> str:
    """The root that ``--cgroup-root`` names, or the default one. Raises BadInput."""
    return checked_root(default_root() if given is None else given)


def place_of(root: str, hierarchy: Hierarchy | None, driver: DriverName) -> TreeLocation:
    """The root on this machine. Raises CannotDo where ``hierarchy`` is not this machine's,
    BadInput where the driver can have no such root."""
    if driver == "systemd":
        from qoslet.core.cgroup.names import root_path

        root = root_path(root, driver)
    return TreeLocation(*required_mounts(hierarchy), root, driver)


@contextmanager
def tree(
    place: TreeLocation,
    *,
    write: bool,
    verb: str | None = "apply",
    attend: Callable[[Bus], None] = say_waiting,
) -> Iterator[OwnedTree]:
    """Open the tree at a root, to ``write`` to it under its lock, or to read it. ``verb`` is the command
    that makes or has made the tree; None accepts any. ``attend`` is called with systemd's bus before
    the first question to it.

    Raises CannotDo if the tree is to be written and cgroups cannot be created, another process holds
    the root, or another program made it.
    """
    state = _state(place, write, attend)
    lock, driver, reached = _locked_driver(place, state, write, verb, attend)
    made = OwnedTree(place, reached, driver)
    recorded = partial(_recorded, driver, f"{state}/{escaped(place.root)}")
    try:
        if lock is not None:
            journal, header = lock
            take_up(journal, driver, header, given=reached.given, recorded=recorded)
            made.journal = journal
            made.notes += journal.notes
            made.ledger, made.verb = journal.ledger, journal.verb
            driver.journal = journal
        else:
            made.ledger, header = read_journal(
                place.root,
                driver,
                state=state,
                given=reached.given or (verb or verb_of(place.root, state)) in GUESTS,
                recorded=recorded,
            )
            made.verb = header.verb
        if made.verb in GUESTS:
            from qoslet.host.state.damaged import damage

            made.damage = damage(damaged_journals(place.root, state))
            if made.damage is not None and verb is not None:
                made.notes.append(str(made.damage))
        made.identities = {path: inode for path, (_, inode) in made.ledger.cgroups.items()}
        _accept_given_root(made)
        made.allow_foreign_writes(made.ledger.adopted)
        yield made
    finally:
        if made.journal is not None:
            made.journal.close(gone=_nothing_left(made))
        made.close()


def _state(place: TreeLocation, write: bool, attend: Callable[[Bus], None]) -> str:
    """The directory of this user's state folders. Raises CannotDo if there is none, as for a user who has
    not logged in; if the driver cannot be had either, its reason comes first."""
    user = os.geteuid()
    try:
        return state_directory(os.environ, user, write=write)
    except CannotDo:
        driver, _ = _driver(place, user, write, attend)
        driver.close()
        raise


def _locked_driver(
    place: TreeLocation, state: str, write: bool, verb: str | None, attend: Callable[[Bus], None]
) -> tuple[tuple[JournalFile, Header] | None, Cgroupfs, Delegation]:
    """The root's lock (None unless it is to be written), its driver, and what groups below it can get. The
    lock comes first, since systemd may be waited for."""
    lock = None
    if write:
        lock = lock_root(place.root, place.hierarchy, state=state, driver=place.driver, verb=verb)
    try:
        return lock, *_driver(place, os.geteuid(), write, attend)
    except BaseException:
        if lock is not None:
            lock[0].close(gone=False)
        raise


def _recorded(driver: Cgroupfs, folder: str) -> list[str]:
    """The groups that the records of this boot's pods name (``recorded_cgroups``)."""
    from qoslet.app.recorded import recorded_cgroups

    return recorded_cgroups(folder, driver.members)


def _driver(
    place: TreeLocation, user: int, write: bool, attend: Callable[[Bus], None]
) -> tuple[Cgroupfs, Delegation]:
    """The driver, with what groups below the root can get."""
    from qoslet.host.cgroupfs.driver import Cgroupfs

    if place.driver == "systemd":
        from qoslet.host.systemd.select_driver import systemd_driver

        systemd = systemd_driver(
            place.hierarchy, place.mounts, place.root, files=[CONTROL], attend=attend
        )
        if (v2 := unified(systemd.layout)) is not None:
            point = v2.tree.point
            return systemd, Delegation({"unified": point}, missing_below(point))
        return systemd, Delegation(place.mounts, {})
    reached = probe_delegation(place.hierarchy, place.mounts, place.root, user, write=write)
    driver = Cgroupfs(place.hierarchy, reached.mounts, place.root, files=[CONTROL])
    if (layout := unified(driver.layout)) is not None:
        layout.wanted = reached.controllers
    return driver, reached


def _accept_given_root(made: OwnedTree) -> None:
    """Take a root that exists and that we did not create as given: the driver neither creates nor removes
    it, and the journal says so."""
    root, inode = made.place.root, made.driver.identity(made.place.root)
    if inode is None or made.ledger.is_owned(root, inode):
        return
    made.driver.stands(root)
    if made.journal is not None and made.ledger.adopted.get(root) != inode:
        made.journal.record([Adopted(root, inode)])


def _nothing_left(made: OwnedTree) -> bool:
    """Whether nothing of ours stands any more."""
    return not made.ledger.cgroups and not made.ledger.files


def page_size() -> int:
    """Bytes of a page on this machine."""
    return os.sysconf("SC_PAGE_SIZE")
