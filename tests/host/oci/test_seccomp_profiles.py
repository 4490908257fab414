"""Seccomp profiles as files: found, bounded, and never outside the folder of profiles."""

import json
import os
from pathlib import Path

import pytest

from qoslet.host.oci.seccomp_profiles import distribution_profile, load_filter, profile_fault

FILTER = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}


def test_the_administrators_profile_goes_before_the_packages(tmp_path: Path) -> None:
    etc, usr = tmp_path / "etc.json", tmp_path / "usr.json"
    assert distribution_profile([str(etc), str(usr)]) == ""
    usr.write_text("{}")
    assert distribution_profile([str(etc), str(usr)]) == str(usr)
    etc.write_text("{}")
    assert distribution_profile([str(etc), str(usr)]) == str(etc)


def test_no_profile_on_the_machine_is_told() -> None:
    assert "no seccomp profile is on this machine" in profile_fault("RuntimeDefault", "", "/x")


def test_capabilities_decide_about_the_distributions_profile(tmp_path: Path) -> None:
    path = tmp_path / "seccomp.json"
    entry = {
        "names": ["mount"],
        "action": "SCMP_ACT_ALLOW",
        "includes": {"caps": ["CAP_SYS_ADMIN"]},
    }
    path.write_text(json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [entry]}))
    none = load_filter("RuntimeDefault", str(path), "", frozenset())
    some = load_filter("RuntimeDefault", str(path), "", frozenset({"CAP_SYS_ADMIN"}))
    assert none is not None
    assert some is not None
    assert (none["syscalls"], len(some["syscalls"])) == ([], 1)
    assert profile_fault("RuntimeDefault", str(path), "") == ""
    path.write_text("{")
    assert f"{path}: not JSON" in profile_fault("RuntimeDefault", str(path), "")


def test_a_localhost_profile_never_leaves_its_folder(tmp_path: Path) -> None:
    root, outside = tmp_path / "seccomp", tmp_path / "secret.json"
    (root / "a").mkdir(parents=True)
    for path in (outside, root / "p.json", root / "a" / "q.json"):
        path.write_text(json.dumps(FILTER))
    (root / "link.json").symlink_to(outside)
    (root / "inner.json").symlink_to(root / "p.json")
    (root / "far").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    for good in ("p.json", "a/q.json", "inner.json"):
        assert load_filter(f"Localhost/{good}", "", str(root), frozenset()) == FILTER
        assert profile_fault(f"Localhost/{good}", "", str(root)) == ""
    for bad in ("link.json", "far/secret.json", "../secret.json", "a", "pipe", "none.json"):
        assert profile_fault(f"Localhost/{bad}", "", str(root))


@pytest.mark.parametrize("profile", ["", "Unconfined"])
def test_no_filter_where_none_is_asked(profile: str) -> None:
    assert load_filter(profile, "", "", frozenset()) is None
