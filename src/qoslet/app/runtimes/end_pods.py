"""Ends the pods of a root, whether its keeper or a container runtime runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from qoslet.app.runtimes import cri_run
from qoslet.app.runtimes.runtime_cgroups import runtime_cgroups
from qoslet.app.teardown import has_leftovers, keeper_of, refuse_pods_of_others, remove_files
from qoslet.core.workload.lifecycle import Patience
from qoslet.errors import CannotDo, QosletError
from qoslet.host.cgroupfs.lifted_limits import lifting
from qoslet.host.containers.pod_volumes import PodVolumes
from qoslet.host.keeper.client import KeeperRuntime
from qoslet.host.machine.utilization import Killing
from qoslet.host.state.folder import folder_of
from qoslet.host.state.keepers import end as end_keepers
from qoslet.host.state.keepers import keepers_of, wake

if TYPE_CHECKING:
    from qoslet.agent.ports import Runtime
    from qoslet.app.tree import OwnedTree
    from qoslet.core.workload.pod_status import RuntimePod

POLL_SECONDS = 0.02
KEEPER_PATIENCE, RUNTIME_PATIENCE = 10.0, 30.0
"""Seconds beyond the longest grace period until pods that do not end are left."""
LIFT_SECONDS = 1.0
"""Seconds between two attempts to remove what keeps pods from ending."""
SCOPE_SECONDS = 10.0
"""How long systemd may take to remove the scopes of containers that have ended."""
PODS_TOLD = 5
"""The error about pods that do not end names so many of them at most."""


def end_pods(tree: OwnedTree, say: Callable[[str], None]) -> list[str]:
    """End everything that a run has left: the containers, through the runtime or keeper that has them
    and in their grace periods, then the processes that remain in our cgroups, then the pods' volumes.
    Returns a line for each thing ended; ``say`` is called when a wait begins. Raises CannotDo if
    something does not end."""
    folder = folder_of(tree.place.root)
    refuse_pods_of_others(tree)
    made = runtime_cgroups(tree)
    lines = _end_runtime_pods(tree, folder, say)
    more, alive = _end_keeper_pods(tree, folder, say)
    lines += more
    if lines:
        wait_for_scopes(tree)
    lines += _kill_rest(tree, made)
    if alive:
        # what was killed since its time was over: a keeper clears it away
        more, alive = _end_keeper_pods(tree, folder, say)
        lines += more
    if alive:
        raise cannot_stop(tree, alive, tree.place.root)
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


def _kill_rest(tree: OwnedTree, made: Sequence[str]) -> list[str]:
    """Kill the processes in our cgroups and in those that runtimes ``made``. Returns a line that names
    them, if any. Raises CannotDo if one survives."""
    # each by itself: what others have beside them below the root is not ours to end
    occupied = {path: tree.driver.members(path) for path in (*tree.ledger.cgroups, *made)}
    left = sorted({pid for pids in occupied.values() for pid in pids})
    if not left:
        return []
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
    return [f"{tree.place.root}: killed {who}, which no keeper supervises"]


def wait_for_scopes(tree: OwnedTree, seconds: float = SCOPE_SECONDS) -> None:
    """Wait until systemd has removed the empty scopes that a runtime made in pods' cgroups. They are in
    no journal of ours, so qoslet may not remove them."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(
        path.endswith(".scope")
        and path not in tree.ledger.cgroups
        and not tree.driver.members(path)
        for path in tree.observe(tree.place.root, values=False).cgroups
    ):
        time.sleep(POLL_SECONDS)


def pods_left(tree: OwnedTree) -> list[str]:
    """Lines that say which processes ``end_pods`` would end."""
    paths = (*tree.ledger.cgroups, *runtime_cgroups(tree))
    pids = sorted({pid for path in paths for pid in tree.driver.members(path)})
    if not pids:
        return []
    who = Killing(tree.driver.kill).describe_processes(tree.place.root, pids)
    return [f"{tree.place.root}: {who} would be stopped first"]


def _end_runtime_pods(tree: OwnedTree, folder: str, say: Callable[[str], None]) -> list[str]:
    """End the root's pods in its container runtime, and remove those that have ended already. Returns a
    line for each that ran. Raises ``CannotDo`` if pods do not end, or if the runtime may have some and
    does not answer."""
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
            raise cannot_stop(tree, left, cri_run.endpoint_of(folder))
        if may_run and not runtime.has_told():
            raise CannotDo(
                "the container runtime does not tell which pods it has",
                where=cri_run.endpoint_of(folder),
                hint="look at its log, then release again",
            )
        return [*lines, *(one for one in runtime.notes if one not in lines)]
    finally:
        runtime.close()


