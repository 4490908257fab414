"""What a run leaves behind: its files, and values that it gave to others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from qoslet.core.reconcile.journal import GUESTS, JournalState, Released, record_done
from qoslet.errors import CannotDo
from qoslet.host.cgroupfs.kill import is_populated
from qoslet.host.containers.log_files import LogLimits
from qoslet.host.containers.log_place import link_again, remove_logs
from qoslet.host.containers.pod_volumes import PodVolumes
from qoslet.host.containers.process_namespaces import refuse_other_namespaces
from qoslet.host.containers.records import PodRecord, records_below
from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.linux.descriptors import owned
from qoslet.host.questions import http_server
from qoslet.host.state.folder import (
    DEFAULT_STORAGE,
    KEEPER,
    LOGS,
    POD_FILES,
    POD_FOLDERS,
    folder_of,
    is_of_pods,
    own_log_directory,
)
from qoslet.host.state.own_files import unlink

if TYPE_CHECKING:
    from qoslet.app.tree import OwnedTree
    from qoslet.core.reconcile.restore import RestorePlan
    from qoslet.core.reconcile.steps import Outcome, Step


def keeper_of(tree: OwnedTree, folder: str, limits: LogLimits | None = None) -> KeeperRuntime:
    """The containers of a tree. Raises CannotDo."""
    place = tree.place
    return KeeperRuntime.connect(
        folder,
        place.root,
        place.hierarchy,
        tree.reach.mounts,
        limits=limits,
        oom_ends_scopes=tree.driver.oom_ends_scopes,
    )


def refuse_pods_of_others(tree: OwnedTree, runs_with: str = "") -> None:
    """Raise CannotDo where a pod of a tree runs in other namespaces than ours, or was started by another
    runtime than ``runs_with``, if that is given: it would be ended, and one that never restarts for
    good."""
    populated = partial(is_populated, tree.driver.layout)
    records = [*records_below(f"{folder_of(tree.place.root)}/{KEEPER}", PodRecord)]
    refuse_other_namespaces(records, tree.place.root, populated)
    for record in records if runs_with else ():
        bundles = record.spec.bundles
        kept = "process" if bundles is None else bundles.engine.name
        if kept != runs_with and any(map(populated, record.cgroups.values())):
            raise CannotDo(
                f"Pod {record.spec.key} runs --with {kept}, not --with {runs_with}",
                where=tree.place.root,
                hint=f"continue with qoslet run --with {kept}, or stop its pods with qoslet release",
            )


def remove_files(folder: str, keep: Collection[str] = ()) -> None:
    """Remove what is there for pods, once there are none, but for the names to ``keep``."""
    for name in POD_FOLDERS:
        if name in keep:
            continue
        if name == LOGS:
            # the state folder, and with it the link, may have been removed
            link_again(folder, own_log_directory())
            remove_logs(folder)
        else:
            shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
    volumes = PodVolumes(folder)
    if keep:
        volumes.finish()
    else:
        volumes.remove_all()
        if os.path.isdir(written := _written(folder)):
            from qoslet.host.oci.containers import remove_stale

            remove_stale(written)
    http_server.forget(folder)
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with owned(place):
        for name in POD_FILES:
            for file in (name, f"{name}.new"):
                if file not in keep:
                    unlink(file, place)


def has_leftovers(tree: OwnedTree) -> bool:
    """Whether something is there for pods, whatever the journal tells."""
    folder = folder_of(tree.place.root)
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    # a boot removes the state folder, but nothing of pods that is on a disk
    logs = f"{own_log_directory()}/{os.path.basename(folder)}"
    kept = os.path.isdir(logs) or os.path.isdir(_written(folder))
    return any(map(is_of_pods, names)) or kept or PodVolumes(folder).on_disk


def _written(folder: str) -> str:
    """What containers of runc and crun have written, where no other storage was named."""
    return f"{DEFAULT_STORAGE}/containers/{os.path.basename(folder)}"


def undo(tree: OwnedTree) -> list[str]:
    """Give groups of others their values of before back; what somebody else has written since stays. Returns
    what went wrong."""
    from qoslet.core.reconcile.restore import restore

    tree.forget_gone()
    ledger = tree.ledger
    if not ledger.adopted:
        return []
    tree.allow_foreign_writes(ledger.adopted)
    only = JournalState(
        files={key: row for key, row in ledger.files.items() if key[0] in ledger.adopted}
    )
    only.adopted, only.earlier, only.read_back = ledger.adopted, ledger.earlier, ledger.read_back
    what = restore(only, tree.standing(), hierarchy=tree.place.hierarchy)
    if what.refusals:
        return [refusal.message for refusal in what.refusals]
    outcomes = tree.driver.perform(what.steps)
    wrong = [f"{one.step.describe()}: {one.error}" for one in outcomes if one.error is not None]
    if not wrong:
        for path in list(ledger.adopted):
            ledger.forget(path)
    return wrong


def by_file(tree: OwnedTree) -> bool:
    """Whether a tree is another manager's: it goes on writing there, so each file is restored by
    itself."""
    return tree.verb in GUESTS


def perform(tree: OwnedTree, what: RestorePlan) -> list[Outcome]:
    """Do the steps, and write down what is over. One outcome for each step tried."""
    outcomes = _each(tree, what.steps) if by_file(tree) else tree.driver.perform(what.steps)
    waits = any(row.kind == "held" for row in what.left)
    if len(outcomes) == len(what.steps) and not waits and not any(one.error for one in outcomes):
        tree.finish()
    elif by_file(tree) and tree.journal is not None:
        # a value of another's holds nothing of ours, also if it should become what ours was
        theirs = [Released(row.path, row.file) for row in what.left if row.kind == "written"]
        record_done(tree.journal, theirs)
    return outcomes


def _each(tree: OwnedTree, steps: Sequence[Step]) -> list[Outcome]:
    """Do all steps, also after one that fails."""
    outcomes: list[Outcome] = []
    while len(outcomes) < len(steps):
        done = tree.driver.perform(steps[len(outcomes) :])
        if not done:
            break
        outcomes += done
    return outcomes
