"""The image of ``deploy/Dockerfile``, built by buildah on a base made of Debian's packages, and run by runc
as the DaemonSet says: its user, capabilities, mounts and arguments, beside a tree that a kubelet made."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from qoslet.core.node.node import Hierarchy
from qoslet.host.state.folder import STATE
from qoslet.version import VERSION
from tests.deploy.objects import kustomized
from tests.live.audit.test_fix import Node, node
from tests.live.guest.test_agent import FILES, HIERARCHIES
from tests.paths import REPO
from tests.vm.tools import mirror, mmdebstrap

pytestmark = [pytest.mark.image, pytest.mark.timeout(1200)]

SUITE = "trixie"
PATIENCE = 60.0
_TRUSTED = "etc/ssl/certs/ca-certificates.crt"


def done(*words: str | Path, env: Mapping[str, str] | None = None) -> str:
    """What a program prints that ends well."""
    found = subprocess.run(
        [str(one) for one in words], capture_output=True, text=True, env=env, check=False
    )
    assert found.returncode == 0, f"{words}: {found.stdout[-2000:]}{found.stderr[-4000:]}"
    return found.stdout


class Builder:
    """buildah with a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._words = "buildah", "--root", folder / "store", "--runroot", folder / "run"

    def __call__(self, *words: str | Path) -> str:
        return done(*self._words, "--storage-driver", "vfs", *words)

    def base(self) -> str:
        """An image of packages alone, which trusts whom this machine trusts."""
        tree, tool = self.folder / "base", mmdebstrap()
        alone = "unshare", "--mount", "--propagation", "private"
        options = "--mode=root", "--variant=minbase", "--include=ca-certificates,python3-venv"
        source = f"deb {mirror()} {SUITE} main"
        done(*alone, *tool.words, *options, SUITE, tree, source, env=tool.environment)
        shutil.copyfile(f"/{_TRUSTED}", tree / _TRUSTED)
        (tree / "etc/pip.conf").write_text(f"[global]\ncert = /{_TRUSTED}\n")
        (self.folder / "Dockerfile").write_text("FROM scratch\nADD base /\n")
        self("bud", "--isolation", "chroot", "-t", "base", self.folder)
        return "localhost/base"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The root directory of the image, and its configuration."""
    for program in ("buildah", "runc"):
        if not shutil.which(program):
            pytest.fail(f"{program} is not installed: apt-get install -y buildah runc")
    build = Builder(tmp_path_factory.mktemp("image"))
    base = build.base()
    file = REPO / "deploy" / "Dockerfile"
    build(
        "bud", "--isolation", "chroot", "--build-arg", f"BASE={base}", "-f", file, "-t", "q", REPO
    )
    build("from", "--name", "q", "localhost/q")
    try:
        config = json.loads(build("inspect", "--type", "image", "localhost/q"))["OCIv1"]["config"]
        yield Path(build("mount", "q").strip()), config
    finally:
        build("rm", "q")
        shutil.rmtree(build.folder, ignore_errors=True)


class Container:
    """One of runc's, with the image's root directory read-only."""

    def __init__(self, image: tuple[Path, dict[str, Any]], folder: Path) -> None:
        self.name = f"qoslet-test-image-{secrets.token_hex(4)}"
        self.root, self.config = image
        self.folder = folder / self.name
        self.folder.mkdir()
        self.log = self.folder / "log"

    def begin(
        self,
        args: Sequence[str],
        binds: Mapping[str, str],
        security: Mapping[str, Any] | None = None,
    ) -> subprocess.Popen[bytes]:
        """The entry point with arguments; ``binds`` are paths here by those in the container, and
        ``security`` is as a Pod says it."""
        said = security or {}
        uid, _, gid = self.config["User"].partition(":")
        user = {"uid": said["runAsUser"], "gid": 0} if "runAsUser" in said else None
        held = [f"CAP_{one}" for one in said.get("capabilities", {}).get("add", ())]
        names = ("bounding", "effective", "permitted")
        document = {
            "ociVersion": "1.0.2",
            "process": {
                "user": user or {"uid": int(uid), "gid": int(gid)},
                "args": [*self.config["Entrypoint"], *args],
                "env": [*self.config["Env"], "NODE_NAME=n1"],
                "cwd": "/",
                "capabilities": dict.fromkeys(names, held),
                "noNewPrivileges": not said.get("allowPrivilegeEscalation", False),
            },
            "root": {"path": str(self.root), "readonly": True},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
                # of a container on the network of its host
                {
                    "destination": "/sys",
                    "type": "bind",
                    "source": "/sys",
                    "options": ["rbind", "ro"],
                },
                *(
                    {"destination": to, "type": "bind", "source": path, "options": ["rbind"]}
                    for to, path in binds.items()
                ),
            ],
            "linux": {
                "namespaces": [{"type": "mount"}, {"type": "ipc"}, {"type": "uts"}],
                "cgroupsPath": f"/{self.name}",
            },
        }
        (self.folder / "config.json").write_text(json.dumps(document))
        with self.log.open("ab") as log:
            words = ["runc", "run", "--bundle", str(self.folder), self.name]
            return subprocess.Popen(words, stdout=log, stderr=log)

    def ask(self, *args: str) -> dict[str, Any]:
        """What a command in it says as JSON, as its probe asks; {} while it does not."""
        words = ["runc", "exec", self.name, *self.config["Entrypoint"], *args]
        found = subprocess.run(words, capture_output=True, text=True, check=False)
        return json.loads(found.stdout) if found.returncode == 0 else {}

    def end(self) -> None:
        words = ["runc", "delete", "--force", self.name]
        subprocess.run(words, capture_output=True, check=False)


@pytest.fixture
def container(image: tuple[Path, dict[str, Any]], tmp_path: Path) -> Iterator[Container]:
    made = Container(image, tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_it_plans_as_its_own_user_without_a_right(container: Container) -> None:
    args = ["plan", "/given/examples", "--node", "/given/docs/n1.yaml", "-o", "json"]
    assert container.begin(args, {"/given": str(REPO)}).wait(PATIENCE) == 0
    assert json.loads(container.log.read_text())["kind"] == "Plan"
    assert container.config["User"] == "65532:65532"
    assert container.begin(["--version"], {}).wait(PATIENCE) == 0
    assert container.log.read_text().endswith(f"qoslet {VERSION}\n")


@pytest.mark.parametrize("hierarchy", HIERARCHIES)
def test_as_the_daemonset_runs_it_it_holds_values_and_gives_them_back(
    hierarchy: Hierarchy, container: Container, tmp_path: Path
) -> None:
    file, policy = FILES[hierarchy], tmp_path / "policy"
    policy.mkdir()
    (policy / "policy.yaml").write_text(
        f"apiVersion: qoslet/v1\nkind: AgentPolicy\nmode: protect\nfiles: [{file}]\n"
    )
    Path(STATE).mkdir(mode=0o755, exist_ok=True)
    places = {"cgroups": "/sys/fs/cgroup", "state": STATE, "policy": str(policy)}
    with node(hierarchy, tmp_path) as tree:
        planned, spoiled = tree.texts(), tree.spoil()
        pod = Pod(container, tree, tmp_path, places)
        (agent,) = pod_of()["containers"]
        pod.agent(agent, lambda one: one["counts"]["writes"] == 4)
        held = tree.texts()
        assert {name for name in held if held[name] != spoiled[name]} == {
            name for name in planned if planned[name] != spoiled[name] and name.endswith(file)
        }
        (first,) = pod_of("release")["initContainers"]
        args = [one.replace("/kubepods", tree.root) for one in first["args"]]
        process = pod.begin(first, args)
        assert process.wait(PATIENCE) == 0, container.log.read_text()
        assert tree.texts() == spoiled
        assert not tree.journal.exists()
        (agent,) = pod_of("release")["containers"]
        pod.agent(agent, lambda one: one["compared"] > 0 and one["mode"] == "watch")
        assert tree.texts() == spoiled


def pod_of(*components: str) -> dict[str, Any]:
    """What the DaemonSet runs on each node."""
    (found,) = (one for kind, one in kustomized(*components).items() if kind[0] == "DaemonSet")
    return dict(found["spec"]["template"]["spec"])


class Pod:
    """Containers of the DaemonSet on a node without a kubelet, whose pods a file has."""

    def __init__(
        self, container: Container, tree: Node, folder: Path, places: Mapping[str, str]
    ) -> None:
        self._container, self._folder, self._places = container, folder, places
        self._node = [
            *("--pods-from=/pods/pods.json", "--interval=1"),
            *tree.options(Path("/pods"))[2:],
        ]
        self._status = "agent", "--status", "-o", "json", "--cgroup-root", tree.bench.root

    def begin(self, one: Mapping[str, Any], args: Sequence[str]) -> subprocess.Popen[bytes]:
        """One of its containers, with other arguments."""
        binds = {"/pods": str(self._folder)}
        for mount in one["volumeMounts"]:
            if mount["name"] in self._places:
                binds[mount["mountPath"]] = self._places[mount["name"]]
        return self._container.begin(args, binds, one["securityContext"])

    def agent(self, one: Mapping[str, Any], what: Callable[[dict[str, Any]], bool]) -> None:
        """The agent until its status is so, and to its end."""
        ours = "--pods-from", "--kubelet-token"
        kept = [word for word in one["args"] if not word.startswith(ours)]
        process = self.begin(one, [*kept, *self._node])
        log, end = self._container.log, time.monotonic() + PATIENCE
        while not ((found := self._container.ask(*self._status)) and what(found)):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, f"{found}\n{log.read_text()}"
            time.sleep(0.5)
        subprocess.run(["runc", "kill", self._container.name, "TERM"], check=True)
        assert process.wait(PATIENCE) == 0, log.read_text()
