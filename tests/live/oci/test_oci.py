"""Containers of an OCI runtime in the keeper's hands: made, confined, ended, found again, gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qoslet.core.workload.process_spec import VolumeMount
from tests.live.oci.bundles import PATIENCE, Bench, found, launch, renamed

pytestmark = [pytest.mark.live, pytest.mark.timeout(4 * PATIENCE)]


@pytest.fixture(params=["runc", "crun"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    runtime = found(request.param)
    if isinstance(runtime, str):
        pytest.skip(runtime)
    made = Bench(tmp_path, runtime)
    try:
        yield made
        made.end()
    finally:
        made.clean()


def test_what_the_image_says_is_run_in_its_own_group(bench: Bench, record_property) -> None:
    bench.begin("u1", launch("app"))
    state = bench.running()["u1/app"]
    bench.printed("u1", "from the image")
    assert state.pid is not None
    compared = 0
    for tree in bench.tree.layout.trees:
        assert str(state.pid) in tree.read(bench.path("u1"), "cgroup.procs").split()
        compared += 1
    assert Path(f"/proc/{state.pid}/oom_score_adj").read_text() == "500\n"
    assert bench.tree.members(f"{bench.root}/podu1") == set(), "only containers hold processes"
    record_property("compared", compared + 1)
    bench.runtime.stop("u1", 0)
    over = bench.over()["u1/app"]
    assert (over.exit_code, over.running) == (137, False)
    assert bench.tree.identity(bench.path("u1")) is None, "the runtime has removed the group"


def test_exit_codes_output_and_what_is_written_stays_with_the_container(bench: Bench) -> None:
    line = "cat /srv/page; echo no >&2; echo mine > /srv/page; test -e /gone || exit 7"
    bench.begin("u1", launch("app", line))
    state = bench.over()["u1/app"]
    assert (state.exit_code, state.reason) == (7, "Error")
    assert sorted(bench.log("u1")) == ["no", "of the image"]
    bench.begin("u2", launch("app", "cat /srv/page"))
    bench.over()
    assert bench.log("u2") == ["of the image"]


def test_who_runs_and_with_what(bench: Bench) -> None:
    line = "id; echo $GREETING; cat /proc/self/status; ls -ld /srv; (echo x > /srv/x) 2> /dev/null; echo $?"
    asked: dict[str, Any] = {
        "uid": 101,
        "gid": 7,
        "groups": (5,),
        "drop": ("ALL",),
        "add": ("NET_BIND_SERVICE",),
    }
    env = (("GREETING", "hello"),)
    one = launch("app", line, env=env, no_new_privileges=True, **asked)
    two = launch("two", "touch /srv/x || echo read only", read_only_root=True)
    bench.begin("u1", one, two)
    bench.over()
    said = bench.log("u1")
    assert said[0] == "uid=101(web) gid=7 groups=5,103(more)"
    assert said[1] == "hello"
    status = dict(row.split(":\t", 1) for row in said if ":\t" in row)
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapBnd"], 16) == 1 << 10
    assert said[-1] == "1", "nobody else's directory is written"
    assert "read only" in bench.log("u1", "two")


def test_containers_of_a_pod_share_names_and_memory_and_nothing_else(bench: Bench) -> None:
    one = launch("one", "hostname; echo seen > /dev/shm/x; touch /tmp/mine; exec sleep 600")
    two = launch(
        "two",
        "while ! [ -s /dev/shm/x ]; do sleep 0.1; done; cat /dev/shm/x; ls /tmp; ip link; hostname; "
        "exec sleep 600",
    )
    bench.begin("u1", one, two)
    states = bench.running()
    bench.printed("u1", "u1", "two")
    pids = [state.pid for state in states.values()]

    def spaces(kind: str) -> set[str]:
        return {os.readlink(f"/proc/{pid}/ns/{kind}") for pid in pids}

    for kind in ("net", "ipc", "uts"):
        assert len(spaces(kind)) == 1, kind
        assert spaces(kind) != {os.readlink(f"/proc/self/ns/{kind}")}
    for kind in ("pid", "mnt"):
        assert len(spaces(kind)) == 2, kind
    own = len(spaces("cgroup")) == 2
    assert own == (bench.hierarchy == "v2"), "a cgroup namespace of its own on v2 only"
    said = bench.log("u1", "two")
    assert "seen" in said
    assert "mine" not in said
    assert [row for row in said if row[:2] == "1:" and "UP" in row]
    assert not [row for row in said if row[:2] == "2:" and "UP" in row]


def test_the_host_s_namespaces_where_they_are_asked_for(bench: Bench) -> None:
    one = launch("app", "exec sleep 600", privileged=True)
    bench.begin("u1", one, host_network=True, host_pid=True, host_ipc=True)
    pid = bench.running()["u1/app"].pid
    for kind in ("net", "ipc", "uts", "pid", "cgroup"):
        assert os.readlink(f"/proc/{pid}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}"), kind


def test_volumes_and_places_inside_them(bench: Bench) -> None:
    here = VolumeMount("data", "/data")
    part = VolumeMount("data", "/part", read_only=True, sub_path="a/b")
    one = launch(
        "app", "echo x > /data/a/b/f; cat /part/f; touch /part/no; echo $?", mounts=(here, part)
    )
    bench.begin("u1", one)
    bench.over()
    assert bench.log("u1")[0] == "x"
    assert "1" in bench.log("u1")


def test_a_place_in_a_volume_that_leads_out_is_refused(bench: Bench) -> None:
    here = VolumeMount("data", "/data")
    part = VolumeMount("data", "/part", sub_path="out/etc")
    bench.begin(
        "u1",
        launch("app", "ln -s / /data/out", mounts=(here,)),
    )
    bench.over()
    source = bench.volumes.provide("u2", bench.spec("u2").volumes)["data"]
    os.symlink("/", f"{source}/out")
    bench.begin("u2", launch("app", "ls /part", mounts=(part,)))
    state = bench.until(lambda s: s["u2/app"].exit_code is not None)["u2/app"]
    assert state.exit_code == 126
    assert "out" in state.reason or "directory" in state.reason


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ({"command": ("nope",)}, 127, "nope"),
        ({"command": ("/srv/page",)}, 126, "page"),
        ({"image": "NO SUCH"}, 126, "is not an image name"),
        ({"non_root": True}, 126, "would run as root"),
        ({"cwd": "/nope/../../x\0"}, 126, "NUL"),
    ],
    ids=["absent", "not-executable", "no-name", "root", "cwd"],
)
def test_what_cannot_be_started_is_told_and_leaves_nothing(
    bench: Bench, what: dict[str, Any], code: int, said: str
) -> None:
    bench.begin("u1", launch("app", "true", **what))
    state = bench.until(lambda s: s["u1/app"].exit_code is not None and not s["u1/app"].running)
    assert state["u1/app"].exit_code == code, state
    assert said in state["u1/app"].reason
    assert bench.tree.identity(bench.path("u1")) is None
    assert not list(bench.folder.glob("oci/*/u1-app"))


def test_an_image_that_is_not_there_is_told_and_ends_nothing(bench: Bench) -> None:
    bench.begin("u1", launch("app", "true", image="nowhere:1"))
    said = "image docker.io/library/nowhere:1 is not in"
    state = bench.until(lambda s: said in s["u1/app"].reason)["u1/app"]
    assert (state.exit_code, state.running, state.restarts) == (None, False, 0)


def test_memory_that_is_not_there_ends_it_as_oom_and_it_is_begun_again(bench: Bench) -> None:
    eats = "x=$(head -c 200000000 /dev/zero | tr '\\0' x); exec sleep 600"
    bench.begin("u1", launch("app", eats, restart="Always"), limit=16 << 20)
    state = bench.until(lambda s: s["u1/app"].oom_killed and s["u1/app"].restarts >= 1)["u1/app"]
    assert state.oom_killed


def test_restarts_by_policy_begin_with_what_the_image_has(bench: Bench) -> None:
    line = "cat /srv/page; echo changed > /srv/page; exit 1"
    bench.begin("u1", launch("app", line, restart="Always"), launch("two", "exec sleep 600"))
    state = bench.until(lambda s: s["u1/app"].restarts >= 2)
    assert state["u1/two"].restarts == 0
    assert bench.log("u1", run=1) == ["of the image"]


@pytest.mark.parametrize(("stop", "code"), [("SIGTERM", 15), ("SIGUSR1", 10)])
def test_it_is_asked_to_end_and_killed_after_its_time(bench: Bench, stop: str, code: int) -> None:
    name = stop.removeprefix("SIG")
    polite = f"trap 'exit {code}' {name}; echo up; while :; do sleep 0.05; done"
    deaf = "trap '' TERM USR1; echo up; while :; do sleep 0.05; done"
    bench.begin("u1", launch("polite", polite, stop=stop), launch("deaf", deaf, stop=stop))
    bench.running()
    for one in ("polite", "deaf"):
        bench.printed("u1", "up", one)
    begun = time.monotonic()
    bench.runtime.stop("u1", 2.0)
    over = bench.over()
    assert time.monotonic() - begun >= 1.9
    assert (over["u1/polite"].exit_code, over["u1/deaf"].exit_code) == (code, 137)


def test_the_image_s_own_signal_ends_it(tmp_path: Path) -> None:
    runtime = found("runc")
    if isinstance(runtime, str):
        pytest.skip(runtime)
    bench = Bench(
        tmp_path, runtime, StopSignal="SIGUSR2", User="web", WorkingDir="/srv", Env=["A=1", "B=2"]
    )
    try:
        line = "trap 'exit 12' USR2; id; echo $A $B; ls; echo up; while :; do sleep 0.05; done"
        bench.begin("u1", launch("app", line, env=(("B", "3"),)))
        bench.running()
        bench.printed("u1", "up")
        assert bench.log("u1")[:3] == ["uid=101(web) gid=102(web) groups=103(more)", "1 3", "page"]
        bench.runtime.stop("u1", 5)
        assert bench.over()["u1/app"].exit_code == 12
        bench.end()
    finally:
        bench.clean()


def test_keepers_that_are_killed_lose_no_container(bench: Bench) -> None:
    for number in range(3):
        bench.begin(
            f"u{number}", launch("app", "i=0; while :; do echo $i; i=$((i+1)); sleep 0.05; done")
        )
    before = bench.running()
    for _ in range(3):
        old = bench.runtime.pid
        os.kill(old, signal.SIGKILL)
        bench.until(lambda s: bench.runtime.pid not in (0, old))  # noqa: B023
    after = bench.running()
    assert {key: (one.pid, one.restarts) for key, one in after.items()} == {
        key: (one.pid, 0) for key, one in before.items()
    }
    seen = len(bench.log("u0"))
    bench.until(lambda s: len(bench.log("u0")) > seen + 3)
    # the one who came later gives the pod's next container the same names
    assert bench.runtime.list_pods().keys() == {"u0", "u1", "u2"}
    bench.runtime.stop("u0", 0)
    bench.until(lambda s: not s["u0/app"].running)


def test_a_keeper_killed_while_containers_are_made_leaves_no_second_one(bench: Bench) -> None:
    bench.begin("first", launch("app", "exec sleep 600"))
    bench.running()
    for number in range(8):
        old = bench.runtime.pid
        uid = f"u{number}"
        bench.begin(uid, launch("app", "echo up; exec sleep 600", restart="Always"))
        time.sleep(0.012 * number)
        os.kill(old, signal.SIGKILL)
        bench.until(lambda s: bench.runtime.pid not in (0, old))  # noqa: B023
    states = bench.running()
    for number in range(8):
        members = bench.tree.members(bench.path(f"u{number}"))
        assert states[f"u{number}/app"].pid in members
        assert len(members) == 1, "one process, made once"


def test_an_agent_that_comes_later_finds_them(bench: Bench) -> None:
    bench.begin("u1", launch("app", "exec sleep 600"))
    before = bench.running()
    bench.runtime = bench.client()
    assert bench.running() == before


def test_nothing_is_left_after_many_pods(bench: Bench) -> None:
    for number in range(10):
        bench.begin(f"u{number}", launch("a", "exec sleep 600"), launch("b", "exit 3"))
    bench.until(lambda s: all(s[f"u{n}/b"].exit_code == 3 and s[f"u{n}/a"].pid for n in range(10)))
    for number in range(10):
        bench.runtime.stop(f"u{number}", 0)
    bench.over()
    for number in range(10):
        bench.remove(f"u{number}")
    bench.until(lambda s: not list(bench.storage.glob("containers/*/*")))
    assert len(list(bench.storage.glob("images/sha256-*/rootfs"))) == 1


def test_a_runtime_that_fails_is_told_in_its_own_words(bench: Bench, tmp_path: Path) -> None:
    fake = tmp_path / "broken"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o755)
    spec = bench.spec("u1", launch("app", "true"))
    bench.start(renamed(spec, replace(bench.engine, program=str(fake))))
    state = bench.until(lambda s: s["u1/app"].exit_code is not None)["u1/app"]
    said = "exited with 3 and logged no error; what it printed is in the container's log"
    assert (state.exit_code, state.reason) == (126, f"{bench.engine.name} {said}")
