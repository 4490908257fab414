"""What the plugin of the container runtime has set in this machine's tree, for the agent and ``release``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from qoslet.core.reconcile.journal import AGENT, GUESTS, Adopted, JournalState
from qoslet.core.reconcile.take_over import taken_over
from qoslet.errors import CannotDo
from qoslet.host.nri.plugin_journal import is_plugin_running, journal_path, read_plugin_journal
from qoslet.host.state.folder import own_state_directory

if TYPE_CHECKING:
    from qoslet.app.tree import OwnedTree


class PluginValues:
    """Reads the plugin's journal whenever it is another."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._state = own_state_directory()
        self._path = journal_path(root, self._state)
        self._read_at: tuple[int, int, int] | None = None
        self._values = JournalState()

    def __call__(self) -> JournalState:
        """What it says now. Raises CannotDo."""
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except OSError:
            self._values, self._read_at = JournalState(), None
            return self._values
        at = found.st_ino, found.st_size, found.st_mtime_ns
        if at != self._read_at:
            self._values, self._read_at = read_plugin_journal(self._root, self._state), at
        return self._values


def take_over(tree: OwnedTree) -> None:
    """Have what the plugin has set restored with what the agent wrote. Raises CannotDo where the plugin
    runs: it would set the values again."""
    root, state = tree.place.root, own_state_directory()
    plugin = read_plugin_journal(root, state)
    if tree.journal is None and not tree.ledger.cgroups and not tree.ledger.files and plugin.files:
        # a look at a tree in which no agent wrote
        tree.verb = AGENT
    if tree.verb not in GUESTS or not plugin.files:
        return
    if is_plugin_running(root, state):
        hint = "stop it; without --keep it gives its values back"
        raise CannotDo("qoslet nri runs here, and sets values", where=root, hint=hint)
    tree.observer.watch({file for _, file in plugin.files})
    looked = {path: tree.observer.read_cgroup(path) for path in plugin.names}
    seen = {path: one for path, one in looked.items() if one is not None}
    entries = taken_over(tree.ledger, plugin, seen, os.sysconf("SC_PAGE_SIZE"))
    adopted = [Adopted(path, seen[path].identity) for path in {one.path: None for one in entries}]
    if tree.journal is None:
        tree.ledger.add([*adopted, *entries])
    else:
        tree.journal.record([*adopted, *entries])
    tree.allow_foreign_writes(tree.ledger.adopted)
