"""Room for a lower limit: files that nobody empties stand for a kernel that cannot take back."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.core.reconcile.steps import Outcome, Step
from qoslet.host.cgroupfs.async_writes import AsyncWrites
from qoslet.host.cgroupfs.driver import Cgroupfs
from qoslet.host.cgroupfs.observe.observer import CgroupObserver

MiB = 1 << 20
LOWER = Step("set", "/q/a", "memory.max", str(8 * MiB), gently=True)
STAT = f"anon 7\nfile 99\nactive_file {3 * MiB}\ninactive_file {4 * MiB}\nslab x\n"


@pytest.fixture
def group(tmp_path: Path) -> Path:
    folder = tmp_path / "q" / "a"
    folder.mkdir(parents=True)
    (folder / "memory.current").write_text(f"{50 * MiB}\n")
    (folder / "memory.stat").write_text(STAT)
    (folder / "memory.max").write_text("max")
    (folder / "memory.reclaim").write_text("")
    return folder


def perform(group: Path, step: Step, slow: AsyncWrites | None = None) -> Outcome:
    driver = Cgroupfs("v2", str(group.parents[1]), "/q", slow=slow)
    (outcome,) = driver.perform([step])
    driver.close()
    return outcome


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("able", [True, False])
def test_a_limit_that_does_not_fit_is_not_written(group: Path, threads: bool, able: bool) -> None:
    if not able:
        (group / "memory.reclaim").unlink()
    done = perform(group, LOWER, AsyncWrites(grace=30.0) if threads else None)
    assert done.errno_name == "EBUSY"
    assert "the kernel could not reclaim it" in (done.error or "")
    assert (group / "memory.max").read_text() in ("max", ""), "opened, and no value written"
    if able:
        asked = (group / "memory.reclaim").read_text()
        assert asked == str(42 * MiB) * 16, "what is too much, and not for ever"


@pytest.mark.parametrize("threads", [False, True])
def test_a_limit_that_fits_is_written_and_nothing_taken_back(group: Path, threads: bool) -> None:
    (group / "memory.current").write_text(f"{8 * MiB}\n")
    done = perform(group, LOWER, AsyncWrites(grace=30.0) if threads else None)
    assert done.error is None
    assert (group / "memory.max").read_text() == str(8 * MiB)
    assert (group / "memory.reclaim").read_text() == ""


def test_what_is_forced_is_written_as_it_is(group: Path) -> None:
    forced = Step("set", "/q/a", "memory.max", str(8 * MiB))
    assert perform(group, forced).error is None
    assert (group / "memory.max").read_text() == str(8 * MiB)


def test_page_cache_is_what_can_be_taken_back(group: Path) -> None:
    point = str(group.parents[1])
    assert CgroupObserver("v2", point).reclaimable_cache("/q/a") == 7 * MiB
    (group / "memory.reclaim").unlink()
    assert CgroupObserver("v2", point).reclaimable_cache("/q/a") == 0, "not before Linux 5.19"
    assert CgroupObserver("v2", point).reclaimable_cache("/q/b") == 0
    (group / "memory.stat").write_text(f"active_file 1\ntotal_active_file {9 * MiB}\n")
    assert CgroupObserver("v1", {"memory": point}).reclaimable_cache("/q/a") == 9 * MiB


def test_by_hand_it_is_taken_back_first(group: Path) -> None:
    point = group.parents[1]
    driver = Cgroupfs("v2", str(point), "/q")
    used = f"$(( $(cat {group}/memory.current) - {8 * MiB} ))"
    assert driver.shell(LOWER) == (
        f"printf %s {used} > {group}/memory.reclaim && printf %s {8 * MiB} > {group}/memory.max"
    )
    driver.close()
