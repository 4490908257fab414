"""What undoes a tree: groups go, values come back, and one thing in the way stops all of it."""

from __future__ import annotations

import pytest

from qoslet.core.cgroup.observed import Observed, ObservedCgroup
from qoslet.core.reconcile.file_writers import level_of, resets_at
from qoslet.core.reconcile.journal import (
    CONTROL,
    Adopted,
    Created,
    CreateIntent,
    Entry,
    JournalState,
    ReadBack,
    Removed,
    Set,
    Verified,
)
from qoslet.core.reconcile.restore import RestorePlan, TreeState, restore

ROOT = "/q"


def ledger(*entries: Entry) -> JournalState:
    made = JournalState()
    made.add(entries)
    return made


def group(
    path: str, identity: int = 1, *pids: int, memory: int = 0, **values: str
) -> ObservedCgroup:
    files = {name.replace("_", ".", 1): value for name, value in values.items()}
    return ObservedCgroup(path, identity, values=files, pids=pids, memory=memory)


def undo(
    book: JournalState,
    *tree: ObservedCgroup,
    others: tuple[ObservedCgroup, ...] = (),
    beside: dict[str, list[ObservedCgroup]] | None = None,
    force: bool = False,
    by_file: bool = False,
    hierarchy: str = "v2",
) -> RestorePlan:
    now = TreeState(
        ROOT,
        Observed(0.0, {one.path: one for one in tree}),
        {one.path: one for one in others},
        beside or {},
    )
    return restore(
        book, now, hierarchy="v1" if hierarchy == "v1" else "v2", force=force, by_file=by_file
    )


def said(what: RestorePlan) -> list[str]:
    return [step.describe() for step in what.steps]


def test_groups_go_children_first() -> None:
    book = ledger(Created("/q", 1), Created("/q/a", 2), Created("/q/a/b", 3))
    what = undo(book, group("/q", 1), group("/q/a", 2), group("/q/a/b", 3))
    assert said(what) == ["remove /q/a/b", "remove /q/a", "remove /q"]
    assert not what.refusals


def test_nothing_stands_nothing_is_done() -> None:
    assert undo(ledger(Created("/q", 1), Set("/q", "pids.max", None, "5"))) == RestorePlan(())


def test_a_value_of_before_comes_back_and_is_not_restored_twice() -> None:
    book = ledger(Adopted("/sys", 4), Set("/sys", "cpu.weight", "77", "5"))
    what = undo(book, others=(group("/sys", 4, cpu_weight="5"),))
    assert said(what) == ["set /sys/cpu.weight = 77"]
    assert said(undo(book, others=(group("/sys", 4, cpu_weight="77"),))) == []


def test_the_weight_of_an_idle_group_comes_back_with_its_idleness() -> None:
    book = ledger(
        Adopted("/kp", 4), Set("/kp", "cpu.idle", "1", "0"), Set("/kp", "cpu.weight", "0", "35")
    )
    what = undo(book, others=(group("/kp", 4, cpu_idle="0", cpu_weight="35"),))
    assert said(what) == ["set /kp/cpu.idle = 1"]
    shares = ledger(
        Adopted("/kp", 4), Set("/kp", "cpu.idle", "1", "0"), Set("/kp", "cpu.shares", "3", "1024")
    )
    now = group("/kp", 4, cpu_idle="0", cpu_shares="1024")
    assert said(undo(shares, others=(now,), hierarchy="v1")) == [
        "set /kp/cpu.shares = 3",
        "set /kp/cpu.idle = 1",
    ]


@pytest.mark.parametrize("found", ["77", "5", "6", "8"])
def test_any_value_that_may_be_ours_counts_until_it_was_read_back(found: str) -> None:
    book = ledger(
        Adopted("/sys", 4), *(Set("/sys", "cpu.weight", "77", v) for v in ("5", "6", "8"))
    )
    assert not undo(book, others=(group("/sys", 4, cpu_weight=found),)).refusals
    book.add([Verified()])
    settled = undo(book, others=(group("/sys", 4, cpu_weight=found),))
    assert bool(settled.refusals) is (found in ("5", "6"))


def test_the_kernels_own_form_of_a_value_is_ours() -> None:
    key = ("/sys", "cpu.max")
    book = ledger(
        Adopted("/sys", 4), Set(*key, "max 100000", "12500 50000"), ReadBack(*key, "13000 50000")
    )
    group_ = ObservedCgroup("/sys", 4, values={"cpu.max": "13000 50000"})
    assert said(undo(book, others=(group_,))) == ["set /sys/cpu.max = max 100000"]
    pages = ledger(Adopted("/sys", 4), Set("/sys", "memory.max", "max", "10000"))
    assert not undo(pages, others=(group("/sys", 4, memory_max="8192"),)).refusals


