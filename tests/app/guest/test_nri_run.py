"""The plugin as a process's parts over a real socket and journal, against a runtime of the test's own."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from qoslet.agent.nri.plugin_loop import PluginReconciler
from qoslet.app.agent.service import Log
from qoslet.app.guest import nri_run
from qoslet.app.guest.plugin_values import PluginValues, take_over
from qoslet.app.guest.run import inputs_of
from qoslet.app.tree import TreeLocation
from qoslet.cli.agent.agent import shared_options
from qoslet.cli.commands import parser_of
from qoslet.errors import CannotDo
from qoslet.host.linux.clock import Signals, WakingClock
from qoslet.host.nri.pb import nri_pb2 as pb
from qoslet.host.systemd.sd_notify import Notifier
from tests.cli.fixtures import run
from tests.host.nri.fake_runtime import FakeRuntime, until

MIB = 1 << 20
WORDS = (
    *("--mode", "protect", "--memory-qos", "qoslet", "--memory-throttling-factor", "0.9"),
    *("--kubernetes", "1.36", "--runtime", "containerd-2.2.0+runc-1.4.0", "--hierarchy", "v2"),
    *("--cgroup-driver", "cgroupfs", "--cgroup-root", "/a"),
)
ROOT = "/a/kubepods"
BEGINS = {"memory.min": "0", "memory.low": "0", "memory.high": "max"}


def pod_list(*names: str, limit: int = 64) -> str:
    resources = {"requests": {"memory": "16Mi"}, "limits": {"memory": f"{limit}Mi"}}
    items = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "d", "uid": name},
            "spec": {"containers": [{"name": "app", "resources": resources}]},
            "status": {"phase": "Running"},
        }
        for name in names
    ]
    return json.dumps({"apiVersion": "v1", "kind": "PodList", "items": items})


class Bench:
    """A runtime that listens, and a plugin in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.endpoint = f"unix://{folder}/cri.sock"
        self.state = folder / "state"
        self.state.mkdir(mode=0o700)
        self.runtimes: list[FakeRuntime] = []
        self.lines: list[str] = []
        self.put("w")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "nri.sock"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        self.signals = Signals(hangs_up=False)
        self._thread: threading.Thread | None = None

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.runtimes.append(FakeRuntime(sock))

    def put(self, *names: str, limit: int = 64) -> None:
        new = self.folder / "new"
        new.write_text(pod_list(*names, limit=limit))
        new.rename(self.folder / "pods.json")

    def cgroup(self, pod: str, id: str, values: dict[str, str]) -> Path:
        """The cgroup of a container, which holds these values."""
        place = self.folder / f"{ROOT[1:]}/burstable/pod{pod}/{id}"
        place.mkdir(parents=True)
        for file, value in values.items():
            (place / file).write_text(f"{value}\n")
        return place

    def write(self, text: str) -> None:
        self.lines.append(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def loop(self, keep: bool) -> None:
        words = [*WORDS, "--pods-from", str(self.folder / "pods.json")]
        options = shared_options(parser_of("nri").parse_args(words))
        location = TreeLocation("v2", {"unified": str(self.folder)}, ROOT)
        nri = nri_run.NriOptions(socket=str(self.folder / "nri.sock"))
        with inputs_of(options) as inputs, closing(nri_run.Wakeup()) as wakeup:
            clock = WakingClock(self.signals, inputs.descriptors)
            clock.further.append(wakeup.descriptor)
            service = nri_run.PluginService(Log(self, "text"), Notifier({}), wakeup)  # type: ignore[arg-type]
            cgroups = nri_run.CgroupFiles(str(self.folder))
            specs = nri_run.KeptByRuntime(self.endpoint, options.kubelet)
            made = partial(nri_run._parts, location, nri, inputs, wakeup, specs)
            with made(cgroups, clock, service) as parts:
                PluginReconciler(parts).run(self.signals, keep=keep)

    def begin(self, *, keep: bool = True) -> FakeRuntime:
        self.signals = Signals(hangs_up=False)
        count = len(self.runtimes)
        self._thread = threading.Thread(target=self.loop, args=(keep,))
        self._thread.start()
        until(lambda: len(self.runtimes) > count)
        runtime = self.runtimes[-1]
        assert runtime.registered.wait(10)
        until(lambda: any("registered with" in line for line in self.lines))
        return runtime

    def end(self) -> None:
        if self._thread is not None:
            self.signals.hang_up()
            self._thread.join(10)
            assert not self._thread.is_alive()
            self._thread = None

    def close(self) -> None:
        self.end()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self.runtimes:
            one.close()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for module in ("nri_run", "plugin_values"):
        place = f"qoslet.app.guest.{module}.own_state_directory"
        monkeypatch.setattr(place, lambda *_: str(tmp_path / "state"))
    made = Bench(tmp_path)
    yield made
    made.close()


def created(
    runtime: FakeRuntime, pod: str, id: str, limit: int = 64, **more: str
) -> dict[str, str]:
    linux = pb.LinuxContainer(cgroups_path=f"{ROOT}/burstable/pod{pod}/{id}")
    linux.resources.memory.limit.value = limit * MIB
    linux.resources.unified.update({key.replace("_", "."): value for key, value in more.items()})
    one = pb.Container(id=id, pod_sandbox_id="s", name="app", linux=linux)
    return runtime.created(one, pb.PodSandbox(id="s", uid=pod, name=pod, namespace="d"))


def test_a_pod_that_has_just_come_has_its_values_at_creation(bench: Bench) -> None:
    runtime = bench.begin()
    values = created(runtime, "w", "c1")
    assert values == {"memory.min": "0", "memory.low": str(16 * MIB), "memory.high": "62074880"}
    for number in range(5):
        bench.put("w", f"n{number}")
        assert created(runtime, f"n{number}", f"d{number}") == values
    journal = PluginValues(ROOT)
    assert len(journal().names) == 6
    assert journal() is journal(), "read once"
    bench.end()
    assert len(PluginValues(ROOT)().names) == 6, "they are kept"


def test_a_change_of_the_pods_reaches_containers_that_exist(bench: Bench) -> None:
    runtime = bench.begin()
    place = bench.cgroup("w", "c1", created(runtime, "w", "c1"))
    bench.put("w", limit=128)
    until(lambda: (place / "memory.high").read_text().strip() == "122470400")
    assert (place / "memory.low").read_text().strip() == str(16 * MIB)


def test_a_runtime_that_restarts_and_an_end_that_gives_back(bench: Bench) -> None:
    runtime = bench.begin(keep=False)
    created(runtime, "w", "c1")
    place = bench.cgroup("w", "c1", BEGINS)
    runtime.socket.shutdown(socket.SHUT_RDWR)
    until(lambda: len(bench.runtimes) == 2, 20)
    again = bench.runtimes[-1]
    assert again.registered.wait(10)
    linux = pb.LinuxContainer(cgroups_path=f"{ROOT}/burstable/podw/c1")
    linux.resources.memory.limit.value = 64 * MIB
    request = pb.SynchronizeRequest(
        pods=[pb.PodSandbox(id="s", uid="w", name="w", namespace="d")],
        containers=[pb.Container(id="c1", pod_sandbox_id="s", name="app", linux=linux)],
    )
    again.rpc("Synchronize", request, pb.SynchronizeResponse)
    until(lambda: (place / "memory.high").read_text().strip() == "62074880")
    bench.end()
    assert {file: (place / file).read_text().strip() for file in BEGINS} == BEGINS
    assert PluginValues(ROOT)().files == {}


def test_a_second_plugin_is_refused(bench: Bench) -> None:
    bench.begin()
    with pytest.raises(CannotDo, match="another qoslet nri runs here"):
        bench.loop(True)


def test_annotations_and_names_of_any_kind_change_nothing(bench: Bench) -> None:
    runtime = bench.begin()
    pod = pb.PodSandbox(id="s", uid="w", name="\x1b[31mw" * 1000, namespace="../../etc")
    hostile = bytes.fromhex("32") + b"\x0e\x0a\x06qoslet\x12\x04evil"
    pod.MergeFromString(hostile)
    for id, path in (("x", "/etc"), ("../y", f"{ROOT}/y"), ("z", f"{ROOT}/../z")):
        linux = pb.LinuxContainer(cgroups_path=path)
        linux.resources.memory.limit.value = 64 * MIB
        one = pb.Container(id=id, pod_sandbox_id="s", name="app", linux=linux)
        assert runtime.created(one, pod) == {}
    stranger = pb.PodSandbox(id="s", uid="\x1b]0;", name="\x1b[31mw", namespace="d")
    linux = pb.LinuxContainer(cgroups_path=f"{ROOT}/x")
    assert runtime.created(pb.Container(id="q", name="app", linux=linux), stranger) == {}
    assert created(runtime, "w", "c1", memory_high="5").keys() == {"memory.min", "memory.low"}
    assert PluginValues(ROOT)().names.keys() == {f"{ROOT}/burstable/podw/c1"}
    assert "\x1b" not in "".join(bench.lines)


def test_release_waits_for_the_end_of_the_plugin(bench: Bench) -> None:
    runtime = bench.begin()
    created(runtime, "w", "c1")

    class Tree:
        place = TreeLocation("v2", {}, ROOT)
        verb = "agent"
        journal = object()

    with pytest.raises(CannotDo, match="qoslet nri runs here"):
        take_over(Tree())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--check", "--nri-socket", "/nonexistent/nri.sock"), 3, "disable = false"),
        (("--index", "5"), 2, "two digits"),
        (("--index", "ab", "--check"), 2, "two digits"),
    ],
)
def test_what_the_command_says(words: tuple[str, ...], code: int, message: str) -> None:
    done = run("nri", *words)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="another message without rights")
def test_cgroup_v1_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(pod_list("w"))
    words = ["--pods-from", str(tmp_path / "pods.json"), *WORDS[:-5], *WORDS[-4:]]
    done = run("nri", *[word for word in words if word not in ("--hierarchy", "v2")])
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        assert (done.returncode, "cgroup v1 has no values" in done.stderr) == (3, True), done
