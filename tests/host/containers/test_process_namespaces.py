"""Pods whose recorded process IDs hold in other namespaces than ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.workload.life import NEW
from qoslet.errors import CannotDo
from qoslet.host.containers.process_namespaces import process_namespaces, refuse_other_namespaces
from qoslet.host.containers.records import RECORD, PodRecord, ProcessRecords, records_below
from tests.agent.fixtures import pod_of, spec_of

BOOT = "b1"
OURS, OTHERS = "pid:[1] time:[2]", "pid:[3] time:[2]"


def keep(folder: Path, name: str, namespaces: str) -> None:
    spec = spec_of(pod_of(name))
    one = PodRecord(1, BOOT, spec, "digest", {"app": f"/q/{name}"}, {"app": NEW})
    ProcessRecords(str(folder), BOOT).save(replace(one, namespaces=namespaces))


def check(folder: Path, *populated: str) -> None:
    records = records_below(str(folder), PodRecord)
    refuse_other_namespaces(records, "/q", lambda path: path in populated, OURS)


def test_a_pod_that_runs_in_other_namespaces_is_refused(tmp_path: Path) -> None:
    check(tmp_path / "none")
    keep(tmp_path, "ours", OURS)
    keep(tmp_path, "theirs", OTHERS)
    with pytest.raises(CannotDo, match="theirs runs in another PID or time namespace"):
        check(tmp_path, "/q/ours", "/q/theirs")
    check(tmp_path, "/q/ours")


def test_a_record_that_names_none_or_is_damaged_refuses_nothing(tmp_path: Path) -> None:
    keep(tmp_path, "earlier", "")
    keep(tmp_path, "damaged", OTHERS)
    for path in tmp_path.glob("damaged*/*"):
        path.write_bytes(path.read_bytes()[:-20])
    check(tmp_path, "/q/earlier", "/q/damaged")
    keep(tmp_path, "copy", OTHERS)
    (first,) = tmp_path.glob(f"copy*/{RECORD}")
    first.unlink()
    with pytest.raises(CannotDo):
        check(tmp_path, "/q/copy")


def test_our_namespaces_are_as_the_kernel_names_them() -> None:
    assert process_namespaces().startswith("pid:[")
