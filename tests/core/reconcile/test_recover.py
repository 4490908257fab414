"""What a damaged journal said, worked out from what stands."""

from __future__ import annotations

import pytest

from qoslet.core.reconcile.journal import Adopted, Created, JournalState, Set
from qoslet.core.reconcile.recover import recover, written_elsewhere

ROOT = "/q"
PODS = f"{ROOT}/kubepods"
TIER = f"{PODS}/burstable"
POD = f"{TIER}/poda"
APP = f"{POD}/app"
TREE = {ROOT: 1, PODS: 2, TIER: 3, POD: 4, APP: 5, f"{ROOT}/other": 6}


def ledger(*entries: Created | Adopted | Set) -> JournalState:
    made = JournalState()
    made.add(entries)
    return made


def created(*paths: str) -> list[Created]:
    return [Created(path, TREE[path]) for path in paths]


def test_what_is_above_one_of_ours_is_ours() -> None:
    assert recover(ledger(*created(APP)), TREE, ROOT) == created(ROOT, PODS, TIER, POD)
    assert recover(ledger(*created(ROOT, PODS, POD, APP)), TREE, ROOT) == created(TIER)


def test_a_group_that_another_made_anew_proves_nothing() -> None:
    assert recover(ledger(Created(APP, 99)), TREE, ROOT) == []


def test_a_group_with_a_value_of_ours_is_ours() -> None:
    known = ledger(*created(ROOT, PODS), Set(TIER, "cpu.shares", None, "2"))
    assert recover(known, TREE, ROOT) == created(TIER)


def test_a_value_outside_the_root_was_written_in_a_group_of_others() -> None:
    known = ledger(*created(ROOT), Set("/kube", "cpu.shares", "1024", "512"))
    assert written_elsewhere(known, ROOT) == ["/kube"]
    assert recover(known, {**TREE, "/kube": 7}, ROOT) == [Adopted("/kube", 7)]
    assert recover(known, TREE, ROOT) == [], "it is gone"


def test_what_the_records_of_pods_name_is_ours() -> None:
    found = recover(ledger(), TREE, ROOT, recorded=[APP, f"{TIER}/podgone/app"])
    assert found == created(ROOT, PODS, TIER, POD, APP)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("", True),
        ("/kubepods", True),
        ("/kubepods/besteffort/podx", True),
        ("/kubepods/podx/app", True),
        ("/podx", True),
        ("/q-kubepods.slice/q-kubepods-burstable.slice/q-kubepods-burstable-podx.slice", True),
        ("/other", False),
        ("/kubepods/other", False),
        ("/other/podx", False),
    ],
)
def test_an_empty_group_is_known_by_its_name(name: str, ours: bool) -> None:
    path = ROOT + name
    found = recover(ledger(), {path: 9}, ROOT, empty=[path])
    assert found == ([Created(path, 9)] if ours else [])


def test_a_root_of_others_stays_theirs() -> None:
    found = recover(ledger(*created(APP)), TREE, ROOT, given=True, empty=[ROOT])
    assert ROOT not in {one.path for one in found}
    known = ledger(Adopted(ROOT, 1), *created(APP))
    assert recover(known, TREE, ROOT, given=True) == created(PODS, TIER, POD)


def test_an_intact_journal_gets_nothing() -> None:
    whole = ledger(*created(ROOT, PODS, TIER, POD, APP))
    assert recover(whole, TREE, ROOT, recorded=[APP]) == []
