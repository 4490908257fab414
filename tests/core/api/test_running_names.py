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
    files.keep(running)
    assert chosen(files) == {"one": "b"}