def test_somebody_elses_value_stops_everything_and_says_who_resets_it() -> None:
    book = ledger(Created("/q", 1), Adopted("/sys", 4), Set("/sys", "cpu.weight", "77", "5"))
    other = group("/sys", 4, cpu_weight="9")
    what = undo(book, group("/q", 1), others=(other,))
    (row,) = what.refusals
    assert (row.ours, row.found, row.before) == ("5", "9", "77")
    assert row.message.endswith("kubelet resets it at its start")
    forced = undo(book, group("/q", 1), others=(other,), force=True)
    assert said(forced) == ["remove /q"]
    assert forced.left == (row,)


def test_a_value_changed_in_a_group_of_ours_stops_everything() -> None:
    book = ledger(Created("/q", 1), Set("/q", "pids.max", None, "5"))
    (row,) = undo(book, group("/q", 1, pids_max="6")).refusals
    assert "only a qoslet run or apply that still plans it resets it" in row.message
    assert said(undo(book, group("/q", 1, pids_max="6"), force=True)) == ["remove /q"]


@pytest.mark.parametrize("force", [False, True])
def test_processes_and_groups_of_others_stop_everything(force: bool) -> None:
    book = ledger(Created("/q", 1), Created("/q/a", 2))
    busy = undo(book, group("/q", 1), group("/q/a", 2, 77, 78), force=force)
    assert [(row.kind, row.pids) for row in busy.refusals] == [("process", (77, 78))]
    foreign = undo(book, group("/q", 1), group("/q/a", 9), group("/q/a/x", 8), force=force)
    assert [(row.kind, row.path) for row in foreign.refusals] == [("foreign", "/q/a")]


def test_groups_beside_ours_in_a_root_that_was_given_are_left_alone() -> None:
    book = ledger(Adopted("/q", 1), Created("/q/kubepods", 2))
    what = undo(book, group("/q", 1), group("/q/kubepods", 2), group("/q/main", 3, 44))
    assert said(what) == ["remove /q/kubepods"]
    assert not what.refusals


@pytest.mark.parametrize("entries", [[CreateIntent("/q")], [Created("/q", 1), Removed("/q")]])
def test_a_group_on_its_way_is_ours(entries: list[Entry]) -> None:
    assert said(undo(ledger(*entries), group("/q", 1))) == ["remove /q"]


def test_a_group_of_others_that_was_made_anew_has_nothing_of_ours() -> None:
    book = ledger(Adopted("/sys", 4), Set("/sys", "cpu.weight", "77", "5"))
    anew = undo(book, others=(group("/sys", 5, cpu_weight="5"),))
    assert (anew.steps, anew.refusals) == ((), ())
    assert anew.notes == ("/sys was recreated meanwhile: nothing to restore in it",)
    assert undo(book).notes == ("/sys is gone meanwhile: nothing to restore in it",)


def test_a_limit_below_what_is_in_use_is_not_restored() -> None:
    book = ledger(Adopted("/sys", 4), Set("/sys", "memory.max", "4096", "max"))
    (row,) = undo(book, others=(group("/sys", 4, memory=1 << 20, memory_max="max"),)).refusals
    assert row.kind == "held"
    assert "1048576 bytes are in use" in row.message


CONTROLS = ledger(
    Adopted("/", 1), Set("/", CONTROL, "cpu memory", "cpu memory cpuset pids"), Created("/q", 2)
)


def control(path: str, identity: int, text: str, **values: str) -> ObservedCgroup:
    files = {name.replace("_", ".", 1): value for name, value in values.items()}
    return ObservedCgroup(path, identity, values={CONTROL: text, **files})


def test_controllers_that_nobody_else_uses_are_switched_off_again() -> None:
    top = control("/", 1, "cpuset cpu memory pids")
    alone = undo(CONTROLS, group("/q", 2), others=(top,))
    assert said(alone) == ["remove /q", f"set //{CONTROL} = -cpuset -pids"]
    fresh = control("/s", 3, "", cpuset_cpus="", pids_max="max")
    assert undo(CONTROLS, group("/q", 2), others=(top,), beside={"/": [fresh]}) == alone
    using = [control("/s", 3, "", pids_max="9"), control("/t", 4, "cpuset")]
    used = undo(CONTROLS, group("/q", 2), others=(top,), beside={"/": using})
    assert said(used) == ["remove /q"]
    assert used.notes == ("/: cpuset, pids left enabled: other cgroups below use it",)


@pytest.mark.parametrize("identity", [3, 7])
def test_what_the_kernel_kept_of_a_group_uses_no_controller(identity: int) -> None:
    # of a container beside a kubelet 1.36.2: memory was disabled in its pod, and --fix enabled it again
    book = ledger(
        *(Adopted("/p", 1), Set("/p", CONTROL, "cpu", "cpu memory")),
        *(Adopted("/p/c", 3), Set("/p/c", "memory.max", "max", "4096")),
    )
    child = control("/p/c", identity, "", memory_max="4096", **{"memory_oom.group": "1"})
    top = control("/p", 1, "cpu memory")
    done = undo(book, others=(top, child), beside={"/p": [child]})
    is_switched_off = f"set /p/{CONTROL} = -memory" in said(done)
    # another one of that name was made since
    assert is_switched_off == (identity == 3)


