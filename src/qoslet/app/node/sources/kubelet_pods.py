"""The pods of the kubelet that runs here: from its own page, or from its manifests and its runtime."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qoslet.app.node.found_node import (
    QOS_UPDATE_SECONDS,
    KubeletOptions,
    ask_pages,
    chosen_kubelet,
    kubelet_fields,
    node_name,
)
from qoslet.app.node.kubelet_runtime import completed, kubelet_runtime, static_pod_list
from qoslet.app.node.sources.reader import Seen
from qoslet.core.node.running_kubelet.listed_pods import listed_pods
from qoslet.errors import CannotDo
from qoslet.host.kubelet.answers import Unavailable
from qoslet.host.kubelet.configuration import Configuration, configuration
from qoslet.host.kubelet.processes import KubeletProcess, age_seconds, working_seconds
from qoslet.host.kubelet.running_pods import pods_of_kubelets, pods_with_processes

if TYPE_CHECKING:
    from qoslet.core.node.running_kubelet.pods_reading import PodSourceName

_INTERVAL_SECONDS = 10.0


class _Kubelet:
    """The kubelet's process and what it was started with, found again where it was replaced."""

    def __init__(self, options: KubeletOptions) -> None:
        self._options = options
        self._found: tuple[KubeletProcess, Configuration] | None = None
        self._seen_age = 0.0

    def get(self) -> tuple[KubeletProcess, Configuration]:
        """The kubelet that runs now. Raises CannotDo, BadInput."""
        found = self._found
        if found is not None:
            age = age_seconds(found[0])
            # a younger one: another process has its number
            if age is None or age < self._seen_age:
                found = None
            else:
                self._seen_age = age
        if found is None:
            process = chosen_kubelet(self._options)
            found = process, configuration(process)
            self._seen_age = age_seconds(process) or 0.0
        self._found = found
        return found


class KubeletReader:
    """Asks the kubelet's ``/pods``, which loads no API server."""

    source: PodSourceName = "kubelet"
    interval_seconds = _INTERVAL_SECONDS
    requests = 0

    def __init__(self, options: KubeletOptions) -> None:
        self._options = options
        self._kubelet = _Kubelet(options)

    def read(self, known: frozenset[str]) -> Seen:
        """The pods of its page, with the container IDs of its runtime where it has none yet. Raises
        CannotDo, BadInput."""
        process, read = self._kubelet.get()
        answers = ask_pages(process, read, self._options, ("/pods",))
        if answers.pods is None:
            why = answers.why_not("/pods") or Unavailable("/pods", "", "serves no port")
            raise CannotDo(why.message, where=why.where, hint=why.hint)
        pods = answers.pods
        works = working_seconds(process)
        is_young = works is not None and works < QOS_UPDATE_SECONDS
        if is_young:
            # an agent that has just started knows no pod whose values it may have to keep
            known |= pods_of_kubelets(self._options.root)
        listed = listed_pods(pods)
        missing = known - {one.uid for one in listed}
        running = pods_with_processes(missing, self._options.root)
        if any(one.lacks_ids for one in listed):
            runtime = kubelet_runtime(process, kubelet_fields(read, answers))
            pods = completed(pods, runtime)
            running |= frozenset(one.uid for one in runtime.sandboxes)
        is_new = is_young and bool(missing)
        note = "the kubelet has just started and may not know all pods yet" if is_new else ""
        place = answers.places["/pods"]
        return Seen(
            pods,
            place,
            time.monotonic(),
            not is_new,
            running=running,
            note=note,
            is_usual=is_new,
        )

    def descriptors(self) -> Sequence[int]:
        """None: it is asked."""
        return ()

    def rest(self) -> None:
        """It is asked only when it is read."""


class RuntimeReader:
    """Static manifests and the sandboxes of the kubelet's runtime: complete only where every pod that
    runs has a manifest."""

    source: PodSourceName = "cri"
    interval_seconds = _INTERVAL_SECONDS
    requests = 0

    def __init__(self, options: KubeletOptions) -> None:
        self._kubelet = _Kubelet(options)

    def read(self, known: frozenset[str]) -> Seen:
        """The pods that manifests are of. Raises CannotDo, BadInput."""
        process, read = self._kubelet.get()
        runtime = kubelet_runtime(process, read.fields)
        if not runtime.endpoint:
            raise CannotDo(runtime.note.value, hint=runtime.note.remedy)
        found = static_pod_list(process, read.fields, runtime, node_name(read))
        if found is None:
            raise CannotDo("its pods have no static manifests, and the runtime has no requests")
        path, pods, others = found
        running = frozenset(one.uid for one in runtime.sandboxes)
        note = f"{others} pods run that no manifest is of" if others else ""
        place = f"{path} and {runtime.endpoint}"
        return Seen(pods, place, time.monotonic(), not others, running=running, note=note)

    def descriptors(self) -> Sequence[int]:
        """None: it is asked."""
        return ()

    def rest(self) -> None:
        """It is asked only when it is read."""
