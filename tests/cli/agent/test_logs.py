"""``qoslet logs``: which run of which container, how much of it, and what reaches a terminal."""

from __future__ import annotations

import os
import pty
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from qoslet.cli.main import run
from qoslet.host.containers.log_files import ContainerLogs, LogLimits, stamp
from qoslet.host.questions.http_server import Page, private
from qoslet.host.state.folder import escaped, own_state_directory
from qoslet.render.documents import encode
from tests.cli.fixtures import environment

OLD = stamp(1_000_000_000 * 10**9)


class Bench:
    """The state folder of a root of its own, with logs in it."""

    def __init__(self) -> None:
        self.root = f"/qoslet-test-{secrets.token_hex(4)}"
        self.folder = Path(own_state_directory()) / escaped(self.root)
        self.folder.mkdir(mode=0o700, parents=True)
        self.logs = ContainerLogs(str(self.folder / "logs"), LogLimits(size=500))

    def write(self, container: str, number: int, *entries: bytes, key: str = "default/web") -> None:
        file = self.logs.file(self.logs.path(key, f"u-{key[-3:]}", container, number), pytest.fail)
        for entry in entries:
            at = b"" if entry.startswith(OLD) else stamp(time.time_ns()) + b" "
            file.write(at + entry + b"\n")
        file.close()

    def command(self, *words: str) -> list[str]:
        return ["logs", *words, "--cgroup-root", self.root]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    made = Bench()
    yield made
    shutil.rmtree(made.folder)


@pytest.fixture
def shown(bench: Bench, capfdbinary) -> Callable[..., bytes]:
    def show(*words: str, code: int = 0) -> bytes:
        assert run(bench.command(*words)) == code
        out, err = capfdbinary.readouterr()
        return bytes(out if code == 0 else err)

    return show


def test_lines_of_both_streams_come_as_they_were_printed(bench: Bench, shown) -> None:
    bench.write(
        "app", 0, b"stdout F one", b"stderr F \x1b[31mtwo\xff", b"stdout P th", b"stdout F ree"
    )
    bench.write("app", 0, b"stdout P no end")
    assert shown("web") == b"one\n\x1b[31mtwo\xff\nthree\nno end\n"
    assert shown("web", "--tail", "2") == b"three\nno end\n"
    assert shown("web/app", "--tail", "0") == b""
    assert shown("web", "-c", "app", "-n", "default", "--tail", "99").count(b"\n") == 4


def test_parts_that_were_put_aside_are_shown_in_their_order(bench: Bench, shown) -> None:
    lines = [f"stdout F line {number:03}".encode() for number in range(30)]
    bench.write("app", 0, *lines)
    assert len(list((bench.folder / "logs").rglob("0.log*"))) > 2
    assert shown("web") == b"".join(line[9:] + b"\n" for line in lines)


def test_a_line_without_end_comes_in_pieces_and_costs_no_more_memory(bench: Bench, shown) -> None:
    bench.logs = ContainerLogs(str(bench.folder / "logs"), LogLimits(size=100 << 20))
    piece = b"stdout P " + b"x" * 16384
    bench.write("app", 0, b"stdout F first", *[piece] * 4000, b"stdout F end", b"stdout F last")
    assert shown("web") == b"first\n" + b"x" * (16384 * 4000) + b"end\nlast\n"
    assert shown("web", "--timestamps").count(b"Z ") == 3
    code = (
        "import sys; from qoslet.cli.main import run\n"
        "code = run(sys.argv[1:])\n"
        "sys.stdout.flush()\n"
        "status = open('/proc/self/status').read()\n"
        "print(status.split('VmHWM:')[1].split()[0], file=sys.stderr)\n"
    )
    for words in (("web", "--tail", "3"), ("web",)):
        done = subprocess.run(
            [sys.executable, "-c", code, *bench.command(*words)],
            capture_output=True,
            check=True,
            env=environment(),
        )
        assert int(done.stderr) < 64 * 1024, "KiB"
    assert shown("web", "--tail", "1") == b"last\n"
    tail = shown("web", "--tail", "2")
    assert tail.endswith(b"xend\nlast\n")
    assert (1 << 20) - 16384 <= len(tail) <= (1 << 20) + 20


def test_times_and_since(bench: Bench, shown) -> None:
    bench.write("app", 0, OLD + b" stdout F old", b"stdout F new")
    assert shown("web", "--since", "1h30m") == b"new\n"
    assert shown("web", "--timestamps").startswith(b"2001-09-09T01:46:40.000000000Z old\n20")
    assert b"not a duration" in shown("web", "--since", "soon", code=2)
    assert b"not a number" in shown("web", "--tail", "-1", code=2)


def test_runs_containers_and_pods(bench: Bench, shown) -> None:
    bench.write("app", 0, b"stdout F first")
    bench.write("app", 1, b"stdout F second")
    bench.write("other", 0, b"stdout F other")
    assert shown("web/app") == b"second\n"
    assert shown("web/app", "-p") == b"first\n"
    assert shown("web/other") == b"other\n"
    for word in ("pod", "pods", "po"):
        assert shown(f"{word}/web/other") == shown(f"{word}/web", "-c", "other") == b"other\n"
        assert shown(f"{word}/web") == b"second\n"
    assert shown("web") == b"second\n"
    for words, said in [
        (("web/other", "--previous"), b"no previous run"),
        (("web/none",), b"no logs of container none (containers: app, other)"),
        (("pod/db",), b"pod db has no logs (pods with logs: web)"),
        (("db",), b"pod db has no logs (pods with logs: web)"),
        (("web", "-n", "shop"), b"pod web has no logs"),
    ]:
        assert said in shown(*words, code=3)
    bench.write("app", 0, b"stdout F shop", key="shop/web")
    assert b"choose with -n" in shown("web", code=3)
    assert shown("web", "-n", "shop") == b"shop\n"
    assert shown("shop/web") == shown("shop/web/app") == b"shop\n"
    assert b"no logs of container none" in shown("shop/web/none", code=3)


