"""Random changes behind the back of a kubelet's tree in this kernel: each is found and named right,
and an untouched tree has no finding."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from qoslet.app.live_values import live_values
from qoslet.core.explain.explain import explain
from qoslet.core.node.node import Hierarchy
from qoslet.render.documents.explanation import explanation_document
from qoslet.render.terminal import Terminal
from qoslet.render.text.explanation import draw
from tests.contract.drivers import real
from tests.live.audit.kubelet_tree import KubeletTree, changes

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

CHANGES = 60 if "QOSLET_SYSTEM" in os.environ and "QOSLET_LONG" not in os.environ else 200
"""An emulated CPU takes two seconds for a look; ``QOSLET_LONG`` makes all changes there, too."""
AT_ONCE = 5
PODS = 30


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_every_change_is_found_and_named_right(
    hierarchy: Hierarchy, tmp_path: Path, record_property
) -> None:
    chance = random.Random(f"audit {hierarchy}")
    with real(hierarchy) as bench:
        tree = KubeletTree(bench, tmp_path, PODS)
        try:
            clean = tree.look()
            assert [(one.verdict, one.path, one.message) for one in clean.findings] == []
            assert clean.unread == ()
            missed, done = [], 0
            made = changes(tree, chance)
            while done < CHANGES:
                change = next(made)
                report = tree.look()
                found = {(one.verdict, one.path, one.file) for one in report.findings}
                if (change.verdict, change.path, change.file) not in found:
                    missed.append((change[:4], found))
                change.undo()
                done += 1
                if done % AT_ONCE == 0:
                    rest = [(one.verdict, one.path, one.file) for one in tree.look().findings]
                    assert rest == [], change.what
            assert missed == []
            record_property("compared", clean.compared * done)
            record_property("driver", "cgroupfs")
        finally:
            tree.end()


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_the_first_process_of_a_container_is_found_where_others_stay(
    hierarchy: Hierarchy, tmp_path: Path
) -> None:
    with real(hierarchy) as bench:
        tree = KubeletTree(bench, tmp_path)
        path = next(iter(tree.processes))
        places = [place / "cgroup.procs" for place in tree.directories(path)]
        tree.processes[path].kill()
        tree.processes[path].wait()
        words = ["unshare", "-m", "sh", "-c", "sleep 1000 & echo $!; wait"]
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as program:
            try:
                assert program.stdout is not None
                child = program.stdout.readline().strip()
                for place in places:
                    place.write_text(str(program.pid))
                    place.write_text(child)
                assert [one for one in tree.look().findings if one.file is None] == []
                for place in tree.directories(bench.root):
                    (place.parent / "cgroup.procs").write_text(str(program.pid))
                (found,) = [one for one in tree.look().findings if one.file is None]
                assert (found.verdict, found.path) == ("missing", path)
                assert found.message.endswith(f": {program.pid} (sh), the parent of those here")
            finally:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
                tree.end()


@pytest.mark.parametrize("hierarchy", ["v1", "v2"])
def test_explain_shows_what_stands_beside_the_derivation(
    hierarchy: Hierarchy, tmp_path: Path
) -> None:
    file = "cpu.shares" if hierarchy == "v1" else "cpu.weight"
    with real(hierarchy) as bench:
        tree = KubeletTree(bench, tmp_path)
        try:
            container, pod = "default/p0/c0", f"{tree.directory(tree.pod(0), 'cpu')}"
            for target, value in ((container, None), (pod, None), (pod, "77")):
                if value is not None:
                    tree.write(tree.pod(0), file, value)
                answer = explain(tree.plan, target, file)
                found = live_values(answer)
                (group,) = answer.groups
                wanted = group.values[0].value if value is None else value
                live = found[group.cgroup.name, file]
                assert (live.found, live.verdict) == (wanted, value and "drift"), target
                shown = " ".join(draw(answer, Terminal(), True, False, found))
                assert f"live     {wanted}: " in shown
                assert ("drift" in shown) == (value is not None)
                document: Any = explanation_document(answer, found)
                row = document["cgroups"][0]["values"][0]["live"]
                assert (row["found"], row["verdict"]) == (wanted, live.verdict)
            absent = explain(tree.plan, container, "memory.high")
            (live,) = live_values(absent).values()
            assert live.found == (None if hierarchy == "v1" else "max")
        finally:
            tree.end()
