"""``qoslet lint`` beside the one peer that a package registry has: checkov, with its checks of CPU
and memory only.

``make bench-peers`` installs it beside qoslet. Both read the same manifests in turns and have to name
the same pods without a memory limit. Times are seconds of CPU, start included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from bench.figures import Figure, paired, show
from bench.pods import pod

MANIFESTS = 1_000
ROUNDS = 3
CHECKS = {
    "CKV_K8S_10": "CPU requests",
    "CKV_K8S_11": "CPU limits",
    "CKV_K8S_12": "memory requests",
    "CKV_K8S_13": "memory limits",
}


def ran(command: list[str]) -> tuple[float, Any]:
    """Seconds of CPU of a command, and the document that it prints."""
    before = os.times()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    after = os.times()
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command[:4])} ended with {done.returncode}")
    seconds = after.children_user + after.children_system
    return seconds - before.children_user - before.children_system, json.loads(done.stdout)


def ours(folder: str, unlimited: set[str]) -> float:
    """Seconds of qoslet; the pods without a memory limit go to ``unlimited``."""
    command = [sys.executable, "-m", "qoslet", "lint", folder, "-o", "json"]
    seconds, document = ran(command)
    unlimited |= {one["pod"] for one in document["findings"] if one["id"] == "QL022"}
    return seconds


def peer(folder: str, unlimited: set[str]) -> float:
    """Seconds of checkov; as ``ours``."""
    program = str(Path(sys.executable).with_name("checkov"))
    command = [program, "-d", folder, "--framework", "kubernetes", "--check", ",".join(CHECKS)]
    seconds, document = ran([*command, "--compact", "--skip-download", "-o", "json"])
    for row in document["results"]["failed_checks"]:
        if row["check_id"] == "CKV_K8S_13":
            _, namespace, name = row["resource"].split(".")
            unlimited.add(f"{namespace}/{name}")
    return seconds


def main() -> None:
    """Measure and print."""
    named: tuple[set[str], set[str]] = set(), set()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(MANIFESTS):
            path = Path(folder) / f"{number:04}.json"
            path.write_text(json.dumps(pod(number), indent=2), encoding="utf-8")
        pair = paired(partial(ours, folder, named[0]), partial(peer, folder, named[1]), ROUNDS)
    if named[0] != named[1] or not named[0]:
        raise SystemExit(f"they disagree on {len(named[0] ^ named[1])} pods")
    title = f"lint of {MANIFESTS:,} manifests"
    show([Figure(title, "s of CPU", *pair, "checkov: requests and limits only", None)])
    print(f"both name the same {len(named[0])} pods without a memory limit", file=sys.stderr)


if __name__ == "__main__":
    main()