def test_a_container_that_is_only_begun_or_removed_has_no_logs(bench: Bench, shown) -> None:
    bench.write("app", 0, b"stdout F hello")
    (log,) = bench.folder.rglob("0.log")
    log.unlink()
    assert b"web/app has no logs (it is being started or removed" in shown("web", code=3)


def test_a_pod_with_the_longest_name_has_logs_under_its_name(bench: Bench, shown) -> None:
    """A file name has 255 bytes: the name is cut there."""
    name = ".".join(["a" * 62] * 4)
    bench.write("app", 0, b"stdout F hello", key=f"default/{name}")
    bench.write("app", 0, b"stdout F other", key="default/aaa")
    assert shown(name) == shown(f"{name}/app") == b"hello\n"
    assert shown("aaa") == b"other\n"
    assert b"has no logs" in shown(name.replace("a.a", "a.b", 1), code=3)
    assert b"has no logs" in shown("aaaa", code=3)


@pytest.fixture
def agent(bench: Bench) -> Iterator[None]:
    """An agent that has the pods of two Deployments and a Job."""
    makers = {
        "web-0": ("default", "ReplicaSet", "web-5d9c7b8f6d"),
        "web-1": ("default", "ReplicaSet", "web-5d9c7b8f6d"),
        "one-a": ("shop", "Deployment", "one"),
        "one-b": ("default", "Deployment", "one"),
        "run-x": ("default", "Rollout", "canary"),
    }
    items = [
        {"name": name, "namespace": space, "uid": f"u-{name[-3:]}",
         "controller": {"kind": kind, "name": maker}}
        for name, (space, kind, maker) in makers.items()
    ]  # fmt: skip
    page = Page("application/json", encode({"kind": "PodStates", "items": items}))
    server = private(str(bench.folder), {"/v1/pods": lambda: page})
    yield
    server.close()


@pytest.mark.usefixtures("agent")
def test_pods_are_chosen_by_their_workload(bench: Bench, shown, capfdbinary) -> None:
    for name in ("default/web-0", "default/web-1", "shop/one-a", "default/one-b", "default/run-x"):
        for container in ("app", "side"):
            bench.write(container, 0, f"stdout F {name} {container}".encode(), key=name)
    assert run(bench.command("deployment/web/side")) == 0
    out, err = capfdbinary.readouterr()
    assert (out, err) == (b"default/web-0 side\n", b"qoslet: showing pod web-0 of: web-0, web-1\n")
    assert shown("rs/web-5d9c7b8f6d", "-c", "app") == b"default/web-0 app\n"
    assert shown("deploy.apps/one", "-n", "shop", "-c", "app") == b"shop/one-a app\n"
    assert shown("rollout/canary/app") == b"default/run-x app\n"
    for words, said in [
        (("deploy/one",), b"several namespaces have deployment/one: default, shop (choose with"),
        (("sts/web",), b"no pod of statefulset/web has logs (pods with logs: one-b, run-x, web-0"),
        (("deploy/web/none",), b"pod web-0 has no logs of container none"),
        (("nobody/app",), b"pod nobody has no logs (pods"),
    ]:
        assert said in shown(*words, code=3)


def test_without_an_agent_no_pod_is_known_to_be_of_a_workload(bench: Bench, shown) -> None:
    bench.write("app", 0, b"stdout F hello")
    said = shown("deployment/web", code=3)
    assert b"the pods of deployment/web are not known (give the name of a pod" in said
    assert said.count(b"\n") == 1
    assert b"pod nobody has no logs" in shown("nobody/app", code=3)


def test_where_no_agent_keeps_logs(bench: Bench, capfdbinary) -> None:
    assert run(["logs", "web", "--cgroup-root", f"{bench.root}-none"]) == 3
    err = capfdbinary.readouterr().err
    assert b"no agent is running (start it with: qoslet run DIR --keep" in err
    assert err.count(b"\n") == 1


def test_a_terminal_gets_no_control_characters(bench: Bench) -> None:
    bench.write("app", 0, b"stdout F \x1b]0;gotcha\x07\tplain\r\xc2\x9b1m")
    main, other = pty.openpty()
    command = [sys.executable, "-m", "qoslet", *bench.command("web")]
    subprocess.run(command, stdout=other, env={**os.environ, **path()}, check=True)
    os.close(other)
    text = os.read(main, 4096)
    os.close(main)
    assert text == b"\\x1b]0;gotcha\\x07\tplain\\r\\x9b1m\r\n"


def path() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LC_ALL": "C.UTF-8"}


def test_following_goes_on_until_the_run_is_over(bench: Bench, shown) -> None:
    record = bench.folder / "keeper" / "u-web" / "pod.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    bench.write("app", 0, b"stdout F one")

    def later() -> None:
        for text in (b"two", b"three"):
            time.sleep(0.3)
            bench.write("app", 0, b"stdout F " + text)
        shutil.rmtree(record.parent)

    writer = threading.Thread(target=later)
    writer.start()
    assert shown("web", "-f") == b"one\ntwo\nthree\n"
    writer.join()
    assert shown("web", "-f", "--tail", "1") == b"three\n", "what has ended is shown, too"
