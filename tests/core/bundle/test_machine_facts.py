"""What ``doctor`` says of a bundle."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from qoslet.core.bundle.machine_facts import described, doctor_view, facts_text, read_facts
from qoslet.core.bundle.redaction import Pseudonyms
from qoslet.core.node.flags import NO_FLAGS
from qoslet.core.node.lookup import Probed
from qoslet.core.node.machine import Controller, Machine, NodeProgram, OciProgram
from qoslet.core.node.resolve import node_from
from qoslet.errors import BadInput
from tests.cli.fixtures import NODE

PROBED = Probed(
    cpu=4, memory=1 << 33, hugepages={2 << 20: 0, 1 << 30: 4096}, hierarchy="v2", kernel="6.12.1",
    controllers=frozenset(("cpu", "memory")), mounts={"nsdelegate": ""}, unified="/zq/cgroup",
    identity={"name": "zqhost", "machineID": "f" * 32},
)  # fmt: skip
MACHINE = Machine(
    probed=PROBED, layout="v2", options=("nsdelegate",), own_cgroup={"": "/zqslice/x"},
    controllers=(Controller("cpu", "/zq/cgroup", "v2", True, True), Controller("memory", "/zq/cgroup", "v2", True, True)),
    capabilities=frozenset(("CAP_SYS_RESOURCE",)), programs=(NodeProgram("kubelet", "kubelet", 7),),
    oci_programs=(OciProgram("runc", "1.2.3"),), agents=("/zqroot",), left_roots=("/zqleft",), silent_roots=("/zqsilent",), kubelet_trees=("/kubepods.slice",), files=frozenset(("memory.peak",)),
)  # fmt: skip


def test_facts_come_back_without_the_machines_identity() -> None:
    text = facts_text(replace(MACHINE, files=frozenset(("memory.peak", "zqgroup", "cpu"))), None)
    assert b"zqgroup" not in text
    assert b"zqhost" not in text
    assert b"f" * 32 not in text
    found = read_facts(text, "b")
    assert replace(found, probed=PROBED) == MACHINE
    assert doctor_view(found)[1:] == doctor_view(MACHINE)[1:]


def test_redacted_facts_have_no_name_and_the_same_findings() -> None:
    text = facts_text(MACHINE, Pseudonyms())
    assert b"zq" not in text
    found = [(row.topic, row.state) for row in doctor_view(read_facts(text, "b"))[1]]
    assert found == [(row.topic, row.state) for row in doctor_view(MACHINE)[1]]


def test_a_node_says_what_it_can() -> None:
    node, _ = node_from([("n", msgspec.yaml.decode(NODE))], NO_FLAGS, Probed)
    machine, rows, able = described(node)
    topics = {row.topic: row.state for row in rows}
    assert (machine.layout, able) == ("v2", True)
    assert topics["hierarchy"] == topics["kernel"] == topics["PSI"] == "ok"
    assert topics["doctor.json"] == "unknown"
    assert not topics.keys() & {"user", "CAP_SYS_RESOURCE", "memory.low", "nsdelegate"}


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"probed": 1}', b"\xff", b'{"a":' * 100_000])
def test_facts_that_are_none_are_bad_input(text: bytes) -> None:
    with pytest.raises(BadInput, match=r"b: doctor\.json: cannot be read"):
        read_facts(text, "b: doctor.json")


def test_no_control_character_gets_out() -> None:
    text = facts_text(MACHINE, None).replace(b'"1.2.3"', b'"\\u001b[31m"')
    assert read_facts(text, "b").oci_programs[0].version == "\\x1b[31m"
