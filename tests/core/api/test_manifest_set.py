"""The pods of many files: at every moment those that reading all files anew would choose."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from qoslet.core.api.documents import Document, FileOrder, value_document
from qoslet.core.api.input.fault_rows import FAULTS_TOLD
from qoslet.core.api.manifest import Options, pods_from
from qoslet.core.api.manifest_set import FileChange, ManifestSet
from qoslet.errors import BadInput

OPTIONS = Options(keep_raw=True)
BROKEN = BadInput("broken YAML", where="f", hint="mend it")

Pods = list[tuple[str, str]]
"""Name and UID of each pod of a file; no UID: one is made."""


def document(value: object, file: str) -> Document | BadInput:
    return value_document(value, file, 0)


def pod(name: str, uid: str = "", **metadata: object) -> dict[str, object]:
    spec = {"containers": [{"name": "c"}]}
    named = {"name": name, **({"uid": uid} if uid else {}), **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}


def owned(name: str, kind: str, owner: str) -> dict[str, object]:
    references = [{"kind": kind, "name": owner, "controller": True}]
    return pod(name, ownerReferences=references)


def template(kind: str, name: str, owner: tuple[str, str] | None = None) -> dict[str, object]:
    metadata: dict[str, object] = {"name": name}
    if owner is not None:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    inner = {"spec": {"containers": [{"name": "c"}]}}
    spec = {"template": inner}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def said(file: str, *values: object) -> FileChange:
    return FileChange(file, (0, file), tuple(document(value, file) for value in values))


def gone(file: str) -> FileChange:
    return FileChange(file, (0, file), None)


def broken(file: str) -> FileChange:
    return FileChange(file, (0, file), (BROKEN,))


def chosen(files: ManifestSet) -> dict[str, str]:
    """UID to the file that it comes from."""
    return {uid: entry.file for uid, entry in files.entries.items()}


def names(files: ManifestSet) -> set[tuple[str, str]]:
    return {(entry.pod.name, entry.file) for entry in files.entries.values()}


def expected(files: Mapping[FileOrder, FileChange]) -> dict[str, str]:
    """The pods that count of files that were all good, read one after another."""
    named: set[str] = set()
    found: dict[str, str] = {}
    for order in sorted(files):
        change = files[order]
        for one in pods_from(change.documents or (), OPTIONS).pods:
            if one.key not in named and one.uid not in found:
                named.add(one.key)
                found[one.uid] = change.file
    return found


CONTENTS = st.lists(
    st.tuples(st.sampled_from("pqr"), st.sampled_from(["", "u", "v", "w"])),
    min_size=1,
    max_size=3,
    unique_by=(lambda one: one[0], lambda one: one[1] or one[0]),
)
MOVES = st.lists(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.one_of(CONTENTS, CONTENTS, st.sampled_from([0, 1]))),
        min_size=1,
        max_size=3,
        unique_by=lambda one: one[0],
    ),
    max_size=8,
)


@settings(max_examples=400)
@given(MOVES)
def test_the_first_file_counts_whatever_came_before(
    moves: list[list[tuple[str, Pods | int]]],
) -> None:
    files = ManifestSet(OPTIONS)
    good: dict[FileOrder, FileChange] = {}
    for move in moves:
        changes = []
        for file, content in move:
            if content == 0:
                good.pop((0, file), None)
                changes.append(gone(file))
            elif isinstance(content, list):
                change = said(file, *(pod(*one) for one in content))
                good[0, file] = change
                changes.append(change)
            else:
                changes.append(broken(file))
        before = dict(files.entries)
        touched = files.apply(changes)
        assert chosen(files) == expected(good)
        assert touched == {
            uid
            for uid in before.keys() | files.entries
            if before.get(uid) != files.entries.get(uid)
        }
        losers = sum(len(pods_from(c.documents or (), OPTIONS).pods) for c in good.values())
        told = [row for row in files.rows if "metadata." in row.where]
        assert len(told) == losers - len(files.entries)


def test_a_fault_keeps_what_the_file_said_and_says_so() -> None:
    files = ManifestSet(OPTIONS)
    files.apply([said("a", pod("web")), said("b", pod("db"))])
    assert files.apply([broken("a")]) == set()
    assert names(files) == {("web", "a"), ("db", "b")}
    (row,) = files.rows
    assert (row.severity, row.where, row.message) == ("error", "f", "broken YAML")
    assert row.hint == "mend it; its pods keep running unchanged"
    assert files.apply([said("a", pod("web"))]) == set()
    assert files.rows == ()


def test_a_fault_rejects_the_edit_of_its_pods() -> None:
    files = ManifestSet(OPTIONS)
    files.apply([said("a", pod("web"), pod("db")), said("b", pod("other"))])
    assert files.rejected_edits() == {}
    where = files.entries[next(iter(files.entries))].pod.where
    own = BadInput("wrong unit", where=f"{where}: spec.containers[0]")
    files.apply([FileChange("a", (0, "a"), (BROKEN, own))])
    first, second = files.rejected_edits().values()
    assert first == f"{where}: spec.containers[0]: wrong unit"
    assert second == "f: broken YAML"
    files.apply([said("a", pod("web"), pod("db"))])
    assert files.rejected_edits() == {}


def test_the_rows_of_a_file_are_in_its_order() -> None:
    """Whatever order they came up in."""
    files = ManifestSet(OPTIONS)
    files.apply([said("c", pod("p"), pod("r"))])
    files.apply([said("a", pod("r"))])
    files.apply([said("b", pod("p"))])
    assert [row.where for row in files.rows] == [
        f"c: Pod default/{name}: metadata.name" for name in "pr"
    ]


def test_a_fault_says_nothing_of_pods_that_another_file_has() -> None:
    files = ManifestSet(OPTIONS)
    files.apply([said("b", pod("web"), pod("db")), said("a", pod("web"))])
    files.apply([broken("b")])
    web, db = (next(uid for uid, one in files.entries.items() if one.pod.name == name) for name in ("web", "db"))  # fmt: skip
    assert files.rejected_edits() == {db: "f: broken YAML"}
    files.apply([gone("a")])
    assert set(files.rejected_edits()) == {web, db}


def test_a_new_file_with_a_fault_gives_a_row_alone() -> None:
    files = ManifestSet(OPTIONS)
    assert files.apply([broken("a")]) == set()
    assert files.entries == {}
    assert [row.hint for row in files.rows] == ["mend it"]
    files.apply([gone("a")])
    assert files.rows == ()


def test_one_fault_in_a_file_is_a_fault_of_all_of_it() -> None:
    files = ManifestSet(OPTIONS)
    files.apply([said("a", pod("web"), pod("db"))])
    two = said("a", pod("other"), pod("x" * 300))
    assert files.apply([two]) == set()
    assert names(files) == {("web", "a"), ("db", "a")}


def test_faults_of_a_file_are_counted_after_some() -> None:
    files = ManifestSet(OPTIONS)
    faults = tuple(BadInput("wrong", where=str(at)) for at in range(FAULTS_TOLD + 5))
    files.apply([FileChange("a", (0, "a"), faults)])
    assert [row.message for row in files.rows[FAULTS_TOLD:]] == ["5 more faults"]


def test_the_second_file_counts_when_the_first_goes() -> None:
    files = ManifestSet(OPTIONS)
    files.apply([said("b", pod("web", "two")), said("c", pod("db"))])
    assert files.apply([said("a", pod("web", "one"))]) == {"one", "two"}
    assert names(files) == {("web", "a"), ("db", "c")}
    (row,) = files.rows
    assert row.where == "b: Pod default/web: metadata.name"
    assert row.message == "default/web is also in a, which takes precedence"
    assert files.apply([gone("a")]) == {"one", "two"}
    assert names(files) == {("web", "b"), ("db", "c")}
    assert files.rows == ()


def test_a_pod_that_moves_to_another_file_is_one_change() -> None:
    files = ManifestSet(OPTIONS)
    files.apply([said("a", pod("web"))])
    (uid,) = files.entries
    assert files.apply([gone("a"), said("b", pod("web"))]) == {uid}
    assert chosen(files) == {uid: "b"}


def test_a_uid_that_two_pods_have_is_the_first_ones() -> None:
    files = ManifestSet(OPTIONS)
    files.apply([said("a", pod("web", "same")), said("b", pod("db", "same"))])
    (row,) = files.rows
    assert row.where == "b: Pod default/db: metadata.uid"
    assert row.message == "same is also the UID of default/web, in a"


@given(st.permutations(["a", "b", "c"]), st.sampled_from(["web", "db", "cache"]))
def test_a_uid_stays_with_the_pod_that_runs(order: list[str], name: str) -> None:
    """Whatever file comes when: the newcomers are refused, and told so."""
    running = {"same": f"default/{name}"}
    files = ManifestSet(OPTIONS, lambda uid: running.get(uid, ""))
    names = {"a": "web", "b": "db", "c": "cache"}
    for file in order:
        files.apply([said(file, pod(names[file], "same"))])
    assert [entry.pod.name for entry in files.entries.values()] == [name]
    rest = {file: other for file, other in names.items() if other != name}
    assert [row.where for row in files.rows] == [
        f"{file}: Pod default/{other}: metadata.uid" for file, other in rest.items()
    ]
    assert all(f"the UID of default/{name}" in row.message for row in files.rows)
    running.clear()
    files.apply([gone(next(file for file in names if names[file] == name))])
    assert [entry.file for entry in files.entries.values()] == [min(rest)]


def test_a_running_pod_keeps_its_uid_where_its_file_is_renamed_or_it_is() -> None:
    files = ManifestSet(OPTIONS, lambda uid: "default/web")
    files.apply([said("b", pod("web", "same"))])
    files.apply([gone("b"), said("a", pod("db", "same")), said("c", pod("web", "same"))])
    assert chosen(files) == {"same": "c"}
    files.apply([said("c", pod("other", "same"))])
    assert chosen(files) == {"same": "a"}, "no file has its name any more: the first one counts"


def test_what_is_read_again_unchanged_touches_nothing() -> None:
    files = ManifestSet(OPTIONS)
    files.apply([said("a", pod("web"), pod("db"))])
    web, db = files.entries.values()
    changed = pod("db", labels={"a": "b"})
    assert files.apply([said("a", pod("web"), changed)]) == {db.pod.uid}
    assert files.entries[web.pod.uid] is web


def test_a_template_counts_while_its_pods_are_in_no_file() -> None:
    files = ManifestSet(OPTIONS)
    files.apply([said("deployment", template("Deployment", "web"))])
    assert names(files) == {("web", "deployment")}
    files.apply([said("set", template("ReplicaSet", "web-1", ("Deployment", "web")))])
    assert names(files) == {("web", "deployment")}
    files.apply([said("pod", owned("web-1-a", "ReplicaSet", "web-1"))])
    assert names(files) == {("web-1-a", "pod")}
    assert sorted(row.message for row in files.rows) == [
        "left out: Deployment web owns it and is in the input",
        "left out: its pods are in the input",
    ]
    files.apply([gone("pod")])
    assert names(files) == {("web", "deployment")}
    files.apply([gone("deployment")])
    assert names(files) == {("web-1", "set")}
    assert files.rows == ()


def test_documents_are_kept_for_the_runtime() -> None:
    files = ManifestSet(Options())
    files.apply([said("a", pod("web", labels={"a": "b"}))])
    (entry,) = files.entries.values()
    assert entry.document["metadata"]["labels"] == {"a": "b"}
    assert entry.document["spec"] == {"containers": [{"name": "c"}]}


def test_files_that_a_person_named_are_told_apart() -> None:
    files = ManifestSet(OPTIONS)
    named = FileChange("a", (0, "a"), (BROKEN,), given=True)
    files.apply([named, FileChange("b", (1, "b"), (BROKEN,))])
    assert files.faults == [BROKEN]
    assert files.sources == 0
    files.apply([msgspec.structs.replace(said("a", pod("web")), given=True)])
    assert (files.faults, files.sources) == ([], 1)


def runtime_class(name: str = "kata", memory: str = "64Mi", **fields: object) -> dict[str, object]:
    overhead = {"podFixed": {"memory": memory}}
    head = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
    return {**head, "handler": name, "overhead": overhead, **fields}


def kata(name: str, **spec: object) -> dict[str, object]:
    made = pod(name)
    inner = {"containers": [{"name": "c"}], "runtimeClassName": "kata", **spec}
    return {**made, "spec": inner}


def overheads(files: ManifestSet) -> dict[str, str]:
    return {
        entry.pod.name: str(entry.pod.overhead.get("memory", "none"))
        for entry in files.entries.values()
    }


def test_a_runtime_class_of_another_file_reaches_the_pods() -> None:
    files = ManifestSet(OPTIONS)
    touched = files.apply([said("a", kata("web"), pod("plain"))])
    assert (len(touched), overheads(files)) == (2, {"web": "none", "plain": "none"})
    assert len(files.apply([said("b", runtime_class())])) == 1
    assert overheads(files) == {"web": "64Mi", "plain": "none"}
    assert len(files.apply([said("b", runtime_class(memory="96Mi"))])) == 1
    assert files.apply([said("b", runtime_class(memory="96Mi"))]) == set()
    assert overheads(files)["web"] == "96Mi"
    assert files.rows == ()
    assert len(files.apply([gone("b")])) == 1
    assert overheads(files)["web"] == "none"
    together = ManifestSet(OPTIONS)
    together.apply([said("z", runtime_class()), said("y", kata("web"))])
    assert overheads(together) == {"web": "64Mi"}


def test_the_runtime_class_of_the_first_file_counts_and_one_that_nobody_names_is_told() -> None:
    files = ManifestSet(OPTIONS)
    files.apply([said("b", runtime_class()), said("c", kata("web")), said("d", runtime_class("x"))])
    (row,) = files.rows
    assert (row.severity, row.message) == ("info", "RuntimeClass skipped: no pod names it")
    files.apply([said("a", runtime_class(memory="8Mi")), gone("d")])
    assert overheads(files) == {"web": "8Mi"}
    (row,) = files.rows
    assert "takes precedence" in row.message
    assert row.where.startswith("b: ")
    files.apply([gone("a")])
    assert overheads(files) == {"web": "64Mi"}


def test_a_pod_that_admission_rejects_stays_as_it_was() -> None:
    files = ManifestSet(OPTIONS)
    wrong = kata("web", overhead={"memory": "1Mi"})
    files.apply([said("a", wrong), said("b", runtime_class())])
    assert overheads(files) == {}
    assert "is not the overhead of RuntimeClass kata" in files.rows[0].message
    files.apply([said("a", kata("web"))])
    assert (overheads(files), files.rows) == ({"web": "64Mi"}, ())
    assert files.apply([said("a", wrong)]) == set()
    assert overheads(files) == {"web": "64Mi"}
    assert "the pod keeps running unchanged" in files.rows[0].hint
    files.apply([said("a", kata("web"))])
    assert files.rows == ()
    assert len(files.apply([gone("a")])) == 1
    assert overheads(files) == {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.lists(
                st.sampled_from(
                    [kata("p"), kata("q"), pod("r"), runtime_class(), runtime_class(memory="1Mi")]
                ),
                max_size=3,
                unique_by=str,
            ),
        ),
        max_size=6,
    )
)
@settings(max_examples=60, deadline=None)
def test_the_order_of_edits_does_not_decide_about_overhead(edits: list[tuple[str, list]]) -> None:
    files, last = ManifestSet(OPTIONS), {}
    for name, values in edits:
        files.apply([said(name, *values)])
        last[name] = values
    fresh = ManifestSet(OPTIONS)
    fresh.apply([said(name, *values) for name, values in last.items()])
    assert overheads(files) == overheads(fresh)
    assert files.rows == fresh.rows
