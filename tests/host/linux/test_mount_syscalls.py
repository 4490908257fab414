"""What a mount that fails says."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.host.linux.mount_syscalls import mount


def test_a_mount_that_fails_names_file_system_and_target(tmp_path: Path) -> None:
    """A kernel without overlayfs says no more than: no such device."""
    target = str(tmp_path / "absent")
    with pytest.raises(OSError, match="cannot mount overlay: ") as failed:
        mount("overlay", target, "overlay")
    assert failed.value.filename == target
