"""The guest is the system it was booted as; everything else in its table rests on this."""

from __future__ import annotations

import os
import platform
import subprocess

import pytest

from qoslet.host.machine.probe import probe

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif("QOSLET_SYSTEM" not in os.environ, reason="runs in guests: make test-vm"),
]

# What the rules need; misc, rdma and the rest come with some kernels only.
CONTROLLERS = {
    "v1": {"blkio", "cpu", "cpuacct", "cpuset", "hugetlb", "memory", "pids"},
    "v2": {"cpu", "cpuset", "hugetlb", "io", "memory", "pids"},
}


def test_the_guest_is_what_it_was_booted_as(record_property):
    facts = probe()
    hierarchy = "v2" if os.environ["QOSLET_EXPECT"] == "v2" else "v1"
    asked = ["systemctl", "show", "--property=Version", "--value"]
    manager = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    systemd = int(os.environ["QOSLET_EXPECT_SYSTEMD"])
    wanted = CONTROLLERS[hierarchy] - {*os.environ["QOSLET_EXPECT_LACKS"].split()}
    pairs = [
        ("user", 0, os.geteuid()),
        ("kernel", os.environ["QOSLET_EXPECT_KERNEL"], platform.release()),
        ("systemd", str(systemd), manager.split(".")[0].split("~")[0].strip()),
        ("hierarchy found", hierarchy, facts.hierarchy),
        ("systemd found", systemd, facts.systemd),
        ("kernel found", platform.release(), facts.kernel),
        ("systemd runs", True, facts.systemd_runs),
        ("controllers", wanted, CONTROLLERS[hierarchy] & set(facts.controllers or ())),
        ("PSI", os.environ["QOSLET_EXPECT_PSI"] == "yes", os.path.exists("/proc/pressure/memory")),
    ]
    record_property("compared", len(pairs))
    assert [pair for pair in pairs if pair[1] != pair[2]] == []
