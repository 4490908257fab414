"""How what a run leaves behind is ended: its pods, their files, and values that it gave to others."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from qoslet.app.runtimes import cri_run
from qoslet.app.runtimes.runtime_cgroups import runtime_cgroups
from qoslet.core.reconcile.journal import GUESTS, JournalState, Released, record_done
from qoslet.core.workload.lifecycle import Patience
from qoslet.errors import CannotDo, QosletError
from qoslet.host.cgroupfs.kill import is_populated
from qoslet.host.cgroupfs.lifted_limits import lifting
from qoslet.host.containers.log_files import LogLimits
from qoslet.host.containers.log_place import remove_logs
from qoslet.host.containers.pod_volumes import PodVolumes
from qoslet.host.containers.process_namespaces import refuse_other_namespaces
from qoslet.host.containers.records import PodRecord, records_below
from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.linux.descriptors import owned
from qoslet.host.machine.utilization import Killing
from qoslet.host.questions import http_server
from qoslet.host.state.folder import (
    KEEPER,
    LOGS,
    POD_FILES,
    POD_FOLDERS,
    folder_of,
    is_of_pods,
)
from qoslet.host.state.keepers import end as end_keepers
from qoslet.host.state.keepers import keepers_of, wake
from qoslet.host.state.own_files import unlink

if TYPE_CHECKING:
    from qoslet.agent.ports import Runtime
    from qoslet.app.tree import OwnedTree
    from qoslet.core.reconcile.restore import RestorePlan
    from qoslet.core.reconcile.steps import Outcome, Step
    from qoslet.core.workload.pod_status import RuntimePod

POLL_SECONDS = 0.02
KEEPER_PATIENCE, RUNTIME_PATIENCE = 10.0, 30.0
"""Seconds beyond the longest grace period until pods that do not end are left."""
LIFT_SECONDS = 1.0
"""Between two looks at what holds back pods that do not end."""
SCOPE_SECONDS = 10.0
"""How long systemd may take to remove the scopes of containers that have ended."""
PODS_TOLD = 5
"""How many pods are named where more do not end."""


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
            remove_logs(folder)
        else:
            shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
    volumes = PodVolumes(folder)
    if keep:
        volumes.finish()
    else:
        volumes.remove_all()
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


def has_records(folder: str) -> bool:
    """Whether a runtime keeps pods of a root."""
    return cri_run.has_pods(folder) or cri_run.has_pods(folder, KEEPER)


def has_leftovers(tree: OwnedTree) -> bool:
    """Whether something is there for pods, whatever the journal tells."""
    folder = folder_of(tree.place.root)
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return any(map(is_of_pods, names)) or PodVolumes(folder).on_disk


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


def end_pods(tree: OwnedTree, say: Callable[[str], None]) -> list[str]:
    """End what a run has left running: containers through their keeper, in their grace periods,
    then whatever is in our groups; give the pods' volumes back. Lines that say what was ended;
    ``say`` hears of a wait while it lasts. Raises CannotDo where something cannot be ended."""
    folder = folder_of(tree.place.root)
    refuse_pods_of_others(tree)
    made = runtime_cgroups(tree)
    lines = _end_runtime_pods(tree, folder, say) + _end_keeper_pods(tree, folder, say)
    if lines:
        wait_for_scopes(tree)
    # each by itself: what others have beside them below the root is not ours to end
    occupied = {path: tree.driver.members(path) for path in (*tree.ledger.cgroups, *made)}
    left = sorted({pid for pids in occupied.values() for pid in pids})
    if left:
        killing = Killing(tree.driver.kill)
        who = killing.describe_processes(tree.place.root, left)
        ended = [tree.driver.kill(path) for path, pids in occupied.items() if pids]
        if not all(ended):
            alive = [pid for pid in left if killing.lives(pid)]
            who = killing.describe_processes(tree.place.root, alive, killed=True) or who
            raise CannotDo(
                f"{who} cannot be stopped",
                where=tree.place.root,
                hint="find out why, then release again",
            )
        lines.append(f"{tree.place.root}: killed {who}, which no keeper supervises")
    for path in made:
        # of a runtime that was killed while it removed it; one that is not empty stays
        tree.driver.discard(path)
    volumes = PodVolumes(folder)
    for uid in volumes.existing():
        volumes.remove(uid, detach=True)
    if not lines and has_leftovers(tree):
        lines = [f"{folder}: removed the state of a run without pods"]
    remove_files(folder)
    tree.forget_gone()
    return [*lines, *volumes.notes]


def wait_for_scopes(tree: OwnedTree, seconds: float = SCOPE_SECONDS) -> None:
    """Wait while systemd removes the scopes that a runtime made in pods' cgroups: it does so a while
    after their last process, and what is in no journal is not ours to remove."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(
        path.endswith(".scope")
        and path not in tree.ledger.cgroups
        and not tree.driver.members(path)
        for path in tree.observe(tree.place.root, values=False).cgroups
    ):
        time.sleep(POLL_SECONDS)


