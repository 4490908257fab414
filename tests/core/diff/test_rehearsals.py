"""What the names of rehearsals mean."""

from __future__ import annotations

import pytest

from qoslet.core.diff.rehearsals import NAMED, PATTERNS, rehearsal
from qoslet.errors import BadInput


@pytest.mark.parametrize(
    ("name", "option", "before", "after"),
    [
        ("v1-to-v2", "hierarchy", "v1", "v2"),
        ("v2-to-v1", "hierarchy", "v2", "v1"),
        ("1.36-to-1.37", "kubernetes", "1.36", "1.37"),
        ("v1.30.2-to-v1.31", "kubernetes", "v1.30.2", "v1.31"),
        ("cgroupfs-to-systemd", "cgroup-driver", "cgroupfs", "systemd"),
        ("systemd-to-cgroupfs", "cgroup-driver", "systemd", "cgroupfs"),
        ("runc-1.3.1-to-1.3.2", "runtime", "runc-1.3.1", "runc-1.3.2"),
        ("runc-1.3.1-to-crun-1.23", "runtime", "runc-1.3.1", "crun-1.23"),
        ("containerd-1.7.0-to-2.1.4", "runtime", "containerd-1.7.0", "containerd-2.1.4"),
        (
            "containerd-1.7.0+runc-1.1.0-to-containerd-2.1.4+crun-1.23",
            "runtime",
            "containerd-1.7.0+runc-1.1.0",
            "containerd-2.1.4+crun-1.23",
        ),
        ("runc-1.0.0-rc93-to-1.1.0", "runtime", "runc-1.0.0-rc93", "runc-1.1.0"),
    ],
)
def test_both_sides_are_set(name: str, option: str, before: str, after: str) -> None:
    found = rehearsal(name)
    assert (found.before, found.after) == ({option: before}, {option: after})


@pytest.mark.parametrize("name", [*(one.name for one in NAMED), *(row[2] for row in PATTERNS)])
def test_every_name_that_help_gives_is_known(name: str) -> None:
    found = rehearsal(name)
    assert found.about
    assert found.after or found.gates


@pytest.mark.parametrize(
    "name", ["", "v1", "v1-to-v3", "v1-to-1.37", "1.36-to-systemd", "-to-", "x", "a-1+b-2-to-3"]
)
def test_others_are_bad_input(name: str) -> None:
    with pytest.raises(BadInput, match="unknown rehearsal"):
        rehearsal(name)


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(BadInput, match="did you mean limited-swap"):
        rehearsal("limitd-swap")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("1.29-1.36", "1.29-to-1.36"),
        ("v1-v2", "v1-to-v2"),
        ("runc-1.3.1-runc-1.3.2", "runc-1.3.1-to-runc-1.3.2"),
        ("cgroupfs-systemd", "cgroupfs-to-systemd"),
    ],
)
def test_two_sides_without_the_word_between_them_are_understood(name: str, meant: str) -> None:
    with pytest.raises(BadInput, match=f"did you mean {meant}[?]"):
        rehearsal(name)
