"""What a block or a message may hold: every fault names its field, every unknown name is told."""

from __future__ import annotations

from typing import Any

import pytest

from qoslet.core.convert.convert import Conversion, conversion_request, convert_document
from qoslet.core.convert.cri_fields import ENUMS, MESSAGES, json_name
from qoslet.core.oci.resources import block_of, plain
from qoslet.errors import BadInput

Json = dict[str, Any]

CONTAINER: Json = {
    "metadata": {"name": "app", "attempt": 1},
    "image": {"image": "registry/app", "user_specified_image": "app"},
    "command": ["/app"],
    "envs": [{"key": "A", "value": "b"}],
    "mounts": [{"container_path": "/d", "propagation": 1, "uidMappings": [{"host_id": 5}]}],
    "devices": [{"container_path": "/dev/fuse", "permissions": "rw"}],
    "CDI_devices": [{"name": "a/b=c"}],
    "labels": {"a": "b"},
    "stop_signal": 65,
    "stdin": False,
    "linux": {
        "resources": {"cpu_shares": 512},
        "security_context": {
            "namespace_options": {"pid": 1, "network": "NODE", "userns_options": {"mode": 2}},
            "run_as_user": {"value": "1000"},
            "supplemental_groups": [5],
            "seccomp": {"profile_type": "RuntimeDefault"},
        },
    },
}
"""A container as ``crictl inspect`` shows it."""

SANDBOX: Json = {
    "metadata": {"name": "p", "uid": "u", "namespace": "d"},
    "dns_config": {"servers": ["10.0.0.1"]},
    "port_mappings": [{"protocol": 1, "container_port": 80}],
    "linux": {
        "cgroup_parent": "/kubepods/pod1",
        "sysctls": {"net.a": "1"},
        "overhead": {},
        "resources": {"cpu_shares": 512},
    },
}


def convert(document: Json, to: str = "v2", source: Any = None) -> Conversion:
    return convert_document(document, conversion_request(to, "runc-1.4"), source, "x")


def camel(value: Any) -> Any:
    """A message in the JSON form of protobuf."""
    if isinstance(value, dict):
        return {json_name(name): camel(each) for name, each in value.items()}
    return [camel(one) for one in value] if isinstance(value, list) else value


def with_(document: Json, path: str, value: Any) -> Json:
    """The document with that value at a dotted path."""
    head, _, rest = path.partition(".")
    inner = with_(document.get(head, {}), rest, value) if rest else value
    return {**document, head: inner}


