"""What of the mounts is systemd's own."""

from __future__ import annotations

import pytest

from qoslet.host.linux.mountinfo import MountPoint, systemds_own

NAMED = MountPoint("/sys/fs/cgroup/systemd", "cgroup", ("rw", "xattr", "name=systemd"))
CPU = MountPoint("/sys/fs/cgroup/cpu", "cgroup", ("rw", "cpu"))
HYBRID = MountPoint("/sys/fs/cgroup/unified", "cgroup2", ("rw",))
OTHERS = MountPoint("/run/cilium/cgroupv2", "cgroup2", ("rw",))


@pytest.mark.parametrize(
    ("table", "points"),
    [
        ([CPU, NAMED], [NAMED.point]),
        ([CPU, HYBRID, NAMED], [HYBRID.point, NAMED.point]),
        ([NAMED, OTHERS], [NAMED.point]),
        ([OTHERS, HYBRID, NAMED], [HYBRID.point, NAMED.point]),
        ([CPU, OTHERS], []),
        ([], []),
    ],
)
def test_a_cgroup2_that_others_mount_is_not_systemds(
    table: list[MountPoint], points: list[str]
) -> None:
    assert systemds_own(table) == points
