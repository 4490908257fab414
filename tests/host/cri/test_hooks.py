"""Lifecycle hooks of containers in a container runtime, against a server of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.workload.hook_spec import Hook
from qoslet.core.workload.life import HOOK_ERROR
from qoslet.core.workload.process_spec import PodSpec
from qoslet.host.cri import requests
from qoslet.host.cri.runtime import CriRuntime, read_facts
from tests.host.cri.server import CriServer
from tests.host.cri.test_probing import asked, spec_of
from tests.host.cri.test_runtime import Hand


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Hand]:
    with CriServer(tmp_path) as server:
        made = Hand(server, tmp_path)
        try:
            yield made
        finally:
            made.runtime.close()


def hooked(*hooks: Hook, **spec: Any) -> PodSpec:
    read = spec_of(hostNetwork=True, **spec)
    return replace(read, launches=tuple(replace(one, hooks=hooks) for one in read.launches))


def hook(kind: str, word: str) -> Hook:
    return Hook(kind, command=(word, "x"))  # type: ignore[arg-type]


def test_a_start_ends_with_its_post_start(hand: Hand) -> None:
    hand.server.commands["post"] = (0, b"")
    hand.runtime.start(hooked(hook("postStart", "post")), {})
    hand.until(lambda: hand.state("app").running and not hand.state("app").starting)
    (request,) = asked(hand, "ExecSync")
    assert (list(request.cmd), request.timeout) == (["post", "x"], 0), "a hook has no timeout"
    assert not asked(hand, "StopContainer")


def test_a_failed_post_start_stops_the_container(hand: Hand) -> None:
    hand.server.commands["post"] = (3, b"no\n")
    spec = hooked(hook("postStart", "post"), terminationGracePeriodSeconds=7)
    hand.runtime.start(spec, {})
    hand.until(lambda: hand.state("app").restarts >= 1)
    assert hand.state("app").end_reason == HOOK_ERROR
    assert asked(hand, "StopContainer")[0].timeout in (7, 8)
    hand.until(lambda: bool(hand.state("app").failed_hooks))
    assert hand.state("app").failed_hooks == (
        ("postStart", "PostStartHook failed: exit code 3: no"),
    )
    hand.server.commands["post"] = (0, b"")


def test_a_pre_stop_goes_before_the_stop(hand: Hand) -> None:
    hand.server.commands["pre"] = (0, b"")
    hand.runtime.start(hooked(hook("preStop", "pre")), {})
    hand.running("app")
    hand.runtime.stop("uid", 30.0)
    hand.until(lambda: bool(asked(hand, "StopContainer")))
    methods = [name for name, _ in hand.server.asked]
    assert methods.index("ExecSync") < methods.index("StopContainer")


def test_an_agent_that_is_gone_leaves_its_pre_stop_to_the_next(hand: Hand) -> None:
    hand.runtime.start(hooked(Hook("preStop", sleep=300.0)), {})
    hand.running("app")
    hand.runtime.stop("uid", 600.0)
    record = Path(hand.setting.folder) / "uid" / "pod.json"
    hand.until(lambda: b'"pre_stop":"running"' in record.read_bytes())
    hand.runtime.close()
    assert not asked(hand, "StopContainer")
    hand.runtime = CriRuntime(hand.server.endpoint, read_facts(hand.server.endpoint), hand.setting)
    hand.until(lambda: b'"pre_stop":"running"' in record.read_bytes())
    hand.runtime.stop("uid", 0.1)
    hand.until(lambda: bool(asked(hand, "StopContainer")))


@pytest.mark.parametrize(
    ("name", "number"), [("SIGTERM", 0), ("SIGUSR1", 29), ("SIGRTMIN+1", 36), ("SIGRTMAX", 65)]
)
def test_the_stop_signal_is_numbered_as_the_cri_does(name: str, number: int) -> None:
    spec = hooked()
    launch = replace(spec.launches[0], stop_signal=name)
    made = requests.container_config(spec, launch, "image", "/root", 0, False)
    assert made.stop_signal == number
