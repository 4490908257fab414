"""What is asked: commands over the documents, in groups that are kept and tested apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import NamedTuple

from tests.frozen.answers import MACHINE, REFUSED
from tests.frozen.questions import badcases, blocks, documents
from tests.frozen.questions.convertcases import conversions
from tests.frozen.questions.nodes import nodes


class Case(NamedTuple):
    """A command and the file on its standard input, if any."""

    argv: list[str]
    stdin: str = ""


SMALL = ("besteffort.yaml", "burstable.yaml", "guaranteed.yaml", "annotated.yaml", "pinned.yaml")
CLUSTER = "pods.json"
OTHER_CLUSTERS = ("pods.yaml", "kubelet-pods.json", "resized-pod.json", "nodes-pods.json")
OUTPUTS = ("yaml", "files", "shell", "oci", "cri")

FLAGS: tuple[tuple[str, ...], ...] = (
    ("--kubernetes", "1.18"),
    ("--kubernetes", "v1.32.4"),
    ("--runtime", "crun-1.21"),
    ("--memory-qos", "qoslet"),
    ("--memory-qos", "off"),
    ("--cgroup-driver", "systemd"),
    ("--cgroups-per-qos", "false", "--enforce-node-allocatable", ""),
    ("--cgroup-root", "/my/root"),
    ("--qos-reserved", "memory=30%", "--feature-gates", "QOSReserved=true"),
    ("--kube-reserved", "cpu=1,memory=1Gi,pid=100"),
    ("--system-reserved", "cpu=200m,memory=256Mi"),
    ("--enforce-node-allocatable", "pods,kube-reserved", "--kube-reserved-cgroup", "/kube"),
    ("--enforce-node-allocatable", "pods,system-reserved", "--system-reserved-cgroup", "/sys"),
    ("--reserved-cpus", "0-1", "--cpu-manager-policy", "static"),
    ("--eviction-hard", "memory.available<200Mi,nodefs.available<5%"),
    ("--feature-gates", "MemoryQoS=false"),
    ("--cpu-cfs-quota", "false"),
    ("--cpu-cfs-quota-period", "50ms", "--feature-gates", "CustomCPUCFSQuotaPeriod=true"),
    ("--pod-max-pids", "512"),
    ("--memory-swap-behavior", "LimitedSwap", "--fail-swap-on", "false"),
    ("--fail-swap-on", "true"),
    ("--max-pods", "10"),
    ("--isolation", "hyperv"),
)
NUMA_FLAGS: tuple[tuple[str, ...], ...] = (
    ("--cpu-manager-policy-options", "full-pcpus-only=false"),
    ("--memory-manager-policy", "None"),
    ("--reserved-memory", "0:memory=524Mi;1:memory=500Mi"),
    ("--topology-manager-policy", "best-effort"),
    ("--topology-manager-scope", "pod"),
)
NUMA = "managers-topology-single-numa-node-container.yaml"
RELEASES = ("1.6", "1.18", "1.22", "1.27", "1.32", "1.37", "design")
FILES = (
    "memory.high", "memory.max", "memory.min", "memory.low", "memory.swap.max", "cpu.weight",
    "cpu.max", "pids.max", "memory.oom.group", "hugetlb.2MB.max", "hugetlb.2MB.rsvd.max",
    "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes", "cpuset.cpus", "cpuset.mems", "oom_score_adj", "io.weight",
)  # fmt: skip
TARGETS = (
    ("cache/store", "annotated.yaml"), ("cache/sync", "annotated.yaml"),
    ("web/busy", "burstable.yaml"), ("web/greedy", "burstable.yaml"),
    ("database/main", "pinned.yaml"), ("cache", "annotated.yaml"),
    ("/kubepods/burstable", "burstable.yaml"), ("/kubepods", "pinned.yaml"),
)  # fmt: skip


def node_files() -> list[str]:
    """The names of the nodes' files."""
    return [f"{name}.yaml" for name in nodes()]


def _pairs(name: str) -> list[str]:
    number = name.removeprefix("kubelet-node-").removesuffix(".yaml")
    return ["-f", f"kubelet-pods-{number}.json", "--node", name]


def _rotated(count: int, step: int = 1) -> Iterator[list[str]]:
    """So many nodes at a time, every node in its turn."""
    ring = cycle(node_files()[::step])
    while True:
        yield list(islice(ring, count))


def _plan(pods: str, node: str, form: str = "json") -> list[str]:
    return ["plan", pods, "--node", node, "-o", form]


def _plan_sets() -> Iterator[Case]:
    for node in node_files():
        for pods in (*SMALL, CLUSTER):
            yield Case(_plan(pods, node))
    for node in node_files()[::10]:
        for pods in OTHER_CLUSTERS:
            yield Case(_plan(pods, node))
    for pods in (*SMALL, CLUSTER, *OTHER_CLUSTERS):
        for more in (["--resources", "allocated"], ["--expand"]):
            yield Case([*_plan(pods, "r1-36-v2-cgroupfs.yaml"), *more])
        yield Case(_plan("-", "r1-36-v2-cgroupfs.yaml"), pods)
    for file in documents.NODES:
        nodes_of = ["--node", "bare-nameless.yaml", "--node", documents.name_of(file)]
        for pods in (*SMALL, CLUSTER):
            yield Case(["plan", pods, *nodes_of, "-o", "json"])


def _plan_flags() -> Iterator[Case]:
    for base, flags in (("n1.yaml", FLAGS), (NUMA, NUMA_FLAGS)):
        for more in flags:
            for pods in ("burstable.yaml", "pinned.yaml"):
                yield Case([*_plan(pods, base), *more])
            yield Case(["config", base, "-o", "json", *more])


