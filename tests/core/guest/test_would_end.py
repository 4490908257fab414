"""What a dry run says that a guard may end."""

from __future__ import annotations

from msgspec.structs import replace

from qoslet.core.api.memory_annotations import MemoryPolicy
from qoslet.core.api.pod import Pod
from qoslet.core.guest.policy import GuestPolicy
from qoslet.core.guest.would_end import would_end

POD = Pod("d", "web", "1", "t.yaml", (), controller=("ReplicaSet", "web-5d9"))
PODS = (
    POD,
    replace(POD, name="agent", uid="own", controller=("DaemonSet", "qoslet")),
    replace(POD, name="bare", controller=None),
    replace(POD, name="dns", critical=True),
    replace(POD, name="log", controller=("DaemonSet", "log")),
    replace(POD, name="out", memory=MemoryPolicy(guard="off")),
    replace(POD, name="registry", critical=True),
)
POLICY = GuestPolicy("guard", ends="pod", named=frozenset({"d/registry"}))


def test_nothing_is_ended_in_other_namespaces() -> None:
    policy = replace(POLICY, namespaces=frozenset({"shop"}))
    pods = (POD, replace(POD, namespace="shop", uid="2"))
    assert [str(one) for one in would_end(policy, pods)] == [
        "ends nothing of d/web: its namespace is not one of the policy's",
        "may evict shop/web",
    ]


def ways(policy: GuestPolicy) -> dict[str, str]:
    return {one.pod: one.way for one in would_end(policy, PODS, {"own"})}


def test_each_pod_has_its_way_and_its_reason() -> None:
    assert [str(one) for one in would_end(POLICY, PODS, {"own"})] == [
        "ends nothing of d/agent: it is the agent's own pod",
        "may end a container of d/bare: no controller replaces it",
        "ends nothing of d/dns: a static, mirror or critical pod is not ended unless the policy names it",
        "may end a container of d/log: its DaemonSet starts it on this node again",
        "ends nothing of d/out: its annotation takes it out of the guard",
        "may evict d/registry",
        "may evict d/web",
    ]


def test_without_evictions_it_is_containers() -> None:
    found = ways(replace(POLICY, ends="container"))
    assert set(found.values()) == {"none", "end"}
    assert found["d/web"] == "end"


def test_a_policy_that_ends_nothing_has_no_rows() -> None:
    for policy in (
        replace(POLICY, ends="none"),
        replace(POLICY, mode="protect"),
        replace(POLICY, files=frozenset({"memory.low"})),
    ):
        assert ways(policy) == {}
