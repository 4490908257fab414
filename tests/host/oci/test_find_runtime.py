"""What the owner of an OCI runtime names: root file systems that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.errors import BadInput
from qoslet.host.oci.find_runtime import InstalledRuntime, engine_of


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("busybox", "is not NAME=DIRECTORY"),
        ("busybox=", "is not NAME=DIRECTORY"),
        ("=/", "is not NAME=DIRECTORY"),
        ("busybox=/nowhere/at/all", "/nowhere/at/all does not exist"),
        ("busybox=/dev/null", "/dev/null is not a directory"),
    ],
)
def test_a_root_file_system_that_is_none(named: str, words: str) -> None:
    found = InstalledRuntime("runc", "/usr/sbin/runc", "1.1.5")
    with pytest.raises(BadInput, match=words):
        engine_of(found, images=(), trees=[named], storage=None, systemd=None, v2=True)


def test_a_root_file_system_is_named_by_its_image(tmp_path: Path) -> None:
    found = InstalledRuntime("runc", "/usr/sbin/runc", "1.1.5")
    made = engine_of(found, images=(), trees=[f"a={tmp_path}"], storage=None, systemd=None, v2=True)
    assert made.trees == (("a", str(tmp_path)),)