def _plan_vectors() -> Iterator[Case]:
    for pods, some in zip(documents.vector_pods(), _rotated(6), strict=False):
        for node in some:
            yield Case(_plan(pods, node))


def _plan_kubelets(names: Sequence[str]) -> Iterator[Case]:
    releases, runtimes = cycle(RELEASES), cycle(("crun-1.21", "runc-1.1.5", "containerd-1.7.0"))
    for name in names:
        yield Case(["plan", *_pairs(name), "-o", "json"])
        for _ in range(3):
            more = ["--kubernetes", next(releases)]
            yield Case(["plan", *_pairs(name), "-o", "json", *more])
        yield Case(["plan", *_pairs(name), "-o", "json", "--runtime", next(runtimes)])


def _plan_outputs(names: Sequence[str]) -> Iterator[Case]:
    forms = cycle(OUTPUTS)
    for node in node_files()[::3]:
        for pods in (*SMALL, CLUSTER):
            yield Case(_plan(pods, node, next(forms)))
    for pods, some in zip(documents.vector_pods(), _rotated(2), strict=False):
        for node in some:
            yield Case(_plan(pods, node, next(forms)))
    for name in names:
        for form in OUTPUTS[1:]:
            yield Case(["plan", *_pairs(name), "-o", form])
    for name in names[::6]:
        yield Case(["plan", *_pairs(name), "-o", "yaml"])


def _explain(target: str, *more: str) -> Case:
    return Case(["explain", target, *more, "-o", "json"])


def _explain_sets() -> Iterator[Case]:
    for at, node in enumerate(node_files()):
        yield _explain("cache", "-f", "annotated.yaml", "--node", node)
        yield _explain("web", "-f", "burstable.yaml", "--node", node)
        target, pods = TARGETS[4 + at % 4]
        yield _explain(target, "-f", pods, "--node", node)
    for target in ("/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice"):
        yield _explain(target, "-f", "burstable.yaml", "--node", "form-1-36-systemd.yaml")
    for target in ("default/web", "-n shop web", "nobody", "web/nobody", "/none"):
        words = target.split()
        yield _explain(words[-1], *words[:-1], "-f", "burstable.yaml", "--node", "n1.yaml")


def _explain_files() -> Iterator[Case]:
    asked = cycle((target, pods, file) for file in FILES for target, pods in TARGETS)
    for node in node_files():
        for target, pods, file in islice(asked, 3):
            yield _explain(target, file, "-f", pods, "--node", node)


def _explain_more(names: Sequence[str]) -> Iterator[Case]:
    for pods, some in zip(documents.vector_pods(), _rotated(1), strict=False):
        yield _explain("p", "-f", pods, "--node", some[0])
    for name, file in zip(names, cycle(FILES), strict=False):
        yield _explain("p0", *_pairs(name))
        yield _explain("p0/c0", file, *_pairs(name))
    yield Case(["explain", "cache", "-f", "annotated.yaml", "--node", "n1.yaml", "-o", "yaml"])


def _configs() -> Iterator[Case]:
    more = [["--node", "bare-nameless.yaml", documents.name_of(one)] for one in documents.NODES]
    for given in (*([node] for node in node_files()), *more):
        yield Case(["config", *given, "-o", "json"])
        yield Case(["config", *given, "-o", "json", "--changed"])
    for node in node_files()[::5]:
        yield Case(["config", node, "-o", "yaml"])
    yield Case(["config", "-", "-o", "json"], "n1.yaml")


def _simulated() -> Iterator[Case]:
    """The commands that would make the trees; the simulated kernel knows only cgroupfs."""
    for node in node_files():
        if node.startswith(("r1", "form", "factor", "tiered", "managers")):
            argv = ["run", "--simulate", "--dry-run", "burstable.yaml", "--node", node]
            yield Case([*argv, "--cgroup-driver", "cgroupfs", "--runtime", "process"])


def _machine() -> Iterator[Case]:
    """What looks at this machine, changing nothing: for the machine that it was recorded on."""
    for node in ("r1-30-v1-cgroupfs.yaml", "r1-36-v2-cgroupfs.yaml", "r1-32-v1-systemd.yaml"):
        for pods in ("burstable.yaml", "annotated.yaml", CLUSTER):
            argv = ["apply", "--dry-run", "-o", "json", pods, "--node", node]
            yield Case([*argv, "--cgroup-root", badcases.ROOT])
    yield Case(["release", "--dry-run", "-o", "json", "--cgroup-root", badcases.ROOT])


def groups() -> dict[str, list[Case]]:
    """The cases by group."""
    names = [name for name, _ in documents.kubelet_documents() if "-node-" in name]
    made = {
        "plan-sets": _plan_sets(),
        "plan-flags": _plan_flags(),
        "plan-vectors": _plan_vectors(),
        "plan-kubelets": _plan_kubelets(names),
        "plan-outputs": _plan_outputs(names),
        "explain-sets": _explain_sets(),
        "explain-files": _explain_files(),
        "explain-more": _explain_more(names),
        "config": _configs(),
        "run-dry": _simulated(),
        REFUSED: map(Case, badcases.lines()),
        MACHINE: _machine(),
    }
    found = {name: list(cases) for name, cases in made.items()}
    for name, argvs in conversions(node_files()).items():
        found[name] = [Case(argv) for argv in argvs]
    return found


def inputs() -> dict[str, str]:
    """Every document by file name."""
    root = documents.ROOT
    return {
        **documents.copied(root, (*documents.SETS, *documents.NODES)),
        **documents.vector_pods(),
        **dict(documents.kubelet_documents()),
        **blocks.oci_blocks(),
        **blocks.cri_messages(),
        **blocks.windows_messages(),
        **badcases.documents(),
        **{f"{name}.yaml": text for name, text in nodes().items()},
    }
