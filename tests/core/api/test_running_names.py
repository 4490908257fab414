"""A name that several pods want stays with the one that runs with it."""

from __future__ import annotations

import pytest

from qoslet.core.api.manifest_set import ManifestSet
from tests.core.api.test_manifest_set import OPTIONS, broken, chosen, gone, pod, said


@pytest.mark.parametrize("faulty", [False, True])
def test_a_name_stays_with_the_pod_that_runs(faulty: bool) -> None:
    """Also while its own file cannot be read, and where the newcomer's file is the first one."""
    running = {"one": "default/web"}
    files = ManifestSet(OPTIONS, lambda uid: running.get(uid, ""))
    files.apply([said("b", pod("web", "one"))])
    if faulty:
        files.apply([broken("b")])
    assert files.apply([said("a", pod("web", "two"))]) == set()
    assert chosen(files) == {"one": "b"}
    (row,) = [row for row in files.rows if row.where.startswith("a:")]
    assert row.message == "default/web is also in b, which takes precedence"
    running.clear()
    assert files.apply([gone("b")]) == {"one", "two"}
    assert chosen(files) == {"two": "a"}


def test_a_name_stays_with_the_pod_that_turns_out_to_run() -> None:
    running: dict[str, str] = {}
    files = ManifestSet(OPTIONS, lambda uid: running.get(uid, ""))
    files.apply([said("a", pod("web", "two")), said("b", pod("web", "one"))])
    assert chosen(files) == {"two": "a"}
    running["one"] = "default/web"
    files.keep({"one": "b"})
    assert chosen(files) == {"one": "b"}


def test_a_pod_that_runs_is_replaced_by_no_copy_of_its_manifest() -> None:
    running = {"one": "default/web"}
    files = ManifestSet(OPTIONS, lambda uid: running.get(uid, ""))
    files.apply([said("b", pod("web", "one"))])
    files.apply([said("a", pod("web", "one", labels={"v": "9"}))])
    assert chosen(files) == {"one": "b"}
    (row,) = files.rows
    assert row.message == "default/web is also in b, which takes precedence"
    assert files.apply([said("b", pod("web", "one", labels={"v": "2"}))]) == {"one"}, (
        "an edit counts"
    )
    assert chosen(files) == {"one": "b"}
    assert files.apply([gone("b")]) == {"one"}
    assert chosen(files) == {"one": "a"}


@pytest.mark.parametrize("recorded", ["b", "manifests/b", "/etc/manifests/b"])
def test_the_next_agent_knows_which_of_two_files_a_pod_comes_from(recorded: str) -> None:
    running: dict[str, str] = {}
    files = ManifestSet(OPTIONS, lambda uid: running.get(uid, ""))
    files.apply([said("a", pod("web", "one", labels={"v": "9"})), said("b", pod("web", "one"))])
    assert chosen(files) == {"one": "a"}
    running["one"] = "default/web"
    files.keep({"one": recorded})
    assert chosen(files) == {"one": "b"}
    assert files.apply([said("c", pod("db", "two"))]) == {"two"}
    assert chosen(files) == {"one": "b", "two": "c"}