def test_a_group_that_gets_its_value_of_before_uses_no_controller() -> None:
    top, reserved = control("/", 1, "cpu memory pids"), control("/s", 3, "", pids_max="9")
    told = ledger(
        Adopted("/", 1),
        Set("/", CONTROL, "cpu memory", "cpu memory pids"),
        Adopted("/s", 3),
        Set("/s", "pids.max", "max", "9"),
    )
    done = undo(told, others=(top, reserved), beside={"/": [reserved]})
    assert said(done) == ["set /s/pids.max = max", f"set //{CONTROL} = -pids"]


def test_a_file_that_came_with_its_controller_gets_what_a_new_group_has() -> None:
    top = control("/", 1, "cpu memory hugetlb")
    reserved = control("/s", 3, "", cpu_weight="20", **{"hugetlb_2MB.max": "0"})
    told = ledger(
        Adopted("/", 1),
        Set("/", CONTROL, "memory", "memory cpu hugetlb"),
        Adopted("/s", 3),
        Set("/s", "cpu.weight", None, "20"),
        Set("/s", "hugetlb.2MB.max", None, "0"),
    )
    done = undo(told, others=(top, reserved), beside={"/": [reserved]})
    assert done.notes == ()
    assert said(done) == [
        "set /s/cpu.weight = 100",
        "set /s/hugetlb.2MB.max = max",
        f"set //{CONTROL} = -cpu -hugetlb",
    ]


def test_controllers_are_switched_off_from_below() -> None:
    top, above, reserved = (
        control("/", 1, "cpu"),
        control("/a", 2, "cpu"),
        control("/a/s", 3, "", cpu_weight="20"),
    )
    told = ledger(
        Adopted("/", 1),
        Set("/", CONTROL, "", "cpu"),
        Adopted("/a", 2),
        Set("/a", CONTROL, "", "cpu"),
        Adopted("/a/s", 3),
        Set("/a/s", "cpu.weight", None, "20"),
    )
    beside = {"/": [above], "/a": [reserved]}
    done = undo(told, others=(top, above, reserved), beside=beside)
    assert said(done) == [
        "set /a/s/cpu.weight = 100",
        f"set /a/{CONTROL} = -cpu",
        f"set //{CONTROL} = -cpu",
    ]


def test_controllers_are_switched_off_after_a_release_that_was_killed() -> None:
    told = ledger(
        Adopted("/", 1),
        Set("/", CONTROL, "cpu memory", "cpu memory pids"),
        Verified(),
        Set("/", CONTROL, "cpu memory pids", "-pids"),
    )
    done = undo(told, others=(control("/", 1, "cpu memory pids"),))
    assert said(done) == [f"set //{CONTROL} = -pids"]


def test_what_somebody_switched_off_since_stays_off() -> None:
    top = control("/", 1, "cpu memory pids")
    assert said(undo(CONTROLS, others=(top,))) == [f"set //{CONTROL} = -pids"]


@pytest.mark.parametrize(
    ("path", "file", "who"),
    [
        ("/k.slice/kubepods.slice", "cpu.weight", "kubelet resets it at its start"),
        ("/q/kubepods", "hugetlb.2MB.max", "kubelet resets it with each QoS update"),
        ("/q/kubepods/burstable", "cpu.weight", "with each QoS update"),
        (
            "/q/kubepods/poda-b/c1",
            "cpuset.cpus",
            "CPU manager resets it when it changes the container's CPUs",
        ),
        ("/q/kubepods/poda-b", "cpu.weight", "kubelet resets it at an in-place resize"),
        ("/q/kubepods/poda-b", "pids.max", "nothing resets it"),
        ("/q/kubepods/poda-b", "io.max", "nothing resets it"),
        ("/system.slice", "cpu.weight", "systemd resets it at the next daemon-reload"),
    ],
)
def test_who_resets_a_file(path: str, file: str, who: str) -> None:
    root = "/k.slice" if path.startswith("/k") else ROOT
    assert who in resets_at(path, file, root, owned=False)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/q/kubepods.slice/kubepods-burstable.slice", "qos"),
        ("/q/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice", "pod"),
        ("/q/kubepods/poda-b", "pod"),
        ("/q/kubepods/poda-b/x", "container"),
        ("/q", "kubepods"),
        ("/sys", "reserved"),
    ],
)
def test_places(path: str, place: str) -> None:
    assert level_of(path, ROOT) == place


def test_in_a_kubelets_tree_each_file_is_restored_by_itself() -> None:
    book = ledger(
        Adopted("/kp", 4),
        Set("/kp", "cpu.weight", "77", "5"),
        Set("/kp", "pids.max", "max", "9"),
        Set("/kp", "memory.max", "4096", "max"),
    )
    now = group("/kp", 4, cpu_weight="50", pids_max="9", memory_max="max", memory=1 << 20)
    assert said(undo(book, others=(now,))) != []
    assert undo(book, others=(now,)).refusals
    what = undo(book, others=(now,), by_file=True)
    assert (said(what), what.refusals) == (["set /kp/pids.max = max"], ())
    assert [(row.kind, row.file) for row in what.left] == [
        ("written", "cpu.weight"),
        ("held", "memory.max"),
    ]
