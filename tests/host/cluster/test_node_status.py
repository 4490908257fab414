"""The status of a node is patched over HTTP, beside the caller's thread."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from qoslet.core.guest.node_condition import removal_body
from qoslet.errors import CannotDo
from qoslet.host.cluster.client_library import ClusterAccess, is_installed, open_session
from qoslet.host.cluster.node_status import NodeStatusWriter
from qoslet.host.cluster.session import Session
from tests.host.cluster.fake_api import fake_api

pytestmark = pytest.mark.skipif(
    not is_installed(), reason="the Kubernetes client is not installed: make test installs it"
)


def test_a_patch_is_sent_as_strategic_merge(tmp_path: Path) -> None:
    with fake_api() as api:
        access = ClusterAccess(str(api.kubeconfig(tmp_path)))
        patches = NodeStatusWriter(lambda: open_session(access), "n1")
        assert patches.result() is None, "none was begun"
        patches.begin(removal_body())
        assert patches.result(20.0) == ""
        assert patches.result() is None, "told once"
        [(path, _)] = api.requests
        assert (api.methods, path) == (["PATCH"], "/api/v1/nodes/n1/status")
        [(kind, body)] = api.patches
        assert (kind, body) == ("application/strategic-merge-patch+json", removal_body())
        api.faults.append(403)
        patches.begin(removal_body())
        assert "403" in (patches.result(20.0) or "")
        api.faults.append("html")
        patches.begin(removal_body())
        assert "as a proxy or another server does" in (patches.result(20.0) or "")
        api.faults.append("reset")
        patches.begin(removal_body())
        assert patches.result(20.0)


def test_no_cluster_is_a_fault_and_no_wait() -> None:
    def no_cluster() -> Session:
        raise CannotDo("no cluster is configured")

    patches = NodeStatusWriter(no_cluster, "n1")
    began = time.monotonic()
    patches.begin(json.dumps({}).encode())
    assert patches.result(20.0) == "no cluster is configured"
    assert time.monotonic() - began < 10
