"""``audit --watch`` in this kernel: a change is told soon, and however it is ended it ends well."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from qoslet import schema
from qoslet.core.node.node import Hierarchy
from tests.live.audit.test_fix import Node, node
from tests.live.machine import hold_to_schema

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

PATIENCE_SECONDS = 240
"""On an emulated CPU the first audit takes half a minute."""


class Watch:
    """A running watch and what it prints."""

    def __init__(self, tree: Node, folder: Path, *before: str) -> None:
        words = [sys.executable, "-m", "qoslet", "audit", *tree.options(folder), "--watch"]
        self.process = subprocess.Popen(
            [*before, *words, "-o", "json", "--interval", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def event(self) -> dict[str, Any]:
        stream = self.process.stdout
        assert stream is not None
        assert select.select([stream], [], [], PATIENCE_SECONDS)[0], "nothing was told"
        line = stream.readline()
        assert line, self.process.communicate()[1]
        found: dict[str, Any] = json.loads(line)
        return found

    def ends(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)


@contextmanager
def watching(tree: Node, folder: Path, *before: str) -> Iterator[Watch]:
    watch = Watch(tree, folder, *before)
    try:
        yield watch
    finally:
        if watch.process.poll() is None:
            watch.process.kill()
        watch.process.wait()
        for stream in (watch.process.stdout, watch.process.stderr):
            if stream is not None:
                stream.close()


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_changes_are_told_and_it_ends_well(hierarchy: Hierarchy, tmp_path: Path) -> None:
    with node(hierarchy, tmp_path) as tree:
        planned = tree.write(tree.root, "pids.max", "4000")
        with watching(tree, tmp_path) as watch:
            first = watch.event()
            document = json.loads(schema.text("audit"))
            event = {"$ref": "#/$defs/event", "$defs": document["$defs"]}
            hold_to_schema(first, event)
            assert (first["event"], first["finding"]["file"]) == ("appeared", "pids.max")
            tree.write(tree.root, "pids.max", "4001")
            changed = watch.event()
            assert (changed["event"], changed["before"]["found"]) == ("changed", "4000")
            tree.write(tree.root, "pids.max", planned)
            assert watch.event()["event"] == "gone"
            watch.process.send_signal(signal.SIGTERM)
            assert watch.ends() == 0
        tree.write(tree.root, "pids.max", "4000")
        with watching(tree, tmp_path) as watch:
            watch.event()
            assert watch.process.stdout is not None
            watch.process.stdout.close()
            watch.process.stdout = None
            assert watch.ends() == 0


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_nohup_lets_it_go_on(hierarchy: Hierarchy, tmp_path: Path) -> None:
    with node(hierarchy, tmp_path) as tree:
        tree.write(tree.root, "pids.max", "4000")
        with watching(tree, tmp_path, "nohup") as watch:
            watch.event()
            watch.process.send_signal(signal.SIGHUP)
            tree.write(tree.root, "pids.max", "4001")
            assert watch.event()["event"] == "changed"
            watch.process.send_signal(signal.SIGINT)
            assert watch.ends() == 0
        # the whole suite may have been started by nohup
        with watching(tree, tmp_path, "env", "--default-signal=HUP") as watch:
            watch.event()
            watch.process.send_signal(signal.SIGHUP)
            assert watch.ends() == 0
