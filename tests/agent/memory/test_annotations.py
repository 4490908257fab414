"""A running pod's annotations are edited: its values follow, and those above it, nothing restarts."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from qoslet.core.api import memory_annotations
from qoslet.core.versions.kubernetes import resolve
from tests.agent.fixtures import ROOT, Bench, node, pod_of, resources, spec_of

MIB = 1 << 20
POD = f"{ROOT}/kubepods/burstable/poda"


def bench_of(form: str, **kubelet: Any) -> Bench:
    bench = Bench("v2", **kubelet)
    made = replace(node("v2", **kubelet), profile=resolve("1.36", "process", memory_qos=form))
    bench.source.again(made)
    return bench


def put(bench: Bench, **notes: str) -> None:
    keys = {f"qoslet.dev/{key.replace('_', '-')}": text for key, text in notes.items()}
    policy, findings = memory_annotations.read(keys, ["app"])
    assert not findings
    pod = replace(pod_of("a", resources("memory=64Mi", "memory=128Mi")), memory=policy)
    bench.source.put(pod, spec_of(pod))
    bench.turn(1.0)


def values(bench: Bench, path: str) -> dict[str, str]:
    found = {}
    for name in ("min", "low", "high"):
        text = bench.value(path, f"memory.{name}")
        found[name] = f"{int(text) // MIB}" if text.isdigit() else text
    return found


def test_values_follow_an_edited_annotation() -> None:
    bench = bench_of("qoslet")
    put(bench)
    app = f"{POD}/app"
    assert values(bench, app) == {"min": "0", "low": "64", "high": "max"}
    assert values(bench, ROOT) == {"min": "0", "low": "64", "high": "max"}
    pid = bench.keeper.kept["a"].pids["app"]
    put(bench, memory_high="100Mi")
    assert values(bench, app)["high"] == "100"
    put(bench, memory_protection="off", memory_high="max")
    bench.turn(1.0)
    assert values(bench, app) == {"min": "0", "low": "0", "high": "max"}
    for path in (POD, f"{ROOT}/kubepods/burstable", f"{ROOT}/kubepods", ROOT):
        assert values(bench, path)["low"] == "0", path
    put(bench)
    bench.turn(1.0)
    assert values(bench, app) == {"min": "0", "low": "64", "high": "max"}
    assert values(bench, ROOT)["low"] == "64"
    assert bench.keeper.kept["a"].pids["app"] == pid


def test_a_memory_high_that_is_no_longer_asked_for_goes() -> None:
    bench = bench_of("1.37")
    put(bench, memory_high="100Mi", memory_oom_group="false")
    app = f"{POD}/app"
    assert values(bench, app)["high"] == "100"
    assert bench.value(app, "memory.oom.group") == "0"
    put(bench)
    bench.turn(1.0)
    assert values(bench, app)["high"] == "max"
    assert bench.value(app, "memory.oom.group") == "1"
