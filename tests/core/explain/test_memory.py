"""Why a memory value is what it is: the form, the pod's own word, what it is worth."""

from __future__ import annotations

from msgspec import structs

from qoslet.core.api.pod import Pod
from qoslet.core.explain.effective_memory import held
from qoslet.core.explain.explain import Explanation, Value, explain
from qoslet.core.memory.effective_protection import Overcommit
from qoslet.core.node.flags import Flags
from qoslet.core.plan.plan import plan
from tests.core.explain.test_targets import planned
from tests.core.resources.test_memory_qos import BATCH, DB, WEB, pod, under
from tests.core.resources.test_memory_qos_variants import GATE, chosen


def value(answer: Explanation) -> Value:
    (group,) = answer.groups
    (found,) = group.values
    return found


def asked(target: str, file: str, *pods: Pod, form: str = "qoslet", root: str = "/") -> Value:
    tiered = {"memory_reservation_policy": "TieredReservation"}
    return value(explain(plan(pods, under(form, cgroup_root=root, **tiered)), target, file))


def test_a_form_that_nobody_named_says_why_it_is_in_force() -> None:
    answer = explain(plan([WEB], chosen({}, GATE)), "web/c0", "memory.low")
    found = value(answer)
    assert found.profile == "Memory QoS qoslet, because no Kubernetes release is given"
    assert "docs/explanation/memory-qos.md" in (found.evidence or "")
    current = {row.axis: row.profiles for row in found.alternatives if row.current}
    assert "qoslet" in current["memoryQos"].split(", ")
    assert "kubernetes" not in current
    named = value(explain(plan([WEB], chosen({}, GATE, kubernetes="1.36")), "web/c0", "memory.low"))
    assert [row.axis for row in named.alternatives if row.current] == ["kubernetes", "memoryQos"]


def test_an_annotation_is_a_field_that_a_value_stands_on() -> None:
    notes = {"memory-high": "40Mi", "memory-protection": "off", "memory-oom-group": "false"}
    one = pod("p", ("32Mi", "64Mi"), notes=notes)
    for file, key in (
        ("memory.high", "memory-high"),
        ("memory.low", "memory-protection"),
        ("memory.oom.group", "memory-oom-group"),
    ):
        found = asked("p/c0", file, one)
        fields = {fact.field: fact.given for fact in found.facts}
        assert fields[f"metadata.annotations[qoslet.dev/{key}]"] == notes[key]
        assert f"qoslet.dev/{key}" in found.because
    facts = asked("/kubepods/burstable", "memory.low", one, WEB).facts
    assert not any("default/p" in fact.field for fact in facts)
    assert any("default/web" in fact.field for fact in facts)


def test_a_factor_of_a_pod_explains_what_it_does_not_write() -> None:
    one = pod("p", ("64Mi", "64Mi"), notes={"memory-throttling-factor": "0.5"})
    assert asked("p/c0", "memory.high", one).because.startswith(
        "the memory request equals the limit"
    )
    other = pod("p", ("64Mi", "128Mi"))
    assert "memoryThrottlingFactor is not set" in asked("p/c0", "memory.high", other).because


def test_the_sum_of_the_root_lists_the_pods() -> None:
    found = asked("/own", "memory.low", DB, WEB, BATCH, root="/own")
    fields = [fact.field for fact in found.facts]
    assert [field.rpartition(" ")[2] for field in fields[:2]] == ["default/db", "default/web"]
    hard = asked("/own", "memory.min", DB, WEB, BATCH, root="/own")
    assert not any("default/web" in fact.field for fact in hard.facts)


def test_worth_in_a_sentence() -> None:
    found = asked("web/c0", "memory.low", WEB)
    assert (found.worth, found.standing, found.lost) == (
        32 << 20,
        "all of it when the node is full",
        None,
    )
    found = asked("web/c0", "memory.low", WEB, form="1.36")
    assert found.worth == 0
    assert found.standing == "0 of 33554432 when the node is full: /kubepods has no memory.low"
    assert found.lost == "effective 0: /kubepods has no memory.low"
    found = asked("db/c0", "memory.min", DB, form="1.37", root="/own")
    assert found.lost == "effective 0: /own has no memory.min"
    found = asked("db/c0", "memory.max", DB)
    assert found.standing == "the lowest limit from here to the root"
    one = pod("p", ("32Mi", "64Mi"), notes={"memory-high": "40Mi"})
    assert asked("p/c0", "memory.max", one).standing == "memory.high is lower: 41943040"
    assert (
        asked("/kubepods", "memory.max", one).standing == "the lowest limit from here to the root"
    )


def test_no_worth_where_memory_qos_is_off() -> None:
    found = asked("db/c0", "memory.max", DB, form="off")
    assert (found.worth, found.standing, found.lost) == (None, None, None)


def test_a_sum_that_is_overcommitted_says_how_much_is_held() -> None:
    text = held(Overcommit("/a", "memory.low", 5, 10))
    assert text == "/a holds 5 of 10 that its children claim"


