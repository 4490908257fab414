"""The rights of the table are those that requests take: each source is run and its requests counted."""

from __future__ import annotations

import select
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from qoslet.app.node.found_node import KubeletOptions, find_node
from qoslet.core.guest.node_condition import removal_body
from qoslet.core.node.cluster.rights import RIGHTS
from qoslet.host.cluster.client_library import ClusterAccess, is_installed, open_session
from qoslet.host.cluster.followed_pods import FollowedPods
from qoslet.host.cluster.node_status import NodeStatusWriter
from qoslet.host.cluster.pod_evictor import PodEvictor
from qoslet.host.kubelet.client import Credentials
from tests.cli.fixtures import run
from tests.core.node.cluster.api_model import OWN, ApiModel
from tests.core.node.cluster.eviction_model import EvictionModel, request
from tests.deploy.objects import rules_of
from tests.host.cluster.fake_api import fake_api, node_list
from tests.host.kubelet.fake_node import CERTIFICATES, HEAD, declare, kubelet_port, pods
from tests.paths import REPO

needs_client = pytest.mark.skipif(
    not is_installed(), reason="the Kubernetes client is not installed: make test installs it"
)


def verbs(requests: Iterable[tuple[str, dict[str, str]]]) -> dict[str, tuple[str, ...]]:
    """What an API server checks for requests, by resource."""
    found: dict[str, set[str]] = {}
    for path, query in requests:
        resource = path.removeprefix("/api/v1/")
        found.setdefault(resource, set()).add("watch" if "watch" in query else "list")
    return {name: tuple(sorted(some)) for name, some in found.items()}


def test_the_table_of_the_documents() -> None:
    text = (REPO / "docs" / "how-to" / "cluster.md").read_text(encoding="utf-8")
    where = {False: "", True: " (in its own namespace)"}
    rows = [
        f"| {one.use} | `{one.resource}` | {', '.join(one.verbs)}{where[one.namespace]} |"
        for one in RIGHTS
    ]
    assert "\n".join(rows) in text


def test_a_kubelet(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    pages = {"/configz": b'{"kubeletconfig": {}}', "/pods": pods("a"), "/metrics": b""}
    with kubelet_port(pages, "self-signed.pem", "secret") as (number, asked):
        files = {
            "/k.yaml": f"{HEAD}port: {number}\ntlsCertFile: /k.crt\n",
            "/k.crt": (CERTIFICATES / "self-signed.pem").read_text(),
        }
        declare(tmp_path, "--config=/k.yaml", files=files)
        find_node(KubeletOptions(None, Credentials(token=str(token)), str(tmp_path)))
    resources = {"nodes" + path for path, _ in asked}
    assert resources == set(rules_of("kubelet"))


@needs_client
def test_an_api_server(tmp_path: Path) -> None:
    with fake_api(ApiModel()) as api:
        access = ClusterAccess(str(api.kubeconfig(tmp_path)))
        followed = FollowedPods(OWN, lambda: open_session(access), wait_scale=0.01)
        followed.start()
        until = time.monotonic() + 10
        while len(api.requests) < 2:
            assert time.monotonic() < until
            time.sleep(0.01)
        followed.close()
        assert verbs(api.requests) == rules_of("api")


@needs_client
def test_an_eviction(tmp_path: Path) -> None:
    model = EvictionModel()
    for name in ("web-0", "web-1"):
        model.put(name)
    with fake_api() as api:
        api.evictions = model
        access = ClusterAccess(str(api.kubeconfig(tmp_path)))
        evictor = PodEvictor(lambda: open_session(access), "qoslet")
        for name in ("web-0", "web-0"):
            evictor.begin(request(name))
            assert select.select([evictor.descriptor], [], [], 20)[0]
            found = evictor.result()
            assert found is not None
            assert found[1].result == "evicted"
            while evictor.is_busy:
                time.sleep(0.01)
            model.pods["web-0"]["metadata"].pop("deletionTimestamp")
        evictor.close()
        found_rights: dict[str, set[str]] = {}
        for method, (path, _) in zip(api.methods, api.requests, strict=True):
            right, verb = _asked(method, path)
            found_rights.setdefault(right, set()).add(verb)
    expected = {name: set(some) for name, some in rules_of("evict").items()}
    assert found_rights == expected


def _asked(method: str, path: str) -> tuple[str, str]:
    """Resource and verb of a request, as RBAC has them."""
    start, _, rest = path.partition("/namespaces/")
    group = start.split("/")[2] if start.startswith("/apis/") else ""
    _, resource, *name = rest.split("/")
    resource = "/".join([resource, *name[1:]]) + (f".{group}" if group else "")
    verbs = {"GET": "get" if name else "list", "POST": "create", "PUT": "update"}
    return resource, verbs[method]


@needs_client
def test_a_fleet(tmp_path: Path) -> None:
    with fake_api(ApiModel()) as api:
        api.pages["/api/v1/nodes"] = node_list("n1")
        done = run("fleet", "--kubeconfig", str(api.kubeconfig(tmp_path)))
        assert done.returncode == 0, done.stderr
        assert verbs(api.requests) == rules_of("fleet")


@needs_client
def test_the_condition_of_a_node(tmp_path: Path) -> None:
    with fake_api() as api:
        access = ClusterAccess(str(api.kubeconfig(tmp_path)))
        patches = NodeStatusWriter(lambda: open_session(access), "n1")
        patches.begin(removal_body())
        assert patches.result(20.0) == ""
        [(path, _)], [method] = api.requests, api.methods
    resource = path.removeprefix("/api/v1/").replace("nodes/n1/", "nodes/")
    assert {resource: (method.lower(),)} == rules_of("node-condition")
