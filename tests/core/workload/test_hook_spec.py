"""Lifecycle hooks as documents ask for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from qoslet.core.workload.env import PodEnvironment
from qoslet.core.workload.hook_gates import GATES, SLEEP, STOP_SIGNALS, ZERO
from qoslet.core.workload.hook_spec import Hook, hooks_of
from qoslet.core.workload.oci.image_spec import read_images
from qoslet.core.workload.pod_reader import read
from qoslet.core.workload.probe_spec import HttpGet
from qoslet.core.workload.process_spec import PodSpec
from tests.core.workload.test_process_spec import document_of, pod_of


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"exec": {"command": ["a", "$(B)"]}}, Hook("preStop", command=("a", "$(B)"))),
        ({"sleep": {"seconds": 3}}, Hook("preStop", sleep=3.0)),
        ({"sleep": {"seconds": 0}}, Hook("preStop", sleep=0.0)),
        ({"httpGet": {"port": 80}}, Hook("preStop", http=HttpGet(80, hook=True))),
        (
            {"httpGet": {"port": "web", "path": "x", "scheme": "HTTPS", "host": "h"}},
            Hook("preStop", http=HttpGet(8080, "/x", "h", True, hook=True)),
        ),
        ({"tcpSocket": {"port": 80}}, Hook("preStop")),
    ],
)
def test_a_handler_is_read_with_named_ports_and_unexpanded_commands(
    given: dict[str, Any], told: Hook
) -> None:
    raw = {
        "ports": [{"name": "web", "containerPort": 8080}],
        "env": [{"name": "B", "value": "b"}],
        "lifecycle": {"preStop": given},
    }
    assert hooks_of(raw, "c").hooks == (told,), "a command is not expanded"


@pytest.mark.parametrize("reads", [read, read_images])
def test_a_connection_is_told_to_fail(reads: Callable[..., PodSpec]) -> None:
    hooks = {"postStart": {"tcpSocket": {"port": 1}}, "preStop": {"sleep": {"seconds": 1}}}
    document = document_of({"lifecycle": hooks, "image": "x"})
    spec = reads(pod_of(document), document)
    assert spec.runnable
    assert [hook.kind for hook in spec.launches[0].hooks] == ["postStart", "preStop"]
    (row,) = [row for row in spec.problems if "tcpSocket" in row.where]
    assert row.severity == "warning"
    assert row.where.endswith("spec.containers[0].lifecycle.postStart.tcpSocket")


def test_a_port_that_no_name_has_is_an_error_of_its_field() -> None:
    document = document_of({"lifecycle": {"preStop": {"httpGet": {"port": "web"}}}})
    spec = read(pod_of(document), document)
    (row,) = [row for row in spec.problems if row.severity == "error"]
    assert row.where.endswith("spec.containers[0].lifecycle.preStop.httpGet.port")


def test_hooks_change_in_place() -> None:
    digests = set()
    for seconds in (1, 2):
        document = document_of({"lifecycle": {"preStop": {"sleep": {"seconds": seconds}}}})
        digests.add(read(pod_of(document), document).digest())
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("lifecycle", "off", "told"),
    [
        ({"stopSignal": "SIGINT"}, GATES, (STOP_SIGNALS, ".stopSignal")),
        ({"stopSignal": "SIGINT"}, (SLEEP, ZERO), None),
        ({"postStart": {"sleep": {"seconds": 1}}}, GATES, (SLEEP, ".postStart.sleep")),
        ({"preStop": {"sleep": {"seconds": 0}}}, (ZERO,), (ZERO, ".preStop.sleep.seconds")),
        ({"preStop": {"sleep": {"seconds": 1}}}, (ZERO, STOP_SIGNALS), None),
        ({"preStop": {"exec": {"command": ["a"]}}}, GATES, None),
    ],
)
def test_what_the_release_does_not_take_is_told_and_done(
    lifecycle: dict[str, Any], off: tuple[str, ...], told: tuple[str, str] | None
) -> None:
    document = document_of({"lifecycle": lifecycle})
    around = PodEnvironment(gates_off=frozenset(off))
    spec = read(pod_of(document), document, around=around)
    assert spec.runnable
    assert len(spec.launches[0].hooks) == len(lifecycle.keys() - {"stopSignal"})
    rows = [row for row in spec.problems if ".lifecycle" in row.where]
    assert [row.severity for row in rows] == ["warning"] * len(rows)
    assert len(rows) == (told is not None)
    for row, (gate, field) in zip(rows, [told] if told else [], strict=True):
        assert gate in row.message
        assert f"--feature-gates {gate}=true" in row.hint
        assert row.where.endswith(f"spec.containers[0].lifecycle{field}")
