"""An audit beside a real systemd: what it keeps as properties is compared, too."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qoslet.cli import main
from tests.live.systemd.slices import Live, need_guest

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: a, uid: a0}
spec: {containers: [{name: c, resources: {requests: {cpu: 100m, memory: 32Mi}, \
limits: {cpu: 215m, memory: 64Mi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, uid: b0}
spec: {containers: [{name: c, resources: {}}]}
"""


class Audited(Live):
    """A tree of slices that apply made, and its audit."""

    def __init__(self, folder: Path, capture: Any) -> None:
        super().__init__()
        self.capture = capture
        self.pods = folder / "pods.yaml"
        self.pods.write_text(PODS)
        self.options = [
            *("-f", str(self.pods), "--cgroup-root", self.name, "--cgroup-driver", "systemd"),
            *("--kubernetes", "1.34"),
        ]
        assert main.run(["apply", *self.options]) == 0, capture()
        capture()

    def look(self) -> list[dict[str, Any]]:
        """The findings."""
        code = main.run(["audit", *self.options, "-o", "json"])
        out, err = self.capture()
        assert code in (0, 1), err
        document = json.loads(out)
        assert document["compared"] > 10
        assert document["unread"] == []
        return list(document["findings"])

    def undo(self) -> None:
        """Release the tree."""
        main.run(["release", "--cgroup-root", self.name, "--force"])


def systemctl(*words: str) -> None:
    subprocess.run(["systemctl", *words], check=True)


@pytest.fixture
def tree(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Audited]:
    need_guest()
    made = Audited(tmp_path, capfd.readouterr)
    yield made
    made.undo()


def _weight(tree: Audited) -> tuple[str, str, str]:
    v1 = tree.hierarchy == "v1"
    return ("cpu.shares", "CPUShares", "777") if v1 else ("cpu.weight", "CPUWeight", "77")


def test_files_and_properties_are_compared(tree: Audited) -> None:
    assert tree.look() == []
    systemctl("daemon-reload")
    assert tree.look() == []
    file, name, other = _weight(tree)
    unit = f"{tree.stem}-kubepods-burstable.slice"
    path = f"{tree.root}/{tree.stem}-kubepods.slice/{unit}"
    point = tree.where if isinstance(tree.where, str) else tree.where["cpu"]
    place = Path(f"{point}{path}/{file}")
    planned = place.read_text().strip()

    # written past systemd: it still has the planned value
    place.write_text(other)
    (found,) = tree.look()
    assert (found["verdict"], found["file"], found["found"]) == ("drift", file, other)
    assert (found["expected"], found["property"], found["unit"]) == (planned, planned, unit)
    assert name in found["fix"]
    subprocess.run(found["fix"], shell=True, check=True)
    assert tree.look() == []

    # set through systemd
    systemctl("set-property", "--runtime", unit, f"{name}={other}")
    (found,) = tree.look()
    assert (found["verdict"], found["found"], found["property"]) == ("drift", other, other)

    # the file put back: a reload would bring the other value
    place.write_text(planned)
    (found,) = tree.look()
    assert (found["verdict"], found["found"], found["property"]) == ("latent", planned, other)
    subprocess.run(found["fix"], shell=True, check=True)
    assert tree.look() == []

    systemctl("stop", f"{tree.stem}-kubepods-besteffort.slice")
    (found,) = tree.look()
    assert (found["verdict"], found["file"]) == ("missing", None)
    assert found["name"].endswith("/kubepods/besteffort")
