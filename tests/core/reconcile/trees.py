"""Random plans that a kernel can hold, for properties of drift and steps."""

from __future__ import annotations

from hypothesis import strategies as st

from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.cgroup.interface_files import knob
from qoslet.core.node.node import Hierarchy, HostFacts, Kubelet, Node
from qoslet.core.resources.cgroup_tree import Cgroup, Level, Plan, Setting, Writer
from qoslet.core.versions import kubernetes

MiB = 1 << 20
ROOT = "/q"
PERIODS = (1000, 10_000, 50_000, 100_000, 1_000_000)
SHARES = ("2", "10", "102", "1024", "262144")
FOUR_CPUS = KernelFeatures(cpus=frozenset(range(4)), mems=frozenset((0,)))


def node_of(hierarchy: Hierarchy) -> Node:
    """A node of which only the hierarchy matters."""
    return Node(
        name="n",
        capacity={},
        swap=0,
        host=HostFacts(hierarchy=hierarchy),
        kubelet=Kubelet(),
        profile=kubernetes.resolve(kubernetes.DEFAULT, "runc-1.4.0", None),
    )


def plan_of(
    hierarchy: Hierarchy, groups: dict[str, dict[str, str]], writer: Writer = "kubelet"
) -> Plan:
    """A plan of paths with their files; parents first."""
    return Plan(
        node_of(hierarchy),
        (),
        tuple(
            Cgroup(
                path,
                _level(path),
                tuple(
                    Setting(file, value, "cpu.shares", (), writer) for file, value in files.items()
                ),
                path,
            )
            for path, files in sorted(groups.items())
        ),
        (),
    )


def _level(path: str) -> Level:
    if path.rpartition("/")[2].startswith("c"):
        return "container"
    return "pod" if "/pod" in path else "node"


@st.composite
def bandwidths(draw: st.DrawFn, above: float | None) -> tuple[str, str, float | None]:
    """Quota and period, not above the share of the group above; None is no quota."""
    period = draw(st.sampled_from(PERIODS))
    most = period * 4 if above is None else int(period * above)
    if most < 1000 or draw(st.booleans()):
        return "-1", str(period), above
    quota = draw(st.integers(1000, most))
    return str(quota), str(period), quota / period


@st.composite
def v1_files(draw: st.DrawFn, above: float | None) -> tuple[dict[str, str], float | None]:
    """The files of a v1 group, some of them; and the share that those below may have."""
    files: dict[str, str] = {}
    ratio = above
    if draw(st.booleans()):
        files["cpu.shares"] = draw(st.sampled_from(SHARES))
    if draw(st.integers(0, 3)):
        quota, period, ratio = draw(bandwidths(above))
        files |= {"cpu.cfs_quota_us": quota, "cpu.cfs_period_us": period}
    if draw(st.booleans()):
        limit = draw(st.integers(1, 64)) * MiB + draw(st.sampled_from((0, 1, 4095)))
        files["memory.limit_in_bytes"] = str(limit)
        files["memory.memsw.limit_in_bytes"] = str(limit + draw(st.integers(0, 2)) * MiB)
    if draw(st.booleans()):
        files["pids.max"] = draw(st.sampled_from(("max", "1", "1024")))
    return files, ratio


@st.composite
def v2_files(draw: st.DrawFn) -> dict[str, str]:
    """The files of a v2 group, some of them."""
    choices: dict[str, st.SearchStrategy[str]] = {
        "cpu.weight": st.sampled_from(("1", "39", "100", "10000")),
        "cpu.max": st.builds(
            lambda quota, period: f"{quota} {period}",
            st.sampled_from(("max", "1000", "50000", "400000")),
            st.sampled_from(PERIODS),
        ),
        "memory.max": st.sampled_from(("max", str(8 * MiB), str(32 * MiB + 17))),
        "memory.high": st.sampled_from(("max", str(7 * MiB))),
        "memory.min": st.sampled_from(("0", str(MiB))),
        "memory.swap.max": st.sampled_from(("max", "0")),
        "memory.oom.group": st.sampled_from(("0", "1")),
        "pids.max": st.sampled_from(("max", "7")),
        "hugetlb.2MB.max": st.sampled_from(("max", "0", str(3 * MiB))),
    }
    names = draw(st.lists(st.sampled_from(sorted(choices)), unique=True, max_size=6))
    return {name: draw(choices[name]) for name in names}


@st.composite
def bandwidth_chains(draw: st.DrawFn) -> dict[str, dict[str, str]]:
    """Four v1 groups, one in the other, each with a quota or none, and a period."""
    groups = {}
    path, ratio = ROOT, None
    for name in ("", "/tier", "/poda", "/c1"):
        path += name
        quota, period, ratio = draw(bandwidths(ratio))
        groups[path] = {"cpu.cfs_quota_us": quota, "cpu.cfs_period_us": period}
    return groups


@st.composite
def trees(draw: st.DrawFn, hierarchy: Hierarchy) -> dict[str, dict[str, str]]:
    """Groups below ``ROOT``: perhaps a class, some pods, their containers."""
    groups: dict[str, dict[str, str]] = {}

    def add(path: str, above: float | None) -> float | None:
        ratio = above
        if hierarchy == "v1":
            groups[path], ratio = draw(v1_files(above))
        else:
            groups[path] = draw(v2_files())
        return ratio

    top = add(ROOT, None)
    tiers = {ROOT: top}
    if draw(st.booleans()):
        tiers[f"{ROOT}/burstable"] = add(f"{ROOT}/burstable", top)
    for uid in draw(st.lists(st.sampled_from("abc"), unique=True)):
        tier = draw(st.sampled_from(sorted(tiers)))
        pod = f"{tier}/pod{uid}"
        ratio = add(pod, tiers[tier])
        for name in draw(st.lists(st.sampled_from(("c1", "c2")), unique=True)):
            add(f"{pod}/{name}", ratio)
    if hierarchy == "v1" and "cpuset.cpus" not in groups[ROOT] and draw(st.booleans()):
        groups[ROOT]["cpuset.cpus"] = draw(st.sampled_from(("0", "0-1")))
    return groups


def released(
    hierarchy: Hierarchy, old: dict[str, dict[str, str]], new: dict[str, dict[str, str]]
) -> dict[str, dict[str, str]]:
    """``new``, where what only ``old`` planned in the same group is written as "no limit": a
    file that no plan names keeps its value, which may contradict the new ones."""
    return {
        path: {
            **{
                file: value
                for file in old.get(path, {})
                if (value := _none(hierarchy, file)) is not None
            },
            **files,
        }
        for path, files in new.items()
    }


def _none(hierarchy: Hierarchy, file: str) -> str | None:
    if file.startswith("cpuset."):
        return None
    row = knob(file)
    return row.released_v1 if hierarchy == "v1" else row.released
