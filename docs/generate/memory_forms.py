"""The tables of docs/explanation/memory-qos.md: what each form writes, what that is worth, and the design's
own tables, computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from docs.generate.specimens import asked, pod, pods_of
from qoslet.core.node.resolve import Flags, Probed, node_from
from qoslet.core.plan.effective_memory import standings
from qoslet.core.plan.plan import plan
from qoslet.core.resources.cgroup_tree import Cgroup, Plan, key_of
from qoslet.core.rules.memory import high_1_22, high_1_27

MI = 1 << 20
FORMS = ("1.22", "1.27", "design", "1.36", "1.37", "qoslet")

PODS = [
    pod("db", asked({}, {"cpu": "1", "memory": "64Mi"})),
    pod("web", asked({"memory": "32Mi"}, {"memory": "64Mi"})),
    pod("batch", {}),
]

GROUPS = (
    ("reserved, 80Mi", "/system"),
    ("kubepods", "/kubepods"),
    ("burstable", "/kubepods/burstable"),
    ("besteffort", "/kubepods/besteffort"),
    ("Guaranteed pod, 64Mi", "/kubepods/poddb-uid"),
    ("its container", "/kubepods/poddb-uid/c0"),
    ("Burstable pod, 32Mi of 64Mi", "/kubepods/burstable/podweb-uid"),
    ("its container", "/kubepods/burstable/podweb-uid/c0"),
    ("BestEffort pod", "/kubepods/besteffort/podbatch-uid"),
    ("its container", "/kubepods/besteffort/podbatch-uid/c0"),
)


def planned(form: str, recursive: bool = False) -> Plan:
    """The three pods on a node of 1000Mi under a form with its default factor, the reservation
    policy set to protect."""
    node = {
        "apiVersion": "qoslet/v1",
        "kind": "Node",
        "capacity": {"cpu": "8", "memory": "1080Mi"},
        "host": {
            "hierarchy": "v2",
            "pageSize": "4Ki",
            "mounts": {"memory_recursiveprot": ""} if recursive else {"rw": ""},
        },
    }
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "featureGates": {"MemoryQoS": True},
        "memoryReservationPolicy": "TieredReservation",
        "systemReserved": {"memory": "80Mi"},
        "systemReservedCgroup": "/system",
        "enforceNodeAllocatable": ["pods", "system-reserved"],
    }
    given = [("node", node), ("kubelet", config)]
    return plan(pods_of(PODS), node_from(given, Flags(memory_qos=form), Probed)[0])


def _mebi(text: str) -> str:
    return str(int(text) // MI) if text.isdigit() else text


def _cell(group: Cgroup | None) -> str:
    rows = group.settings if group is not None else ()
    files = ("memory.min", "memory.low", "memory.high")
    found = [
        f"{row.file.removeprefix('memory.')} {_mebi(row.applied)}"
        for row in rows
        if row.file in files
    ]
    return ", ".join(found) or "–"


def table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def forms() -> Iterator[str]:
    """What each form writes at every level."""
    plans = [{group.name: group for group in planned(form).cgroups} for form in FORMS]
    rows = [(title, *(_cell(one.get(name)) for one in plans)) for title, name in GROUPS]
    yield from table(("group, its request in Mi", *FORMS), rows)


def worth() -> Iterator[str]:
    """What reclaim leaves the containers when the node is full, under each form."""
    titles = ("container", "mount", *FORMS)
    rows = []
    for title, name in (GROUPS[5], GROUPS[7], GROUPS[9]):
        pod_of = GROUPS[GROUPS.index((title, name)) - 1][0]
        for recursive in (False, True):
            cells = []
            for form in FORMS:
                made = planned(form, recursive)
                found = standings(made)
                key = next(key_of(one) for one in made.cgroups if one.name == name)
                kept = found[key].worth
                hard, soft = kept.hard // MI, kept.soft // MI
                cells.append(f"{hard} hard, {soft} soft" if hard or soft else "0")
            mount = "`memory_recursiveprot`" if recursive else "plain"
            rows.append((f"of the {pod_of}", mount, *cells))
    yield from table(titles, rows)


_PRINTED = {request: 900 + request // 10 for request in range(0, 800, 100)} | {
    800: 960,
    900: 980,
    1000: 1000,
}
"""The design's first table, as printed."""

_SECOND = (
    ("500Mi", 500, 0.6, "600Mi", "800Mi", ""),
    ("800Mi", 800, 0.6, "none", "920Mi", ""),
    ("1Gi", 1000, 0.6, "max", "max", "1000Mi is meant: a request above the limit is refused"),
    ("500Mi", 500, 0.8, "800Mi", "900Mi", ""),
    ("850Mi", 850, 0.8, "none", "970Mi", ""),
    ("500Gi", 500, 0.4, "none, 800 < 400", "700Mi", "500Mi is meant, and 400 < 500"),
)
"""The design's second table: request as printed and as meant, factor, both columns, a remark."""


def _high(amount: int | None, limit: int = 0) -> str:
    """Mi, or none where the file is not written."""
    return "none" if amount is None or amount == limit else f"{amount // MI}Mi"


def first_table() -> Iterator[str]:
    """memory.high at a limit of 1000Mi and a factor of 0.9, with pages of 1Mi."""
    rows = []
    for request, printed in _PRINTED.items():
        high = high_1_27(request * MI, 1000 * MI, 0, 0.9, MI)
        remark = ""
        if request == 1000:
            remark = "request equals limit: no file is written, which is no limit"
        elif high != printed * MI:
            remark = "misprinted"
        rows.append((str(request), str(printed), _high(high).removesuffix("Mi"), remark))
    yield from table(("request", "printed", "computed", ""), rows)


def second_table() -> Iterator[str]:
    """Both formulas at a limit of 1000Mi, with pages of 1Mi."""
    rows = []
    for text, request, factor, old, new, remark in _SECOND:
        first = high_1_22(request * MI, 1000 * MI, 0, factor)
        second = high_1_27(request * MI, 1000 * MI, 0, factor, MI) if request < 1000 else None
        rows.append((text, str(factor), old, _high(first), new, _high(second), remark))
    titles = ("request", "factor", "1.22, printed", "computed", "1.27, printed", "computed", "")
    yield from table(titles, rows)


PARTS = {
    "memory forms": forms,
    "memory worth": worth,
    "memory first table": first_table,
    "memory second table": second_table,
}
