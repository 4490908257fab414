"""The nodes that a real kubelet 1.36.2 was asked about, planned below a root of a test's own,
written through a driver and read back file by file."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from qoslet.agent.ports import Driver, Observer
from qoslet.core.cgroup.accepts import same
from qoslet.core.node.node import Hierarchy
from qoslet.core.plan.plan import plan
from qoslet.core.reconcile.drift import compare
from qoslet.core.reconcile.step_order import ordered
from qoslet.core.reconcile.steps import Outcome
from qoslet.core.resources.cgroup_tree import Cgroup, Plan
from tests.core.vectors import kubelet_answers as answers

Row = tuple[int, str, str, str, str | None]
"""Request, path, file, what was wanted, what was found."""


class QosTotals(Struct):
    """What came of it: values that were compared, those that are not as planned, and refused
    writes by what they were refused with."""

    compared: int = 0
    different: list[Row] = []
    refused: list[tuple[int, Outcome]] = []


def plans(
    hierarchy: Hierarchy, root: str, driver: str = "cgroupfs", hugetlb: bool = True
) -> Iterator[tuple[int, Plan]]:
    """Request and plan: first the requests about that hierarchy, then the others as if they
    were. Nothing else of a request is changed; its CPUs and memory are not this machine's."""
    rows = answers.rows()
    rows.sort(key=lambda row: row["request"]["config"]["cgroupV2"] != (hierarchy == "v2"))
    for row in rows:
        request = row["request"]
        node = answers.node_of(request)
        sizes = node.host.hugepage_sizes if hugetlb else ()
        made = plan(
            answers.pods_of(request),
            replace(
                node,
                driver=driver,
                host=replace(node.host, hierarchy=hierarchy, hugepage_sizes=sizes),
                kubelet=replace(node.kubelet, cgroup_root=root),
            ),
        )
        groups = tuple(_placed(group, made) for group in made.cgroups)
        yield request["id"], replace(made, cgroups=tuple(one for one in groups if one is not None))


def _placed(group: Cgroup, made: Plan) -> Cgroup | None:
    """A container's group below its pod's, as a runtime would make it; sandboxes are left out."""
    if group.path is not None:
        return group
    if group.container is None or group.pod is None:
        return None
    pod = next(one for one in made.cgroups if one.level == "pod" and one.pod is group.pod)
    return replace(group, path=f"{pod.path}/{group.container.name}")


def check(
    request: int, wanted: Plan, driver: Driver, observer: Observer, qos_totals: QosTotals
) -> None:
    """Write one plan, read it back, count."""
    root = wanted.node.kubelet.cgroup_root
    observer.watch(wanted.files)
    seen = observer.observe(root)
    steps = ordered(compare(wanted, seen), seen)
    refused: set[tuple[str, str]] = set()
    while steps:
        outcomes = driver.perform(steps)
        steps = steps[len(outcomes) :]
        last = outcomes[-1]
        if last.error is not None:
            qos_totals.refused.append((request, last))
            refused.add((last.step.path, last.step.file))
    groups = observer.observe(root).cgroups
    page = wanted.node.host.page_size
    for group in wanted.cgroups:
        path = group.path or ""
        values = groups[path].values
        for row in group.settings:
            if (path, row.file) in refused:
                continue
            found = values.get(row.file)
            qos_totals.compared += 1
            if found is None or not (
                found == row.applied or same(row.file, row.applied, found, page)
            ):
                qos_totals.different.append((request, path, row.file, row.applied, found))
