"""Every rule fires on its example, and not on its counter-example."""

from __future__ import annotations

import json

import pytest

from qoslet.core.api.manifest import Options
from qoslet.core.lint.examples import EXAMPLES, Example
from qoslet.core.lint.lint import LintFinding, lint
from qoslet.core.lint.rule import rules
from qoslet.core.node.flags import Flags
from qoslet.core.plan.plan import plan
from qoslet.host.files.manifests import load_text
from qoslet.host.files.node import load_node

NODE = """\
apiVersion: qoslet/v1
kind: Node
metadata: {name: n1}
os: linux
capacity: {cpu: "16", memory: 64Gi, pid: "4194304", hugepages-2Mi: 1Gi}
swap: 1Gi
numa: []
host:
  hierarchy: v2
  kernel: "6.12"
  hugepageSizes: [2Mi]
  swapController: true
  systemd: 257
  cpus: 0-15
"""
PODS = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: x}]}}"


def findings(example: Example, text: str, *, fires: bool) -> list[LintFinding]:
    flags = {key: value for key, value in example.flags.items() if " " not in key}
    if not fires and "quiet runtime" in example.flags:
        flags["runtime"] = example.flags["quiet runtime"]
    node_text = NODE
    if "hierarchy" in flags:
        node_text = NODE.replace("hierarchy: v2", f"hierarchy: {flags.pop('hierarchy')}")
    texts = [("node.yaml", node_text.encode())]
    if example.is_node:
        texts.append(("kubelet.yaml", text.encode()))
    node, _ = load_node([], Flags(**flags), texts=texts)
    loaded = load_text(PODS if example.is_node else text, Options(keep_raw=True), name="pods.yaml")
    return list(lint(plan(loaded.pods, node), loaded.raw, node="node.yaml").findings)


def test_there_is_an_example_of_every_rule() -> None:
    assert EXAMPLES.keys() == rules().keys()
    assert len(rules()) >= 40


@pytest.mark.parametrize("id", rules())
def test_it_fires_on_its_example(id: str) -> None:
    found = [one for one in findings(EXAMPLES[id], EXAMPLES[id].fires, fires=True) if one.id == id]
    assert found
    for one in found:
        assert one.where.endswith(one.field)
        assert one.severity == rules()[id].severity


@pytest.mark.parametrize("id", rules())
def test_it_does_not_fire_on_its_counter_example(id: str) -> None:
    found = findings(EXAMPLES[id], EXAMPLES[id].quiet, fires=False)
    assert id not in {one.id for one in found}


def test_a_throttle_above_the_limit_of_the_pod_stalls_nobody() -> None:
    """A sidecar without a limit is written the pod's, far below its memory.high."""
    spec = {
        "resources": {"limits": {"memory": "2Gi"}},
        "containers": [{"name": "c", "resources": {"requests": {"memory": "100Mi"}}}],
    }
    gates = {"feature_gates": "MemoryQoS=true", "kubernetes": "1.36"}

    def stalls(**more: object) -> bool:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {**spec, **more},
        }
        example = Example("", "", gates)
        return any(row.id == "QL029" for row in findings(example, json.dumps(pod), fires=True))

    assert not stalls()
    assert stalls(resources={"limits": {"memory": "1Ti"}})


def test_words_are_whole_sentences() -> None:
    for rule in rules().values():
        assert rule.why.endswith(".")
        assert rule.fix.endswith(".")
        assert not rule.title.endswith(".")
        assert rule.source
