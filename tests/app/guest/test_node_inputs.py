"""The node of a guest: what changes makes another plan, what fails changes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.agent.guest.ports import NodeView
from qoslet.app.guest.file_pods import FilePods
from qoslet.app.guest.node_inputs import RETRY_SECONDS, NodeInputs
from qoslet.app.guest.policy_file import PolicyFile
from qoslet.app.node.found_node import RELEASE, FoundNode
from qoslet.core.guest.policy import governed
from qoslet.core.guest.policy_document import NO_FLAGS, PolicyFlags
from qoslet.core.node.doctor.finding import DoctorFinding
from qoslet.core.node.flags import Flags
from qoslet.core.node.running_kubelet.pods_reading import PodsReading
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.errors import BadInput, CannotDo
from qoslet.host.files.watched_node import NodeFiles
from tests.cli.fixtures import NODE

REQUESTS = {"cpu": "100m", "memory": "64Mi"}


def pods_of(*names: str, phase: str = "Running") -> bytes:
    """Pods by ``NAME`` or ``NAMESPACE/NAME``."""
    items = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": name.rpartition("/")[0] or "default",
                "name": name.rpartition("/")[2],
                "uid": name.replace("/", "-"),
            },
            "spec": {
                "nodeName": "n1" if phase == "Running" else None,
                "containers": [{"name": "app", "image": "x", "resources": {"requests": REQUESTS}}],
            },
            "status": {"phase": phase},
        }
        for name in names
    ]
    return json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items}).encode()


class Pods:
    """A source that is told what it reads."""

    def __init__(self) -> None:
        self.reading = PodsReading(1, pods_of("a", "b"), "https://n1:10250/pods", "kubelet")
        self.wrong = ""
        self.refreshes = 0

    def refresh(self) -> None:
        self.refreshes += 1

    def say(self, pods: bytes, **more: Any) -> None:
        version = self.reading.version + 1
        self.reading = replace(self.reading, version=version, pods=pods, **more)

    def poll(self, *, asks: bool = True) -> PodsReading:
        if self.wrong:
            raise CannotDo(self.wrong)
        return self.reading

    def descriptors(self) -> Sequence[int]:
        return ()

    def next_at(self) -> float | None:
        return None

    def close(self) -> None:
        """Nothing is open."""


class Bench:
    """Inputs over a policy file in a folder."""

    def __init__(self, folder: Path, flags: PolicyFlags = NO_FLAGS) -> None:
        self.time = 0.0
        self.node = folder / "node.yaml"
        self.node.write_text(NODE)
        self.file = folder / "policy.yaml"
        self.write("mode: watch\n")
        self.files = NodeFiles([str(self.file)], lambda: self.time)
        self.policy = PolicyFile(str(self.file), flags, self.files)
        self.pods = Pods()
        self.inputs = NodeInputs([str(self.node)], Flags(), self.pods, self.policy, None)

    def write(self, text: str) -> None:
        new = self.file.with_name(".new")
        new.write_text(f"apiVersion: qoslet/v1\nkind: AgentPolicy\n{text}")
        new.rename(self.file)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_same_input_is_the_same_plan(bench: Bench) -> None:
    first = bench.inputs.current()
    assert len(first.plan.pods) == 2
    assert bench.inputs.current().plan is first.plan
    bench.pods.say(pods_of("a", "b", "c"))
    assert len(bench.inputs.current().plan.pods) == 3


def test_what_is_usual_stands_in_the_status_alone(bench: Bench) -> None:
    why = "kubelet lacks 1 of the known pods: asked again"
    bench.pods.say(pods_of("a", "b"), complete=False, reason=why, is_settling=True)
    view = bench.inputs.current()
    assert (view.notes, view.source.reason, view.source.complete) == ((), why, False)
    bench.pods.say(pods_of("a", "b"), is_settling=False)
    assert bench.inputs.current().notes == (why,)


def test_a_pod_that_waits_for_a_scheduler_is_not_the_node_s(bench: Bench) -> None:
    bench.pods.say(pods_of("a", phase="Pending"))
    assert bench.inputs.current().plan.pods == ()


def test_a_policy_that_changes_counts_at_once(bench: Bench) -> None:
    assert bench.inputs.current().policy.mode == "watch"
    before = bench.inputs.current().plan
    bench.write("mode: protect\nmemoryQos: qoslet\n")
    view = bench.inputs.current()
    assert (view.policy.mode, view.plan is before) == ("protect", False)
    files = {row.file for one in view.plan.cgroups for row in one.settings}
    assert "memory.low" in files
    bench.write("mode: guard\nmemoryQos: qoslet\n")
    assert bench.inputs.current().plan is view.plan, "a mode is no other plan"


MIB = 1 << 20


def values_of(view: NodeView, file: str) -> dict[str, str]:
    """What a policy has written in a file, by cgroup."""
    return {
        one.name: row.value
        for one in governed(view.in_force, view.policy, "/kubepods")
        for row in one.settings
        if row.file == file
    }


def test_a_policy_is_about_pods_of_its_namespaces(bench: Bench) -> None:
    bench.pods.say(pods_of("shop/web", "shop/db", "lab/web"))
    bench.write("mode: guard\nmemoryQos: qoslet\nnamespaces: [shop]\n")
    view = bench.inputs.current()
    low = {name: one for name, one in values_of(view, "memory.low").items() if one != "0"}
    assert set(low.values()) == {str(64 * MIB), str(128 * MIB)}
    upper = {one for name, one in low.items() if "/pod" not in name}
    assert upper == {str(128 * MIB)}, "sums are those of its pods"
    assert not [name for name in low if "lab-web" in name]
    assert not [name for name in values_of(view, "memory.high") if "lab-web" in name]
    files = {
        row.file
        for one in view.plan.cgroups
        if one.pod and one.pod.namespace == "lab"
        for row in one.settings
    }
    assert "cpu.weight" in files, "all pods are audited"
    assert not files & {"memory.min", "memory.low", "memory.high"}
    guards = {one.pod.namespace: one.pod.memory.guard for one in view.plan.pods}
    assert guards == {"shop": None, "lab": "off"}
    bench.write("mode: guard\nmemoryQos: qoslet\nnamespaces: [lab]\n")
    low = values_of(bench.inputs.current(), "memory.low")
    assert [name for name in low if "/pod" in name] == ["/kubepods/burstable/podlab-web"]


def test_what_the_kubelet_protects_itself_cannot_be_confined(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.node.write_text(NODE + "memoryQos: '1.27'\n")
    bench.pods.say(pods_of("shop/web", "lab/web"))
    bench.write("mode: protect\nnamespaces: [shop]\n")
    low = values_of(bench.inputs.current(), "memory.min")
    assert low
    assert not [name for name in low if "lab-web" in name]
    assert low["/kubepods"] == str(128 * MIB), "the kubelet's own sums stay"
    bench.write("mode: protect\nmemoryQos: qoslet\nnamespaces: [shop]\n")
    with pytest.raises(CannotDo, match="for the pods of all namespaces"):
        bench.inputs.current()


def test_a_resize_is_written_once_it_is_allocated(bench: Bench) -> None:
    def resized(allocated: str) -> bytes:
        document = json.loads(pods_of("a"))
        [pod] = document["items"]
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"
        grant = {"cpu": allocated, "memory": "64Mi"}
        pod["status"]["containerStatuses"] = [
            {"name": "app", "allocatedResources": grant, "resources": {"requests": grant}}
        ]
        return json.dumps(document).encode()

    def share(view: NodeView) -> str:
        [pod] = [one for one in view.in_force.cgroups if one.level == "pod"]
        return next(
            row.value
            for row in pod.settings
            if row.file.startswith("cpu.") and row.file in ("cpu.shares", "cpu.weight")
        )

    bench.write("mode: protect\n")
    bench.pods.say(pods_of("a"))
    before = bench.inputs.current()
    assert before.allocated is None
    bench.pods.say(resized("100m"))
    waiting = bench.inputs.current()
    assert waiting.allocated is not None
    assert share(waiting) == share(before)
    bench.pods.say(resized("500m"))
    done = bench.inputs.current()
    assert done.allocated is None
    assert share(done) != share(before)


def test_a_faulty_policy_changes_nothing_and_is_said(bench: Bench) -> None:
    bench.write("mode: protect\n")
    assert bench.inputs.current().policy.mode == "protect"
    bench.write("mode: protekt\n")
    view = bench.inputs.current()
    assert view.policy.mode == "protect"
    [fault] = view.faults
    assert fault.startswith("the policy stays as it was")
    assert "did you mean protect?" in fault
    bench.file.unlink()
    view = bench.inputs.current()
    assert (view.policy.mode, len(view.faults)) == ("protect", 1)
    bench.write("mode: watch\n")
    assert bench.inputs.current().faults == ()


def test_a_faulty_policy_at_the_start_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("apiVersion: qoslet/v1\nkind: AgentPolicy\nmodes: watch\n")
    with pytest.raises(BadInput) as caught:
        PolicyFile(str(path), NO_FLAGS, NodeFiles([], lambda: 0.0))
    assert "modes" in caught.value.message
    assert str(path) in caught.value.where


def test_what_a_reading_lacks_is_in_the_status(bench: Bench) -> None:
    bench.pods.say(pods_of("a"), complete=False, reason="kubelet: does not answer")
    view = bench.inputs.current()
    assert not view.source.complete
    assert view.notes == ("kubelet: does not answer",)


def found(pid: int = 1) -> FoundNode:
    own = {"apiVersion": "qoslet/v1", "kind": "Node", "kubernetes": "1.36"}
    return FoundNode(pid, "n1", (("kubelet", own),), None, (DoctorFinding(RELEASE, "ok", "1.36"),))


UNTOLD = FoundNode(
    1,
    "n1",
    (
        (
            "configz",
            {"kubeletconfig": {"memoryReservationPolicy": "None", "memoryThrottlingFactor": 0.9}},
        ),
        ("process 1", {"apiVersion": "qoslet/v1", "kind": "Node", "kubernetes": "1.37"}),
    ),
    None,
    (DoctorFinding(RELEASE, "unknown", "1.36 or later"),),
)
"""A kubelet whose /metrics does not answer in time."""


def test_what_depends_on_a_release_that_is_not_known_is_not_written(bench: Bench) -> None:
    """1.37 has Memory QoS on where nothing is configured, 1.36 has not."""
    told = replace(found(), documents=(UNTOLD.documents[0], *found().documents))
    answers = [UNTOLD, told]
    bench.write("mode: protect\nfiles: [memory.high, cpu.weight]\n")
    bench.node.write_text(NODE.replace('kubernetes: "1.36"\n', ""))
    inputs = NodeInputs(
        [str(bench.node)], Flags(), bench.pods, bench.policy, lambda: answers.pop(0)
    )
    view = inputs.current()
    assert "memory.high" in files_of(view.plan)
    assert "memory.high" not in files_of(view.in_force)
    assert "cpu.weight" in files_of(view.in_force)
    assert view.notes == (
        "the kubelet, of 1.36 or later, does not tell its release: what depends on it is not written",
    )
    assert [files_of(one) >= {"memory.high"} for one in inputs.releases().values()] == [False]
    inputs._asked_at -= RETRY_SECONDS
    assert inputs.current().notes == ()
    assert inputs.releases() == {}


def files_of(plan: Plan) -> set[str]:
    return {row.file for one in plan.cgroups for row in one.settings}


def test_what_a_kubelet_is_about_to_do_is_asked_of_its_runtime(bench: Bench) -> None:
    answer = replace(found(), work=KubeletWork(frozenset("x"), frozenset("a"), is_new=True))
    inputs = NodeInputs([str(bench.node)], Flags(), bench.pods, bench.policy, lambda: answer)
    inputs.current()
    assert inputs.kubelet_work() == KubeletWork(frozenset("x"), frozenset("a"), is_new=True)
    bench.pods.say(pods_of("a"))
    inputs.current()
    assert inputs.kubelet_work().has_changed, "QoS cgroups may count pod b for a minute"
    bench.pods.say(pods_of("a"), complete=False)
    inputs.current()
    assert inputs.kubelet_work().lacks_pods
    inputs.refresh()
    assert bench.pods.refreshes == 1


def test_a_kubelet_that_is_lost_leaves_its_configuration(bench: Bench) -> None:
    answers: list[FoundNode | str] = [found(pid=2**22 + 1), "no kubelet runs on this machine"]

    def find() -> FoundNode:
        answer = answers.pop(0)
        if isinstance(answer, str):
            raise CannotDo(answer)
        return answer

    inputs = NodeInputs([str(bench.node)], Flags(), bench.pods, bench.policy, find)
    first = inputs.current()
    inputs._asked_at = float("-inf")
    second = inputs.current()
    assert second.plan is first.plan
    assert second.notes == ("the configuration stays as it was: no kubelet runs on this machine",)


def test_a_machine_without_a_kubelet_is_told_what_to_give(bench: Bench) -> None:
    def find() -> FoundNode:
        raise CannotDo("no kubelet runs on this machine", hint="give pods with -f")

    inputs = NodeInputs([], Flags(), bench.pods, bench.policy, find)
    with pytest.raises(CannotDo) as caught:
        inputs.current()
    assert "--pods-from FILE" in caught.value.hint


def test_another_tree_asks_for_another_agent(bench: Bench) -> None:
    bench.inputs.current()
    bench.inputs._flags = Flags(cgroup_root="/other")
    bench.inputs._nodes_at = float("-inf")
    bench.pods.say(pods_of("a"))
    with pytest.raises(CannotDo) as caught:
        bench.inputs.current()
    assert caught.value.hint == "start the agent again"


def test_pods_of_a_file_follow_it(tmp_path: Path) -> None:
    path = tmp_path / "pods.json"
    path.write_bytes(pods_of("a"))
    pods = FilePods(str(path), strict=False)
    try:
        first = pods.poll()
        assert pods.poll() is first
        pods.refresh()
        asked = pods.poll()
        assert (asked.version, asked.at > first.at) == (first.version, True)
        assert pods.poll() is asked
        new = tmp_path / ".new"
        new.write_bytes(pods_of("a", "b"))
        new.rename(path)
        second = pods.poll()
        assert (second.version, second.pods) == (first.version + 1, pods_of("a", "b"))
    finally:
        pods.close()
    with pytest.raises(CannotDo):
        FilePods(str(tmp_path / "none"), strict=False).poll()
