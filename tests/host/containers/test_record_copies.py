"""Records of pods that are damaged, torn or missing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from qoslet.core.workload.life import NEW
from qoslet.core.workload.process_spec import PodSpec
from qoslet.host.containers.records import COPY, RECORD, PodRecord, ProcessRecords, read_record
from tests.agent.fixtures import pod_of, spec_of
from tests.host.containers.full_disk import fill

BOOT = "b1"


def record(spec: PodSpec) -> PodRecord:
    return PodRecord(1, BOOT, spec, "digest", {"app": "/q/app"}, {"app": NEW})


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"digest") + 20] ^= 1
    path.write_bytes(data)


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def kill_in_write(monkeypatch: pytest.MonkeyPatch, name: str, share: float) -> None:
    """Let a process end that has written this share of a file."""
    write = os.write

    def cut(descriptor: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(name):
            write(descriptor, data[: int(len(data) * share)])
            raise SystemExit
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", cut)


@pytest.fixture
def records(tmp_path: Path) -> ProcessRecords:
    made = ProcessRecords(str(tmp_path / "keeper"), BOOT)
    (tmp_path / "keeper").mkdir(mode=0o700)
    made.save(record(spec_of(pod_of("a"))))
    return made


@pytest.mark.parametrize("damage", [flipped, torn, Path.unlink])
def test_a_damaged_record_is_read_from_its_copy_and_restored(
    records: ProcessRecords, damage: Callable[[Path], None]
) -> None:
    place = Path(records.folder, "a")
    whole, _ = records.load()
    damage(place / RECORD)
    found, notes = records.load()
    assert found == whole
    assert len(notes) == 1
    assert "its copy counts" in notes[0]
    assert read_record(str(place)) == whole[0]
    records.save(found[0])
    assert records.load() == (whole, [])


def test_on_a_full_disk_a_record_is_written_into_its_files(
    records: ProcessRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = replace(record(spec_of(pod_of("a"))), digest="new", created=7.0)
    fill(monkeypatch)
    records.save(newer)
    place = Path(records.folder, "a")
    assert records.load() == ([newer], [])
    assert (place / RECORD).read_bytes() == (place / COPY).read_bytes()
    with pytest.raises(OSError, match="No space left"):
        records.save(record(spec_of(pod_of("b"))))


@pytest.mark.parametrize("full", [RECORD, COPY])
@pytest.mark.parametrize("damaged", [RECORD, COPY])
def test_one_of_both_stays_whole_on_a_full_disk(
    records: ProcessRecords, monkeypatch: pytest.MonkeyPatch, full: str, damaged: str
) -> None:
    flipped(Path(records.folder, "a", damaged))
    fill(monkeypatch, full)
    with pytest.raises(OSError, match="No space left"):
        records.save(replace(record(spec_of(pod_of("a"))), digest="new"))
    assert len(records.load()[0]) == 1


@pytest.mark.parametrize("digest", ["longer" * 20, ""])
@pytest.mark.parametrize("share", [0, 0.5, 1])
@pytest.mark.parametrize("at", [RECORD, COPY])
@pytest.mark.parametrize("damaged", ["", RECORD, COPY])
def test_a_keeper_that_is_killed_in_a_write_leaves_a_record(
    records: ProcessRecords,
    monkeypatch: pytest.MonkeyPatch,
    damaged: str,
    at: str,
    share: float,
    digest: str,
) -> None:
    (old,), _ = records.load()
    new = replace(old, digest=digest)
    if damaged:
        flipped(Path(records.folder, "a", damaged))
    kill_in_write(monkeypatch, at, share)
    with pytest.raises(SystemExit):
        records.save(new)
    monkeypatch.undo()
    (found,), _ = records.load()
    assert found in (old, new)
    records.save(new)
    assert records.load() == ([new], [])


def test_a_record_is_written_into_the_files_that_it_has(records: ProcessRecords) -> None:
    files = [Path(records.folder, "a", name) for name in (RECORD, COPY)]
    before = [file.stat().st_ino for file in files]
    records.save(replace(records.load()[0][0], digest="new"))
    assert [file.stat().st_ino for file in files] == before
    assert {path.name for path in Path(records.folder, "a").iterdir()} == {RECORD, COPY}


def test_a_damaged_copy_is_no_matter(records: ProcessRecords) -> None:
    flipped(Path(records.folder, "a", COPY))
    found, notes = records.load()
    assert [one.spec.uid for one in found] == ["a"]
    assert notes == []


def test_both_damaged_is_logged(records: ProcessRecords) -> None:
    for name in (RECORD, COPY):
        flipped(Path(records.folder, "a", name))
    found, notes = records.load()
    assert found == []
    assert "unusable record" in notes[0]


def test_a_record_of_an_earlier_version_has_no_checksum(records: ProcessRecords) -> None:
    place = Path(records.folder, "a")
    old = json.loads((place / RECORD).read_bytes())
    del old["crc"]
    (place / RECORD).write_text(json.dumps(old))
    (place / COPY).unlink()
    found, notes = records.load()
    assert [one.spec.uid for one in found] == ["a"]
    assert notes == []
