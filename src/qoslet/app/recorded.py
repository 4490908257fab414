"""The cgroups that the records of pods name, for a journal that does not."""

from __future__ import annotations

from collections.abc import Callable

from qoslet.core.cgroup.names import monitors_of
from qoslet.core.workload.lifecycle import finished
from qoslet.host.containers.records import PodRecord, records_below, start_time
from qoslet.host.cri.pod_record import CriPodRecord
from qoslet.host.linux.procfs import this_boot
from qoslet.host.state.folder import CRI, KEEPER

Members = Callable[[str], set[int]]


def recorded_cgroups(folder: str, members: Members) -> list[str]:
    """The groups of the pods that are recorded in a state folder in this boot: each is empty, or
    holds a process that its record names. ``members`` are the processes of a group."""
    found = [
        path
        for record in _of_this_boot(folder)
        for name, path in record.cgroups.items()
        if _holds(record, name, path, members)
    ]
    boot = this_boot()
    for record in records_below(f"{folder}/{CRI}", CriPodRecord):
        parent = record.spec.messages.parent if record.spec.messages is not None else ""
        if record.boot == boot and parent:
            found += [parent, monitors_of(parent)]
    return sorted(found)


def kept_containers(folder: str) -> dict[tuple[str, str], tuple[str, bool]]:
    """Pod UID and container name to the container's group and whether it runs, of the pods that are
    recorded in a state folder in this boot."""
    found: dict[tuple[str, str], tuple[str, bool]] = {}
    for record in _of_this_boot(folder):
        for name, path in record.cgroups.items():
            main = record.processes.get(name)
            runs = main is not None and start_time(main.pid) == main.start
            found[record.spec.uid, name] = path, runs
    return found


def ended_pods(folder: str) -> frozenset[str]:
    """UIDs of the pods that are recorded in a state folder in this boot and have ended for good:
    they hold no cgroups."""
    return frozenset(
        record.spec.uid
        for record in _of_this_boot(folder)
        if record.lives and finished(record.spec, record.lives)
    )


def _of_this_boot(folder: str) -> list[PodRecord]:
    """The records of pods that run as processes, without those of an earlier boot."""
    boot, records = this_boot(), records_below(f"{folder}/{KEEPER}", PodRecord)
    return [record for record in records if record.boot == boot]


def _holds(record: PodRecord, name: str, path: str, members: Members) -> bool:
    """Whether a container's group is as its record says."""
    try:
        there = members(path)
    except OSError:
        return False
    main = record.processes.get(name)
    return not there or (
        main is not None and main.pid in there and start_time(main.pid) == main.start
    )