def pods_left(tree: OwnedTree) -> list[str]:
    """What ``end_pods`` would end."""
    paths = (*tree.ledger.cgroups, *runtime_cgroups(tree))
    pids = sorted({pid for path in paths for pid in tree.driver.members(path)})
    if not pids:
        return []
    who = Killing(tree.driver.kill).describe_processes(tree.place.root, pids)
    return [f"{tree.place.root}: {who} would be stopped first"]


def _end_runtime_pods(tree: OwnedTree, folder: str, say: Callable[[str], None]) -> list[str]:
    """End the pods that a container runtime has, and remove what is left of others in it; a line for each
    that ran. Raises ``CannotDo`` where it may have some and does not answer or they do not end: what is left
    in it would run on."""
    may_run = cri_run.may_have_pods(tree, folder)
    if not (may_run or cri_run.endpoint_of(folder)):
        return []
    try:
        runtime = cri_run.runtime_of_pods(tree, folder)
    except CannotDo:
        if may_run:
            raise
        where = cri_run.endpoint_of(folder)
        say(f"{where} does not answer: what it still has of ended pods stays in it")
        cri_run.look_beside(tree)
        return []
    try:
        lines, left = _end_all(tree, runtime, RUNTIME_PATIENCE, say, runtime.has_told)
        if left:
            raise do_not_stop(tree, left, cri_run.endpoint_of(folder))
        if may_run and not runtime.has_told():
            raise CannotDo(
                "the container runtime does not tell which pods it has",
                where=cri_run.endpoint_of(folder),
                hint="look at its log, then release again",
            )
        return lines
    finally:
        runtime.close()


def do_not_stop(tree: OwnedTree, left: Sequence[RuntimePod], endpoint: str) -> CannotDo:
    """Names the pods that a runtime does not end, their cgroups and processes."""
    named = []
    for pod in left[:PODS_TOLD]:
        inside = [one for top in pod.top_cgroups for one in tree.driver.below(top)]
        pids = sorted({pid for one in inside for pid in tree.driver.members(one)})
        where = ", ".join(pod.top_cgroups) or "no cgroup"
        killing = Killing(tree.driver.kill)
        who = killing.describe_processes(where, pids, killed=True) or "no process is left"
        named.append(f"Pod {pod.key} does not stop ({where}: {who})")
    more = f"; {len(left) - PODS_TOLD} more do not" if len(left) > PODS_TOLD else ""
    return CannotDo(
        "; ".join(named) + more,
        where=endpoint,
        hint="look at the log of the container runtime and at limits of the cgroups above, then release again",
    )


