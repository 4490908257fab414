"""The isolation of Windows pods, and where they have no cgroups."""

from __future__ import annotations

import pytest

import qoslet
from qoslet.core.api.manifest import Loaded
from qoslet.core.convert.convert import Conversion, conversion_request
from qoslet.core.convert.pods import convert_pods
from qoslet.core.convert.windows_job_object import Windows
from qoslet.errors import BadInput
from tests.core.plan.test_windows import CLASS, LABEL, Json, described, node, pods


def isolations(loaded: Loaded, release: str, **flags: str) -> list[str | None]:
    document = qoslet.to_dict(qoslet.plan(loaded, node("windows", release, None, **flags)))
    return [pod["isolation"] for pod in document["pods"]]


@pytest.mark.parametrize(
    ("release", "gate", "isolation"),
    [
        ("1.10", "", "process"), ("1.10", "HyperVContainer=true", "hyperv"),
        ("1.17", "HyperVContainer=true", "hyperv"), ("1.17", "", "process"),
        ("1.20", "HyperVContainer=true", "process"), ("1.36", "", "process"),
    ],
)  # fmt: skip
def test_the_annotation_counts_with_its_gate(release: str, gate: str, isolation: str) -> None:
    key = "experimental.windows.kubernetes.io/isolation-type"
    loaded = pods({}, annotations={key: "hyperv"})
    flags = {"feature_gates": gate} if gate else {}
    assert isolations(loaded, release, **flags) == [isolation]
    rows = qoslet.plan(loaded, node("windows", release, None, **flags)).problems
    assert any("process isolation" in row.message for row in rows) is (isolation == "process")


def test_the_flag_is_above_the_handler() -> None:
    loaded = pods({"runtimeClassName": "hv"}, {}, more=(CLASS,))
    assert isolations(loaded, "1.33") == ["hyperv", "process"]
    assert isolations(loaded, "1.33", isolation="process") == ["process", "process"]
    assert isolations(loaded, "1.33", isolation="hyperv") == ["hyperv", "hyperv"]
    assert isolations(loaded, "1.17") == ["process", "process"]  # dockershim has no handlers


def test_an_unknown_handler_is_told() -> None:
    loaded = pods({"runtimeClassName": "hv"}, more=({**CLASS, "handler": "mine"},))
    rows = qoslet.plan(loaded, node()).problems
    assert any("handler mine" in row.message for row in rows)


def converted(
    loaded: Loaded, release: str = "1.33", isolation: str = "process", **flags: str
) -> Conversion:
    wish = conversion_request("windows", "runc-1.4", windows=Windows(isolation))
    return convert_pods(loaded.pods, node("windows", release, None, **flags), wish)


ON_HOST = {"securityContext": {"windowsOptions": {"hostProcess": True}}, "hostNetwork": True}


@pytest.mark.parametrize("release", ["1.23", "1.36"])
def test_a_host_process_container_is_not_isolated(release: str) -> None:
    made = converted(pods(ON_HOST), release)
    reports = {row.what: row for part in made.parts for row in part.parity}
    assert reports["isolation"].asked == "hostProcess"
    assert "on the host itself" in reports["isolation"].how
    assert isolations(pods(ON_HOST), release) == ["host"]


def test_a_host_process_container_cannot_run_in_a_vm() -> None:
    made = converted(pods(ON_HOST), isolation="hyperv")
    refusal = made.parts[1].refusal
    assert refusal is not None
    assert refusal.rule == "refused.windows.host_process"
    assert not made.is_valid
    loaded = pods({**ON_HOST, "runtimeClassName": "hv"}, more=(CLASS,))
    rows = qoslet.plan(loaded, node()).problems
    assert any("not in a VM" in row.message for row in rows)
    assert not converted(loaded).is_valid


@pytest.mark.parametrize(("release", "known"), [("1.21", False), ("1.22", False), ("1.23", True)])
def test_releases_without_host_processes(release: str, known: bool) -> None:
    rows = qoslet.plan(pods(ON_HOST), node("windows", release)).problems
    assert any("has no HostProcess containers" in row.message for row in rows) is not known


@pytest.mark.parametrize(
    "document",
    [
        {"metadata": {"name": "c"}, "windows": {"resources": {"cpu_maximum": 5000}, "security_context": {"host_process": True}}},
        {"ociVersion": "1.0.2", "annotations": {"microsoft.com/hostprocess-container": "true"}, "windows": {"resources": {"cpu": {"maximum": 5000}}}},
    ],
)  # fmt: skip
def test_a_message_of_a_host_process(document: Json) -> None:
    assert qoslet.convert(document, "windows").is_valid
    assert not qoslet.convert(document, "windows", isolation="hyperv").is_valid


@pytest.mark.parametrize("to", ["v1", "v2", "systemd"])
def test_a_windows_pod_has_no_cgroup_files(to: str) -> None:
    windows: Json = {"nodeSelector": {LABEL: "windows"}}
    plain: Json = {}
    with pytest.raises(BadInput, match="Windows containers"):
        convert_pods(pods(windows).pods, node("linux"), conversion_request(to, "runc-1.4"))
    with pytest.raises(BadInput, match="Windows containers"):
        convert_pods(pods(plain).pods, node("windows"), conversion_request(to, "runc-1.4"))
    both = convert_pods(
        pods(windows, plain).pods, node("linux"), conversion_request(to, "runc-1.4")
    )
    assert {part.name.split("/")[1] for part in both.parts} == {"p1"}
    assert [row.where.rpartition("/")[2] for row in both.problems if "left out" in row.message] == [
        "p0"
    ]


