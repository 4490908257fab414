"""A look at what is planned and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qoslet.host.cgroupfs.observe.fast_observer import FastObserver


def test_a_glance_sees_a_group_that_is_gone_from_one_hierarchy(tmp_path: Path) -> None:
    mounts = {name: str(tmp_path / name) for name in ("memory", "cpu", "freezer")}
    for point in mounts.values():
        Path(point, "q/a/b").mkdir(parents=True)
    Path(mounts["memory"], "q/a/memory.limit_in_bytes").write_text("4096\n")
    glance, paths = FastObserver("v1", mounts, ()), ["/q", "/q/a", "/q/a/b"]
    seen = glance.observe(iter(paths))
    assert seen is not None
    assert list(seen.cgroups) == paths
    assert seen.cgroups["/q/a"].values == {"memory.limit_in_bytes": "4096"}
    assert seen.cgroups["/q/a"].identity == os.stat(f"{mounts['memory']}/q/a").st_ino
    for name in mounts:
        os.rmdir(f"{mounts[name]}/q/a/b")
        assert glance.observe(paths) is None, name
        os.mkdir(f"{mounts[name]}/q/a/b")
    assert glance.observe(paths) is not None
    glance.close()


@pytest.mark.parametrize(
    "paths",
    [["/q"], ["/q/a"], ["/q", "/q-x", "/q/a"], ["/q/a/b", "/q/a-c", "/q/a"], ["/", "/q"], []],
)
def test_a_glance_reads_the_groups_of_their_names(tmp_path: Path, paths: list[str]) -> None:
    file = "memory.limit_in_bytes"
    for path in paths:
        folder = tmp_path / path[1:]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(f"{path}\n")
    glance = FastObserver("v1", {"memory": str(tmp_path)}, ())
    seen = glance.observe(paths)
    glance.close()
    assert seen is not None
    assert {path: one.values for path, one in seen.cgroups.items()} == {p: {file: p} for p in paths}
    found = {path: one.identity for path, one in seen.cgroups.items()}
    assert found == {path: (tmp_path / path[1:]).stat().st_ino for path in paths}
