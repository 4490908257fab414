"""What is said when the configuration is read again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qoslet.app.agent.reload import STAYS, Reloading, reload
from qoslet.app.agent.run import parts
from qoslet.cli.agent.run import add_arguments, options_of

GONE = f"cannot reload the configuration: n.yaml: does not exist; {STAYS}"
DONE = "configuration reloaded"


def test_a_fault_is_told_once_and_who_asks_is_answered() -> None:
    read = iter([GONE, GONE, GONE, DONE, DONE, GONE])
    asked = iter([False, True, False])
    said: list[str] = []
    reloading = Reloading(lambda: next(read), said.append, lambda: next(asked))
    for _ in range(6):
        reloading()
    again = f"configuration not reloaded: the fault is the same; {STAYS}"
    assert said == [GONE, again, DONE, DONE, GONE]


Reread = Callable[..., str]


@pytest.fixture
def reread(tmp_path: Path) -> Iterator[Reread]:
    """Writes fields of the KubeletConfiguration of a simulated run, and reads it again."""
    kubelet, pods = tmp_path / "kubelet.json", tmp_path / "pod.json"
    kind = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}

    def write(**fields: Any) -> None:
        kubelet.write_text(json.dumps({**kind, "enforceNodeAllocatable": ["none"], **fields}))

    write()
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "command": ["x"]}]}}
    pods.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **pod}))
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    line = [str(pods), "--simulate", "--node", str(kubelet), "--node", "docs/n1.yaml"]
    options = options_of(parser.parse_args(line))
    with parts(options) as made:

        def again(**fields: Any) -> str:
            write(**fields)
            return reload(options, made)

        yield again


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("podPidsLimit", 100, DONE),
        ("cgroupsPerQOS", False, "cgroupsPerQOS cannot change while pods run: restart qoslet run"),
        (
            "containerLogMaxSize",
            "1Mi",
            f"{DONE}; containerLogMaxSize: restart qoslet run once no pod runs to apply",
        ),
        (
            "containerLogMaxFiles",
            3,
            f"{DONE}; containerLogMaxFiles: restart qoslet run once no pod runs to apply",
        ),
    ],
)
def test_what_a_reload_cannot_apply_is_said(
    reread: Reread, field: str, value: Any, said: str
) -> None:
    assert reread(**{field: value}) == said