def test_a_linux_pod_has_no_job_object() -> None:
    linux = {"os": {"name": "linux"}}
    with pytest.raises(BadInput, match="Linux containers"):
        converted(pods(linux))
    assert {part.name.split("/")[1] for part in converted(pods(linux, {})).parts} == {"p1"}


def test_releases_before_the_message_send_nothing() -> None:
    for release in ("1.6", "1.9"):
        rows = [row for part in converted(pods({}), release).parts for row in part.parity]
        [memory] = [row for row in rows if row.what == "limits.memory"]
        assert memory.how == f"Kubernetes {release} sends no resources of Windows containers"


def test_docker_chose_until_1_17() -> None:
    for release, words in (("1.17", "Docker's"), ("design", "the design's"), ("1.33", "")):
        head = qoslet.to_text(converted(pods({}), release)).splitlines()[0]
        assert words in head
        assert ("precedence" in head) is bool(words)


def test_no_advice_of_linux_on_windows() -> None:
    pages = {"limits": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"}}
    spec = {"containers": [{"name": "c", "image": "x", "resources": pages}]}
    rows = qoslet.plan(pods(spec), node()).problems
    assert [row.message for row in rows] == [
        "Windows has no huge pages for pods: no Windows node offers any"
    ]
    document = qoslet.to_dict(qoslet.plan(pods({}), node()))
    assert (document["node"]["os"], document["node"]["cgroupsInForce"]) == ("windows", False)
    assert "cgroupfs" not in qoslet.to_text(qoslet.plan(pods({}), node()))


def test_the_isolation_of_a_linux_node() -> None:
    rows = described("linux", "1.33", isolation="hyperv")[1]
    assert [row.where for row in rows] == ["--isolation"]


@pytest.mark.parametrize(
    ("release", "severity"), [("1.10", "warning"), ("1.11", "error"), ("1.29", "error"), ("1.30", "warning")]
)  # fmt: skip
def test_what_a_kubelet_on_windows_refuses(release: str, severity: str) -> None:
    given = {"cgroupsPerQOS": True, "enforceNodeAllocatable": ["pods"]}
    rows = described("windows", release, given)[1]
    assert [(row.where.rpartition(": ")[2], row.severity) for row in rows] == [
        ("cgroupsPerQOS", severity), ("enforceNodeAllocatable", severity),
    ]  # fmt: skip
    assert ("refuses to start" in rows[0].message) is (severity == "error")
    right = {"cgroupsPerQOS": False, "enforceNodeAllocatable": []}
    assert described("windows", release, right)[1] == []


@pytest.mark.parametrize(
    "given",
    [
        {"cgroupDriver": "systemd"}, {"systemReservedCgroup": "/s"}, {"podPidsLimit": 100},
        {"cpuCFSQuota": False}, {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "1"}},
        {"topologyManagerPolicy": "best-effort"},
    ],
)  # fmt: skip
def test_what_a_kubelet_on_windows_ignores(given: Json) -> None:
    rows = described(
        "windows", "1.33", {"cgroupsPerQOS": False, "enforceNodeAllocatable": [], **given}
    )[1]
    assert [row.where.rpartition(": ")[2] for row in rows] == [next(iter(given))]
    assert "no effect on Windows" in rows[0].message


@pytest.mark.parametrize(
    ("field", "release", "text"),
    [
        ("cpu_count", "1.33", "send only cpu_maximum"), ("cpu_shares", "1.27", "send only cpu_maximum"),
        ("cpu_count", "1.15", "only with Hyper-V"), ("cpu_maximum", "1.9", "1.10 and later do"),
        ("cpu.weight", "1.33", "no cgroups"), ("memory.max", "1.33", "no cgroups"),
        ("affinity_cpus", "1.33", "WindowsCPUAndMemoryAffinity"), ("rootfs_size_in_bytes", "1.33", "disk size"),
    ],
)  # fmt: skip
def test_why_a_field_is_not_sent(field: str, release: str, text: str) -> None:
    made = qoslet.plan(pods({}), node("windows", release))
    value = qoslet.explain(made, "p0/c", field).groups[0].values[0]
    assert value.value is None
    assert text in value.because


def test_why_a_field_without_a_limit_is_not_sent() -> None:
    spec = {"containers": [{"name": "c", "image": "x"}]}
    made = qoslet.plan(pods(spec), node())
    for field, text in (
        ("cpu_maximum", "no CPU limit"),
        ("memory_limit_in_bytes", "no memory limit"),
    ):
        assert text in qoslet.explain(made, "p0/c", field).groups[0].values[0].because


def test_a_value_says_whether_it_is_of_limit_or_request() -> None:
    spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}}}]}
    made = qoslet.plan(pods(spec), node("windows", "design"))
    [value] = qoslet.explain(made, "p0/c", "cpu_shares").groups[0].values
    assert (value.value, value.because.split()[0]) == ("2500", "request")
    assert value.when is not None
    assert "no in-place resize" in value.when