def test_policy_none_is_the_reason_of_the_zeros() -> None:
    node = structs.replace(under("qoslet"), origins={"memoryReservationPolicy": "k.yaml: it"})
    found = value(explain(plan([WEB], node), "web/c0", "memory.low"))
    assert found.value == "0"
    assert "memoryReservationPolicy None" in found.because


def test_the_guard_of_a_pod_and_who_says_so() -> None:
    one, bad = (pod("p", ("32Mi", "64Mi"), notes={"guard": text}) for text in ("off", "bogus"))
    for form, asked_for, mode in (
        ("qoslet", WEB, "act"),
        ("1.36", WEB, "observe"),
        ("off", WEB, "off"),
        ("qoslet", one, "off"),
        ("qoslet", bad, "act"),
    ):
        guard = explain(plan([asked_for], under(form)), asked_for.name).guard
        assert guard is not None
        assert guard.mode == mode
        assert guard.origin == ("annotation" if asked_for is one else "default")
        assert ("qoslet.dev/guard is rejected: 'bogus'" in guard.because) == (asked_for is bad)
        assert ("--guard" in guard.because) == (asked_for is not one)
    windows = structs.replace(under("qoslet"), os="windows")
    assert explain(plan([one], windows), "p").guard is None


def test_a_refused_annotation_is_named_where_it_would_have_decided() -> None:
    notes = {"memory-high": "lots", "memory-high.c1": "32Mi", "memory-high.c9": "32Mi"}
    notes |= {"memory-protection": "yes", "memory-oom-group": "1", "memory-hihg": "32Mi"}
    one = pod("p", ("32Mi", "64Mi"), ("16Mi", "64Mi"), notes=notes)
    for target, file, key in (
        ("p/c0", "memory.high", "memory-high"),
        ("p/c0", "memory.low", "memory-protection"),
        ("p/c0", "memory.oom.group", "memory-oom-group"),
    ):
        because = asked(target, file, one).because
        assert because.count("is rejected") == 1
        assert f"annotation qoslet.dev/{key} is rejected: '{notes[key]}' " in because
    made = explain(plan([one], under("qoslet")), "p")
    said = {
        group.cgroup.name.rpartition("/")[2]: [
            value.file for value in group.values if "is rejected" in value.because
        ]
        for group in made.groups
        if group.cgroup.level != "sandbox"
    }
    assert said["podp"] == ["memory.min", "memory.low"]
    assert said["c1"] == said["c0"] == ["memory.oom.group", "memory.min", "memory.low"]
    wrong = {row.where.rpartition("/")[2].rstrip("]"): row.severity for row in made.findings}
    assert wrong == {key: "error" for key in notes if key != "memory-high.c1"} | {
        "memory-hihg": "warning"
    }


def test_what_is_without_effect_is_said_of_the_pod() -> None:
    notes = {"memory-high": "32Mi", "memory-oom-group": "true", "guard": "act"}
    one = pod("p", ("32Mi", "64Mi"), notes=notes)
    (row,) = explain(plan([one], under("off")), "p/c0", "memory.high").findings
    assert row.where == "metadata.annotations[qoslet.dev/memory-high]"
    v1 = under("qoslet", host={"hierarchy": "v1"})
    found = explain(plan([one], v1), "p").findings
    assert [row.where.rpartition("/")[2] for row in found] == ["memory-high]", "memory-oom-group]"]
    assert explain(plan([WEB], v1), "/kubepods").findings == ()


def test_cgroup_v1_is_why_memory_qos_is_off() -> None:
    one = pod("p", ("32Mi", "64Mi"), notes={"memory-oom-group": "true"})
    for node in (
        under("qoslet", host={"hierarchy": "v1"}),
        chosen({"host": {"hierarchy": "v1"}}, GATE),
    ):
        found = value(explain(plan([one], node), "p/c0", "memory.high"))
        assert found.profile.endswith("Memory QoS disabled: the node has cgroup v1")
        assert found.because.endswith("no such file; Memory QoS needs v2")
        group = value(explain(plan([one], node), "p/c0", "memory.oom.group"))
        assert group.because == "the node has cgroup v1, which has no such file"
    named = chosen({"memoryQos": "off"}, GATE)
    found = value(explain(plan([WEB], named), "web/c0", "memory.high"))
    assert found.because == "d0: memoryQos disables Memory QoS"
    for flags, text in (
        ({"memory_qos": "off"}, "Memory QoS disabled, --memory-qos"),
        ({"kubernetes": "1.20"}, "Memory QoS disabled"),
        ({"kubernetes": "1.30"}, "Memory QoS disabled (gate MemoryQoS)"),
    ):
        found = value(explain(plan([WEB], chosen({}, **flags)), "web/c0", "memory.high"))
        assert found.profile.endswith(f": {text}")


def test_a_request_that_the_documents_do_not_copy_is_named_for_memory_alone() -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"memory": "1Gi"}}}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container]},
    }
    made = planned(document, flags=Flags(kubernetes="design"))
    field = "spec.containers[0].resources.requests.memory"
    named = f"{field} (only the limit is set; an API server would copy it)"
    for file, told in (("memory.min", True), ("memory.max", False), ("cpu.weight", False)):
        fields = [fact.field for fact in value(explain(made, "p/c", file)).facts]
        assert (named in fields) == told, file
