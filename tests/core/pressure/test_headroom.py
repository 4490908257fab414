"""What was given counts as used, once: never is more given than there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.cgroup.interface_files import UNLIMITED
from qoslet.core.memory.sample import MemorySample
from qoslet.core.pressure.headroom import (
    GrantedShare,
    Headroom,
    headroom_for,
    is_related,
    share_of,
    unreclaimable_bytes,
    unused_grants,
)

POD = "/q/b/podx"
OPEN = GrantedShare(UNLIMITED)


def test_a_group_is_what_it_holds_and_page_cache_is_nobody_s() -> None:
    sample = MemorySample("/a", 0.0, 1, 100, max=300, stat={"inactive_file": 20, "file": 30})
    assert unreclaimable_bytes(sample) == 80
    assert share_of(sample) == GrantedShare(220)
    assert share_of(sample, 60, 150) == GrantedShare(220, 70)
    assert share_of(sample, 60, 70) == GrantedShare(220, 0)
    assert share_of(sample, 100, 150) == GrantedShare(220, 50), (
        "what is planned was given by nobody"
    )
    assert share_of(sample, 100, UNLIMITED) == GrantedShare(220, 200)
    assert share_of(MemorySample("/a", 0.0, 1, 100)) == GrantedShare(UNLIMITED - 100)


def test_containers_are_given_no_more_than_their_pod_has_left() -> None:
    parts = {
        "/q": OPEN,
        POD: GrantedShare(100),
        f"{POD}/a": GrantedShare(70, 90),
        f"{POD}/b": GrantedShare(80, 50),
    }
    wanted = {"": 100, "/q": 100, POD: 100, f"{POD}/a": 70, f"{POD}/b": 50}
    assert unused_grants(parts) == wanted


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/q/b/pody/a", Headroom(900, 100)),
        (f"{POD}/a", Headroom(1000)),
        (f"{POD}/b", Headroom(1000)),
        (POD, Headroom(1000)),
        ("/q/b", Headroom(1000)),
    ],
)
def test_room_is_less_what_others_were_given(path: str, wanted: Headroom) -> None:
    """Nobody is his own other; of a pod that is all affordable its limit decides."""
    parts = {
        "/q/b": OPEN,
        POD: GrantedShare(100),
        f"{POD}/a": GrantedShare(300, 300),
        f"{POD}/b": OPEN,
    }
    pod = path.rpartition("/")[0] if path.count("/") > 3 else path if path == POD else ""
    assert headroom_for(path, pod, 1000, {**parts, path: parts.get(path, OPEN)}) == wanted


def test_of_a_pod_that_cannot_have_all_containers_share_what_there_is() -> None:
    parts = {POD: GrantedShare(2000), f"{POD}/a": GrantedShare(700, 700), f"{POD}/b": OPEN}
    assert headroom_for(f"{POD}/b", POD, 1000, parts) == Headroom(300, 700)


def test_a_tier_leaves_what_it_has_and_did_not_give() -> None:
    parts = {
        "/q": GrantedShare(500),
        "/q/b": GrantedShare(400),
        POD: GrantedShare(300, 300),
        "/z": GrantedShare(250, 250),
    }
    assert headroom_for("/q/b/pody", "/q/b/pody", 1000, parts) == Headroom(100, 300, "/q/b")
    assert headroom_for("/q/g/pody", "/q/g/pody", 1000, parts) == Headroom(200, 300, "/q")
    assert headroom_for("/q/g/pody", "/q/g/pody", 600, parts) == Headroom(50, 550)
    assert headroom_for("/q/b", "", 1000, parts) == Headroom(500, 0, "/q")


def test_kin_are_those_above_and_below() -> None:
    assert is_related("/a", "/a")
    assert is_related("/a/b", "/a")
    assert is_related("/a", "/a/b")
    assert not is_related("/a", "/ab")


paths = st.sampled_from(
    [f"{pod}{name}" for pod in ("/q/b/pod1", "/q/b/pod2", "/q/pod3") for name in ("", "/a", "/b")]
)
lefts = st.integers(0, 1000)


@given(
    st.lists(st.tuples(paths, lefts, lefts), max_size=12),
    st.dictionaries(paths | st.sampled_from(["/q", "/q/b"]), lefts, min_size=11, max_size=11),
    lefts,
)
def test_never_is_more_given_than_there_is(
    asked: list[tuple[str, int, int]], limits: dict[str, int], spare: int
) -> None:
    parts = {path: GrantedShare(left) for path, left in limits.items()}
    for path, wanted, _ in asked:
        at = path.rpartition("/")[0]
        pod = at if "pod" in at else path
        left = min(parts[path].limit_headroom, parts[pod].limit_headroom)
        before = unused_grants(parts)[""]
        value = min(wanted, left, headroom_for(path, pod, spare, parts).free)
        if value > parts[path].granted:
            parts[path] = GrantedShare(parts[path].limit_headroom, value)
        after = unused_grants(parts)
        assert after[""] <= max(before, spare)
        assert all(after[one] <= parts[one].limit_headroom for one in parts)
