"""A manifest's event to the wanted pod, against reading and parsing the same file and nothing else.

The last figure compares a directory of 500 pods with one of 5: what one file costs must not depend
on the others.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import yaml

from bench.figures import Figure, paired, show
from qoslet.agent.desired_state import ManifestSource
from qoslet.core.api.manifest import Options
from qoslet.core.node.flags import Flags
from qoslet.core.workload.security.context import ProcessRights
from qoslet.host.files.node import load_node
from qoslet.host.files.watched_manifests import ManifestFiles

PODS = 500
FEW = 5
ROUNDS = 60
BURST = 50

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web-{number}
  labels: {{app: web}}
spec:
  terminationGracePeriodSeconds: 2
  containers:
    - name: server
      image: registry.example/team/server:1.2.3
      command: [/bin/server, --listen=127.0.0.1:8080, "--shard=$(POD)"]
      env:
        - name: POD
          valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}
      resources:
        requests: {{cpu: {cpu}m, memory: 32Mi}}
        limits: {{memory: 128Mi}}
    - name: proxy
      image: registry.example/team/proxy:1.2.3
      command: [/bin/proxy]
      resources:
        requests: {{cpu: 50m, memory: 16Mi}}
        limits: {{cpu: 200m, memory: 64Mi}}
"""


class Bench:
    """A directory of ``count`` pods that is followed. Every pod that is put is another one."""

    def __init__(self, folder: Path, count: int) -> None:
        folder.mkdir()
        self.folder = folder
        self._cpu = 0
        for number in range(count):
            self.put(number)
        node = load_node([], Flags(kubernetes="1.36", cgroup_root="/b", runtime="process"))[0]
        powers = ProcessRights(os.geteuid(), os.getegid(), os.geteuid() == 0)
        files = ManifestFiles([str(folder)], time.monotonic)
        self.source = ManifestSource(files, Options(), node, powers)
        if len(self.source.current().changed) != count:
            raise SystemExit(f"not all {count} pods were found")

    def put(self, number: int) -> Path:
        """Replace a manifest, as a careful writer does."""
        self._cpu += 1
        path = self.folder / f"web-{number}.yaml"
        hidden = self.folder / f".web-{number}"
        hidden.write_text(POD.format(number=number, cpu=self._cpu))
        os.rename(hidden, path)
        return path

    def ours(self, many: int) -> float:
        """Milliseconds from the last rename to the wanted pods, ``many`` at once."""
        for number in range(many):
            self.put(number)
        found: list[int] = []
        elapsed = timed(lambda: found.append(len(self.source.current().changed)))
        if found != [many]:
            raise SystemExit(f"{found} pods changed instead of {many}")
        return elapsed

    def floor(self, many: int) -> float:
        """Milliseconds of reading and parsing as many files."""
        paths = [self.put(number) for number in range(many)]
        self.source.current()
        return timed(lambda: [yaml.load(path.read_bytes(), yaml.CSafeLoader) for path in paths])


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of ``work``."""
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1000


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        many = Bench(Path(folder) / "many", PODS)
        few = Bench(Path(folder) / "few", FEW)
        one = paired(partial(many.ours, 1), partial(many.floor, 1), ROUNDS)
        burst = paired(partial(many.ours, BURST), partial(many.floor, BURST), ROUNDS // 4)
        beside = paired(partial(many.ours, 1), partial(few.ours, 1), ROUNDS)
    show(
        [
            Figure(f"one manifest changes among {PODS}", "ms", *one, "read and yaml.load", 4),
            Figure(f"{BURST} at once among {PODS}", "ms", *burst, "read and yaml.load", 3),
            Figure(f"one among {PODS}", "ms", *beside, f"one among {FEW}", 1.5),
        ]
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
