"""Which runc has the fix of CVE-2024-21626."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from qoslet.host.machine.runc_fix import runc_fix


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A Debian package of runc without documents."""
    lists = tmp_path / "var/lib/dpkg/info"
    lists.mkdir(parents=True)
    (lists / "runc.list").write_text("/.\n/usr\n/usr/sbin\n/usr/sbin/runc\n")
    (lists / "adduser.list").write_text("/usr/sbin/runc\n")
    documents = tmp_path / "usr/share/doc/runc"
    documents.mkdir(parents=True)
    return documents


@pytest.mark.parametrize("version", ["1.1.12", "1.1.13", "1.2.0", "1.10.0", "2.0"])
def test_later_versions_have_it(tmp_path: Path, version: str) -> None:
    assert runc_fix("/usr/sbin/runc", version, str(tmp_path)) == "fixed"


@pytest.mark.parametrize("version", ["1.1.11", "1.1.5", "1.0.0", "1.1"])
def test_earlier_ones_of_no_package_have_not(tmp_path: Path, version: str) -> None:
    assert runc_fix("/usr/local/bin/runc", version, str(tmp_path)) == "missing"


def test_a_package_says_it_in_its_changelog(package: Path, tmp_path: Path) -> None:
    root = str(tmp_path)
    assert runc_fix("/usr/sbin/runc", "1.1.5", root) == "unknown", "without documents"
    text = "runc (1.1.5+ds1-1+deb12u1) bookworm-security\n\n  * CVE-2024-21626: breakouts\n"
    (package / "changelog.Debian.gz").write_bytes(gzip.compress(text.encode()))
    assert runc_fix("/usr/sbin/runc", "1.1.5", root) == "fixed"
    assert runc_fix("/usr/local/sbin/runc", "1.1.5", root) == "missing", "another program"
    (package / "changelog.Debian.gz").write_bytes(gzip.compress(b"runc (1.1.5+ds1-1) unstable\n"))
    assert runc_fix("/usr/sbin/runc", "1.1.5", root) == "missing"
    (package / "changelog.Debian.gz").write_bytes(b"torn")
    assert runc_fix("/usr/sbin/runc", "1.1.5", root) == "unknown"


def test_what_cannot_be_told(package: Path, tmp_path: Path) -> None:
    (tmp_path / "var/lib/rpm").mkdir()
    assert runc_fix("/usr/bin/runc", "1.1.5", str(tmp_path)) == "unknown"
    assert runc_fix("/usr/sbin/runc", "", str(tmp_path)) == "unknown"
