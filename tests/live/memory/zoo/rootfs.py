"""The root file system of the zoo for containers of a runtime: what the program needs, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

IMAGE = "localhost/qoslet/zoo:1"
PROGRAMS = ("/bin/true",)


def rootfs(program: Path, folder: Path) -> Path:
    """A tree below ``folder`` in which the program runs, with its libraries."""
    root = folder / "rootfs"
    for one in (*PROGRAMS, str(program)):
        _copy(Path(one), root)
        listed = subprocess.run(["ldd", one], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(/\S+) \(0x", listed):
            _copy(Path(library), root)
    for name in ("proc", "sys", "dev", "run", "scratch", "var/tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    return root


def _copy(file: Path, root: Path) -> None:
    to = root / file.relative_to("/")
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file.resolve(), to)