def cannot_stop(tree: OwnedTree, left: Sequence[RuntimePod], endpoint: str) -> CannotDo:
    """The error about pods that do not end: it names their cgroups and processes."""
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


def _end_keeper_pods(
    tree: OwnedTree, folder: str, say: Callable[[str], None]
) -> tuple[list[str], list[RuntimePod]]:
    """End the pods of the root's keeper, then the keeper itself, which would start them again. Returns a
    line for each thing ended, and the pods that have not ended."""
    left: list[RuntimePod] = []
    lines = [
        f"the keeper (process {pid}) was stopped: let it go on" for pid in wake(keepers_of(folder))
    ]
    try:
        runtime = _responsive_keeper(tree, folder, lines)
    except QosletError as error:
        lines.append(f"ignoring the keeper: {error}")
    else:
        try:
            end_keepers(folder, set(keepers_of(folder)) - {runtime.pid})
            stopped, left = _end_all(tree, runtime, KEEPER_PATIENCE, say)
            lines += stopped
        finally:
            runtime.close(2.0)
    lines += [
        f"killed the keeper (process {pid})" for pid in end_keepers(folder, keepers_of(folder))
    ]
    return lines, left


def _responsive_keeper(tree: OwnedTree, folder: str, lines: list[str]) -> KeeperRuntime:
    """A connection to a keeper that has listed its pods. A keeper that does not answer is replaced, which
    is added to ``lines``. Raises QosletError."""
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


def _wait_message(pods: Sequence[RuntimePod]) -> str:
    """Tells the user which pods are waited for, and for how long."""
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
    """Stop all pods of a runtime in their grace periods, and remove them once they have ended. A runtime
    may list some pods later than others; the list is complete when ``has_told()``. Returns a line for
    each pod that ran, and the pods that have not ended ``patience`` seconds after their grace period."""
    ending = _Ending(tree, runtime, patience, say)
    while True:
        told = has_told()
        left = ending.stop_new()
        if (told and not left) or not ending.lasts(left):
            break
        ending.lift(left)
        time.sleep(POLL_SECONDS)
    after = dict(runtime.list_pods())
    for uid, pod in after.items():
        if pod.ended:
            runtime.remove_pod(uid)
    remaining = {uid: pod for uid, pod in after.items() if not pod.ended}
    stopped = (pod for uid, pod in ending.seen.items() if uid not in remaining and not pod.ended)
    lines = [*ending.lifted, *(f"Pod {pod.key}: stopped" for pod in stopped)]
    return lines, [*remaining.values()]


class _Ending:
    """The pods of a runtime while they end. ``seen`` holds each pod as the runtime listed it first;
    ``lifted`` a line for each obstacle that was removed, such as a frozen cgroup."""

    def __init__(
        self, tree: OwnedTree, runtime: Runtime, patience: float, say: Callable[[str], None]
    ) -> None:
        now = time.monotonic()
        self._runtime, self._root, self._say = runtime, tree.place.root, say
        self._lift = lifting(tree.driver, tree.ledger)
        self._patience, self._wait = patience, Patience(0.0, patience, now)
        self._lift_at = self._overdue_at = now + LIFT_SECONDS
        self._has_said = False
        self.seen: dict[str, RuntimePod] = {}
        self.lifted: list[str] = []

    def stop_new(self) -> list[RuntimePod]:
        """Stop the pods that the runtime has listed since the last call. Returns all that run still."""
        pods = self._runtime.list_pods()
        if new := {uid: pod for uid, pod in pods.items() if uid not in self.seen}:
            self.seen |= new
            for uid, pod in new.items():
                self._runtime.stop(uid, pod.grace_seconds)
            grace, now = max(pod.grace_seconds for pod in new.values()), time.monotonic()
            self._wait = Patience(grace, self._patience, now)
            self._overdue_at = max(self._overdue_at, now + grace + LIFT_SECONDS)
        return [pod for pod in pods.values() if not pod.ended]

    def lasts(self, left: Sequence[RuntimePod]) -> bool:
        """Whether to wait on for the pods that are ``left``."""
        containers = sum(state.running for state in self._runtime.poll())
        return self._wait.lasts(len(left) + containers, time.monotonic())

    def lift(self, left: Sequence[RuntimePod]) -> None:
        """Once a second: say (once) what is waited for, and remove what keeps it from ending."""
        if not left or time.monotonic() < self._lift_at:
            return
        if not self._has_said:
            self._say(_wait_message(left))
        self._has_said = True
        overdue = time.monotonic() >= self._overdue_at
        self.lifted += self._lift(self._root, _cgroups_of(self._runtime), overdue=overdue)
        self._lift_at = time.monotonic() + LIFT_SECONDS