@pytest.mark.parametrize("message", [CONTAINER, SANDBOX, {"config": CONTAINER}])
def test_whole_messages_are_read_without_a_complaint(message: Json) -> None:
    for given in (message, camel(message)):
        made = convert(given, "cri", source="cri")
        assert [part.message for part in made.parts] == [{"cpu_shares": 512}]
        assert made.problems == ()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("image", 5, "x: image: expected `object`, got 5"),
        ("image.image", 5, "x: image.image: expected `str`, got 5"),
        ("command", "sh", 'x: command: expected `array`, got "sh"'),
        ("command", ["sh", 1], r"x: command\[1\]: expected `str`, got 1"),
        ("metadata.attempt", 2**32, "x: metadata.attempt: does not fit 32 bits"),
        ("metadata.attempt", -1, "x: metadata.attempt: expected `int` >= 0"),
        ("labels", {"a": None}, "x: labels.a: expected `str`, got null"),
        ("stdin", 1, "x: stdin: expected `bool`, got 1"),
        ("stop_signal", 66, r"must be RUNTIME_DEFAULT \(0\) to SIGRTMAX \(65\)"),
        ("mounts", [{"propagation": "x"}], r'x: mounts\[0\].propagation: is "x", must be PROP'),
        ("linux", [], "x: linux: expected `object`, got an array"),
        ("linux.resources", 0, "x: linux.resources: expected `object`, got 0"),
        ("linux.resources.cpu_quota", "5x", 'x: linux.resources.cpu_quota: expected `int`, got "5'),
        (
            "linux.security_context.privileged",
            "yes",
            "security_context.privileged: expected `bool`",
        ),
        ("linux.security_context.run_as_user", 5, "run_as_user: expected `object`, got 5"),
        (
            "linux.security_context.namespace_options.pid",
            "WRONG",
            r'namespace_options.pid: is "WRONG", must be POD \(0\), CONTAINER \(1\), NODE \(2\) or',
        ),
    ],
)
def test_a_fault_around_the_resources_names_its_field(path: str, value: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        convert(with_(CONTAINER, path, value))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"linux": {"cgroup_parent": 5}}, "x: linux.cgroup_parent: expected `str`, got 5"),
        ({"cpu_shares": 1, "cpuShares": 2}, "x: cpuShares: is given twice"),
        ({"pod_sandbox_id": "a", "podSandboxId": "b"}, "x: podSandboxId: is given twice"),
        ({"pod_sandbox_id": "a", "resources": 5}, "x: resources: expected `object`, got 5"),
        ({"cpu_sharse": 1, "cpu_quota": 1}, r"cpu_sharse: .* \(did you mean cpu_shares\?\)"),
        (
            {"cpu_shares": 1, "hugepage_limits": [{"page_size": "2MB", "lmit": "5"}]},
            r"x: hugepage_limits\[0\].lmit: is not a field of the message \(did you mean limit",
        ),
        (
            {"cpu_shares": 1, "hugepage_limits": [{"limit": str(2**64)}]},
            r"hugepage_limits\[0\].limit: does not fit 64 bits",
        ),
        ({"cpu_shares": 1, "unified": {"memory.max": 5}}, r"unified\[memory.max\]: expected `str`"),
        ({"cpu_shares": -5}, "x: cpu_shares: is negative"),
        ({"cpu_count": 1, "cpuCount": 2}, "x: cpuCount: is given twice"),
        ({"cpu_shares": 9.5}, "cpu_shares: expected `int`, got 9.5"),
    ],
)
def test_a_message_that_is_none_names_its_field(document: Json, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        convert(document)


def test_names_that_a_later_release_may_have_are_told() -> None:
    later = with_(with_(CONTAINER, "linux.scheduler", 5), "new_field", {})
    rows = convert(later).problems
    assert [(row.severity, row.where) for row in rows] == [
        ("warning", "x: linux.scheduler"),
        ("warning", "x: new_field"),
    ]
    assert rows[0].message == "is not a field of LinuxContainerConfig"


def test_hugepage_limits_are_unsigned() -> None:
    limit = {"page_size": "2MB", "limit": str(2**64 - 1)}
    made = convert({"hugepage_limits": [limit], "cpu_shares": 2}, "cri")
    assert made.parts[0].message is not None
    assert "hugepage_limits" in made.parts[0].message


def test_a_message_holds_no_amount_that_it_cannot() -> None:
    block = {"cpu": {"shares": 2**63, "period": 2**63, "quota": 5}}
    part = convert(block, "cri").parts[0]
    assert part.message == {"cpu_quota": 5}
    assert [row.field for row in part.lost] == ["cpu.period", "cpu.shares"]
    most = convert({"cpu": {"shares": 2**63 - 1}}, "cri").parts[0].message
    assert most is not None
    assert convert(most, "cri").parts[0].message == most


def test_the_table_is_that_of_the_protocol() -> None:
    """Every message of ours that it has is told with the same types, and no field is missed."""
    pb = pytest.importorskip("qoslet.host.cri.pb.cri_pb2")
    kinds = {3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string", 13: "uint32"}
    compared = 0
    for name, descriptor in pb.DESCRIPTOR.message_types_by_name.items():
        for field in descriptor.fields if name in MESSAGES else ():
            inner = field.message_type or field.enum_type
            wanted = kinds.get(field.type) or inner.name
            if inner is not None and inner.name == "LinuxContainerResources":
                wanted = "Resources"
            if field.message_type is not None and inner.GetOptions().map_entry:
                wanted = "map"
            elif field.is_repeated:
                wanted += "*"
            assert MESSAGES[name][field.name] == wanted, f"{name}.{field.name}"
            assert json_name(field.name) == field.json_name
            if field.enum_type is not None:
                assert ENUMS[wanted] == tuple(each.name for each in inner.values)
            compared += 1
    assert compared > 60
    assert len(ENUMS["Signal"]) == 66


def test_every_type_of_the_table_is_one() -> None:
    plain_types = {"string", "bool", "map", "Resources", "int32", "int64", "uint32"}
    used = {kind.rstrip("*") for fields in MESSAGES.values() for kind in fields.values()}
    assert used <= plain_types | set(MESSAGES) | set(ENUMS)


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"memory": {"swappiness": 2**64}}, "x: memory.swappiness: does not fit 64 bits"),
        ({"cpu": {"realtimePeriod": 2**64}}, "x: cpu.realtimePeriod: does not fit 64 bits"),
        (
            {"blockIO": {"throttleReadIOPSDevice": [{"major": 8, "minor": 0, "rate": 2**64}]}},
            r"blockIO.throttleReadIOPSDevice\[0\].rate: does not fit 64 bits",
        ),
        (
            {"cpu": {}, "hugepageLimits": [{"pageSize": "2MB", "limit": 2**64}]},
            r"hugepageLimits\[0\].limit: does not fit 64 bits",
        ),
        ({"cpu": {}, "unified": {"b": "1", "a": 1}}, "x: unified.a: expected `str`, got 1"),
        (
            {"rdma": {"mlx": {}, "x": {"hcaHandles": "5"}}},
            'rdma.x.hcaHandles: expected `int`, got "5',
        ),
        ({"devices": [{"allow": 5}]}, r"devices\[0\].allow: expected `bool`, got 5"),
        ({"memory": {"limit": "NaN"}}, 'memory.limit: expected `int`, got "NaN"'),
        ({"cpu": {"share": 5, "shares": "x"}}, "cpu.shares: expected `int`"),
    ],
)
def test_a_block_that_no_runtime_decodes_names_its_field(block: Json, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        convert(block, source="oci")


@pytest.mark.parametrize(
    ("block", "where", "hint"),
    [
        ({"cpu": {"share": 5}}, "x: cpu.share", "did you mean shares?"),
        ({"memory_limit_in_bytes": 5}, "x: memory_limit_in_bytes", "qoslet does not convert it"),
        (
            {"hugepageLimits": [{"pageSize": "2MB", "lmit": 5}]},
            "x: hugepageLimits[0].lmit",
            "did you mean limit?",
        ),
        ({"linux": {"resources": {"pid": {}}}}, "x: linux.resources: pid", "did you mean pids?"),
        ({"linux": {"resurces": {}}}, "x: linux.resurces", "did you mean resources?"),
        ({"ociVersion": "1.2.0", "linus": {}}, "x: linus", "did you mean linux?"),
    ],
)
def test_a_name_that_the_specification_lacks_is_told(block: Json, where: str, hint: str) -> None:
    made = convert(block, source="oci")
    assert [(row.severity, row.where, row.hint) for row in made.problems] == [
        ("warning", where, hint)
    ]
    assert made.stands


def test_the_names_of_a_configuration_are_known() -> None:
    linux = {"resources": {"cpu": {"shares": 5}}, "cgroupsPath": "/a", "namespaces": []}
    config = {"ociVersion": "1.2.0", "process": {}, "root": {}, "mounts": [], "linux": linux}
    assert convert(config).problems == ()


def test_what_is_carried_stays_as_given() -> None:
    block = {
        "devices": [{"allow": False, "access": "rwm"}, {"allow": True, "type": "c", "major": 1}],
        "rdma": {"mlx5_0": {"hcaHandles": 2}},
    }
    assert plain(block_of(block)) == block


def test_tcp_buffers_on_v1_are_named() -> None:
    for memory, fields in (
        ({"kernelTCP": 5}, ["memory.kernelTCP"]),
        ({"kernel": 0}, ["memory.kernel"]),
        ({"kernel": 5, "kernelTCP": 5}, ["memory.kernel", "memory.kernelTCP"]),
    ):
        lost = convert({"memory": memory}, "v1").parts[0].lost
        assert [row.field for row in lost] == fields
