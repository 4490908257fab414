"""What `convert` says against what the real runtimes do: every file read back, refusals included.

Blocks are random, of one seed; a failure names the block and the rows that are wrong.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qoslet.core.cgroup.features import KernelFeatures
from qoslet.core.convert.convert import conversion_request, convert_document
from qoslet.core.oci.resources import Block, block_of
from qoslet.core.oci.result import BlockResult
from qoslet.core.oci.runc_update import updated
from qoslet.core.oci.write import Update, files
from qoslet.core.versions.runtime import Runtime, converting_runtime
from qoslet.host.machine.probe import probe
from tests.live.oci.blocks import Blocks
from tests.live.oci.real import Container, Scoped, found, microseconds, version
from tests.live.oci.unified_maps import on

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

GUEST = "QOSLET_EXPECT" in os.environ
SEED = 20211
UPDATES, CREATES = (90, 12) if GUEST else (1000, 100)


def wrong_rows(part: BlockResult, before: dict[str, str], seen: dict[str, str]) -> list[str]:
    """What stands differently from what the part says: rows, and files that it does not name."""
    wanted = before | {row.file: row.applied for row in part.rows if row.file in seen}
    unsure: set[str] = set()
    if any(row.file == "cpu.idle" and row.value == "1" for row in part.rows):
        # an idle cgroup's weight reads 0, and 1 since Linux 6.12, which no row of an update says
        unsure = {"cpu.weight", "cpu.shares"}
    if part.refusal is not None and part.refusal.file == "memory.memsw.limit_in_bytes":
        # which of both is written first depends on the limit that is there
        unsure |= {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
    if part.refusal is not None and part.refusal.field.startswith("unified."):
        # runc writes the map in any order
        unsure |= {row.file for row in part.rows if row.rule == "oci.unified"}
    return [
        f"{file}: {value!r} is there, {wanted[file]!r} was said"
        for file, value in seen.items()
        if file not in unsure and not same(file, wanted[file], value)
    ]


def same(file: str, wanted: str, value: str) -> bool:
    """Whether a file holds what was said; some have more lines than one."""
    if file == "memory.oom_control":
        return wanted.splitlines()[0] == value.splitlines()[0]
    if file.startswith(("blkio.throttle", "io.")):
        return sorted(wanted.splitlines()) == sorted(value.splitlines())
    return wanted == value


def words(text: str) -> str:
    """A refusal without what changes from call to call."""
    return re.sub(r"\d+", "N", text.replace("\\", "")).lower()


class Trial:
    """One container of one runtime, block after block."""

    def __init__(self, container: Container, runtime: str) -> None:
        self.container = container
        self.runtime: Runtime = converting_runtime(runtime)
        self.before = Block()
        self.ground = KernelFeatures()
        self.compared = self.refused = self.blocks = 0
        self.wrong: list[str] = []

    def created(self, given: dict[str, Any], make: Callable[[dict[str, Any]], BlockResult]) -> None:
        """Create with a block; compare, if it came up."""
        part = make(given)
        said = self.container.create(given)
        self.judge("create", given, part, said)
        if not said:
            seen = self.container.read()
            stood = {row.file: row.applied for row in part.rows if row.file in seen}
            self.compare("create", given, part, seen, stood)
            self.before = block_of(given)

    def update(self, given: dict[str, Any]) -> None:
        """Update with a block on a group that is as new; compare."""
        container, block = self.container, block_of(given)
        container.pristine()
        stood = container.read()
        usage = container.number("memory.current")
        swapped = container.number("memory.swap.current")
        part = files(
            block,
            container.hierarchy,
            self.runtime,
            self.ground,
            Update(self.before, usage, swapped),
        )
        said = container.update(given)
        self.judge("update", given, part, said)
        self.compare("update", given, part, container.read(), stood)
        if not said and self.runtime.family == "runc":
            self.before = updated(self.before, block, self.runtime)

    def judge(self, how: str, given: object, part: BlockResult, said: str) -> None:
        """Both refuse, for the same reason, or none does."""
        self.blocks += 1
        refusal = part.refusal
        about = f"{how} {msgspec.json.encode(given).decode()}: "
        if refusal is None:
            if said:
                self.wrong.append(f"{about}refused: {said}")
            return
        self.refused += 1
        if not said:
            self.wrong.append(f"{about}taken, though {refusal.because}")
        elif words(refusal.message) not in words(said):
            self.wrong.append(f"{about}{refusal.message!r} was said, it says {said!r}")

    def compare(
        self,
        how: str,
        given: object,
        part: BlockResult,
        seen: dict[str, str],
        stood: dict[str, str],
    ) -> None:
        """Every file of ``stood``."""
        looked = {file: value for file, value in seen.items() if file in stood}
        found = wrong_rows(part, stood, looked)
        if found:
            self.wrong.append(f"{how} {msgspec.json.encode(given).decode()}: {found}")
        self.compared += len(looked)


@pytest.fixture(params=["runc", "crun"])
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trial]:
    name = request.param
    if name == "crun" and not GUEST and not shutil.which("crun"):
        pytest.skip("crun is tried in the guests: its version here refuses this machine's layout")
    program = found(name)
    container = Container(program, tmp_path)
    said = container.create({})
    if name == "crun" and "hybrid mode not supported" in said:
        container.delete()
        pytest.skip(f"crun refuses this machine's cgroups: {said.strip()}")
    assert not said, said
    made = Trial(container, version(program))
    made.ground = container.ground()
    yield made
    container.delete()


def test_convert_says_what_a_runtime_writes(
    trial: Trial, record_property: Callable[[str, object], None]
) -> None:
    record_property("driver", "cgroupfs")
    container, hierarchy = trial.container, trial.container.hierarchy
    blocks = Blocks(SEED, hierarchy, trial.runtime.name, trial.ground)
    for _ in range(UPDATES):
        trial.update(blocks.one())
    container.delete()
    for _ in range(CREATES):
        given = blocks.one(create=True)

        def make(given: dict[str, Any]) -> BlockResult:
            return files(block_of(given), hierarchy, trial.runtime, trial.ground)

        trial.created(given, make)
        container.delete()
    assert not trial.wrong, f"{len(trial.wrong)} wrong: " + "\n".join(trial.wrong[:20])
    assert trial.blocks == UPDATES + CREATES
    assert trial.refused >= trial.blocks // 20, "too little was refused to prove anything"
    record_property("compared", trial.compared)
    record_property(
        "of", f"{trial.runtime.name} {hierarchy}: {trial.blocks} blocks, {trial.refused} refused"
    )


def test_convert_says_what_becomes_of_unified_texts_v2(
    trial: Trial, record_property: Callable[[str, object], None]
) -> None:
    if trial.container.hierarchy != "v2":
        pytest.skip("of a v2 host: the guests")
    record_property("driver", "cgroupfs")
    blocks: list[dict[str, Any]] = [
        {"unified": unified} for unified in on(next(iter(trial.ground.devices or ()), None))
    ]
    blocks.append({"hugepageLimits": [{"pageSize": "../../x", "limit": 5}]})
    for given in blocks:
        trial.update(given)
    assert not trial.wrong, f"{len(trial.wrong)} wrong: " + "\n".join(trial.wrong)
    assert trial.refused >= len(blocks) // 3, "too little was refused to prove anything"
    record_property("compared", trial.compared)
    record_property(
        "of", f"{trial.runtime.name}: {len(blocks)} unified maps, {trial.refused} refused"
    )


SYSTEMD_BLOCKS: tuple[dict[str, Any], ...] = (
    {"cpu": {"shares": 512, "quota": 50000, "period": 100000}, "pids": {"limit": 600}},
    {"cpu": {"quota": 12345, "period": 100000}, "memory": {"limit": 1 << 30, "swap": 3 << 29}},
    {"cpu": {"quota": 3000, "period": 20000, "cpus": "0"}, "memory": {"reservation": 1 << 26}},
    {"cpu": {"shares": 10240}, "memory": {"limit": 1 << 29, "swap": 1 << 29}},
    {"memory": {"limit": -1}, "unified": {"memory.high": "268435456", "cpu.weight": "77"}},
    {"pids": {"limit": -1}, "unified": {"cpu.max": "20000 50000", "memory.min": "1048576"}},
)


def told(row_value: str, name: str, properties: dict[str, str]) -> bool:
    """Whether systemd holds a property as it was said."""
    if name == "CPUQuota":
        held = microseconds(properties["CPUQuotaPerSecUSec"])
        return held == (int(row_value[:-1]) * 10_000 if row_value else None)
    if name == "CPUQuotaPeriodSec":
        return microseconds(properties["CPUQuotaPeriodUSec"]) in (int(row_value[:-2]), None)
    held_text = properties.get(name)
    return held_text == row_value or (row_value == "idle" and held_text == "0")


@pytest.mark.parametrize("name", ["runc", "crun"])
def test_convert_says_what_systemd_is_told_v2(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    if probe().hierarchy != "v2" or not Path("/run/systemd/system").exists():
        pytest.skip("of a v2 host under systemd: the guests")
    record_property("driver", "systemd")
    container, compared, wrong = Scoped(found(name), tmp_path), 0, []
    wish = conversion_request("systemd", version(container.program))
    for given in SYSTEMD_BLOCKS:
        part = convert_document(given, wish, "oci").parts[0]
        said = container.create(given)
        try:
            assert not said, said
            properties = container.properties()
        finally:
            container.delete()
        for row in part.rows:
            if "." not in row.file:
                compared += 1
                if not told(row.value, row.file, properties):
                    held = {key: value for key, value in properties.items() if row.file[:8] in key}
                    wrong.append(f"{given}: {row.file}={row.value}, {held}")
    assert not wrong, "\n".join(wrong)
    record_property("compared", compared)
    record_property("of", f"{wish.runtime.name} {len(SYSTEMD_BLOCKS)} scopes")
