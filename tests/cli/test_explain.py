"""Explanations: golden texts, the reasons for what is not written, names that are not clear."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qoslet.core.explain.explain import Explanation, explain
from qoslet.core.explain.selector import select
from qoslet.core.node.flags import Flags
from qoslet.errors import BadInput
from tests.cli.fixtures import NODE, PODS, golden, made, run, write


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("pod", ("web",)),
        ("high", ("web/app", "memory.high")),
        ("guaranteed", ("db/postgres", "memory.high")),
        ("weight", ("web/app", "cpu.weight")),
        ("tier", ("/kubepods/burstable",)),
        ("node", ("/kubepods", "memory.min")),
    ],
)
def test_golden(tmp_path: Path, name: str, arguments: tuple[str, ...]) -> None:
    done = run("explain", *arguments, *write(tmp_path), folder=tmp_path, COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    golden(f"explain.{name}.txt", done.stdout)


def because(answer: Explanation) -> str:
    (group,) = [group for group in answer.groups if group.cgroup.level != "sandbox"][:1]
    (value,) = group.values
    assert value.value is None
    return value.because


@pytest.mark.parametrize(
    ("target", "file", "flags", "why"),
    [
        ("db/postgres", "memory.high", {}, "the memory request equals the limit (1073741824)"),
        ("batch/main", "memory.high", {}, "both unset and count as equal"),
        (
            "web/app",
            "memory.high",
            {"feature_gates": "MemoryQoS=false", "bare": "1"},
            "gate MemoryQoS is false",
        ),
        ("web/app", "memory.high", {"kubernetes": "1.37"}, "memoryThrottlingFactor is not set"),
        ("web/app", "memory.high", {"kubernetes": "1.20"}, "1.22 is the first"),
        (
            "web/app",
            "memory.high",
            {"memory_qos": "off", "bare": "1"},
            "--memory-qos disables Memory QoS",
        ),
        ("web", "memory.high", {}, "written on containers"),
        ("/kubepods", "memory.high", {}, "not on the node's cgroup"),
        ("web/app", "memory.min", {}, "protected by memory.low with TieredReservation"),
        ("db/postgres", "memory.low", {}, "protected by memory.min"),
        ("/kubepods", "memory.low", {}, "variant 1.36 does not write it on kubepods"),
        ("/kubepods/besteffort", "memory.low", {}, "BestEffort pods request nothing"),
        ("/kubepods/burstable", "memory.min", {}, "memory.low protects the Burstable QoS cgroup"),
        ("web", "cpu.max", {}, "without a cpu limit: migrate"),
        ("batch", "cpu.max", {}, "BestEffort pods have no limits"),
        ("web/app", "cpu.max", {"cpu_cfs_quota": "false"}, "cpuCFSQuota is false"),
        ("/kubepods", "cpu.max", {}, "above pods"),
        ("batch/main", "memory.max", {}, "no memory limit"),
        ("batch", "memory.max", {}, "BestEffort pods have no limits"),
        ("/kubepods/burstable", "memory.max", {}, "only with --qos-reserved"),
        (
            "/kubepods/burstable",
            "memory.max",
            {"qos_reserved": "memory=50%"},
            "QOSReserved is disabled",
        ),
        ("web", "memory.swap.max", {}, "only containers have swap limits"),
        ("web/app", "pids.max", {}, "not on a container"),
        ("web", "pids.max", {"pod_max_pids": "-1"}, "podPidsLimit is -1"),
        ("web", "memory.oom.group", {}, "only containers have it"),
        ("web/app", "memory.oom.group", {"kubernetes": "1.27"}, "writes it since 1.28"),
        ("web", "oom_score_adj", {}, "processes of containers"),
        ("web/app", "cpuset.cpus", {}, "cpuManagerPolicy is none"),
        ("web", "cpuset.cpus", {}, "static policy"),
        ("web/app", "cpuset.mems", {}, "memoryManagerPolicy is None"),
        ("web/app", "hugetlb.1GB.max", {}, "no huge pages of 1GB, only 2MB"),
        ("web/app", "memory.limit_in_bytes", {}, "cgroup v2, where the file is memory.max"),
        ("web/app", "cpu.idle", {}, "this release does not write it"),
    ],
)
def test_why_not(tmp_path: Path, target: str, file: str, flags: dict[str, str], why: str) -> None:
    with_kubelet = not flags.pop("bare", "")
    assert why in because(
        explain(made(tmp_path, with_kubelet=with_kubelet, flags=Flags(**flags)), target, file)
    )


def test_why_not_on_v1(tmp_path: Path) -> None:
    write(tmp_path)
    node = NODE.replace("hierarchy: v2", "hierarchy: v1")
    (tmp_path / "node.yaml").write_text(node)
    for file, why in (("memory.high", "needs v2"), ("cpu.weight", "where the file is cpu.shares")):
        arguments = ("explain", "web/app", file, "-f", "pods.yaml", "--node", "node.yaml")
        done = run(*arguments, folder=tmp_path)
        assert done.returncode == 0
        assert why in done.stdout


def alternatives(answer: Explanation, axis: str) -> dict[str, str | None]:
    (group,) = answer.groups
    (value,) = group.values
    rows = [row for row in value.alternatives if row.axis == axis]
    assert sum(row.current for row in rows) == 1
    return {row.profiles: row.value for row in rows}


def test_other_profiles(tmp_path: Path) -> None:
    plan = made(tmp_path)
    high = explain(plan, "web/app", "memory.high")
    assert alternatives(high, "kubernetes") == {
        "1.6-1.21": None,
        "1.22-1.26": "214748364",
        "1.27-1.36": "255012864",
        "1.37": None,
        "design": "255012864",
    }
    assert alternatives(high, "memoryQos")["qoslet, off"] is None
    weight = explain(plan, "web/app", "cpu.weight")
    assert alternatives(weight, "runtime")["runc-1.2.6"] == "4"
    group = explain(plan, "web/app", "memory.oom.group")
    assert alternatives(group, "kubernetes") == {"1.6-1.27": None, "1.28-1.37": "1", "design": "1"}


def test_a_value_stands_on_its_fields(tmp_path: Path) -> None:
    (group,) = explain(made(tmp_path), "shop/db/postgres", "cpu.weight").groups
    (value,) = group.values
    assert [(f.field, f.given, f.where) for f in value.facts] == [
        (
            "spec.containers[0].resources.requests.cpu (copied from the limit)",
            "1",
            "pods.yaml: Pod shop/db",
        )
    ]
    assert value.rule == "cpu.weight.quadratic"
    assert value.when


AGAIN = (
    PODS
    + "---\n"
    + PODS.replace("shop}", "other}")
    .replace("namespace: shop", "namespace: other")
    .replace("name: web,", "name: web, namespace: two,")
    .replace("jobs", "more")
    .replace("0000-4000-8000", "0000-4000-9000")
)


def test_names_that_mean_two_things(tmp_path: Path) -> None:
    plan = made(tmp_path, AGAIN)
    with pytest.raises(BadInput) as caught:
        select(plan, "web/app")
    assert "default/web/app, two/web/app" in str(caught.value)
    assert "-n NAMESPACE" in caught.value.hint
    assert len(select(plan, "web/app", "two")) == 1
    assert len(select(plan, "two/web/app")) == 1
    assert {group.pod.namespace for group in select(plan, "web", "two") if group.pod} == {"two"}


@pytest.mark.parametrize("target", ["nothing", "web/ap", "/kubepods/burst", "db/web", ""])
def test_unknown_names(tmp_path: Path, target: str) -> None:
    with pytest.raises(BadInput):
        select(made(tmp_path), target)


def test_a_group_by_its_concrete_path(tmp_path: Path) -> None:
    (group,) = select(made(tmp_path), "/kubepods.slice/kubepods-burstable.slice")
    assert group.name == "/kubepods/burstable"


def test_a_pod_s_own_word_is_shown(tmp_path: Path) -> None:
    notes = {"qoslet.dev/guard": "observe", "qoslet.dev/memory-high": "lots"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": notes},
        "spec": {"containers": [{"name": "c"}]},
    }
    (tmp_path / "p.json").write_text(json.dumps(pod))
    (tmp_path / "n.yaml").write_text(NODE)
    given = ("-f", "p.json", "--node", "n.yaml", "--memory-qos", "qoslet")
    guard = {"mode": "observe", "from": "annotation", "because": "annotation qoslet.dev/guard"}
    done = run("explain", "p", *given, folder=tmp_path, COLUMNS="60")
    assert "  guard of qoslet run: observe, annotation qoslet.dev/guard\n" in done.stdout
    assert "  ✗ metadata.annotations[qoslet.dev/memory-high]: 'lots'" in done.stdout
    head = done.stdout.partition("\n\n")[0]
    assert max(map(len, head.splitlines())) <= 60
    found = json.loads(run("explain", "p", *given, "-o", "json", folder=tmp_path).stdout)["pod"]
    assert found["guard"] == guard
    assert [row["severity"] for row in found["findings"]][:1] == ["error"]
    planned = json.loads(run("plan", *given, "-o", "json", folder=tmp_path).stdout)
    assert [row["guard"] for row in planned["pods"]] == [guard]
    high = run("explain", "p/c", "memory.high", *given, folder=tmp_path).stdout
    assert "annotation qoslet.dev/memory-high is rejected: 'lots'" in " ".join(high.split())
    assert "guard of" not in high
