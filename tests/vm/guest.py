"""One boot of one system: the checkout goes in on a second disk, results come out on a third."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.vm.cache import HERE, REPO, cache, slot, workplace
from tests.vm.commands import ENDS_WITH_US, answer, run, say, tail
from tests.vm.image import Image, make_disk
from tests.vm.packages import LOADER, debs
from tests.vm.systems import SUITES, System
from tests.vm.tools import Tool, qemu

_BOOT = (
    "console=ttyS0 root=/dev/vda rw panic=-1 no_timer_check mitigations=off quiet loglevel=4"
    " systemd.getty_auto=no"
)
# Without what an emulator pays for and no test looks at: a fifth level of page tables, copies byte
# by byte, guards between user and kernel memory, wide registers and their saving at each switch.
_CPU = "max,-la57,-erms,-fsrm,-smap,-smep,-pku,-umip,-avx,-avx2,-xsave"
_OUT_MIB = 64
# Built here, because a guest has no compiler; git ignores it. Where it was not built it is left out.
_BUILT = ("bench/memory/hog",)
# Tests are compiled as pytest does it, by a program of their own.
_TESTS = r"/(test_\w+|conftest)\.py$"
# Ten times what a boot takes on a busy machine.
_BOOT_SECONDS = 400.0


@dataclass(frozen=True)
class Job:
    """What a guest does: `kind` is run, shell or test; `seconds` end it from outside."""

    kind: str
    settings: Mapping[str, str]
    seconds: float | None


@dataclass(frozen=True)
class Left:
    """What a guest left: its logs, what it wrote to /out, and the code of its command."""

    logs: Path
    code: int | None
    seconds: float

    @property
    def booted(self) -> bool:
        """Whether a test job began."""
        output = self.logs / "output.log"
        return output.exists() and output.stat().st_size > 0

    def why(self) -> str:
        """Why there is no code."""
        console = self.logs / "console.log"
        return f"the guest did not finish; {console} ends with:\n{tail(console)}"


def boot(system: System, image: Image, job: Job) -> Left:
    """Boots a system for a job; its logs replace those of the last job of that kind."""
    logs = cache() / "logs" / f"{system.name}-{job.kind}"
    with workplace(f"{system.name}-{job.kind}") as work:
        _job_disk(work, system, image, job)
        with (work / "results").open("wb") as empty:
            empty.truncate(_OUT_MIB << 20)
        with _place(system, job):
            began = time.monotonic()
            _emulate(work, system, image, job)
            seconds = time.monotonic() - began
        _results(work)
        shutil.rmtree(logs, ignore_errors=True)
        logs.parent.mkdir(parents=True, exist_ok=True)
        (work / "out").rename(logs)
    code = logs / "code"
    return Left(logs, int(code.read_text()) if code.exists() else None, seconds)


def _place(system: System, job: Job) -> AbstractContextManager[None]:
    """Room for the guest: $QOSLET_VM_JOBS at once, else one more than there are processors, for
    tests often wait; a shell always has it."""
    if job.kind == "shell":
        return nullcontext()
    return slot(room(), lambda: say(f"{system.name} waits for another guest to end"))


def room() -> int:
    """How many guests run at once."""
    return int(os.environ.get("QOSLET_VM_JOBS") or 1 + (os.cpu_count() or 2))


def _job_disk(work: Path, system: System, image: Image, job: Job) -> None:
    """The disk that a guest mounts as /job: the checkout, the script and its settings."""
    tree = work / "job"
    size = _copy_checkout(tree / "repo")
    _compile(image.python, tree, work / "compile.log")
    shutil.copyfile(HERE / "guest/job.sh", tree / "job.sh")
    facts = image.facts
    settings = {
        "QOSLET_JOB": job.kind,
        "QOSLET_SYSTEM": system.name,
        "QOSLET_EXPECT": system.hierarchy,
        "QOSLET_EXPECT_SYSTEMD": str(facts.systemd),
        "QOSLET_EXPECT_KERNEL": facts.kernel,
        "QOSLET_EXPECT_PSI": "no" if "psi=0" in system.words else "yes",
        "QOSLET_EXPECT_LACKS": " ".join(system.lacks),
        "QOSLET_SUITES": " ".join(
            system.suites(
                whole="QOSLET_LONG" in job.settings, live=os.environ.get("QOSLET_LIVE_RAN", "")
            )
        ),
        "QOSLET_THIRD": "" if system.third is None else str(system.third),
        **job.settings,
    }
    if system.packages:
        shutil.copytree(debs(system.suite, system.packages), tree / "packages")
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()]
    (tree / "settings").write_text("".join(lines))
    make_disk(tree, work / "job.disk", size // (1 << 20) * 3 + 256, work / "disk.log")


def checkout() -> list[str]:
    """The files that git knows or would add; without git, those of no hidden directory."""
    listed = answer(["git", "-C", REPO, "ls-files", "-z", "-co", "--exclude-standard"])
    if listed:
        return sorted(filter(None, listed.split("\0")))
    found = []
    for place, directories, files in os.walk(REPO):
        directories[:] = [one for one in directories if one[0] != "." and one != "__pycache__"]
        found += [os.path.relpath(os.path.join(place, file), REPO) for file in files]
    return sorted(found)


def _copy_checkout(target: Path) -> int:
    """Copies the checkout as it stands, and what was built for guests; returns the bytes."""
    size = 0
    for name in (*checkout(), *_BUILT):
        source = REPO / name
        if source.is_file() and not source.is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name)
            size += source.stat().st_size + 4096
    return size


def _compile(place: Path, job: Path, log: Path) -> None:
    """Compiles the checkout in ``job``, which a guest mounts as /job, by the guest's own Python that
    ``place`` has: an emulated CPU takes a minute and a half for it, in each boot."""
    libraries = place / "lib"
    python = (libraries / LOADER, "--library-path", libraries, place / "python", "-S")
    here = {**os.environ, "PYTHONHOME": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    repo = job / "repo"
    modules = ("-m", "compileall", "-q", "-x", _TESTS, "-s", job, "-p", "/job")
    run([*python, *modules, repo / "src", repo / "tests"], log, {**here, "PYTHONPATH": ""})
    here["PYTHONPATH"] = str(Path(pytest.__file__).parents[1])
    run([*python, HERE / "rewrite.py", *(repo / suite for suite in SUITES)], log, here)


def _emulate(work: Path, system: System, image: Image, job: Job) -> None:
    """Runs QEMU until the guest is off, or ends it when its time is over."""
    tool = qemu()
    (work / "out").mkdir()
    words = _words(tool, work, system, image, job)
    here = {**tool.environment, "TMPDIR": str(work)}
    with (work / "out/emulator.log").open("wb") as log:
        source = None if job.kind == "shell" else subprocess.DEVNULL
        process = subprocess.Popen(words, stdin=source, stderr=log, env=here)
        try:
            if job.kind == "test":
                _until_begun(process, work / "out/output.log")
            process.wait(job.seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _until_begun(process: subprocess.Popen[bytes], output: Path) -> None:
    """Waits for the first words of a job; TimeoutExpired where the guest does not boot."""
    end = time.monotonic() + _BOOT_SECONDS
    while process.poll() is None and not (output.exists() and output.stat().st_size):
        if time.monotonic() > end:
            raise subprocess.TimeoutExpired(process.args, _BOOT_SECONDS)
        time.sleep(0.5)


def _words(tool: Tool, work: Path, system: System, image: Image, job: Job) -> list[str]:
    line = "stdio,id=line,signal=off" if job.kind == "shell" else "stdio,id=line"
    if job.kind == "test":
        line = f"file,id=line,path={work}/out/output.log"
    accelerator = os.environ.get("QOSLET_VM_ACCEL", "tcg")
    words = [*ENDS_WITH_US, "KILL", *tool.words]
    if accelerator == "tcg":
        in_turns = job.kind == "test" and not system.timed
        accelerator += ",thread=single" if in_turns else ",thread=multi"
    words += ["-accel", accelerator]
    words += ["-cpu", _CPU, *system.machine, "-no-reboot", "-nodefaults"]
    words += ["-display", "none", "-kernel", str(image.kernel), "-initrd", str(image.initrd)]
    words += ["-append", f"{_BOOT} {'' if 'psi=' in system.words else 'psi=1'} {system.words}"]
    words += ["-serial", f"file:{work}/out/console.log"]
    words += ["-chardev", line, "-serial", "chardev:line"]
    for disk, snapshot in (
        (image.disk, "on"),
        (work / "job.disk", "off"),
        (work / "results", "off"),
    ):
        path = str(disk).replace(",", ",,")
        options = f"if=virtio,format=raw,cache=unsafe,snapshot={snapshot}"
        words += ["-drive", f"file={path},{options}"]
    return words


def _results(work: Path) -> None:
    """Unpacks what the guest wrote; a guest that did not finish wrote nothing."""
    answer(["tar", "--no-same-owner", "-xf", work / "results", "-C", work / "out"])