def _end_keeper_pods(tree: OwnedTree, folder: str, say: Callable[[str], None]) -> list[str]:
    """End the pods that a keeper has; a line for each. No keeper outlives this: it would start
    containers again."""
    lines = [
        f"the keeper (process {pid}) was stopped: let it go on" for pid in wake(keepers_of(folder))
    ]
    try:
        runtime = _answering(tree, folder, lines)
    except QosletError as error:
        lines.append(f"ignoring the keeper: {error}")
    else:
        try:
            end_keepers(folder, set(keepers_of(folder)) - {runtime.pid})
            lines += _end_all(tree, runtime, KEEPER_PATIENCE, say)[0]
        finally:
            runtime.close(2.0)
    lines += [
        f"killed the keeper (process {pid})" for pid in end_keepers(folder, keepers_of(folder))
    ]
    return lines


def _answering(tree: OwnedTree, folder: str, lines: list[str]) -> KeeperRuntime:
    """A keeper that has told its pods; one that does not answer is replaced, with a line. Raises
    QosletError."""
    runtime = keeper_of(tree, folder)
    try:
        runtime.list_pods()
        return runtime
    except QosletError:
        runtime.close()
        silent = end_keepers(folder, keepers_of(folder))
        if not silent:
            raise
    lines += [f"the keeper (process {pid}) did not answer: replaced it" for pid in silent]
    runtime = keeper_of(tree, folder)
    runtime.list_pods()
    return runtime


def _cgroups_of(runtime: Runtime) -> set[str]:
    """The cgroups of the pods that have not ended."""
    pods = [pod for pod in runtime.list_pods().values() if not pod.ended]
    tops = {top for pod in pods for top in pod.top_cgroups}
    return tops.union(*(pod.container_cgroups.values() for pod in pods))


def _waits(pods: Sequence[RuntimePod]) -> str:
    """Why nothing happens for longer than a moment."""
    longest = max(pods, key=lambda pod: pod.grace_seconds)
    others = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    return (
        f"waiting for Pod {longest.key}{others} to stop, grace period {longest.grace_seconds:.0f} s "
        "(Ctrl-C ends the wait, not the stop: then release again)"
    )


def _end_all(
    tree: OwnedTree,
    runtime: Runtime,
    patience: float,
    say: Callable[[str], None],
    has_told: Callable[[], bool] = lambda: True,
) -> tuple[list[str], list[RuntimePod]]:
    """End all pods of a runtime in their grace periods, also those that it tells later than others, until
    it ``has_told`` all, and remove those that ended. Returns a line for each that was running, and those
    that have not ended within ``patience`` seconds more."""
    before: dict[str, RuntimePod] = {}
    lifted: list[str] = []
    lift = lifting(tree.driver, tree.ledger)
    waits = False
    lift_at = overdue_at = time.monotonic() + LIFT_SECONDS
    wait = Patience(0.0, patience, time.monotonic())
    while True:
        told = has_told()
        pods = runtime.list_pods()
        if new := {uid: pod for uid, pod in pods.items() if uid not in before}:
            before |= new
            for uid, pod in new.items():
                runtime.stop(uid, pod.grace_seconds)
            grace = max(pod.grace_seconds for pod in new.values())
            wait = Patience(grace, patience, time.monotonic())
            overdue_at = max(overdue_at, time.monotonic() + grace + LIFT_SECONDS)
        left = [pod for pod in pods.values() if not pod.ended]
        if told and not left:
            break
        containers = sum(state.running for state in runtime.poll())
        if not wait.lasts(len(left) + containers, time.monotonic()):
            break
        if left and time.monotonic() >= lift_at:
            if not waits:
                say(_waits(left))
            waits = True
            overdue = time.monotonic() >= overdue_at
            lifted += lift(tree.place.root, _cgroups_of(runtime), overdue=overdue)
            lift_at = time.monotonic() + LIFT_SECONDS
        time.sleep(POLL_SECONDS)
    after = dict(runtime.list_pods())
    for uid, pod in after.items():
        if pod.ended:
            runtime.remove_pod(uid)
    remaining = {uid: pod for uid, pod in after.items() if not pod.ended}
    stopped = (pod for uid, pod in before.items() if uid not in remaining and not pod.ended)
    return [*lifted, *(f"Pod {pod.key}: stopped" for pod in stopped)], [*remaining.values()]
