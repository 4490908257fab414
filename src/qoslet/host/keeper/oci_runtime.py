"""What the process runtime does otherwise where an OCI runtime makes a pod's containers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from qoslet.core.workload.process_spec import ProcessSpec
from qoslet.errors import CannotDo
from qoslet.host.containers.records import start_time
from qoslet.host.containers.spawn import StartFailed, reap_orphans
from qoslet.host.keeper.container_cgroups import ContainerCgroups
from qoslet.host.keeper.container_process import ContainerProcess, ExitWatch, why
from qoslet.host.keeper.pod import ProcessPod
from qoslet.host.oci.bundle_folder import ContainerFiles
from qoslet.host.oci.containers import CreateJob, OciContainers

CLEAR_SECONDS = 1.0
"""How long to wait before a container that could not be cleared away is tried again."""


class OciLifecycle:
    """``note`` keeps a line for the surface; ``watch`` is that of all runs."""

    def __init__(
        self,
        bundled: OciContainers,
        groups: ContainerCgroups,
        watch: ExitWatch,
        note: Callable[[str], None],
    ) -> None:
        self._bundled = bundled
        self._groups = groups
        self._watch = watch
        self._note = note

    def _is_in(self, path: str) -> Callable[[int], bool]:
        """Whether a process is in a group."""
        return lambda pid: pid in self._groups.members(path)

    def begin(
        self, pod: ProcessPod, launch: ProcessSpec, outputs: list[int], one: ContainerProcess
    ) -> None:
        """Begin to make a container; where that fails its pipes go, too. Raises ``StartFailed``,
        OSError, ValueError."""
        pids = [pid for other in pod.running.values() if (pid := other.main) is not None]
        is_mine = self._is_in(pod.cgroups[launch.name])
        try:
            birth = self._bundled.begin(pod.spec, launch, outputs, pids, is_mine)
        except (OSError, StartFailed, ValueError):
            one.pipes.close()
            raise
        one.born(birth, start_time(birth.pid) or 0)

    def rejoin(self, pod: ProcessPod, name: str, one: ContainerProcess) -> None:
        """A container that a keeper before was making: what came of it."""
        one.rejoin(self._bundled.rejoin(pod.spec, name, self._is_in(pod.cgroups[name])))

    def cleared(self, pod: ProcessPod, name: str, one: ContainerProcess, now: float) -> bool:
        """Whether the runtime has let a container go that has ended."""
        if one.clearing is None:
            one.due = one.clear_at
            if one.due is None or now >= one.due:
                one.due = None
                try:
                    self._watch.clears(one, self._bundled.clear(pod.spec, name))
                except OSError as error:
                    self._note(f"{pod.spec.key}/{name}: {why(error)}")
                    one.due = one.clear_at = now + CLEAR_SECONDS
            return False
        self._watch.forget(one.clearing.report)
        wrong = one.clearing.over()
        if wrong is None:
            self._watch.again(one, one.clearing.report)
            return False
        one.clearing = None
        if wrong:
            self._note(f"{pod.spec.key}/{name}: {wrong}")
            one.due = one.clear_at = now + CLEAR_SECONDS
        return not wrong

    def was_begun(self, pod: ProcessPod, name: str) -> bool:
        """Whether a runtime was about to make a container, or has made it."""
        return pod.spec.bundles is not None and os.path.exists(self.place(pod, name).lock)

    def place(self, pod: ProcessPod, name: str) -> ContainerFiles:
        """Where the files of a container are."""
        return self._bundled.place(pod.spec, name)

    def stop_signal(self, pod: ProcessPod, launch: ProcessSpec) -> str:
        """How a container is asked to end."""
        if pod.spec.bundles is None:
            return launch.stop_signal
        return self._bundled.stop_signal(pod.spec, launch)

    def forget(self, pod: ProcessPod) -> None:
        """Nothing of a pod's containers stays. Raises ``CannotDo``."""
        try:
            self._bundled.forget(pod.spec)
        except OSError as error:
            raise CannotDo(f"{error}", where=f"Pod {pod.spec.key}") from error
        self._groups.tidy(pod.cgroups.values())

    def close(self) -> None:
        """Let go of everything; what runs stays."""
        self._bundled.close()


def collect(runs: Iterable[ContainerProcess], others: Iterable[int] = ()) -> None:
    """Collect ended children that are nobody's; ``others`` are somebody's. Where a container is being made, one of them may
    be it."""
    known = {*others}
    for one in runs:
        if isinstance(one.birth, CreateJob):
            return
        known.add(one.pid)
        if one.clearing is not None:
            known.add(one.clearing.pid)
    reap_orphans(known)
