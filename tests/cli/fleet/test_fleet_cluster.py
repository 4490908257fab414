"""``qoslet fleet --context``: the nodes and pods of a cluster, asked for as kubectl asks."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qoslet.errors import CannotDo
from qoslet.host.cluster.client_library import ClusterAccess, is_installed, open_session
from qoslet.host.cluster.list_pages import ListPages
from qoslet.render.text.live.progress import line, working
from tests.cli.fixtures import environment, run
from tests.core.node.cluster.api_model import ApiModel
from tests.host.cluster.fake_api import FakeApi, fake_api, node_list

needs_client = pytest.mark.skipif(
    not is_installed(), reason="the Kubernetes client is not installed: make test installs it"
)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    model = ApiModel(page=2)
    for number in range(7):
        model.put(f"p{number}", f"n{number % 2 + 1}")
    with fake_api(model) as served:
        served.pages["/api/v1/nodes"] = node_list("n1", "n2")
        yield served


def fleet(*arguments: str, code: int = 0, **env: str) -> dict[str, Any]:
    done = run("fleet", *arguments, "-o", "json", folder=Path("/"), **env)
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@needs_client
def test_a_cluster_is_read_in_pages(api: FakeApi, tmp_path: Path) -> None:
    found = fleet("--kubeconfig", str(api.kubeconfig(tmp_path)))
    assert [(one["name"], one["pods"]) for one in found["nodes"]] == [("n1", 4), ("n2", 3)]
    assert [path for path, _ in api.requests] == ["/api/v1/nodes", *["/api/v1/pods"] * 4]
    assert all(query["limit"] == "500" for _, query in api.requests)


@needs_client
def test_a_context_and_what_is_wrong_with_it(api: FakeApi, tmp_path: Path) -> None:
    path = str(api.kubeconfig(tmp_path))
    assert fleet("--kubeconfig", path, "--context", "one")["totals"]["pods"] == 7
    done = run("fleet", "--kubeconfig", path, "--context", "two", folder=tmp_path)
    assert done.returncode == 2
    assert "two" in done.stderr
    assert "kubectl config get-contexts" in done.stderr
    api.token = "x"
    done = run("fleet", "--kubeconfig", path, folder=tmp_path)
    assert (done.returncode, "the credentials are not valid" in done.stderr) == (3, True)


@needs_client
def test_a_key_that_a_kubeconfig_embeds_is_not_left_in_a_file(api: FakeApi, tmp_path: Path) -> None:
    files = tmp_path / "tmp"
    files.mkdir()
    path = str(api.kubeconfig(tmp_path, embedded=True))
    assert fleet("--kubeconfig", path, TMPDIR=str(files))["totals"]["pods"] == 7
    assert list(files.iterdir()) == []


@needs_client
def test_kubectl_qoslet_means_the_current_context(api: FakeApi, tmp_path: Path) -> None:
    kubeconfig = str(api.kubeconfig(tmp_path))
    assert fleet("--cluster", KUBECONFIG=kubeconfig)["totals"]["pods"] == 7
    plugin = tmp_path / "kubectl-qoslet"
    plugin.write_text(f"#!{sys.executable}\nfrom qoslet.cli.main import main\n\nmain()\n")
    plugin.chmod(0o755)
    env = environment(KUBECONFIG=kubeconfig)
    words = [str(plugin), "fleet", "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["totals"]["pods"] == 7


@needs_client
def test_pages_that_expire_and_servers_that_are_busy(api: FakeApi, tmp_path: Path) -> None:
    session = open_session(ClusterAccess(str(api.kubeconfig(tmp_path))))
    api.faults.extend([429, "", "half", "reset", 503, ""])
    pauses: list[float] = []
    pages = ListPages(session, "/api/v1/pods", pause=pauses.append)
    names = []
    for page in pages:
        names += [one["metadata"]["name"] for one in json.loads(page)["items"]]
        if len(names) == 4:
            api.change(lambda model: model.put("p9"))
            api.change(lambda model: model.compact())
    assert names == ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p9"]
    assert pages.inconsistent
    assert len(pauses) == 4
    api.faults.extend([403])
    with pytest.raises(CannotDo, match="grant list on pods"):
        list(ListPages(session, "/api/v1/pods"))
    api.faults.extend(["reset"] * 5)
    with pytest.raises(CannotDo):
        list(ListPages(session, "/api/v1/pods", pause=pauses.append))
    session.close()


@needs_client
@pytest.mark.parametrize(("server", "said"), [("https://127.0.0.1:1", "connection refused")])
def test_a_server_that_is_not_there_is_given_up_within_seconds(
    tmp_path: Path, server: str, said: str
) -> None:
    config = str(FakeApi(ApiModel()).kubeconfig(tmp_path, server=server))
    began = time.monotonic()
    done = run("fleet", "--kubeconfig", config, folder=tmp_path)
    assert time.monotonic() - began < 20
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"qoslet: {server}: {said}: nothing listens there (")
    assert done.stderr.count("\n") == 1


@needs_client
def test_a_failure_is_shown_while_it_is_tried_again(api: FakeApi, tmp_path: Path) -> None:
    shown: list[str] = []
    session = open_session(ClusterAccess(str(api.kubeconfig(tmp_path))))
    api.faults.extend([503, "half", ""])
    tell = lambda what, done, whole: shown.append(f"{what} {done} {whole}")  # noqa: E731
    pages = ListPages(session, "/api/v1/pods", progress=tell, pause=lambda _: None)
    assert len(list(pages)) == 4
    session.close()
    place = f"https://127.0.0.1:{api.port}"
    assert [one for one in shown if "again" in one] == [
        one for one in shown if one.startswith(f"{place}: ")
    ]
    assert "answers 503: no; trying again in" in shown[1]
    assert "; trying again in" in shown[3]
    assert shown[-2:] == ["reading pods 1500 None", "reading pods 2000 2000"]


@needs_client
def test_what_is_no_api_server_is_asked_once(api: FakeApi, tmp_path: Path) -> None:
    config = str(api.kubeconfig(tmp_path))
    api.pages["/api/v1/nodes"] = b"{}"
    done = run("fleet", "--kubeconfig", config, folder=tmp_path)
    assert "answers something else than a list (is it an API server?" in done.stderr
    assert len(api.requests) == 1


@needs_client
def test_a_certificate_that_is_not_looked_at_is_no_warning(api: FakeApi, tmp_path: Path) -> None:
    named: dict[str, Any] = {"insecure-skip-tls-verify": True, "certificate-authority": None}
    done = run("fleet", "--kubeconfig", str(api.kubeconfig(tmp_path, **named)), folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(is_installed(), reason="the Kubernetes client is installed")
def test_without_the_client_it_says_what_to_install(tmp_path: Path) -> None:
    done = run("fleet", "--context", "one", folder=tmp_path)
    assert done.returncode == 3
    assert "pip install 'qoslet[cluster]'" in done.stderr


class TerminalStream(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_what_is_waited_for_is_shown_on_a_terminal_alone() -> None:
    shown, hidden = TerminalStream(), io.StringIO()
    for stream in (shown, hidden):
        with working(stream, "asking the agent of node/n1"):
            pass
    assert shown.getvalue() == "\r\x1b[Kasking the agent of node/n1\r\x1b[K"
    assert hidden.getvalue() == ""
    assert line("reading pods", 0, None, 1.0) == "reading pods"
    assert line("reading pods", 500, 2000, 1.0).startswith("reading pods: 25%, 3 s left")
