"""What another process did to a cgroup, by what was read and made before."""

from __future__ import annotations

from qoslet.agent.state.cgroup_changes import CgroupChanges

PATH = "/q/pod"


def ours(path: str, inode: int) -> bool:
    return inode == 1


def test_what_is_seen_first_was_changed_by_nobody() -> None:
    known = CgroupChanges()
    assert [known.see(PATH, one, ours) for one in (None, 5, 5)] == ["", "", ""]
    assert known.inode(PATH) == 5


def test_what_stands_where_a_cgroup_was_is_in_its_place() -> None:
    known = CgroupChanges()
    seen = [known.see(PATH, one, ours) for one in (5, None, None, 6, 7)]
    assert seen == ["", "deleted", "", "recreated", "recreated"]
    known.forget(PATH)
    assert PATH not in known
    assert known.see(PATH, 8, ours) == ""


def test_what_we_make_where_ours_was_gone_is_nobody_elses() -> None:
    known = CgroupChanges()
    assert [known.see(PATH, one, ours) for one in (5, None, 1)] == ["", "deleted", ""]


def test_what_replaces_a_cgroup_that_we_have_just_made_is_in_its_place() -> None:
    known = CgroupChanges()
    known.made(PATH, 1)
    assert known.see(PATH, 2, ours) == "recreated"
