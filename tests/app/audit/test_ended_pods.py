"""A pod that has ended for good holds no cgroups: an audit of qoslet's own tree misses none of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.app.own_tree import without_ended
from qoslet.core.workload.life import NEW, Life
from qoslet.host.containers.records import PodRecord, RecordFolder
from qoslet.host.linux.procfs import this_boot
from qoslet.host.state.folder import KEEPER
from tests.agent.fixtures import pod_of, spec_of

ENDED = replace(NEW, phase="ended", starts=1, exit_code=7)


@pytest.mark.parametrize(
    ("life", "restart", "left"),
    [
        (ENDED, "Never", []),
        (replace(ENDED, exit_code=0), "OnFailure", []),
        (ENDED, "OnFailure", ["job"]),
        (ENDED, "Always", ["job"]),
        (replace(NEW, phase="running", starts=1), "Never", ["job"]),
    ],
)
def test_pods_that_ended_for_good_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, life: Life, restart: str, left: list[str]
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    pod = pod_of("job")
    spec = spec_of(pod)
    launches = tuple(replace(one, restart=restart) for one in spec.launches)
    record = PodRecord(
        1,
        this_boot(),
        replace(spec, launches=launches),
        "digest",
        {one.name: "/q" for one in launches},
        {one.name: life for one in launches},
    )
    folder = tmp_path / "qoslet" / "q" / KEEPER
    folder.mkdir(parents=True, mode=0o700)
    RecordFolder(str(folder), this_boot(), PodRecord).save(record)
    assert [one.name for one in without_ended([pod], "/q")] == left
